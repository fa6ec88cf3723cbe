"""The sentences of a search that are still in work: what they want, and what may follow next."""

import sys
from collections.abc import Sequence as Rows
from dataclasses import dataclass
from math import fsum, inf
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
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
    """Without the start and the end symbol; a forced prefix included."""
    score: float
    """Σ log p / nᵅ over the n tokens written: the tokens, the end symbol if finished, and what
    the request says was written before."""
    log_probs: tuple[float, ...]
    """One for each token, and the end symbol's last if finished."""
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
    """The largest number of tokens for each sentence, prefix included; the end symbol has no place
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


class Known(NamedTuple):
    """What is known of each sentence in work.

    Times are steps of the search: a sentence that came at step `born` writes its token t at step
    born + t. This and all that is chosen by it are some dozen small operations at each step, so
    they are NumPy's, which take a quarter of PyTorch's time.
    """

    number: Int[np.ndarray, "B"]
    """Counts the sentences that have come, from 0."""
    draw: Int[np.ndarray, "B"]
    """Its number in the whole input."""
    born: Int[np.ndarray, "B"]
    least: Int[np.ndarray, "B"]
    """Before this step it must not end."""
    forced: Int[np.ndarray, "B"]
    """Before this step its tokens are given …"""
    prefix: Int[np.ndarray, "B L"]
    """… namely these."""
    cap: Int[np.ndarray, "B"]
    """At this step it has no place for a token."""
    node: Int[np.ndarray, "B W"]
    """How far each of its hypotheses has come among the choices."""

    def keep(self, sentences: Int[np.ndarray, "B2"]) -> "Known":
        return Known(*(values[sentences] for values in self))

    def join(self, other: "Known") -> "Known":
        longest = max(self.prefix.shape[1], other.prefix.shape[1])
        alike = (
            known._replace(
                prefix=np.pad(known.prefix, ((0, 0), (0, longest - known.prefix.shape[1])))
            )
            for known in (self, other)
        )
        return Known(*(np.concatenate(pair) for pair in zip(*alike, strict=True)))


class Frontier:
    """The sentences still in work, and what each may write next, at step `time` = 0, 1, …

    Each has one hypothesis while all of them are within their prefixes, `width` from then on.
    """

    known: Known
    state: DecoderState

    def __init__(self, step: Step, request: Request, *, width: int, minimum: int) -> None:
        self.time, self.come = 0, 0
        self._step, self._most, self._minimum = step, width, minimum
        self._end, self._choices, self._device = request.end, request.choices, request.device
        self._forbidden = torch.tensor(request.forbidden, dtype=torch.long, device=request.device)
        self._settle()

    def _settle(self) -> None:
        """Nobody is in work."""
        self._width = 1
        # No prefix ends before the first of these steps and none goes on from the second; from the
        # third each may end, and before the fourth none has its cap.
        self._shortest, self._longest, self._early, self._soonest = sys.maxsize, 0, 0, sys.maxsize

    def __len__(self) -> int:
        return len(self.known.number) if self.come else 0

    @property
    def sentences(self) -> Int[np.ndarray, "B"]:
        """The number of each."""
        return self.known.number

    @property
    def ages(self) -> Int[np.ndarray, "B"]:
        """How many tokens each has written before this step."""
        return self.time - self.known.born

    def tensor(self, values: np.ndarray) -> Tensor:
        """Where the decoder computes."""
        return torch.from_numpy(values).to(self._device)

    def join(self, state: DecoderState, request: Request) -> Int[np.ndarray, "B2 W"]:
        """Let sentences in; gives what those of them that have a place for a token read first."""
        if (request.end, request.choices) != (self._end, self._choices):
            raise ValueError("sentences that come later must have the same end and choices")
        if not len(self):
            self._settle()
        size, now, forced = len(request.caps), self.time, request.forced
        caps = torch.as_tensor(request.caps).tolist()
        least = [self._minimum - count for count, _ in request.before]
        longest = max(forced, default=0)
        prefixes = [(*prefix, *[0] * (longest - len(prefix))) for prefix in request.prefixes or ()]
        new = Known(
            np.arange(self.come, self.come + size),
            np.array(request.numbers or [0] * size, int),
            np.full(size, now),
            now + np.array(least, int),
            now + np.array(forced, int),
            np.array(prefixes, np.int64).reshape(size, longest),
            now + np.array(caps, int),
            np.full((size, self._width), ROOT, np.int64),
        )
        start = np.repeat(np.array(request.start, np.int64).reshape(-1, 1), self._width, 1)
        start = start.repeat(size // len(start), 0)
        if min(caps, default=1) <= 0:
            (places,) = (new.cap > now).nonzero()
            new, start = new.keep(places), start[places]
            state = state.keep(self.tensor(places)) if 0 < len(places) < size else state
        self._shortest = min(self._shortest, now + min(forced, default=0))
        self._longest = max(self._longest, now + longest)
        self._early = max(self._early, now + max(least, default=0))
        self._soonest = min(self._soonest, now + max(min(caps, default=0), 1))
        self._let_in(new, state)
        self.come += size
        return start

    def _let_in(self, new: Known, state: DecoderState) -> None:
        if not len(self):
            self.known, self.state = new, state
        elif len(new.number):
            wide = state.expand(self._width) if self._width > 1 else state
            self.known, self.state = self.known.join(new), self.state.join([wide])

    @property
    def full(self) -> Bool[np.ndarray, "B 1"]:
        """Which sentences reach their cap by the token of this step."""
        return (self.known.cap <= self.time + 1)[:, None]

    def ends(self, symbols: Int[np.ndarray, "B C"]) -> Bool[np.ndarray, "B C"]:
        """Where a token written at this step ends its hypothesis."""
        return (symbols == self._end) & self._free[:, None]

    @property
    def _free(self) -> Bool[np.ndarray, "B"]:
        """Which sentences are past their prefix."""
        return self.known.forced <= self.time

    def read(self, tokens: Int[np.ndarray, "B W"]) -> Float[Tensor, "B W2 V"]:
        """Let the decoder read the last tokens: log p of each token at this step."""
        logits, self.state = self._step(self.tensor(tokens.reshape(-1, 1)), self.state)
        log_probs = self._log_probs(logits.float().view(*tokens.shape, -1))
        if self._choices is not None:
            log_probs = log_probs.masked_fill(~self._allowed_by(self._choices, tokens), -inf)
        if self._width < self._most and self._shortest <= self.time:
            self._width = self._most
            self.state = self.state.expand(self._most)
            self.known = self.known._replace(node=self.known.node.repeat(self._most, 1))
            log_probs = log_probs.expand(-1, self._most, -1)
        return log_probs

    def _log_probs(self, logits: Float[Tensor, "B W V"]) -> Float[Tensor, "B W V"]:
        if self.time >= self._longest:
            return self._allowed(logits).log_softmax(-1)
        free = self._allowed(logits.clone())
        # A forced token stands alone, but has the probability that it has among all tokens.
        forced = self.tensor(~self._free[:, None, None])
        place = self.ages.clip(max=self.known.prefix.shape[1] - 1)
        given = np.take_along_axis(self.known.prefix, place[:, None], 1)[..., None]  # (B, 1, 1)
        other = torch.ones_like(logits[:, :1], dtype=torch.bool)  # (B, 1, V)
        other.scatter_(-1, self.tensor(given), False)
        return torch.where(forced, logits, free).log_softmax(-1).masked_fill(forced & other, -inf)

    def _allowed(self, logits: Float[Tensor, "B W V"]) -> Float[Tensor, "B W V"]:
        """The same tensor, −∞ where a token may not be written at this step."""
        if len(self._forbidden):
            logits.index_fill_(-1, self._forbidden, -inf)
        if self.time < self._early:
            early = self.tensor(self.time < self.known.least)
            logits[..., self._end].masked_fill_(early[:, None], -inf)
        return logits

    def _allowed_by(self, choices: Choices, tokens: Int[np.ndarray, "B W"]) -> Bool[Tensor, "B W V"]:
        node = self.tensor(self.known.node)
        # What is read first is no part of a text.
        begun = self.tensor(self.ages[:, None] > 0)
        node = torch.where(begun, choices.follow(node, self.tensor(tokens)), node)
        self.known = self.known._replace(node=node.cpu().numpy())
        return choices.allowed(node)

    def advance(
        self, going: Bool[np.ndarray, "B"], origins: Int[np.ndarray, "B W"] | None = None
    ) -> Int[np.ndarray, "B2"] | None:
        """On to the next step, with the sentences `going` alone: their places, None if all go.

        `origins` says which of its sentence's hypotheses each new one continues.
        """
        self.time += 1
        places = None if going.all() else going.nonzero()[0]
        if places is not None:
            self.known = self.known.keep(places)
            self.state = self.state.keep(self.tensor(places)) if len(places) else self.state
            origins = None if origins is None else origins[places]
        if origins is not None and len(self):
            size, width = origins.shape
            own = np.arange(width)
            if (origins != own).any():
                rows = origins + np.arange(0, size * width, width)[:, None]
                self.state = self.state.select(self.tensor(rows.flatten()))
                node = np.take_along_axis(self.known.node, origins, 1)
                self.known = self.known._replace(node=node)
        return places
