"""The sentences of a search that are still in work: what they want, and what may follow next."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence as Rows
from dataclasses import dataclass
from math import fsum, inf
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.choices import ROOT, Choices
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
    """Without the start and the end token; a forced prefix included."""
    score: float
    """Σ log p / nᵅ over the n tokens written: the tokens, the end token if finished, and what
    the request says was written before."""
    log_probs: tuple[float, ...]
    """One for each token, and the end token's last if finished."""
    finished: bool
    """False if it was stopped at its cap."""


@dataclass(frozen=True)
class Request:
    """What search must know of a batch of sentences."""

    start: int | Rows[int]
    """The token that is read first, by all sentences or by each."""
    end: int
    """The token that finishes a hypothesis; within a prefix it is a token like any other."""
    caps: Int[Tensor, "B"] | Rows[int]
    """The largest number of tokens for each sentence, prefix included; the end token has no place
    after the last of them."""
    prefixes: tuple[tuple[int, ...], ...] | None = None
    """What each sentence must begin with; it is cut at the cap."""
    forbidden: tuple[int, ...] = ()
    """Tokens that are never produced."""
    choices: Choices | None = None
    """What may be written, if not anything: no cap must cut one of these texts short."""
    written: Rows[Rows[float]] | None = None
    """log p of each token that a sentence has written before: they count in the score, the length
    and a minimum, but are no part of the hypothesis."""
    numbers: tuple[int, ...] | None = None
    """Each sentence's number in the whole input: sampling draws by it, not by the batch."""
    context: Rows[Rows[int]] | None = None
    """What each sentence has read before it writes: what is there is not to be repeated, either."""
    stop: Callable[[int, Rows[int]], bool] | None = None
    """Whether a sentence of this request is over, by its place and the tokens that it has written:
    beside the end token. Not for beam search."""
    device: torch.device | str = "cpu"
    """Where the decoder wants its tokens."""

    def __post_init__(self) -> None:
        for name in ("prefixes", "written", "numbers", "context"):
            given = getattr(self, name)
            if given is not None and len(given) != len(self.caps):
                raise ValueError(f"{len(self.caps)} caps, but {len(given)} {name}")

    @property
    def forced(self) -> list[int]:
        """How many tokens of each sentence are given."""
        return [len(prefix) for prefix in self.prefixes or ((),) * len(self.caps)]


class Sentence(ABC):
    """A sentence in work: what is known of it, and what is written for it.

    All of this is lists: a step of a search chooses among some ten numbers of each sentence, which
    as small tensors takes ten times as long.
    """

    def __init__(self, number: int, request: Request, row: int, minimum: int) -> None:
        self.number, self.end, self.age = number, request.end, 0
        """Counts the sentences that have come, from 0; and the tokens that it has written."""
        self.draw = request.numbers[row] if request.numbers else 0
        """Its number in the whole input."""
        self.prefix = request.prefixes[row] if request.prefixes else ()
        self.cap = int(request.caps[row])
        written = request.written[row] if request.written else ()
        self.before, self.sum_before = len(written), fsum(written)
        """How many tokens it has written before, and Σ log p of them."""
        self.least = minimum - len(written)
        """With fewer tokens it must not end."""
        start = request.start if isinstance(request.start, int) else request.start[row]
        self.tokens, self.nodes = [start], [ROOT]
        """What each hypothesis has written last, and how far it has come among the choices."""

    @property
    def forced(self) -> bool:
        """Whether its next token is given."""
        return self.age < len(self.prefix)

    @property
    def full(self) -> bool:
        """Whether it reaches its cap by the next token."""
        return self.age + 1 >= self.cap

    def give_up(self) -> None:
        """Nobody waits for it: the next token is its last."""
        self.cap = min(self.cap, self.age + 1)

    def widen(self, width: int) -> None:
        """Its one hypothesis becomes several."""
        self.tokens, self.nodes = self.tokens * width, self.nodes * width

    @abstractmethod
    def hypotheses(self) -> list[Hypothesis]:
        """What comes of it once it is done, best first."""

    @abstractmethod
    def best(self) -> Hypothesis:
        """The best hypothesis so far."""


S = TypeVar("S", bound=Sentence)


class Frontier(Generic[S]):
    """The sentences still in work, and what each may write next.

    Each has one hypothesis while all of them are within their prefixes, `width` from then on.
    """

    state: DecoderState

    def __init__(
        self, step: Step, request: Request, make: Callable[[int, Request, int], S], width: int
    ) -> None:
        """`make` makes a sentence of its number, and of the request and its place there."""
        self.working: list[S] = []
        self._step, self._make, self._most = step, make, width
        self._width, self._come = 1, 0
        self._end, self._choices, self._device = request.end, request.choices, request.device
        self._forbidden = self.tensor(request.forbidden, torch.long)

    def tensor(self, values: Rows[Any], dtype: torch.dtype | None = None) -> Tensor:
        """Where the decoder computes."""
        return torch.tensor(values, dtype=dtype, device=self._device)

    def join(self, state: DecoderState, request: Request) -> list[S]:
        """Let sentences in; gives those that have no place for a token, and so are done."""
        if (request.end, request.choices) != (self._end, self._choices):
            raise ValueError("sentences that come later must have the same end and choices")
        if not self.working:
            self._width = 1
        new = [self._make(self._come + n, request, n) for n in range(len(request.caps))]
        self._come += len(new)
        places = [n for n, sentence in enumerate(new) if sentence.cap > 0]
        if 0 < len(places) < len(new):
            state = state.keep(self.tensor(places))
        if places and self._width > 1:
            state = state.expand(self._width)
            for n in places:
                new[n].widen(self._width)
        if places:
            self.state = self.state.join([state]) if self.working else state
        self.working = [*self.working, *(new[n] for n in places)]
        return [sentence for sentence in new if sentence.cap <= 0]

    def read(self) -> Float[Tensor, "B W V"]:
        """Let the decoder read the last tokens: log p of each token that may follow."""
        tokens = self.tensor([sentence.tokens for sentence in self.working])  # (B, W)
        logits, self.state = self._step(tokens.view(-1, 1), self.state)
        log_probs = self._log_probs(logits.float().view(*tokens.shape, -1))
        if self._choices is not None:
            log_probs = log_probs.masked_fill(~self._allowed_by(self._choices, tokens), -inf)
        if self._width < self._most and not all(sentence.forced for sentence in self.working):
            self._width = self._most
            self.state = self.state.expand(self._most)
            for sentence in self.working:
                sentence.widen(self._most)
            log_probs = log_probs.expand(-1, self._most, -1)
        return log_probs

    def _log_probs(self, logits: Float[Tensor, "B W V"]) -> Float[Tensor, "B W V"]:
        given = [s.prefix[s.age] if s.forced else -1 for s in self.working]
        if max(given) < 0:
            allowed = self._allowed(logits)
            if not allowed.is_cpu:
                return allowed.log_softmax(-1)
            # In place: of many sentences this is the largest tensor that there is.
            return torch.log_softmax(allowed, -1, out=allowed)
        free = self._allowed(logits.clone())
        # A forced token stands alone, but has the probability that it has among all tokens.
        token = self.tensor(given)[:, None, None]
        forced = token >= 0
        other = torch.ones_like(logits[:, :1], dtype=torch.bool)  # (B, 1, V)
        other.scatter_(-1, token.clamp(min=0), False)
        return torch.where(forced, logits, free).log_softmax(-1).masked_fill(forced & other, -inf)

    def _allowed(self, logits: Float[Tensor, "B W V"]) -> Float[Tensor, "B W V"]:
        """The same tensor, −∞ where a token may not be written at this step."""
        if len(self._forbidden):
            logits.index_fill_(-1, self._forbidden, -inf)
        early = [sentence.age < sentence.least for sentence in self.working]
        if any(early):
            logits[..., self._end].masked_fill_(self.tensor(early)[:, None], -inf)
        return logits

    def _allowed_by(self, choices: Choices, tokens: Int[Tensor, "B W"]) -> Bool[Tensor, "B W V"]:
        node = self.tensor([sentence.nodes for sentence in self.working])
        # What is read first is no part of a text.
        begun = self.tensor([sentence.age > 0 for sentence in self.working])[:, None]
        node = torch.where(begun, choices.follow(node, tokens), node)
        for sentence, nodes in zip(self.working, node.tolist(), strict=True):
            sentence.nodes = nodes
        return choices.allowed(node)

    def advance(self, going: list[bool], origins: list[list[int]] | None = None) -> list[S]:
        """On to the next step, with the sentences `going` alone; gives the others, which are done.

        `origins` says which of its sentence's hypotheses each new one continues.
        """
        done = [s for s, goes in zip(self.working, going, strict=True) if not goes]
        if done:
            places = [n for n, goes in enumerate(going) if goes]
            self.working = [self.working[n] for n in places]
            self.state = self.state.keep(self.tensor(places)) if places else self.state
            origins = origins and [origins[n] for n in places]
        if origins and any(row != list(range(len(row))) for row in origins):
            self._reorder(origins)
        for sentence in self.working:
            sentence.age += 1
        return done

    def _reorder(self, origins: list[list[int]]) -> None:
        rows = [n * len(row) + origin for n, row in enumerate(origins) for origin in row]
        self.state = self.state.select(self.tensor(rows))
        for sentence, row in zip(self.working, origins, strict=True):
            sentence.nodes = [sentence.nodes[origin] for origin in row]
