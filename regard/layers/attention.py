"""Attention (Vaswani et al. 2017, section 3.2)."""

import math

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers import causal_attention, short_attention
from regard.layers.cache import Cache, Past
from regard.layers.linear import Linear
from regard.layers.position import Rotary
from regard.layers.probe import probe, watched

Mask = Bool[Tensor, "*#B #T S"]
Hides = Shaped[Tensor, "#B #H #T S"]
"""A mask, or what one adds to the scores: 0 where a query may look, −10³⁰ elsewhere."""


def attention_weights(
    query: Float[Tensor, "*B T K"], key: Float[Tensor, "*B S K"], mask: Mask | None = None
) -> Float[Tensor, "*B T S"]:
    """How much each query looks at each key:  A = softmax(Q Kᵀ / √K)  over the keys.

    Where the mask is False the weight is exactly zero. A query that may look at nothing gets
    zeros everywhere, not NaN.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (*B, T, S)
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -torch.inf).softmax(-1).masked_fill(~mask, 0.0)


def attention(
    query: Float[Tensor, "*B T K"],
    key: Float[Tensor, "*B S K"],
    value: Float[Tensor, "*B S E"],
    mask: Mask | None = None,
) -> tuple[Float[Tensor, "*B T E"], Float[Tensor, "*B T S"]]:
    """The equation as it stands in the paper:  Z = A V,  and the weights A themselves."""
    weights = attention_weights(query, key, mask)
    return weights @ value, weights


class MultiHeadAttention(nn.Module):
    """H attentions side by side, each with its own projections of dimension K = D / H.

        head_i = attention(x W_i^Q, y W_i^K, y W_i^V),   z = [head_1; …; head_H] W^O

    x asks, y answers: y = x in self-attention, y = the encoder's output in cross-attention.
    Self-attention projects queries, keys and values in one product, cross-attention keys and
    values in one, as the memory is projected only once.

    Grouped queries (Ainslie et al. 2023): there are only G < H heads of keys and values, and head
    i of the queries looks at that of its group, ⌊i G / H⌋.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        bias: bool = True,
        cross: bool = False,
        projected_bias: bool | None = None,
        key_value_heads: int = 0,
    ) -> None:
        """`projected_bias`: whether queries, keys and values of self-attention have a bias; by
        default as all projections."""
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim {dim} is not a multiple of heads {heads}")
        if key_value_heads and heads % key_value_heads:
            raise ValueError(f"heads {heads} is not a multiple of groups {key_value_heads}")
        self.heads = heads
        self.groups = key_value_heads or heads
        """G."""
        self.cross = cross
        shared = dim // heads * self.groups
        self.sizes = [dim, shared, shared]
        """Of queries, keys and values."""
        if cross:
            self.query = Linear(dim, dim, bias=bias)
            self.key_value = Linear(dim, 2 * dim, bias=bias)
        else:
            projected_bias = bias if projected_bias is None else projected_bias
            self.query_key_value = Linear(dim, sum(self.sizes), bias=projected_bias)
        self.output = Linear(dim, dim, bias=bias)
        self.reset()

    def reset(self) -> None:
        """Glorot uniform for each projection by itself, biases zero."""
        fused = self.key_value if self.cross else self.query_key_value
        for block in torch.split(fused.weight, self.sizes[1:] if self.cross else self.sizes):
            nn.init.xavier_uniform_(block)
        nn.init.xavier_uniform_(self.output.weight)
        if self.cross:
            nn.init.xavier_uniform_(self.query.weight)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Shaped[Tensor, "#B #1 #T T"] | None,
        *,
        rotary: Rotary | None = None,
        causal: bool = False,
    ) -> tuple[Float[Tensor, "B T D"], Cache]:
        """Self-attention of whole texts, and their keys and values. The mask may be what one adds
        to the scores; `causal`: it is the triangle, or hides that, too."""
        short = rotary is None and self.groups == self.heads and _short(x, x.shape[1])
        chunks = causal and not watched() and causal_attention.reaches(x, x.shape[1])
        packed = (self.query_key_value.narrow if short or chunks else self.query_key_value)(x)
        query, key, value = self._apart(packed)
        if rotary is not None:
            wide = torch.promote_types(packed.dtype, torch.float32)
            query, key = (rotary(each.to(wide)).to(each.dtype) for each in (query, key))
        if short:
            if causal and mask is None:
                mask = causal_mask(x.shape[1], x.shape[1], x.device)
            heads = short_attention.self_attention(packed, self.heads, _bias(mask))
        else:
            heads = self._attend(query, key, value, mask, causal)
        return self.output(heads), (key, value)

    def extend(
        self,
        x: Float[Tensor, "R T D"],
        past: Past,
        layer: int,
        bias: Float[Tensor, "#B #H #N S"] | None,
        *,
        start: int | Int[Tensor, "R"] = 0,
        rotary: Rotary | None = None,
    ) -> tuple[Float[Tensor, "R T D"], Cache]:
        """Self-attention of texts that go on: x, whose first position is `start`, of all rows or of
        each, has the last places of `past`. All rows of a sentence look at its one tree."""
        packed = self.query_key_value(x)
        if rotary is not None:
            query, key, value = self._apart(packed)
            turned = (rotary(query, start), rotary(key, start), value)
            packed = torch.cat([each.transpose(1, 2).flatten(2) for each in turned], -1)
        packed = packed.view(past.sentences, -1, packed.shape[-1])  # (B, R/B·T, D + 2 G K)
        query, both = packed.split((self.sizes[0], 2 * self.sizes[1]), -1)
        parts = both.unflatten(-1, (2, self.groups, -1))
        cache = past.write(layer, parts.permute(2, 0, 3, 1, 4))  # (2, B, G, R/B·T, K)
        heads = self.ask(query, cache, bias)
        output: Tensor = self.output(heads.reshape(x.shape))
        return output, cache

    def project(self, memory: Float[Tensor, "B S D"]) -> Cache:
        """Keys and values of the memory, made once for all the steps that look at it."""
        # Head by head, as every step reads them.
        parts = self.key_value(memory).chunk(2, -1)
        key, value = (_split(p, self.heads).contiguous() for p in parts)
        return key, value

    def look(
        self, x: Float[Tensor, "R T D"], memory: Cache, mask: Hides | None
    ) -> Float[Tensor, "R T D"]:
        """Cross-attention. The R/B rows of one sentence ask as one long query: no key is copied."""
        query = self.query(x).view(memory[0].shape[0], -1, x.shape[-1])  # (B, R/B·T, D)
        heads = self.ask(query, memory, mask)
        output: Tensor = self.output(heads.reshape(x.shape))
        return output

    def ask(
        self, query: Float[Tensor, "B T D"], cache: Cache, mask: Hides | None
    ) -> Float[Tensor, "B T D"]:
        """Z of queries that are projected already."""
        if cache[0].shape[1] == self.heads and _short(query, cache[0].shape[2]):
            return short_attention.cross_attention(query, *cache, _bias(mask))
        return self._attend(_split(query, self.heads), *cache, mask, False)

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool
    ) -> Float[Tensor, "B T D"]:
        if key.shape[1] < self.heads:
            mask = None if mask is None else mask[:, :1]  # the same for all heads
            if not causal and not watched():
                return self._attend_in_groups(query, key, value, mask)
            times = self.heads // self.groups
            key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        if watched():
            if causal and mask is None:
                mask = causal_mask(query.shape[2], key.shape[2], query.device)
            if mask is not None and mask.dtype != torch.bool:
                mask = mask == 0
            weights = probe("weights", attention_weights(query, key, mask))
            heads = probe("heads", weights @ value)  # (B, H, T, K)
        elif causal and causal_attention.suits(query):
            heads = causal_attention.causal_attention(query, key, value, mask)
        else:
            alone = causal and mask is None
            heads = F.scaled_dot_product_attention(query, key, value, mask, is_causal=alone)
        return heads.transpose(1, 2).flatten(2)

    def _attend_in_groups(
        self,
        query: Float[Tensor, "B H T K"],
        key: Float[Tensor, "B G S K"],
        value: Float[Tensor, "B G S K"],
        mask: Hides | None,
    ) -> Float[Tensor, "B T D"]:
        """The queries of a group ask as one long query: no key is copied."""
        size, _, length, dim = query.shape
        times = self.heads // self.groups
        if mask is not None and mask.shape[2] > 1:
            mask = mask.repeat(1, 1, times, 1)  # (B, 1, H/G · T, S)
        long = query.reshape(size, self.groups, times * length, dim)
        heads = F.scaled_dot_product_attention(long, key, value, mask)
        return heads.reshape(size, self.heads, length, dim).transpose(1, 2).flatten(2)

    def _apart(self, packed: Float[Tensor, "B T Q"]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, K), keys and values (B, G, T, K)."""
        query, key, value = torch.split(packed, self.sizes, -1)
        return _split(query, self.heads), _split(key, self.groups), _split(value, self.groups)


def causal_mask(
    length: int, total: int, device: torch.device
) -> Bool[Tensor, "1 1 {length} {total}"]:
    """Position t of the last `length` out of `total` sees what is not after it."""
    mask = torch.ones(length, total, dtype=torch.bool, device=device).tril(total - length)
    return mask[None, None]


def attend_to(mask: Bool[Tensor, "B S"]) -> Bool[Tensor, "B 1 1 S"] | None:
    """The mask as attention wants it; None, which is faster, where there is no padding."""
    return None if bool(mask.all()) else mask[:, None, None]


def _short(states: Tensor, keys: int) -> bool:
    """Whether the kernel for short sequences is the one to take; it has no weights to show."""
    traced = watched() or torch.onnx.is_in_onnx_export()
    return not traced and short_attention.suits(states, keys)


def _bias(mask: Tensor | None) -> Tensor | None:
    return short_attention.hide(mask) if mask is not None and mask.dtype == torch.bool else mask


def _split(x: Float[Tensor, "B T D"], heads: int) -> Float[Tensor, "B H T K"]:
    return x.view(*x.shape[:-1], heads, -1).transpose(1, 2)
