"""Greedy search: always the most probable next token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import fsum, isfinite

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.recipe.values import Factor, LengthOrZero
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

Choose = Callable[[Float[Tensor, "B W V"], "Frontier[Texts]"], Int[Tensor, "B W"]]
"""From log p of all tokens to the next token of each hypothesis."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Always the most probable next token."""

    min_length: LengthOrZero = 0
    """At least this many tokens before the end token; a prompt does not count."""
    repetition_penalty: Factor = 1.0
    """Multiplies log p of tokens that the text has already, the prompt included: above 1, they
    become less probable."""

    def __post_init__(self) -> None:
        check_ranges(self)


def search(
    step: Step, state: DecoderState, request: Request, config: Config
) -> list[list[Hypothesis]]:
    """For each sentence its one hypothesis, yₜ = argmax_v p(v | y₁ … yₜ₋₁, x); α = 0."""
    return drain(steps(step, state, request, config))


def steps(step: Step, state: DecoderState, request: Request, config: Config) -> Steps:
    """The same step by step."""

    def choose(log_probs: Float[Tensor, "B W V"], frontier: Frontier[Texts]) -> Int[Tensor, "B W"]:
        return penalised(log_probs, frontier.working, config.repetition_penalty).argmax(-1)

    return walk(step, state, request, choose, config.min_length)


def penalised(
    log_probs: Float[Tensor, "B W V"], texts: "Sequence[Texts]", penalty: float
) -> Float[Tensor, "B W V"]:
    """log p, times the penalty for tokens that the hypothesis has read or written (Keskar et al.
    2019, section 4.1, for log p instead of logits, which are known up to a sum only)."""
    if penalty == 1.0:
        return log_probs
    width, found = log_probs.shape[1], log_probs.clone()
    for text, rows in zip(texts, found, strict=True):
        for row, (written, _) in zip(rows, text.written[:width], strict=True):
            seen = sorted({*text.context, *written} - {text.end})
            row[torch.tensor(seen, dtype=torch.long, device=row.device)] *= penalty
    return found


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
    frontier = Frontier(step, request, partial(Texts, minimum, width), width)
    history = History()
    arrival: Arrival | None = (state, request)
    while arrival is not None or frontier.working:
        if arrival is not None:
            history.add(frontier.join(*arrival))
            arrival = None
            continue  # they may have no place for a token
        log_probs, texts = frontier.read(), frontier.working  # (B, W, V)
        tokens = choose(log_probs, frontier)  # (B, W)
        chances = log_probs.gather(-1, tokens[..., None])[..., 0]
        del log_probs  # or it would be there still when the next is made
        rows = zip(texts, tokens.tolist(), chances.tolist(), strict=True)
        going = [text.goes_on(*row) for text, *row in rows]
        history.add(frontier.advance(going))
        arrival = yield history.news(texts)
    return history.all()


class Texts(Sentence):
    """What a sentence's hypotheses have written, and log p of each token."""

    def __init__(self, minimum: int, width: int, number: int, request: Request, row: int) -> None:
        super().__init__(number, request, row, minimum)
        self.written: list[tuple[list[int], list[float]]] = [([], []) for _ in range(width)]
        self.alive = [True] * width
        self.context = request.context[row] if request.context else ()
        self._stop = partial(request.stop, row) if request.stop else None
        self._stopped: list[int | None] = [None] * width  # after how many tokens

    def goes_on(self, tokens: list[int], chances: list[float]) -> bool:
        """Each hypothesis, or the one that is still all of them, has written a token."""
        width = len(self.alive)
        self.tokens, copies = tokens, width // len(tokens)
        pairs = zip(tokens * copies, chances * copies, strict=True)
        for n, (token, chance) in enumerate(pairs):
            self.written[n][0].append(token)
            self.written[n][1].append(chance)
            self.alive[n] = self.alive[n] and (self.forced or token != self.end)
            if self.alive[n] and self._stop is not None and self._stop(self.written[n][0]):
                self.alive[n], self._stopped[n] = False, len(self.written[n][0])
        return any(self.alive) and not self.full

    def hypotheses(self) -> list[Hypothesis]:
        forced, end = len(self.prefix), self.end
        found = [
            _cut(*pair, self.cap if over is None else over, forced, self.sum_before, end)
            for pair, over in zip(self.written, self._stopped, strict=True)
        ]
        stops = zip(found, self._stopped, strict=True)
        found = [each._replace(finished=each.finished or over is not None) for each, over in stops]
        if not all(isfinite(hypothesis.score) for hypothesis in found):
            raise impossible()
        return sorted(found, key=lambda hypothesis: -hypothesis.score)

    def best(self) -> Hypothesis:
        return self.hypotheses()[0]


def _cut(
    written: list[int], values: list[float], cap: int, forced: int, before: float, end: int
) -> Hypothesis:
    """What was written for a sentence, up to its end token, its cap or the last step."""
    finished = end in written[forced:cap]
    length = written.index(end, forced) if finished else min(max(cap, 0), len(written))
    kept = tuple(values[: length + finished])
    return Hypothesis(tuple(written[:length]), fsum((before, *kept)), kept, finished)
