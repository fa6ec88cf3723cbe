"""Beam search: the most probable sequence, as far as a few hypotheses at a time can find it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import floor, inf
from typing import Annotated, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.errors import RecipeError
from regard.recipe.values import Factor, Few, LengthOrZero, Range
from regard.search import Frontier, Hypothesis, Request, Step, check_ranges, impossible, table
from regard.types import DecoderState


@dataclass(frozen=True, kw_only=True)
class Config:
    """The best of a few hypotheses that are followed side by side."""

    beams: Few = 5
    """How many hypotheses are followed."""
    length_penalty: Annotated[float, Range(0, 10)] = 1.0
    """α in the score Σ log p / nᵅ over n symbols, the end counted: 0 favours short, 1 is fair."""
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
"""Symbols of a group, where a vocabulary is long, when the best are looked for."""


class Layer(NamedTuple):
    """What one step leaves behind: each sentence's candidates, best first."""

    sentences: Int[Tensor, "B"]
    totals: Float[Tensor, "B C"]
    """Σ log p up to here; −∞ for what cannot be."""
    symbols: Int[Tensor, "B C"]
    log_probs: Float[Tensor, "B C"]
    parents: Int[Tensor, "B C"]
    """Which candidate of the step before each continues."""
    taken: Bool[Tensor, "B C"]
    """Which become results."""


Observer = Callable[[Layer, Int[Tensor, "B W"]], None]
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
    frontier = Frontier(step, state, request, width=config.beams, minimum=config.min_length)
    size, tokens = len(frontier), frontier.first
    totals = torch.zeros(size, 1, device=request.device)
    chosen = torch.zeros_like(tokens)  # which candidates of the last step are followed
    count = torch.zeros_like(frontier.sentences)  # results so far
    best = torch.full((size, config.nbest), -inf, device=request.device)  # Σ log p of the best
    layers = []
    while len(frontier):
        log_probs = frontier.read(tokens)  # (B, W, V)
        width = log_probs.shape[1]
        # Where one hypothesis has just become W, all but the first are copies that cannot be.
        totals = F.pad(totals, (0, width - totals.shape[1]), value=-inf)
        sums, symbols, chances, origins = _candidates(totals, log_probs)  # (B, C)
        ended = frontier.ends(symbols)
        taken = (ended | frontier.full[:, None]) & (sums > -inf)
        taken[:, config.beams :] = False
        parents = chosen.expand(-1, width).gather(1, origins)
        layers.append(Layer(frontier.sentences, sums, symbols, chances, parents, taken))

        totals, chosen = sums.masked_fill(ended, -inf).topk(width)  # (B, W)
        for observer in _observers.get():
            observer(layers[-1], chosen)
        if config.length_penalty:
            count = count + taken.sum(1)
            done = count >= config.enough
        else:
            best = torch.cat([best, sums.where(taken, -inf)], 1).topk(config.nbest).values
            done = best[:, -1] >= totals[:, 0]
        going = (~(done | frontier.full) & (totals[:, 0] > -inf)).nonzero().flatten()
        tokens, origins = symbols.gather(1, chosen), origins.gather(1, chosen)
        if len(going) < len(frontier):
            tokens, origins, totals, chosen, count, best = (
                values[going] for values in (tokens, origins, totals, chosen, count, best)
            )
        frontier.advance(going, origins)
    return _results(layers, request, config)


def _candidates(
    totals: Float[Tensor, "B W"], log_probs: Float[Tensor, "B W V"]
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"], Float[Tensor, "B C"], Int[Tensor, "B C"]]:
    """The 2 W best continuations of W hypotheses: Σ log p, symbol, its log p, the hypothesis.

    Twice as many as hypotheses: each has one way to end, so at least W of them go on. `topk` is
    slow on long rows: so symbols v, v + K, v + 2 K … make one of K groups, and the C best are
    among the members of the C groups with the best peaks, and of what makes no whole group.
    """
    size, width, symbols = log_probs.shape
    count = min(2 * width, width * symbols)
    groups = symbols // GROUP if symbols > LONG else symbols  # K
    members, whole = symbols // groups, symbols // groups * groups
    peaks = log_probs[..., :whole].view(size, width, members, groups).amax(2)  # (B, W, K)
    _, best = (totals[..., None] + peaks).flatten(1).topk(min(count, width * groups))  # (B, C)
    first = best // groups * symbols + best % groups  # places among W · V, here as below
    steps = torch.arange(0, whole, groups, device=first.device)
    rest = torch.arange(whole, symbols, device=first.device)
    rest = torch.arange(0, width * symbols, symbols, device=first.device)[:, None] + rest
    places = (first[..., None] + steps).flatten(1)
    places = torch.cat([places, rest.flatten().expand(size, -1)], 1)
    chances = log_probs.flatten(1).gather(1, places)
    sums, best = (totals.gather(1, places // symbols) + chances).topk(count)  # (B, C)
    places, chances = places.gather(1, best), chances.gather(1, best)
    return sums, places % symbols, chances, places // symbols


def _results(layers: list[Layer], request: Request, config: Config) -> list[list[Hypothesis]]:
    """Rank what was taken, and walk back from each of the best to its first symbol."""
    caps, forced = torch.as_tensor(request.caps).tolist(), request.forced
    sentences, *columns = ([layer[i] for layer in layers] for i in range(len(Layer._fields)))
    totals, symbols, log_probs, parents, taken = (
        table(sentences, column, len(caps), 2 * config.beams) for column in columns
    )  # (T, B, C) each
    time, sentence, place = taken.nonzero()  # (N,) each: one for each hypothesis
    lengths, sums = np.array(request.before).reshape(-1, 2).T[:, sentence]
    scores = (sums + totals[taken]) / (lengths + time + 1) ** config.length_penalty

    path, chances = np.empty((len(layers), len(place)), int), np.empty((len(layers), len(place)))
    for t in reversed(range(len(layers))):
        path[t], chances[t] = symbols[t, sentence, place], log_probs[t, sentence, place]
        # Steps after a hypothesis's last symbol are none of its own.
        place = np.where(t <= time, parents[t, sentence, place], place)

    results: list[list[Hypothesis]] = [[] for _ in caps]
    for i in np.argsort(-scores, kind="stable").tolist():
        owner, length = int(sentence[i]), int(time[i]) + 1
        if len(results[owner]) < config.nbest:
            tokens, values = path[:length, i].tolist(), chances[:length, i].tolist()
            finished = tokens[-1] == request.end and length > forced[owner]
            written = tuple(tokens[: length - finished])
            results[owner].append(Hypothesis(written, float(scores[i]), tuple(values), finished))
    for found, cap in zip(results, caps, strict=True):
        if cap <= 0:
            found.append(Hypothesis((), 0.0, (), False))
        if not found:
            raise impossible()
    return results
