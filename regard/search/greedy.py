"""Greedy search: always the most probable next token."""

from collections.abc import Callable
from dataclasses import dataclass
from math import fsum, isfinite

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from regard.recipe.values import LengthOrZero
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

Choose = Callable[[Float[Tensor, "B W V"], Frontier], Int[Tensor, "B W"]]
"""From log p of all tokens to the next token of each hypothesis."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Always the most probable next token."""

    min_length: LengthOrZero = 0
    """At least this many tokens before the end symbol; a prompt does not count."""

    def __post_init__(self) -> None:
        check_ranges(self)


def search(
    step: Step, state: DecoderState, request: Request, config: Config
) -> list[list[Hypothesis]]:
    """For each sentence its one hypothesis, yₜ = argmax_v p(v | y₁ … yₜ₋₁, x); α = 0."""
    return drain(steps(step, state, request, config))


def steps(step: Step, state: DecoderState, request: Request, config: Config) -> Steps:
    """The same step by step."""
    return walk(step, state, request, lambda log_probs, _: log_probs.argmax(-1), config.min_length)


def walk(
    step: Step,
    state: DecoderState,
    request: Request,
    choose: Choose,
    minimum: int = 0,
    width: int = 1,
) -> Steps:
    """Write `width` hypotheses for each sentence, token by token; `choose` chooses each token.

    They do not meet: each goes on until it ends or is full, a sentence until all of its own have.
    """
    frontier = Frontier(step, request, width=width, minimum=minimum)
    history = Texts(request, width, 2)
    arrival: Arrival | None = (state, request)
    tokens, alive = np.zeros((0, 1), int), np.zeros((0, width), bool)
    while arrival is not None or len(frontier):
        if arrival is not None:
            history.ask(arrival[1], frontier)
            first = frontier.join(*arrival)  # (B2, W)
            tokens = np.concatenate([tokens, first]) if len(tokens) else first
            alive = np.concatenate([alive, np.ones((len(first), width), bool)])
            arrival = None
            continue  # they may have no place for a token
        log_probs = frontier.read(tokens)  # (B, W, V)
        drawn = choose(log_probs, frontier)  # (B, W)
        chances = log_probs.gather(-1, drawn[..., None])[..., 0].cpu().numpy()
        tokens = drawn.cpu().numpy()
        wide = (len(tokens), width)
        history.add(
            frontier.sentences, np.broadcast_to(tokens, wide), np.broadcast_to(chances, wide)
        )
        alive = alive & ~frontier.ends(tokens)
        going = (alive & ~frontier.full).any(1)
        places = frontier.advance(going)
        news = history.news(tokens, ~going)
        if places is not None:
            tokens, alive = tokens[places], alive[places]
        arrival = yield news
    return history.of(range(len(history.asked)))


class Texts(History):
    """The tokens (B, W) that each step has written, and log p of each."""

    def _made(self, numbers: list[int]) -> list[list[Hypothesis]]:
        first, tables = self.columns(numbers)
        symbols, log_probs = (table.transpose(1, 2, 0).tolist() for table in tables)  # (B, W, T)
        made = []
        for number, rows, chances in zip(numbers, symbols, log_probs, strict=True):
            born, cap, forced, (_, before) = self.asked[number]
            texts = zip(rows, chances, strict=True)
            pairs = ((row[born - first :], values[born - first :]) for row, values in texts)
            found = [_cut(*pair, cap, forced, before, self.end) for pair in pairs]
            if not all(isfinite(hypothesis.score) for hypothesis in found):
                raise impossible()
            made.append(sorted(found, key=lambda hypothesis: -hypothesis.score))
        return made

    def best(self, numbers: list[int]) -> list[Hypothesis]:
        return [found[0] for found in self._made(numbers)]


def _cut(
    written: list[int], values: list[float], cap: int, forced: int, before: float, end: int
) -> Hypothesis:
    """What was written for a sentence, up to its end symbol, its cap or the last step."""
    finished = end in written[forced:cap]
    length = written.index(end, forced) if finished else min(max(cap, 0), len(written))
    kept = tuple(values[: length + finished])
    return Hypothesis(tuple(written[:length]), fsum((before, *kept)), kept, finished)
