"""Beam search: the most probable sequence, as far as a few hypotheses at a time can find it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from math import floor, inf
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import RecipeError
from regard.recipe.values import Factor, Few, LengthOrZero, Range
from regard.search import (
    Arrival,
    Frontier,
    History,
    Hypothesis,
    Request,
    Sentence,
    Step,
    Steps,
    check_ranges,
    drain,
    impossible,
)
from regard.types import DecoderState


@dataclass(frozen=True, kw_only=True)
class Config:
    """The best of a few hypotheses that are followed side by side."""

    beams: Few = 5
    """How many hypotheses are followed."""
    length_penalty: Annotated[float, Range(0, 10)] = 1.0
    """α in the score Σ log p / nᵅ over n tokens, the end counted: 0 favours short, 1 is fair."""
    nbest: Few = 1
    """How many hypotheses are given for each sentence."""
    min_length: LengthOrZero = 0
    """At least this many tokens before the end token; a prompt does not count."""
    patience: Factor = 1.0
    """A sentence is done with beams · patience finished hypotheses; without effect where α = 0."""

    def __post_init__(self) -> None:
        check_ranges(self)
        most = min(self.beams, self.enough)
        if self.nbest > most:
            raise RecipeError(
                f"nbest: {self.nbest} is more than the {most} that "
                f"beams = {self.beams} and patience = {self.patience:g} can give"
            )

    @property
    def enough(self) -> int:
        """beams · patience, to the nearest whole number."""
        return floor(self.beams * self.patience + 0.5)


GROUP, LONG = 16, 1024
"""Tokens of a group, where a vocabulary is long, when the best are looked for."""


class Layer(NamedTuple):
    """What one step leaves behind of a sentence: its C candidates, best first."""

    totals: list[float]
    """Σ log p up to here; −∞ for what cannot be."""
    symbols: list[int]
    log_probs: list[float]
    parents: list[int]
    """Which candidate of the step before each continues."""
    taken: list[int]
    """Which become results."""
    chosen: list[int]
    """Which are followed."""


Observer = Callable[[int, Layer], None]
"""Sees the number of each sentence and its candidates, step by step."""
_observers: ContextVar[tuple[Observer, ...]] = ContextVar("observers", default=())


@contextmanager
def observe(observer: Observer) -> Iterator[None]:
    """Let `observer` see every step of the searches inside; those of other threads it does not."""
    before = _observers.get()
    _observers.set((*before, observer))
    try:
        yield
    finally:
        _observers.set(before)


def search(
    step: Step, state: DecoderState, request: Request, config: Config
) -> list[list[Hypothesis]]:
    """For each sentence its `nbest` hypotheses of the best score, or all where there are fewer.

    At each step the 2 · beams best candidates of a sentence are found. Of the first `beams`, those
    that end are taken as results, and at the cap all; the best `beams` that do not end go on.
    A sentence is done at its cap, or with beams · patience results. Where α = 0 it is done once
    `nbest` results are better than all that goes on, which can only become worse. CTranslate2 does
    the same, except that it counts a forced prefix as certain, and that where α = 0 it only waits
    for the best result, and for `nbest` of any kind.
    """
    return drain(steps(step, state, request, config))


def steps(step: Step, state: DecoderState, request: Request, config: Config) -> Steps:
    """The same step by step; the news has the last tokens of the hypotheses that are followed."""
    if request.stop is not None:
        raise RecipeError("stop: beam search has none; use search = greedy or sample")
    frontier = Frontier(step, request, partial(Tree, config), config.beams)
    history = History()
    arrival: Arrival | None = (state, request)
    while arrival is not None or frontier.working:
        if arrival is not None:
            history.add(frontier.join(*arrival))
            arrival = None
            continue  # they may have no place for a token
        log_probs, trees = frontier.read(), frontier.working  # (B, W, V)
        totals = frontier.tensor([tree.totals for tree in trees])
        candidates, size = _candidates(totals, log_probs), log_probs.shape[2]  # (B, C)
        del log_probs  # or it would be there still when the next is made
        rows = zip(trees, *(values.tolist() for values in candidates), strict=True)
        grown = [tree.grow(*row, size) for tree, *row in rows]
        for observer in _observers.get():
            for tree in trees:
                observer(tree.number, tree.layers[-1])
        history.add(frontier.advance([tree.goes for tree in trees], grown))
        arrival = yield history.news(trees)
    return history.all()


class Tree(Sentence):
    """The hypotheses of a sentence that are followed, and all candidates before them."""

    def __init__(self, config: Config, number: int, request: Request, row: int) -> None:
        super().__init__(number, request, row, config.min_length)
        self.config, self.goes = config, True
        self.layers: list[Layer] = []
        self.totals, self.chosen = [0.0], [0]
        """Σ log p of the hypotheses, and which candidates of the last step they were."""
        self.results = 0
        """How many there are …"""
        self.sums = [-inf] * config.nbest
        """… and Σ log p of the best."""

    def widen(self, width: int) -> None:
        """All but the first are copies that cannot be."""
        super().widen(width)
        self.totals, self.chosen = [*self.totals, *[-inf] * (width - 1)], self.chosen * width

    def grow(
        self, sums: list[float], log_probs: list[float], places: list[int], size: int
    ) -> list[int]:
        """Take what has ended, follow the best that have not: gives what each of these continues.

        The places of the candidates are among W · V.
        """
        width = len(self.totals)
        symbols, origins = [place % size for place in places], [place // size for place in places]
        end, full = -1 if self.forced else self.end, self.full
        taken = [
            n
            for n, symbol in enumerate(symbols[: self.config.beams])
            if (full or symbol == end) and sums[n] > -inf
        ]
        going = [n for n, symbol in enumerate(symbols) if symbol != end]
        chosen = (going + [n for n, symbol in enumerate(symbols) if symbol == end])[:width]
        parents = [self.chosen[origin] for origin in origins]
        self.layers.append(Layer(sums, symbols, log_probs, parents, taken, chosen))
        self.tokens, self.chosen = [symbols[n] for n in chosen], chosen
        self.totals = [-inf if symbols[n] == end else sums[n] for n in chosen]
        self.goes = not (self._enough() or full) and self.totals[0] > -inf
        return [origins[n] for n in chosen]

    def _enough(self) -> bool:
        """Whether there are enough results, after those of the last step."""
        layer = self.layers[-1]
        self.results += len(layer.taken)
        if self.config.length_penalty:
            return self.results >= self.config.enough
        sums = [*self.sums, *(layer.totals[n] for n in layer.taken)]
        self.sums = sorted(sums, reverse=True)[: self.config.nbest]
        return self.sums[-1] >= self.totals[0]

    def hypotheses(self) -> list[Hypothesis]:
        if self.cap <= 0:
            return [Hypothesis((), 0.0, (), False)]
        taken = [(time, n) for time, layer in enumerate(self.layers) for n in layer.taken]
        if not taken:
            raise impossible()
        ranked = sorted(taken, key=lambda place: -self._score(*place))
        return [self._path(*place) for place in ranked[: self.config.nbest]]

    def best(self) -> Hypothesis:
        return self._path(len(self.layers) - 1, 0)

    def _score(self, time: int, place: int) -> float:
        total = self.sum_before + self.layers[time].totals[place]
        score: float = total / (self.before + time + 1) ** self.config.length_penalty
        return score

    def _path(self, time: int, place: int) -> Hypothesis:
        """Walk back from a candidate to its first symbol."""
        score, tokens, chances = self._score(time, place), [], []
        for layer in reversed(self.layers[: time + 1]):
            tokens.append(layer.symbols[place])
            chances.append(layer.log_probs[place])
            place = layer.parents[place]
        finished = tokens[0] == self.end and len(tokens) > len(self.prefix)
        written = tuple(tokens[:0:-1] if finished else tokens[::-1])
        return Hypothesis(written, score, tuple(chances[::-1]), finished)


def _candidates(
    totals: Float[Tensor, "B W"], log_probs: Float[Tensor, "B W V"]
) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B C"], Int[Tensor, "B C"]]:
    """The 2 W best continuations of W hypotheses: Σ log p, log p, and the places among W · V.

    Twice as many as hypotheses: each has one way to end, so at least W of them go on. `topk` is
    slow on long rows: so tokens v, v + K, v + 2 K … make one of K groups, and the C best are
    among the members of the C groups with the best peaks, and of what makes no whole group.
    """
    size, width, symbols = log_probs.shape
    count = min(2 * width, width * symbols)
    groups = symbols // GROUP if symbols > LONG else symbols  # K
    members, whole = symbols // groups, symbols // groups * groups
    peaks = log_probs[..., :whole].view(size, width, members, groups).amax(2)  # (B, W, K)
    peaks += totals[..., None]
    best = peaks.flatten(1).topk(min(count, width * groups)).indices  # (B, C)
    steps, rest = _offsets(width, symbols, groups, totals.device)
    owners = best // groups
    first = best + owners * (symbols - groups)  # places among W · V, here as below
    places = (first[..., None] + steps).flatten(1)
    before = totals.gather(1, owners).repeat_interleave(members, 1)
    if len(rest):
        places = torch.cat([places, rest.expand(size, -1)], 1)
        before = torch.cat([before, totals.repeat_interleave(symbols - whole, 1)], 1)
    chances = log_probs.flatten(1).gather(1, places)
    sums, best = (before + chances).topk(count)  # (B, C)
    return sums, chances.gather(1, best), places.gather(1, best)


@lru_cache(8)
def _offsets(
    width: int, symbols: int, groups: int, device: torch.device
) -> tuple[Int[Tensor, "M"], Int[Tensor, "N"]]:
    """From a group's first symbol to each of its members; the places of what makes no group."""
    whole = symbols // groups * groups
    steps, rest = torch.arange(0, whole, groups), torch.arange(whole, symbols)
    rest = torch.arange(0, width * symbols, symbols)[:, None] + rest
    return steps.to(device), rest.flatten().to(device)
