"""What the steps of a search leave behind, the news of each, and the hypotheses that come of it."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence as Rows
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from regard.search._frontier import Frontier, Hypothesis, Request
from regard.types import DecoderState


class Asked(NamedTuple):
    """What a sentence's hypotheses are made by."""

    born: int
    """The step at which it came."""
    cap: int
    forced: int
    before: tuple[int, float]


class History(ABC):
    """What the steps of a search have left behind, and the hypotheses that come of it."""

    def __init__(self, request: Request, width: int, columns: int) -> None:
        """Of each step `columns` arrays (B, C) are kept, C ≤ `width`."""
        self.end, self._shape = request.end, (columns, width)
        self.asked: list[Asked] = []
        """Of every sentence that has come."""
        self.results: dict[int, list[Hypothesis]] = {}
        """Of those whose hypotheses were asked for, or whose steps were forgotten."""
        self._open: set[int] = set()  # sentences without results
        self._idle: list[int] = []  # done before any step, and not given yet
        self._layers: list[tuple[NDArray[Any], ...]] = []
        self._first = 0  # the step of the first layer

    def ask(self, request: Request, frontier: Frontier) -> None:
        """More sentences come. What is done is made into hypotheses, and steps are forgotten that
        no sentence in work has seen: so a search may go on for ever."""
        working = frontier.sentences.tolist() if len(frontier) else []
        self.of(sorted(self._open.difference(working)))
        first = min((self.asked[n].born for n in working), default=frontier.time)
        del self._layers[: first - self._first]
        self._first = first
        caps = torch.as_tensor(request.caps).tolist()
        table = zip(caps, request.forced, request.before, strict=True)
        self._open |= {len(self.asked) + n for n in range(len(caps))}
        self._idle += [len(self.asked) + n for n, cap in enumerate(caps) if cap <= 0]
        self.asked += [Asked(frontier.time, *row) for row in table]

    def add(self, sentences: Int[np.ndarray, "B"], *values: NDArray[Any]) -> None:
        """What a step leaves."""
        self._layers.append((sentences, *values))

    def news(self, tokens: Int[np.ndarray, "B W"], gone: Bool[np.ndarray, "B"]) -> "News":
        """Of the last step; `gone` are the sentences that came to their end by it."""
        sentences = self._layers[-1][0]
        done = (*self._idle, *sentences[gone].tolist())
        self._idle = []
        return News(sentences, tokens, done, self)

    def of(self, numbers: Rows[int]) -> list[list[Hypothesis]]:
        """The hypotheses of sentences that are done."""
        new = [number for number in numbers if number not in self.results]
        for number, found in zip(new, self._made(new) if new else (), strict=True):
            self.results[number] = found
        self._open.difference_update(new)
        return [self.results[number] for number in numbers]

    @abstractmethod
    def _made(self, numbers: list[int]) -> list[list[Hypothesis]]: ...

    @abstractmethod
    def best(self, numbers: list[int]) -> list[Hypothesis]:
        """The best hypothesis so far of sentences that took part in the last step."""

    def columns(self, numbers: list[int]) -> tuple[int, list[NDArray[Any]]]:
        """The first of T steps of some sentences, and (T, B, C) of each of the values; 0 where a
        sentence has no part in a step."""
        first = min(self.asked[number].born for number in numbers)
        layers = self._layers[first - self._first :]
        count, width = self._shape
        kinds = [value.dtype for value in layers[0][1:]] if layers else [bool] * count
        tables = [np.zeros((len(layers), len(numbers), width), kind) for kind in kinds]
        for t, (sentences, *values) in enumerate(layers):
            rows: Any = slice(None)
            places: Any = slice(None)
            if len(sentences) > 1 or sentences.tolist() != numbers:
                rows = np.searchsorted(sentences, numbers).clip(max=len(sentences) - 1)
                (places,) = (sentences[rows] == numbers).nonzero()
                rows = rows[places]
            for table, value in zip(tables, values, strict=True):
                table[t, places, : value.shape[1]] = value[rows]
        return first, tables


class News(NamedTuple):
    """What one step has brought: to be looked at before the next."""

    sentences: Int[np.ndarray, "B"]
    """The numbers of those that took part: the first that came is 0."""
    tokens: Int[np.ndarray, "B W"]
    """What each hypothesis has written at last: of beam search those that are followed."""
    done: tuple[int, ...]
    """Numbers of the sentences that came to their end."""
    history: History

    def finished(self) -> dict[int, list[Hypothesis]]:
        """The hypotheses of the sentences that came to their end."""
        return dict(zip(self.done, self.history.of(self.done), strict=True))

    def best(self) -> dict[int, Hypothesis]:
        """The best hypothesis of each sentence, as far as it was written."""
        numbers: list[int] = self.sentences.tolist()
        return dict(zip(numbers, self.history.best(numbers), strict=True))


Arrival = tuple[DecoderState, Request]
"""Sentences that come into a running batch."""
Steps = Generator[News, Arrival | None, list[list[Hypothesis]]]
"""Gives the news of each step, takes sentences that come, returns the hypotheses of all."""


def drain(steps: Steps) -> list[list[Hypothesis]]:
    """Take all steps."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            found: list[list[Hypothesis]] = stop.value
            return found
