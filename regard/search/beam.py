"""Beam search: the most probable sequence, as far as a few hypotheses at a time can find it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from math import floor, inf
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import RecipeError
from regard.recipe.values import Factor, Few, LengthOrZero, Range
from regard.search import (
    Arrival,
    Frontier,
    History,
    Hypothesis,
    Request,
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
    """At least this many tokens before the end symbol; a prompt does not count."""
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
    """What one step leaves behind: each sentence's candidates, best first."""

    sentences: Int[np.ndarray, "B"]
    totals: Float[np.ndarray, "B C"]
    """Σ log p up to here; −∞ for what cannot be."""
    symbols: Int[np.ndarray, "B C"]
    log_probs: Float[np.ndarray, "B C"]
    parents: Int[np.ndarray, "B C"]
    """Which candidate of the step before each continues."""
    taken: Bool[np.ndarray, "B C"]
    """Which become results."""


Observer = Callable[[Layer, Int[np.ndarray, "B W"]], None]
"""Sees each step's candidates, and which of them are followed."""
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
    frontier = Frontier(step, request, width=config.beams, minimum=config.min_length)
    history = Candidates(request, config)
    arrival: Arrival | None = (state, request)
    beams = Beams.begin(np.zeros((0, 1), int), config)
    while arrival is not None or len(frontier):
        if arrival is not None:
            history.ask(arrival[1], frontier)
            beams = beams.join(Beams.begin(frontier.join(*arrival), config))
            arrival = None
            continue  # they may have no place for a token
        log_probs = frontier.read(beams.tokens)  # (B, W, V)
        _, width, size = log_probs.shape
        found = _candidates(frontier.tensor(beams.padded(width)), log_probs)
        sums, chances, places = (values.cpu().numpy() for values in found)  # (B, C)
        origins, symbols = np.divmod(places, size)
        ended, full = frontier.ends(symbols), frontier.full
        taken = (ended | full) & (sums > -inf)
        taken[:, config.beams :] = False
        parents = _of(beams.chosen, origins if width == beams.chosen.shape[1] else origins * 0)
        layer = Layer(frontier.sentences, sums, symbols, chances, parents, taken)
        history.add(*layer)

        chosen = ended.argsort(1, kind="stable")[:, :width]  # the best come first
        totals = _of(np.where(ended, -inf, sums), chosen)  # (B, W)
        for observer in _observers.get():
            observer(layer, chosen)
        results, best, done = _judged(beams, layer, totals, config)
        going = (~(done | full) & (totals[:, :1] > -inf))[:, 0]
        beams = Beams(_of(symbols, chosen), totals, chosen, results, best)
        left = frontier.advance(going, _of(origins, chosen))
        news = history.news(beams.tokens, ~going)
        if left is not None:
            beams = beams.keep(left)
        arrival = yield news
    return history.of(range(len(history.asked)))


def _of(values: NDArray[Any], places: Int[np.ndarray, "B N"]) -> NDArray[Any]:
    """(B, N): of each sentence the values at its places."""
    return values[np.arange(len(values))[:, None], places]


class Beams(NamedTuple):
    """The hypotheses that are followed, and what is known of the results so far."""

    tokens: Int[np.ndarray, "B W"]
    """What each has written last."""
    totals: Float[np.ndarray, "B W"]
    """Σ log p."""
    chosen: Int[np.ndarray, "B W"]
    """Which candidates of the last step they were."""
    results: Int[np.ndarray, "B"]
    """How many there are."""
    best: Float[np.ndarray, "B _"]
    """Σ log p of the `nbest` best of them."""

    @classmethod
    def begin(cls, tokens: Int[np.ndarray, "B W"], config: Config) -> "Beams":
        totals = np.zeros((len(tokens), 1), np.float32)
        best = np.full((len(tokens), config.nbest), -inf, np.float32)
        new = cls(tokens, totals, np.zeros_like(tokens), np.zeros_like(tokens[:, 0]), best)
        return new._replace(totals=new.padded(tokens.shape[1]))

    def padded(self, width: int) -> Float[np.ndarray, "B {width}"]:
        """Where one hypothesis has just become W, all but the first are copies that cannot be."""
        missing = width - self.totals.shape[1]
        if not missing:
            return self.totals
        return np.pad(self.totals, ((0, 0), (0, missing)), constant_values=-inf)

    def keep(self, sentences: Int[np.ndarray, "B2"]) -> "Beams":
        return Beams(*(values[sentences] for values in self))

    def join(self, new: "Beams") -> "Beams":
        if not len(self.tokens):
            return new
        return Beams(*(np.concatenate(pair) for pair in zip(self, new, strict=True)))


def _judged(
    beams: Beams, layer: Layer, totals: Float[np.ndarray, "B W"], config: Config
) -> tuple[Int[np.ndarray, "B"], Float[np.ndarray, "B _"], Bool[np.ndarray, "B 1"]]:
    """Number and best sums of the results, and which sentences have enough of them."""
    if config.length_penalty:
        results = beams.results + layer.taken.sum(1)
        return results, beams.best, (results >= config.enough)[:, None]
    new = np.where(layer.taken, layer.totals, -inf)
    best = -np.sort(-np.concatenate([beams.best, new], 1))[:, : config.nbest]
    return beams.results, best, best[:, -1:] >= totals[:, :1]


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


class Candidates(History):
    """The candidates of each step: Σ log p, tokens, log p, parents, and which became results."""

    def __init__(self, request: Request, config: Config) -> None:
        super().__init__(request, 2 * config.beams, len(Layer._fields) - 1)
        self.config = config

    def _made(self, numbers: list[int]) -> list[list[Hypothesis]]:
        """Rank what was taken, and walk back from each of the best to its first symbol."""
        first, (totals, symbols, log_probs, parents, taken) = self.columns(numbers)  # (T, B, C)
        time, sentence, place = taken.nonzero()  # (N,) each: one for each hypothesis
        asked = [self.asked[number] for number in numbers]
        born = np.array([each.born - first for each in asked])[sentence]
        lengths, sums = np.array([each.before for each in asked]).T[:, sentence]
        scores = (sums + totals[taken]) / (lengths + time - born + 1) ** self.config.length_penalty
        path, chances = _paths((symbols, log_probs, parents), time, sentence, place)

        results: list[list[Hypothesis]] = [[] for _ in numbers]
        for i in np.argsort(-scores, kind="stable").tolist():
            found, begin, end = results[int(sentence[i])], int(born[i]), int(time[i]) + 1
            if len(found) < self.config.nbest:
                tokens, values = path[begin:end, i].tolist(), chances[begin:end, i].tolist()
                forced = asked[int(sentence[i])].forced
                finished = tokens[-1] == self.end and len(tokens) > forced
                written = tuple(tokens[: len(tokens) - finished])
                found.append(Hypothesis(written, float(scores[i]), tuple(values), finished))
        for found, each in zip(results, asked, strict=True):
            if each.cap <= 0:
                found.append(Hypothesis((), 0.0, (), False))
            if not found:
                raise impossible()
        return results

    def best(self, numbers: list[int]) -> list[Hypothesis]:
        """Of the candidates of the last step, the first."""
        first, (totals, symbols, log_probs, parents, _) = self.columns(numbers)
        time, sentence = np.full(len(numbers), len(totals) - 1), np.arange(len(numbers))
        place = np.zeros_like(sentence)
        path, chances = _paths((symbols, log_probs, parents), time, sentence, place)
        best = []
        for i, number in enumerate(numbers):
            born, _, forced, (length, total) = self.asked[number]
            tokens, values = path[born - first :, i].tolist(), chances[born - first :, i].tolist()
            finished = tokens[-1] == self.end and len(tokens) > forced
            score = (total + float(totals[-1, i, 0])) / (
                (length + len(tokens)) ** self.config.length_penalty
            )
            written = tuple(tokens[: len(tokens) - finished])
            best.append(Hypothesis(written, score, tuple(values), finished))
        return best


def _paths(
    tables: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    time: NDArray[Any],
    sentence: NDArray[Any],
    place: NDArray[Any],
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(T, N) each: the tokens of N hypotheses and log p of them, up to the last step of each."""
    symbols, log_probs, parents = tables
    path, chances = np.empty((len(symbols), len(place)), int), np.empty((len(symbols), len(place)))
    for t in reversed(range(len(symbols))):
        path[t], chances[t] = symbols[t, sentence, place], log_probs[t, sentence, place]
        # Steps after a hypothesis's last token are none of its own.
        place = np.where(t <= time, parents[t, sentence, place], place)
    return path, chances
