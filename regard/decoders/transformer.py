"""The Transformer's decoder (Vaswani et al. 2017, figure 1, right); GPT without the memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layers import documents
from regard.layers.attention import Hides, attend_to
from regard.layers.cache import Cache, Past, joined, joined_caches, stacked_rows
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.position import PositionalEncoding, Rotary
from regard.layers.probe import probe, scope, watched
from regard.layers.recompute import Recomputing
from regard.layers.short_attention import HIDDEN, hide, takes
from regard.layers.single_step import Block as Bound, bind
from regard.layers.transformer import Config
from regard.types import Sequence

__all__ = ["Config", "Decoder", "State"]


@dataclass(frozen=True)
class State:
    """What was read (R rows), and keys and values of the memory (B rows), layer by layer."""

    past: Past
    memory: tuple[Cache, ...]
    mask: Hides | None
    """What may be seen of the memory; None: all."""
    read: int | Int[Tensor, "R"] = 0
    """How many tokens: all rows, or each."""
    blocks: tuple[Bound, ...] = ()
    """What single steps compute with; nothing where they go the general way."""
    first: int | None = None
    """What documents begin with, where a row holds several that do not see each other."""

    def bounded(self, first: int) -> "State":
        """The same for rows of several documents, each of which begins with a certain token; they
        are read at once."""
        return replace(self, first=first)

    @property
    def rows(self) -> int:
        return self.past.rows

    @property
    def sentences(self) -> int:
        return self.past.sentences

    def select(self, rows: Int[Tensor, "R2"]) -> "State":
        read = self.read if isinstance(self.read, int) else self.read.index_select(0, rows)
        return State(self.past.select(rows), self.memory, self.mask, read, self.blocks)

    def keep(self, sentences: Int[Tensor, "B2"]) -> "State":
        beams = self.rows // self.sentences
        rows = (sentences[:, None] * beams + torch.arange(beams, device=sentences.device)).flatten()
        read = self.read if isinstance(self.read, int) else self.read.index_select(0, rows)
        memory = tuple(
            (k.index_select(0, sentences), v.index_select(0, sentences)) for k, v in self.memory
        )
        mask = None if self.mask is None else self.mask.index_select(0, sentences)
        blocks = tuple(block.apart() for block in self.blocks)
        return State(self.past.keep(sentences, rows), memory, mask, read, blocks)

    def expand(self, beams: int) -> "State":
        read = self.read if isinstance(self.read, int) else self.read.repeat_interleave(beams)
        return replace(self, past=self.past.expand(beams), read=read)

    def join(self, others: Iterable["State"]) -> "State":
        states = [self, *others]
        if len({state.rows // state.sentences for state in states}) > 1:
            raise ValueError("states with unlike numbers of hypotheses cannot be joined")
        read = [state.read for state in states]
        if not all(isinstance(count, int) and count == read[0] for count in read):
            device = next(state.past.caches for state in states if state.past.places)[0][0].device
            each = (torch.as_tensor(s.read, device=device).expand(s.rows) for s in states)
            read = [torch.cat(list(each))]
        past, memory = joined([s.past for s in states]), joined_caches([s.memory for s in states])
        blocks = tuple(block.apart() for block in self.blocks)
        return State(past, memory, _joined_masks(states), read[0], blocks)

    def detach(self) -> "State":
        memory = tuple((k.detach(), v.detach()) for k, v in self.memory)
        return replace(self, past=self.past.detach(), memory=memory)


def _joined_masks(states: list[State]) -> Hides | None:
    """What may be seen of memories that are padded to the longest of them."""
    keys = [state.memory[0][0] for state in states if state.memory]
    if len({key.shape[2] for key in keys}) < 2 and all(state.mask is None for state in states):
        return None
    masks = []
    for key, state in zip(keys, states, strict=True):
        hidden = key.new_zeros(len(key), key.shape[1], 1, key.shape[2])
        if state.mask is not None:
            bias = state.mask if state.mask.is_floating_point() else hide(state.mask)
            hidden = hidden + bias
        masks.append(hidden)
    return stacked_rows(masks, 3, HIDDEN)


class Block(Recomputing):
    """Masked self-attention, attention to the memory where there is one, feed-forward."""

    def __init__(self, config: Config, dim: int, *, cross: bool) -> None:
        super().__init__()
        self.attention = config.attention(dim)
        self.around_attention = config.around(dim)
        if cross:
            self.cross = config.attention(dim, cross=True)
            self.around_cross = config.around(dim)
        self.feedforward = config.network(dim)
        self.around_feedforward = config.around(dim)
        self.parallel = config.parallel

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        state: State,
        number: int,
        bias: Float[Tensor, "#B #H N P"] | None,
        rotary: Rotary | None,
    ) -> tuple[Float[Tensor, "R T D"], Cache]:
        """`state` has places for x, or has read nothing; `bias` is what they do not see of it, or
        of each other, beside what is later. Places are written once: only a block that has none is
        computed twice."""
        if state.past.places:
            return self._once(x, state, number, bias, rotary)
        return self.computed(self._once, x, state, number, bias, rotary)

    def _once(
        self, x: Tensor, state: State, number: int, bias: Tensor | None, rotary: Rotary | None
    ) -> tuple[Tensor, Cache]:
        with scope("attention"):
            inside, past = self.around_attention.enter(x), state.past
            if past.places:
                start = state.read
                y, cache = self.attention.extend(
                    inside, past, number, bias, start=start, rotary=rotary
                )
            else:
                y, cache = self.attention(inside, bias, rotary=rotary, causal=True)
        before, x = x, self.around_attention.leave(x, y)
        if state.memory:
            with scope("cross"):
                inside = self.around_cross.enter(x)
                y = self.cross.look(inside, state.memory[number], state.mask)
            x = self.around_cross.leave(x, y)
        with scope("feedforward"):
            y = self.feedforward(self.around_feedforward.enter(before if self.parallel else x))
        return self.around_feedforward.leave(x, y), cache


class Decoder(nn.Module):
    """One form for teacher forcing, prefill, a single step and truncated back-propagation."""

    def __init__(self, config: Config, dim: int, embedding: Embedding, *, memory: bool) -> None:
        super().__init__()
        config.check(dim)
        self.embedding = embedding
        self.position = PositionalEncoding(config.position, dim, config.limit, config.layout)
        self.rotary = config.rotary(dim)
        self.embedding_norm = config.before(dim)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, dim, cross=memory) for _ in range(config.layers))
        self.norm = config.last(dim)

    def units(self) -> list[nn.Module]:
        """Blocks; where there is a memory, their projections of it are asked for before them."""
        blocks: list[Any] = list(self.blocks)
        return [block.feedforward if hasattr(block, "cross") else block for block in blocks]

    def start(self, memory: Sequence | None, rows: int) -> State:
        """The state that has read nothing, for `rows` sentences."""
        if memory is None:
            return State(Past(rows, rows), (), None, 0, self._bound((), None))
        crosses: list[Any] = [block.cross for block in self.blocks]
        projected = tuple(cross.project(memory.states) for cross in crosses)
        if not torch.is_grad_enabled() and not bool(memory.mask.any(1).all()):
            # To see nothing is to see zeros: the kernel for single steps need not know.
            real = memory.mask[:, None, :, None]
            projected = tuple((k, v * real) for k, v in projected)
        mask = _hidden(memory, projected)
        return State(Past(rows, rows), projected, mask, 0, self._bound(projected, mask))

    def _bound(self, memory: tuple[Cache, ...], mask: Hides | None) -> tuple[Bound, ...]:
        if torch.is_grad_enabled():
            return ()
        caches = memory or (None,) * len(self.blocks)
        return tuple(bind(*pair, mask) for pair in zip(self.blocks, caches, strict=True))

    def forward(
        self, tokens: Int[Tensor, "R T"], state: State
    ) -> tuple[Float[Tensor, "R T D"], State]:
        length = tokens.shape[1]
        if (
            length == 1
            and state.blocks
            and not (self.training or torch.is_grad_enabled() or watched())
        ):
            return self._step(tokens, state)
        past, bias = state.past.grown(length) if state.past.places else (state.past, None)
        start: int | Tensor = state.read
        if state.first is not None:
            start, bias = _documents(tokens, state)
        x = self.embedding_norm(self.position(self.embedding(tokens), start))
        x = self.dropout(probe("input", x))
        state = State(past, state.memory, state.mask, state.read, state.blocks)
        caches: list[Cache] = []
        for number, block in enumerate(self.blocks):
            with scope(f"block.{number}"):
                x, cache = block(x, state, number, bias, self.rotary)
                x = probe("output", x)
            caches.append(cache)
        past = past.written(caches)
        read = state.read + length
        return self.norm(x), State(past, state.memory, state.mask, read, state.blocks)

    def _step(
        self, tokens: Int[Tensor, "R 1"], state: State
    ) -> tuple[Float[Tensor, "R 1 D"], State]:
        """The same for one token of each row, in few calls."""
        past, blocks = state.past, state.blocks
        y = self.position.forward(self.embedding.forward(tokens), state.read).squeeze(1)
        y = self.embedding_norm(y)
        if not past.places:
            past = past.opened(len(blocks), blocks[0].groups, blocks[0].dim, y)
        past, bias = past.grown(1)
        turn = None
        if self.rotary is not None:
            turn = partial(self.rotary.turn, by=self.rotary.angles(state.read, 1))
        for number, block in enumerate(blocks):
            memory = state.memory[number] if state.memory else None
            y = block.step(y, past, number, bias, turn, memory, state.mask)
        state = State(past, state.memory, state.mask, state.read + 1, blocks)
        return self.norm(y)[:, None], state

    def carry(self, state: State) -> dict[str, Tensor]:
        """Nothing: positions are counted from where a state begins, so each text has its own."""
        return {}

    def resume(self, state: State, carry: Mapping[str, Tensor]) -> State:
        return state


def _documents(
    tokens: Int[Tensor, "R T"], state: State
) -> tuple[int | Int[Tensor, "R T"], Float[Tensor, "R 1 T T"] | None]:
    """Positions and what is not seen, where rows hold several documents. Rotary positions, of which
    only differences count, need not begin anew."""
    assert state.first is not None
    if state.past.places:
        raise ValueError("rows of several documents are read at once, not in pieces")
    if not bool((tokens[:, 1:] == state.first).any()):
        return 0, None  # of which attention's own kernel is the faster one
    places = documents.positions(tokens, state.first)
    return places, documents.hidden(places)


def _hidden(memory: Sequence, projected: tuple[Cache, ...]) -> Hides | None:
    """What the kernel for short memories adds to its scores; other kernels want the mask."""
    mask = attend_to(memory.mask)
    if mask is None or not takes(memory.states, mask.shape[-1]):
        return mask
    heads = projected[0][0].shape[1]
    return hide(mask).expand(-1, heads, -1, -1).contiguous()
