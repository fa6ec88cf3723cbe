"""A recurrent decoder, with or without attention; a language model without the memory.

    h_t = RNN([e_t; …], h_{t−1})        e_t ∈ ℝᴰ the embedding of the token read at t

What the dots are, and what is made of h_t ∈ ℝᴴ, depends on how the memory m₁ … m_S ∈ ℝᴰ is used.
Here c is one vector for all of it (see `Config.summary`), and c_t = Σ_s α_ts m_s attention's:

    no memory                 h_t = RNN(e_t, h_{t−1})                 y_t = h_t
    no attention              h_t = RNN([e_t; c], h_{t−1})            y_t = h_t
    attention after           h_t = RNN(e_t, h_{t−1})                 y_t = tanh(W [c_t; h_t] + w)
      with input feeding      h_t = RNN([e_t; y_{t−1}], h_{t−1})      y_t = tanh(W [c_t; h_t] + w)
    attention before          h_t = RNN([e_t; c_t], h_{t−1})          y_t = tanh(W [c_t; h_t] + w)

Cho et al. (2014) have c in every step, Luong et al. (2015, section 3) ask with h_t, Bahdanau et al.
(2015, A.2) with h_{t−1}. Wherever there is a memory, the first state is tanh(W₀ c + w₀).
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import RecipeError
from regard.layers.cache import stacked_rows
from regard.layers.documents import Segments
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.linear import Linear, glorot
from regard.layers.probe import probe, scope, stacked
from regard.layers.recurrent import Kind, Recurrent, State as Hidden, recurrent
from regard.recipe.values import Depth, Share, WidthOrZero
from regard.types import Sequence

Summary = Literal["ends", "last", "mean", "max"]
NAMES = ("state", "cell")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Recurrent layers that stand on each other, and how they use the memory."""

    cell: Kind = "lstm"
    """What a layer does at each step."""
    layers: Depth = 1
    """How many layers stand on each other."""
    hidden: WidthOrZero = 0
    """Width of a layer's state; 0: that of the model."""
    attention: Literal["none", "additive", "multiplicative"] = "multiplicative"
    """How the memory is looked at: e = vᵀ tanh(W h + U m), e = hᵀ W m, or as one vector alone."""
    order: Literal["before", "after"] = "after"
    """Whether a step looks at the memory before it reads (Bahdanau) or after (Luong; faster)."""
    input_feeding: bool = False
    """Whether each step reads, besides a token, what the one before made of memory and state."""
    summary: Summary = "ends"
    """The memory as one vector: the mean of its first and last state, which holds all that both
    directions of an encoder have read; its last state; the mean of all; the largest entry in each
    dimension, for pictures of which a small part matters."""
    dropout: Share = 0.1
    """On each layer's input and on the output; never from one step to the next."""
    residual: bool = False
    """Add each layer's input to its output, from the second on (Wu et al. 2016, section 3.1)."""

    def __post_init__(self) -> None:
        if self.input_feeding and self.attention == "none":
            raise RecipeError("input_feeding: there is nothing to feed if attention = 'none'")
        if self.input_feeding and self.order == "before":
            raise RecipeError("input_feeding: it needs order = 'after'")
        if self.order == "before" and self.attention == "none":
            raise RecipeError("order: nothing is looked at if attention = 'none'; leave it out")

    def check_alone(self) -> None:
        """Refuse settings for a memory: a language model has none."""
        if self.input_feeding:
            raise RecipeError("input_feeding: a language model has no memory to look at")
        usual = Config()
        for name, is_usual in {
            "attention": self.attention in (usual.attention, "none"),
            "order": self.order == usual.order,
            "summary": self.summary == usual.summary,
        }.items():
            if not is_usual:
                raise RecipeError(f"{name}: a language model has no memory to look at")


class Memory(NamedTuple):
    """What belongs to a sentence."""

    summary: Float[Tensor, "B D"]
    keys: Float[Tensor, "B S H"] | None = None
    values: Float[Tensor, "B S D"] | None = None
    mask: Bool[Tensor, "B 1 S"] | None = None

    def keep(self, sentences: Int[Tensor, "B2"]) -> "Memory":
        summary, *rest = (m if m is None else m.index_select(0, sentences) for m in self)
        assert summary is not None
        return Memory(summary, *rest)

    def join(self, others: Iterable["Memory"]) -> "Memory":
        """All are padded to the longest."""
        every = [self, *others]
        summary = torch.cat([memory.summary for memory in every])
        keys = [memory.keys for memory in every if memory.keys is not None]
        values = [memory.values for memory in every if memory.values is not None]
        if not keys:
            return Memory(summary)
        masks = [memory.mask for memory in every]
        mask = None
        if len({key.shape[1] for key in keys}) > 1 or any(m is not None for m in masks):
            real = [
                key.new_ones(len(key), 1, key.shape[1], dtype=torch.bool) if m is None else m
                for key, m in zip(keys, masks, strict=True)
            ]
            mask = stacked_rows(real, 2)
        return Memory(summary, stacked_rows(keys, 1), stacked_rows(values, 1), mask)


@dataclass(frozen=True)
class State:
    """What belongs to a hypothesis (R rows), and the memory (B rows)."""

    layers: tuple[Hidden, ...]
    fed: Float[Tensor, "R D"] | None
    """y_{t−1}, if it is fed."""
    memory: Memory | None
    sentences: int
    first: int | None = None
    """What documents begin with, where a row holds several that know nothing of each other."""

    def bounded(self, first: int) -> "State":
        """The same for rows of several documents, each of which begins with a certain token."""
        return replace(self, first=first)

    @property
    def rows(self) -> int:
        return len(self.layers[0][0])

    def select(self, rows: Int[Tensor, "R2"]) -> "State":
        return self._each(lambda s: s.index_select(0, rows))

    def keep(self, sentences: Int[Tensor, "B2"]) -> "State":
        beams = self.rows // self.sentences
        rows = (sentences[:, None] * beams + torch.arange(beams, device=sentences.device)).flatten()
        memory = self.memory and self.memory.keep(sentences)
        return replace(self.select(rows), memory=memory, sentences=len(sentences))

    def expand(self, beams: int) -> "State":
        return self._each(lambda s: s.repeat_interleave(beams, 0))

    def join(self, others: Iterable["State"]) -> "State":
        states = [self, *others]
        layers = zip(*(state.layers for state in states), strict=True)
        memories = [state.memory for state in states if state.memory is not None]
        fed = [state.fed for state in states if state.fed is not None]
        if len({state.rows // state.sentences for state in states}) > 1:
            raise ValueError("states with unlike numbers of hypotheses cannot be joined")
        return State(
            tuple(tuple(map(torch.cat, zip(*layer, strict=True))) for layer in layers),
            torch.cat(fed) if fed else None,
            memories[0].join(memories[1:]) if memories else None,
            sum(state.sentences for state in states),
            self.first,
        )

    def detach(self) -> "State":
        return self._each(torch.Tensor.detach)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "State":
        layers = tuple(tuple(change(s) for s in layer) for layer in self.layers)
        return replace(self, layers=layers, fed=None if self.fed is None else change(self.fed))


class Attention(nn.Module):
    """c_t = Σ_s α_ts m_s,   α_ts = exp e_ts / Σ_r exp e_tr   over the real positions of the memory.

        additive (Bahdanau et al. 2015, A.1.2):               e_ts = vᵀ tanh(W h + U m_s)
        multiplicative (Luong et al. 2015, 3.1, `general`):   e_ts = hᵀ U m_s

    for a state h ∈ ℝᴴ, m_s ∈ ℝᴰ, U ∈ ℝᴴˣᴰ, W ∈ ℝᴴˣᴴ, v ∈ ℝᴴ. U m_s, the keys, are made once.
    """

    def __init__(self, dim: int, hidden: int, *, additive: bool) -> None:
        super().__init__()
        self.key = glorot(Linear(dim, hidden, bias=False))
        self.query = glorot(Linear(hidden, hidden)) if additive else None
        self.score = glorot(Linear(hidden, 1, bias=False)) if additive else None

    def forward(self, h: Float[Tensor, "R T H"], memory: Memory) -> Float[Tensor, "R T D"]:
        """The R/B rows of one sentence ask as one long query, so nothing of it is copied."""
        assert memory.keys is not None and memory.values is not None
        query = h.reshape(memory.keys.shape[0], -1, h.shape[-1])  # (B, R/B·T, H)
        scores = self._scores(query, memory.keys)
        if memory.mask is not None:
            scores = scores.masked_fill(~memory.mask, -torch.inf)
        weights = probe("weights", scores.softmax(-1)[:, None])[:, 0]  # (B, R/B·T, S)
        return (weights @ memory.values).view(*h.shape[:2], -1)

    def _scores(
        self, query: Float[Tensor, "B N H"], keys: Float[Tensor, "B S H"]
    ) -> Float[Tensor, "B N S"]:
        if self.query is None or self.score is None:
            return query @ keys.transpose(1, 2)
        inner = torch.tanh(self.query(query)[:, :, None] + keys[:, None])  # (B, N, S, H)
        scores: Tensor = self.score(inner).squeeze(-1)
        return scores


class Decoder(nn.Module):
    """One form for teacher forcing, prefill, a single step and truncated back-propagation."""

    def __init__(self, config: Config, dim: int, embedding: Embedding, *, memory: bool) -> None:
        super().__init__()
        if not memory:
            config.check_alone()
        hidden = config.hidden or dim
        attention = config.attention if memory else "none"
        self.embedding, self.config, self.dim = embedding, config, dim
        self.fixed = memory and attention == "none"
        self.before = attention != "none" and config.order == "before"
        extra = dim if self.fixed or self.before or config.input_feeding else 0
        sizes = [dim + extra, *[hidden] * (config.layers - 1)]
        layers = nn.ModuleList(recurrent(config.cell, size, hidden) for size in sizes)
        self.layers = cast(list[Recurrent], layers)
        self.dropout = Dropout(config.dropout)
        if memory:
            states = sum(len(layer.start(0)) for layer in self.layers)
            self.bridge = glorot(Linear(dim, states * hidden))
        if attention == "none":
            self.attention = None
            self.output = nn.Identity() if hidden == dim else glorot(Linear(hidden, dim))
        else:
            self.attention = Attention(dim, hidden, additive=attention == "additive")
            self.output = glorot(Linear(dim + hidden, dim))

    def start(self, memory: Sequence | None, rows: int) -> State:
        """The state that has read nothing, for `rows` sentences."""
        zero = tuple(layer.start(rows) for layer in self.layers)
        if memory is None:
            return State(zero, None, None, rows)
        c = summarise(memory, self.config.summary)
        first = iter(torch.tanh(self.bridge(c)).chunk(sum(map(len, zero)), -1))
        layers = tuple(tuple(next(first) for _ in layer) for layer in zero)
        fed = c.new_zeros(rows, self.dim) if self.config.input_feeding else None
        if self.attention is None:
            return State(layers, fed, Memory(c), rows)
        mask = None if bool(memory.mask.all()) else memory.mask[:, None]
        keys = self.attention.key(memory.states)
        return State(layers, fed, Memory(c, keys, memory.states, mask), rows)

    def forward(
        self, tokens: Int[Tensor, "R T"], state: State
    ) -> tuple[Float[Tensor, "R T D"], State]:
        x = self.dropout(probe("input", self.embedding(tokens)))
        if state.first is not None:
            return self._read_documents(tokens, x, state, state.first)
        if not (self.before or self.config.input_feeding):
            y, state = self._read(x, state)
            return self.dropout(y), state
        outputs = []
        with stacked():
            for t in range(x.shape[1]):
                y, state = self._step(x[:, t], state, f"step.{t}")
                outputs.append(y)
        return self.dropout(torch.stack(outputs, 1)), state

    def _read(
        self, x: Float[Tensor, "R T D"], state: State
    ) -> tuple[Float[Tensor, "R T D"], State]:
        """All steps at once: none of them needs what became of the one before."""
        memory = state.memory
        if self.fixed and memory is not None:
            c = memory.summary.repeat_interleave(state.rows // state.sentences, 0)
            x = torch.cat([x, c[:, None].expand(*x.shape[:2], -1)], -1)
        h, layers = self._climb(x, state.layers)
        state = replace(state, layers=layers)
        if self.attention is None or memory is None:
            return self.output(h), state
        with scope("cross"):
            context = self.attention(h, memory)
        return torch.tanh(self.output(torch.cat([context, h], -1))), state

    def _read_documents(
        self, tokens: Int[Tensor, "R T"], x: Float[Tensor, "R T D"], state: State, first: int
    ) -> tuple[Float[Tensor, "R T D"], State]:
        """The same for rows of several documents, of a decoder without a memory: each of them
        begins with a state of zero."""
        goes_on = (tokens[:, :1] != first).to(x.dtype)
        layers = tuple(tuple(s * goes_on for s in layer) for layer in state.layers)
        state = replace(state, layers=layers)
        if not bool((tokens[:, 1:] == first).any()):
            y, state = self._read(x, state)
            return self.dropout(y), state
        segments = Segments.of(tokens, first)
        h, layers = self._climb(segments.cut(x), layers, segments=segments)
        y = self.output(segments.join(h, len(x)))
        return self.dropout(y), replace(state, layers=layers)

    def _step(
        self, x: Float[Tensor, "R D"], state: State, name: str
    ) -> tuple[Float[Tensor, "R D"], State]:
        """One step that reads what was looked at in it, or what became of the one before."""

        def look(h: Tensor) -> Tensor:
            assert self.attention is not None and state.memory is not None
            with scope("cross"), scope(name):
                context: Tensor = self.attention(h[:, None], state.memory)
            return context[:, 0]

        if self.before:
            context = look(state.layers[-1][0])
            h, layers = self._climb(torch.cat([x, context], -1), state.layers, name)
        else:
            assert state.fed is not None
            h, layers = self._climb(torch.cat([x, state.fed], -1), state.layers, name)
            context = look(h)
        y = torch.tanh(self.output(torch.cat([context, h], -1)))
        return y, replace(state, layers=layers, fed=None if self.before else y)

    def _climb(
        self,
        x: Float[Tensor, "R *T I"],
        states: tuple[Hidden, ...],
        name: str | None = None,
        segments: Segments | None = None,
    ) -> tuple[Float[Tensor, "R *T H"], tuple[Hidden, ...]]:
        """Through all layers with all steps at once, or with the one step that is called `name`;
        x may be segments of rows."""
        after = []
        for number, (layer, state) in enumerate(zip(self.layers, states, strict=True)):
            inner = self.dropout(x) if number else x
            with scope(f"layer.{number}"), scope(name) if name else nullcontext():
                if name:
                    state = layer.step(layer.project(inner), state)
                    y = state[0]
                elif segments is not None:
                    y, state = segments.read(layer, inner, state)
                else:
                    y, state = layer(inner, state)
                x = probe("output", x + y if self.config.residual and number else y)
            after.append(state)
        return x, tuple(after)

    def carry(self, state: State) -> dict[str, Tensor]:
        """The layers' states, and what is fed."""
        carried = {
            f"layer.{number}.{name}": value.detach()
            for number, layer in enumerate(state.layers)
            for name, value in zip(NAMES, layer, strict=False)
        }
        return carried if state.fed is None else carried | {"fed": state.fed.detach()}

    def resume(self, state: State, carry: Mapping[str, Tensor]) -> State:
        layers = tuple(
            tuple(carry[f"layer.{number}.{name}"] for name in NAMES[: len(layer)])
            for number, layer in enumerate(state.layers)
        )
        return replace(state, layers=layers, fed=carry.get("fed"))


def summarise(memory: Sequence, how: Summary) -> Float[Tensor, "B D"]:
    """The memory as one vector; only its real positions count."""
    states, mask = memory
    lengths = mask.sum(1)
    if how == "mean":
        return (states * mask[..., None]).sum(1) / lengths[:, None]
    if how == "max":
        return states.masked_fill(~mask[..., None], -torch.inf).amax(1)
    last = states[torch.arange(states.shape[0], device=states.device), lengths - 1]
    return last if how == "last" else (states[:, 0] + last) / 2
