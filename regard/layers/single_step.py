"""One token of each row through the blocks of a Transformer's decoder, in few calls.

A step of a search is some hundred operations of a few microseconds, and most of that is not
arithmetic: it is the way through modules, and views of views. So what a block computes with is
looked up once for all steps of a search. The equations are those of `decoders.transformer.Block`,
which learns, reads whole texts and can be watched:

    x ← x + attention(norm(x)),   x ← x + cross(norm(x)),   x ← x + feedforward(norm(x))

or, post-norm, the norm of each sum instead; in parallel, the feed-forward network reads what
attention does.

A single sentence's memory (keys and values k, v ∈ ℝˢˣᴷ of each head) does not change, nor do the
projections around it; so they are multiplied once, and a step has two small products left:

    cross(y) = Σ_heads softmax(y Q + c) U + b     Q = W_q kᵀ / √K,   c = b_q kᵀ / √K,   U = v W_o
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers import int8, short_attention
from regard.layers.cache import Cache, Past
from regard.layers.feedforward import ACTIVATIONS, FeedForward
from regard.layers.linear import LARGE, Linear, prepared_product

Map = Callable[[Tensor], Tensor]
"""(R, I) → (R, O)."""


class Attention(NamedTuple):
    """What stands around the heads of one attention."""

    norm: Map
    project: Map
    """To queries, in self-attention to keys and values, too."""
    output: Map


class Block(NamedTuple):
    """What one block computes with."""

    pre: bool
    parallel: bool
    heads: int
    groups: int
    """Heads of keys and values."""
    dim: int
    """Of a head."""
    attention: Attention
    cross: Attention | None
    memory: tuple[Map, Map] | None
    """Cross-attention with the memory in it: y ↦ y Q + c and A ↦ A U + b."""
    norm: Map
    feedforward: Map

    def apart(self) -> "Block":
        """The same for another memory."""
        return self._replace(memory=None)

    def step(
        self,
        x: Float[Tensor, "R D"],
        past: Past,
        number: int,
        bias: Float[Tensor, "B G W N"] | None,
        turn: Map | None,
        memory: Cache | None,
        mask: Tensor | None,
    ) -> Float[Tensor, "R D"]:
        """`past` has places for x in its layer `number`; `bias` is what x does not see of it,
        `turn` what positions do to queries and keys, `mask` what x may see of the memory, or a
        bias, too."""
        norm, project, output = self.attention
        before, packed = x, project(norm(x) if self.pre else x)
        if turn is not None:
            parts = packed.view(len(x), -1, 1, self.dim)  # (R, H + 2 G, 1, K)
            turned = turn(parts[:, : -self.groups])  # queries and keys
            packed = torch.cat((turned, parts[:, -self.groups :]), 1)
        parts = packed.view(past.sentences, -1, self.heads + 2 * self.groups, self.dim)
        parts = parts.transpose(1, 2)  # (B, H + 2 G, N, K)
        both = parts[:, self.heads :].view(past.sentences, 2, self.groups, -1, self.dim)
        cache = past.write(number, both.transpose(0, 1))
        x = x + output(_heads(parts[:, : self.heads], cache, bias))
        x = x if self.pre else norm(x)
        if self.cross is not None and memory is not None:
            norm, project, output = self.cross
            inside = norm(x) if self.pre else x
            if self.memory is not None:
                scores, values = self.memory
                weights = scores(inside).view(len(x), self.heads, -1).softmax(-1)
                x = x + values(weights.view(len(x), -1))
            else:
                query = project(inside)
                query = query.view(past.sentences, -1, self.heads, self.dim)
                x = x + output(_heads(query.transpose(1, 2), memory, mask))
            x = x if self.pre else norm(x)
        if self.pre:
            return x + self.feedforward(self.norm(before if self.parallel else x))
        return self.norm(x + self.feedforward(x))


def bind(block: Any, memory: Cache | None, mask: Tensor | None) -> Block:
    """What a block of `decoders.transformer` computes with, and its memory if there is one."""

    def attention(name: str, projection: str) -> Attention:
        inner, around = getattr(block, name), getattr(block, f"around_{name}")
        return Attention(
            _norm(around.norm), _linear(getattr(inner, projection)), _linear(inner.output)
        )

    around = block.around_feedforward
    return Block(
        around.pre,
        block.parallel,
        block.attention.heads,
        block.attention.groups,
        block.attention.sizes[0] // block.attention.heads,
        attention("attention", "query_key_value"),
        None if memory is None else attention("cross", "query"),
        None if memory is None or mask is not None else _with_memory(block.cross, *memory),
        _norm(around.norm),
        _feedforward(block.feedforward),
    )


def _with_memory(
    cross: Any, key: Float[Tensor, "B H S K"], value: Float[Tensor, "B H S K"]
) -> tuple[Map, Map] | None:
    """The products with the memory of one sentence that is not long."""
    sentences, heads, length, dim = key.shape
    if sentences > 1 or length > 2 * dim:
        return None
    scaled, bias = key[0] / math.sqrt(dim), cross.query.bias
    scores = torch.bmm(scaled, cross.query.effective.view(heads, dim, -1)).flatten(0, 1)  # (H S, D)
    values = torch.bmm(value[0], cross.output.effective.t().view(heads, dim, -1)).flatten(0, 1)
    if bias is not None:
        bias = torch.bmm(scaled, bias.view(heads, dim, 1)).flatten()
    return _product(scores.t(), bias), _product(values, cross.output.bias)


def _linear(layer: Linear) -> Map:
    """A large weight is prepared for the few rows of a step, unless it is made of others."""
    if (packed := layer.packed) is not None:
        return lambda x: int8.product(x, packed)
    weight, bias = layer.effective, layer.bias
    if weight.numel() < LARGE or weight is not layer.weight:
        return _product(weight.t(), bias)
    return lambda x: prepared_product(x, weight, bias)


def _product(table: Float[Tensor, "I O"], bias: Float[Tensor, "O"] | None) -> Map:
    if bias is None:
        return lambda x: torch.mm(x, table)
    return lambda x: torch.addmm(bias, x, table)


def _norm(layer: nn.Module) -> Map:
    if not isinstance(layer, nn.LayerNorm):
        return layer
    return partial(
        torch.layer_norm,
        normalized_shape=layer.normalized_shape,
        weight=layer.weight,
        bias=layer.bias,
        eps=layer.eps,
    )


def _feedforward(layer: FeedForward) -> Map:
    up, down = _linear(layer.up), _linear(layer.down)
    if layer.gate is not None:
        gate = _linear(layer.gate)
        return lambda x: down(F.silu(up(x)) * gate(x))
    activation = ACTIVATIONS[layer.activation]
    return lambda x: down(activation(up(x)))


def _heads(
    query: Float[Tensor, "B Q W K"], cache: Cache, mask: Tensor | None
) -> Float[Tensor, "R D"]:
    """What all Q heads of the queries see, side by side."""
    (key, value), (size, heads, width, dim) = cache, query.shape
    if (groups := key.shape[1]) < heads:
        # The queries of a group ask as one long query: no key is copied.
        times = heads // groups
        mask = mask if mask is None or width == 1 else mask.repeat(1, 1, times, 1)
        query = query.reshape(size, groups, times * width, dim)
    if groups < heads or not short_attention.suits(query, key.shape[2]):
        seen = F.scaled_dot_product_attention(query, key, value, mask)  # (B, G, H/G · W, K)
        return seen.view(size, heads, width, dim).transpose(1, 2).reshape(-1, heads * dim)
    bias = short_attention.hide(mask) if mask is not None and mask.dtype == torch.bool else mask
    return short_attention.few_queries(query, key, value, bias).view(-1, heads * dim)
