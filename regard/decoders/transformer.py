"""The Transformer's decoder (Vaswani et al. 2017, figure 1, right); GPT without the memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.attention import Cache, MultiHeadAttention, attend_to, causal_mask
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.feedforward import FeedForward
from regard.layers.position import PositionalEncoding, Rotary
from regard.layers.probe import probe, scope
from regard.layers.residual import Residual, normalisation
from regard.layers.transformer import Config
from regard.types import Sequence

__all__ = ["Config", "Decoder", "State"]


@dataclass(frozen=True)
class State:
    """Keys and values of what was read (R rows) and of the memory (B rows), layer by layer."""

    past: tuple[Cache, ...]
    memory: tuple[Cache, ...]
    mask: Bool[Tensor, "B 1 1 S"] | None
    rows: int
    sentences: int
    absent: Int[Tensor, "R"] | None = None
    """How many of the first places of `past` are empty, where rows have read unlike numbers."""

    @property
    def length(self) -> int:
        return self.past[0][0].shape[2] if self.past else 0

    @property
    def read(self) -> "int | Int[Tensor, 'R']":
        """How many tokens: of all rows, or of each."""
        return self.length if self.absent is None else self.length - self.absent

    def select(self, rows: Int[Tensor, "R2"]) -> "State":
        past = tuple((k.index_select(0, rows), v.index_select(0, rows)) for k, v in self.past)
        absent = None if self.absent is None else self.absent.index_select(0, rows)
        return replace(self, past=past, rows=len(rows), absent=absent)

    def keep(self, sentences: Int[Tensor, "B2"]) -> "State":
        beams = self.rows // self.sentences
        rows = (sentences[:, None] * beams + torch.arange(beams, device=sentences.device)).flatten()
        memory = tuple(
            (k.index_select(0, sentences), v.index_select(0, sentences)) for k, v in self.memory
        )
        mask = None if self.mask is None else self.mask.index_select(0, sentences)
        kept = replace(self, memory=memory, mask=mask, sentences=len(sentences))
        return kept.select(rows)

    def expand(self, beams: int) -> "State":
        past = tuple(
            (k.repeat_interleave(beams, 0), v.repeat_interleave(beams, 0)) for k, v in self.past
        )
        absent = None if self.absent is None else self.absent.repeat_interleave(beams)
        return replace(self, past=past, rows=self.rows * beams, absent=absent)

    def join(self, others: Iterable["State"]) -> "State":
        """Rows that have read less get empty places before what they have read."""
        states = [self, *others]
        most = max(states, key=lambda state: state.length)
        masks = [state.mask for state in states if state.mask is not None]
        absent = None
        if any(state.absent is not None or state.length < most.length for state in states):
            device = most.past[0][0].device
            read = [torch.as_tensor(s.read, device=device).expand(s.rows) for s in states]
            absent = most.length - torch.cat(read)
        return State(
            past=_together(state._widened(most) for state in states),
            memory=_together(state.memory for state in states),
            mask=torch.cat(masks) if masks else None,
            rows=sum(state.rows for state in states),
            sentences=sum(state.sentences for state in states),
            absent=absent,
        )

    def _widened(self, most: "State") -> tuple[Cache, ...]:
        """`past` with as many places as another state has."""
        if not self.past:
            return tuple((_blank(k, self.rows), _blank(v, self.rows)) for k, v in most.past)
        new = (0, 0, most.length - self.length, 0)
        return tuple((F.pad(k, new), F.pad(v, new)) for k, v in self.past)

    def detach(self) -> "State":
        past, memory = (
            tuple((k.detach(), v.detach()) for k, v in caches)
            for caches in (self.past, self.memory)
        )
        return replace(self, past=past, memory=memory)


def _together(states: Iterable[tuple[Cache, ...]]) -> tuple[Cache, ...]:
    """The caches of several states, layer by layer."""
    layers = zip(*states, strict=True)
    return tuple(
        (torch.cat([k for k, _ in layer]), torch.cat([v for _, v in layer])) for layer in layers
    )


def _blank(like: Float[Tensor, "_ H P K"], rows: int) -> Float[Tensor, "{rows} H P K"]:
    return like.new_zeros(rows, *like.shape[1:])


class Block(nn.Module):
    """Masked self-attention, attention to the memory where there is one, feed-forward."""

    def __init__(self, config: Config, dim: int, *, cross: bool) -> None:
        super().__init__()

        def around() -> Residual:
            return Residual(dim, config.norm, config.normalisation, config.dropout)

        self.attention = MultiHeadAttention(dim, config.heads, bias=config.bias)
        self.around_attention = around()
        if cross:
            self.cross = MultiHeadAttention(dim, config.heads, bias=config.bias, cross=True)
            self.around_cross = around()
        self.feedforward = FeedForward(
            dim,
            config.feedforward,
            config.activation,
            bias=config.bias,
            dropout=config.feedforward_dropout,
        )
        self.around_feedforward = around()

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        mask: Bool[Tensor, "#R 1 T P"] | None,
        past: Cache | None,
        start: int | Int[Tensor, "R"],
        memory: Cache | None,
        memory_mask: Bool[Tensor, "B 1 1 S"] | None,
        rotary: Rotary | None,
    ) -> tuple[Float[Tensor, "R T D"], Cache]:
        with scope("attention"):
            inside = self.around_attention.enter(x)
            y, past = self.attention(
                inside, mask, past=past, start=start, rotary=rotary, causal=past is None
            )
        x = self.around_attention.leave(x, y)
        if memory is not None:
            with scope("cross"):
                y = self.cross.look(self.around_cross.enter(x), memory, memory_mask)
            x = self.around_cross.leave(x, y)
        with scope("feedforward"):
            y = self.feedforward(self.around_feedforward.enter(x))
        return self.around_feedforward.leave(x, y), past


class Decoder(nn.Module):
    """One form for teacher forcing, prefill, a single step and truncated back-propagation."""

    def __init__(self, config: Config, dim: int, embedding: Embedding, *, memory: bool) -> None:
        super().__init__()
        config.check(dim)
        self.embedding = embedding
        self.position = PositionalEncoding(config.position, dim, config.limit, config.layout)
        rotary = config.position == "rotary"
        self.rotary = Rotary(dim // config.heads, config.limit) if rotary else None
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, dim, cross=memory) for _ in range(config.layers))
        pre = config.norm == "pre"
        self.norm = normalisation(config.normalisation, dim) if pre else nn.Identity()

    def start(self, memory: Sequence | None, rows: int) -> State:
        """The state that has read nothing, for `rows` sentences."""
        if memory is None:
            return State((), (), None, rows, rows)
        crosses: list[Any] = [block.cross for block in self.blocks]
        projected = tuple(cross.project(memory.states) for cross in crosses)
        return State((), projected, attend_to(memory.mask), rows, rows)

    def forward(
        self, tokens: Int[Tensor, "R T"], state: State
    ) -> tuple[Float[Tensor, "R T D"], State]:
        x = self.position(self.embedding(tokens), state.read)
        x = self.dropout(probe("input", x))
        mask = _mask(tokens.shape[1], state, tokens.device)
        past: list[Cache] = []
        for number, block in enumerate(self.blocks):
            with scope(f"block.{number}"):
                x, cache = block(
                    x,
                    mask,
                    state.past[number] if state.past else None,
                    state.read,
                    state.memory[number] if state.memory else None,
                    state.mask,
                    self.rotary,
                )
                x = probe("output", x)
            past.append(cache)
        return self.norm(x), replace(state, past=tuple(past))

    def carry(self, state: State) -> dict[str, Tensor]:
        """Nothing: positions are counted from where a state begins, so each text has its own."""
        return {}

    def resume(self, state: State, carry: Mapping[str, Tensor]) -> State:
        return state


def _mask(
    length: int, state: State, device: torch.device
) -> Bool[Tensor, "#R 1 {length} P"] | None:
    """What each of `length` new positions sees of all; None where that needs no saying."""
    before = state.length
    if state.absent is None and (before == 0 or length == 1):
        return None  # the triangle alone, or all
    mask = causal_mask(length, before + length, device)
    if state.absent is None:
        return mask
    places = torch.arange(before + length, device=device)
    return mask & (places >= state.absent[:, None, None, None])
