"""Greedy search: always the most probable next symbol."""

from collections.abc import Callable
from dataclasses import dataclass
from math import fsum, isfinite

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.recipe.values import LengthOrZero
from regard.search import Frontier, Hypothesis, Request, Step, check_ranges, impossible, table
from regard.types import DecoderState

Choose = Callable[[Float[Tensor, "B W V"], Frontier], Int[Tensor, "B W"]]
"""From log p of all symbols to the next symbol of each hypothesis."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Always the most probable next symbol."""

    min_length: LengthOrZero = 0
    """At least this many tokens before the end symbol; a prompt does not count."""

    def __post_init__(self) -> None:
        check_ranges(self)


def search(
    step: Step, state: DecoderState, request: Request, config: Config
) -> list[list[Hypothesis]]:
    """For each sentence its one hypothesis, yₜ = argmax_v p(v | y₁ … yₜ₋₁, x); α = 0."""
    return walk(step, state, request, lambda log_probs, _: log_probs.argmax(-1), config.min_length)


def walk(
    step: Step,
    state: DecoderState,
    request: Request,
    choose: Choose,
    minimum: int = 0,
    width: int = 1,
) -> list[list[Hypothesis]]:
    """Write `width` hypotheses for each sentence, symbol by symbol; `choose` chooses each symbol.

    They do not meet: each goes on until it ends or is full, a sentence until all of its own have.
    """
    frontier = Frontier(step, state, request, width=width, minimum=minimum)
    tokens = frontier.first
    alive = torch.ones(len(frontier), width, dtype=torch.bool, device=request.device)
    sentences, written, chances = [], [], []
    while len(frontier):
        log_probs = frontier.read(tokens)  # (B, W, V)
        tokens = choose(log_probs, frontier)  # (B, W)
        sentences.append(frontier.sentences)
        written.append(tokens.expand(-1, width))
        chances.append(log_probs.gather(-1, tokens[..., None])[..., 0].expand(-1, width))
        alive = alive & ~frontier.ends(tokens)
        going = (alive.any(1) & ~frontier.full).nonzero().flatten()
        if len(going) < len(frontier):
            tokens, alive = tokens[going], alive[going]
        frontier.advance(going)
    size = len(request.caps)
    symbols, values = (
        table(sentences, steps, size, width).transpose(1, 2, 0).tolist()
        for steps in (written, chances)
    )
    return _cut(symbols, values, request)


def _cut(
    symbols: list[list[list[int]]], log_probs: list[list[list[float]]], request: Request
) -> list[list[Hypothesis]]:
    """What was written for each sentence, each up to its end symbol or its cap, best first."""
    caps = torch.as_tensor(request.caps).tolist()
    results = []
    counts = zip(caps, request.forced, request.before, strict=True)
    for rows, chances, (cap, forced, (_, before)) in zip(symbols, log_probs, counts, strict=True):
        hypotheses = []
        for written, values in zip(rows, chances, strict=True):
            finished = request.end in written[forced:cap]
            length = written.index(request.end, forced) if finished else max(cap, 0)
            tokens, kept = tuple(written[:length]), tuple(values[: length + finished])
            hypotheses.append(Hypothesis(tokens, fsum((before, *kept)), kept, finished))
        if not all(isfinite(hypothesis.score) for hypothesis in hypotheses):
            raise impossible()
        results.append(sorted(hypotheses, key=lambda hypothesis: -hypothesis.score))
    return results
