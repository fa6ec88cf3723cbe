"""Search: from a decoder's probabilities to sequences of tokens.

Each search is written once, for any decoder: it sees a `Step`, which reads tokens and tells what
may follow, and a `DecoderState`, whose rows it chooses. All of them score by

    log p(yₜ | y₁ … yₜ₋₁, x) = log softmax(logits)    in fp32, over the symbols that may stand at t,

so what is forbidden takes no probability. Where only certain texts may be written, each scores by
the probability that it has among all texts.

A forced prefix is a part of the output: its tokens count in the score, with the probability that
the model gives them, forbidden or not, in the length and in a minimum. So a search that is forced
to begin as the best output does finds that output, with its score; but after an improbable prefix
a length penalty favours long outputs, which share it among more tokens. CTranslate2 counts a prefix
in length and minimum, too, but as certain. A prompt, as of a language model, is no part of the
output: the state that a search begins with has read it (`regard.decoding`), and nothing of it
counts.

Shape letters beside those of `regard.types`: B counts the sentences still in work, W the
hypotheses of each, C the candidates among which the hypotheses of the next step are chosen.
"""

from collections.abc import Sequence as Rows
from dataclasses import dataclass, fields
from functools import cache
from math import fsum, inf
from typing import Any, NamedTuple, Protocol, get_type_hints, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from regard.decoding.choices import ROOT, Choices
from regard.errors import UserError
from regard.recipe.values import check
from regard.types import DecoderState


@runtime_checkable
class Step(Protocol):
    """A decoder with its head, as search sees it."""

    def __call__(
        self, tokens: Int[Tensor, "R T"], state: DecoderState
    ) -> tuple[Float[Tensor, "R V"], DecoderState]:
        """Logits of the token that follows the last of `tokens`, and the state that read them.

        The logits are the search's own from then on: it writes into them.
        """
        ...


class Hypothesis(NamedTuple):
    """What may be written for one sentence."""

    tokens: tuple[int, ...]
    """Without the start and the end symbol; a forced prefix included."""
    score: float
    """Σ log p / nᵅ over the n symbols written: the tokens, the end symbol if finished, and what
    the request says was written before."""
    log_probs: tuple[float, ...]
    """One for each token, and the end symbol's last if finished."""
    finished: bool
    """False if it was stopped at its cap."""


@dataclass(frozen=True)
class Request:
    """What search must know of a batch of sentences."""

    start: int | Rows[int]
    """The symbol that is read first, by all sentences or by each."""
    end: int
    """The symbol that finishes a hypothesis; within a prefix it is a token like any other."""
    caps: Int[Tensor, "B"] | Rows[int]
    """The largest number of tokens for each sentence, prefix included; the end symbol has no place
    after the last of them."""
    prefixes: tuple[tuple[int, ...], ...] | None = None
    """What each sentence must begin with; it is cut at the cap."""
    forbidden: tuple[int, ...] = ()
    """Symbols that are never produced."""
    choices: Choices | None = None
    """What may be written, if not anything: no cap must cut one of these texts short."""
    written: Rows[Rows[float]] | None = None
    """log p of each token that a sentence has written before: they count in the score, the length
    and a minimum, but are no part of the hypothesis."""
    numbers: tuple[int, ...] | None = None
    """Each sentence's number in the whole input: sampling draws by it, not by the batch."""
    device: torch.device | str = "cpu"
    """Where the decoder wants its tokens."""

    def __post_init__(self) -> None:
        for name in ("prefixes", "written", "numbers"):
            given = getattr(self, name)
            if given is not None and len(given) != len(self.caps):
                raise ValueError(f"{len(self.caps)} caps, but {len(given)} {name}")

    @property
    def forced(self) -> list[int]:
        """How many tokens of each sentence are given."""
        return [len(prefix) for prefix in self.prefixes or ((),) * len(self.caps)]

    @property
    def before(self) -> list[tuple[int, float]]:
        """How many tokens each sentence has written before, and Σ log p of them."""
        return [(len(values), fsum(values)) for values in self.written or ((),) * len(self.caps)]


class Frontier:
    """The sentences still in work, and what each may write next, at step `time` = 0, 1, …

    Each has one hypothesis while all of them are within their prefixes, `width` from then on.
    """

    def __init__(
        self, step: Step, state: DecoderState, request: Request, *, width: int, minimum: int
    ) -> None:
        def tensor(values: Any) -> Tensor:
            return torch.as_tensor(values, dtype=torch.long, device=request.device)

        forced, size = request.forced, len(request.caps)
        starts = [request.start] * size if isinstance(request.start, int) else request.start
        least = [minimum - count for count, _ in request.before]
        longest = max(forced, default=0)
        prefixes = [(*prefix, *[0] * (longest - len(prefix))) for prefix in request.prefixes or ()]
        self.state, self.time = state, 0
        self.sentences = torch.arange(size, device=request.device)
        self.first = tensor(starts).view(size, 1)
        """What is read first."""
        self._step, self._width, self._end = step, width, request.end
        self._forbidden = tensor(request.forbidden)
        self._least, self._early = tensor(least), max(least, default=0)
        self._caps, self._forced = tensor(request.caps), tensor(forced)
        self._prefixes = tensor(prefixes).view(size, longest)
        self._shortest, self._longest = min(forced, default=0), longest
        self._choices, self._nodes = request.choices, tensor(ROOT).expand(size, 1)
        self._keep((self._caps > 0).nonzero().flatten())

    def __len__(self) -> int:
        return len(self.sentences)

    @property
    def full(self) -> Bool[Tensor, "B"]:
        """Which sentences reach their cap by the token of this step."""
        return self._caps <= self.time + 1

    def ends(self, symbols: Int[Tensor, "B C"]) -> Bool[Tensor, "B C"]:
        """Where a symbol written at this step ends its hypothesis."""
        return (symbols == self._end) & (self._forced <= self.time)[:, None]

    def read(self, tokens: Int[Tensor, "B W"]) -> Float[Tensor, "B W2 V"]:
        """Let the decoder read the last tokens: log p of each symbol at this step."""
        logits, self.state = self._step(tokens.reshape(-1, 1), self.state)
        log_probs = self._log_probs(logits.float().reshape(*tokens.shape, -1))
        if self._choices is not None:
            if self.time:
                nodes = self._nodes.expand(tokens.shape)
                self._nodes = self._choices.follow(nodes, tokens)
            log_probs = log_probs.masked_fill(~self._choices.allowed(self._nodes), -inf)
        if tokens.shape[1] < self._width and self._shortest <= self.time:
            self.state = self.state.expand(self._width)
            log_probs = log_probs.expand(-1, self._width, -1)
        return log_probs

    def _log_probs(self, logits: Float[Tensor, "B W V"]) -> Float[Tensor, "B W V"]:
        if self.time >= self._longest:
            return self._allowed(logits).log_softmax(-1)
        free = self._allowed(logits.clone())
        # A forced token stands alone, but has the probability that it has among all symbols.
        forced = (self.time < self._forced)[:, None, None]
        other = torch.ones_like(logits[:, :1], dtype=torch.bool)  # (B, 1, V)
        other.scatter_(-1, self._prefixes[:, self.time, None, None], False)
        return torch.where(forced, logits, free).log_softmax(-1).masked_fill(forced & other, -inf)

    def _allowed(self, logits: Float[Tensor, "B W V"]) -> Float[Tensor, "B W V"]:
        """The same tensor, −∞ where a symbol may not be written at this step."""
        if len(self._forbidden):
            logits.index_fill_(-1, self._forbidden, -inf)
        if self.time < self._early:
            logits[..., self._end].masked_fill_((self.time < self._least)[:, None], -inf)
        return logits

    def advance(self, going: Int[Tensor, "B2"], origins: Int[Tensor, "B2 W"] | None = None) -> None:
        """On to the next step, with the sentences `going` alone.

        `origins` says which of its sentence's hypotheses each new one continues.
        """
        if len(going) < len(self):
            self._keep(going)
        if origins is not None and len(self) and origins.shape[1] > 1:
            first = torch.arange(len(self), device=origins.device) * origins.shape[1]
            self.state = self.state.select((first[:, None] + origins).flatten())
            if self._choices is not None:
                self._nodes = self._nodes.expand(origins.shape).gather(1, origins)
        self.time += 1

    def _keep(self, going: Int[Tensor, "B2"]) -> None:
        if 0 < len(going) < len(self):
            self.state = self.state.keep(going)
        self.sentences, self._caps = self.sentences[going], self._caps[going]
        self.first, self._least = self.first[going], self._least[going]
        self._forced, self._prefixes = self._forced[going], self._prefixes[going]
        if self._choices is not None:
            self._nodes = self._nodes[going]


def table(
    sentences: Rows[Int[Tensor, "_"]], values: Rows[Tensor], size: int, width: int
) -> NDArray[Any]:
    """(T, size, width): the values (B, C) of each of T steps, each in its sentence's place."""
    kind = values[0].dtype if values else torch.bool
    whole = torch.zeros(len(values), size, width, dtype=kind)
    for step, rows, value in zip(whole, sentences, values, strict=True):
        step[rows.cpu(), : value.shape[1]] = value.cpu()
    return whole.numpy()


def impossible() -> UserError:
    """The error for a sentence for which nothing can be written."""
    return UserError(
        "the model leaves a sentence no symbol to write: "
        "its weights hold NaN or infinity, or every symbol is forbidden"
    )


def check_ranges(config: Any) -> None:
    """Refuse a value that is not of the kind that its field's type states."""
    for name, hint in _numbers(config.__class__):
        check(name, getattr(config, name), hint)


@cache
def _numbers(kind: type) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind, include_extras=True)
    found = ((field.name, hints[field.name]) for field in fields(kind))
    return tuple((name, hint) for name, hint in found if hasattr(hint, "__metadata__"))
