"""Attention over short sequences on a processor.

The general kernel is made for long sequences: on a batch of sentences of a dozen words it spends
its time on overhead. Here the weights of all sentences and heads are one batch of small matrix
products, and the softmax a few passes over them. The equations are those of `attention`:

    A = softmax(Q Kᵀ / √K + bias)      Z = A V

    ∂V = Aᵀ ∂Z    ∂A = ∂Z Vᵀ    ∂S = A ⊙ (∂A − Σ_s A ⊙ ∂A)    ∂Q = ∂S K / √K    ∂K = ∂Sᵀ Q / √K

Queries, keys and values come side by side, as one projection makes them, so each is moved once
on its way in, and its gradient once on its way out. exp is 2 to the power of a score in base 2:
PyTorch's exp2 is the faster one. Where they come in bfloat16, from a layer that learns with it, the
products take it as it is and the softmax is in float32.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

LONGEST = 128
"""Up to this many keys it is faster than the general kernel."""
FEW = 4
"""Up to so many sentences the general kernel's one call is faster, where nothing is learnt."""
NARROW = 16
"""From so many keys on products of bfloat16 are faster than those of float32, casts included."""
HIDDEN = -1e30
"""Added to the score of what may not be seen: its weight is exactly zero beside any that may."""
LOG2E = 1 / math.log(2)


def suits(states: Tensor, keys: int) -> bool:
    """Whether this kernel is the faster one for `states` that look at so many keys."""
    return takes(states, keys) and (len(states) > FEW or torch.is_grad_enabled())


def takes(states: Tensor, keys: int) -> bool:
    """Whether this kernel is the faster one for many sentences."""
    return states.is_cpu and keys <= LONGEST and states.dtype == torch.float32


def self_attention(
    packed: Float[Tensor, "B T Q"], heads: int, bias: Float[Tensor, "#B 1 #T T"] | None
) -> Float[Tensor, "B T D"]:
    """Z of queries, keys and values that stand side by side: Q = 3 D."""
    if not torch.is_grad_enabled():
        q, k, v = _apart(packed, 3, heads)
        z = torch.bmm(_weights(q, k, heads, bias), v)
        return _together(z[None], len(packed), heads, torch.float32)
    result: Tensor = _Attention.apply(packed, None, None, heads, bias)  # type: ignore[no-untyped-call]
    return result


def cross_attention(
    query: Float[Tensor, "B T D"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S K"],
    bias: Float[Tensor, "#B #H #T S"] | None,
) -> Float[Tensor, "B T D"]:
    """Z of queries whose heads stand side by side, and of keys and values head by head."""
    heads = key.shape[1]
    if torch.is_grad_enabled():
        result: Tensor = _Attention.apply(query, key, value, heads, bias)  # type: ignore[no-untyped-call]
        return result
    batch, length, _ = query.shape
    return few_queries(query.view(batch, length, heads, -1).transpose(1, 2), key, value, bias)


def few_queries(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S K"],
    bias: Float[Tensor, "#B #H #T S"] | None,
) -> Float[Tensor, "B T D"]:
    """Z without gradients, heads side by side, in few operations: a step of a search is made of
    short ones."""
    batch, heads, length, dim = query.shape
    keys = key.shape[2]
    q = query.reshape(-1, length, dim)
    k, v = key.reshape(-1, keys, dim), value.reshape(-1, keys, dim)
    scale = 1 / math.sqrt(dim)
    if bias is None:
        scores = torch.baddbmm(q.new_empty(()), q, k.transpose(1, 2), beta=0, alpha=scale)
    else:
        # Nothing is copied where the bias has been made for each head.
        hidden = bias.expand(batch, heads, -1, -1).reshape(batch * heads, -1, keys)
        scores = torch.baddbmm(hidden, q, k.transpose(1, 2), alpha=scale)
    z = torch.bmm(scores.softmax(-1), v).view(query.shape)
    return z.transpose(1, 2).reshape(batch, length, -1)


def hide(mask: Tensor) -> Tensor:
    """The bias of a mask: 0 where a query may look, `HIDDEN` elsewhere."""
    return torch.zeros_like(mask, dtype=torch.float32).masked_fill_(~mask, HIDDEN)


def _apart(
    packed: Float[Tensor, "B T Q"], parts: int, heads: int, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """(B, T, parts · H · K) as `parts` tensors (B · H, T, K)."""
    batch, length, _ = packed.shape
    split = packed.view(batch, length, parts, heads, -1).permute(2, 0, 3, 1, 4)
    apart = split.to(dtype, memory_format=torch.contiguous_format)
    return list(apart.reshape(parts, batch * heads, length, -1).unbind(0))


def _together(
    apart: Float[Tensor, "P BH T K"], batch: int, heads: int, dtype: torch.dtype
) -> Float[Tensor, "B T Q"]:
    """The reverse."""
    parts, _, length, dim = apart.shape
    split = apart.view(parts, batch, heads, length, dim).permute(1, 3, 0, 2, 4)
    together = split.to(dtype, memory_format=torch.contiguous_format)
    return together.reshape(batch, length, parts * heads * dim)


def _weights(
    q: Float[Tensor, "BH T K"], k: Float[Tensor, "BH S K"], heads: int, bias: Tensor | None
) -> Float[Tensor, "BH T S"]:
    """A, in float32."""
    scale = LOG2E / math.sqrt(q.shape[2])
    if q.dtype == torch.float32:
        weights = q.new_empty(len(q), q.shape[1], k.shape[1])
        torch.baddbmm(weights, q, k.transpose(1, 2), beta=0, alpha=scale, out=weights)
    else:
        weights = torch.bmm(q, k.transpose(1, 2)).float().mul_(scale)
    if bias is not None:
        weights.view(-1, heads, *weights.shape[1:]).add_(bias)
    # Where nothing may be seen, all scores are below this floor: the weights, and Z, are zero.
    weights.sub_(weights.amax(-1, keepdim=True).clamp_min_(HIDDEN / 2)).exp2_()
    return weights.div_(weights.sum(-1, keepdim=True).clamp_min_(1.0))


class _Attention(torch.autograd.Function):
    """Self-attention of `x` if there is no key, else of queries `x`."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        heads: int,
        bias: Tensor | None,
    ) -> Float[Tensor, "B T D"]:
        if key is None or value is None:
            narrow = x.dtype == torch.bfloat16 and x.shape[1] >= NARROW
            q, k, v = _apart(x, 3, heads, torch.bfloat16 if narrow else torch.float32)
        else:
            (q,) = _apart(x, 1, heads)
            k, v = (each.reshape(len(q), -1, q.shape[2]) for each in (key, value))
        batch = len(x)
        weights = _weights(q, k, heads, bias).to(q.dtype)
        ctx.save_for_backward(q, k, v, weights)
        ctx.shape, ctx.dtype = (batch, heads), x.dtype
        ctx.alone = key is None
        return _together(torch.bmm(weights, v)[None], batch, heads, q.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "B T D"]) -> tuple[Tensor | None, ...]:
        q, k, v, weights = ctx.saved_tensors
        batch, heads = ctx.shape
        (z,) = _apart(grad, 1, heads, q.dtype)
        scores = torch.bmm(z, v.transpose(1, 2)).float().mul_(weights)
        scores.addcmul_(weights, scores.sum(-1, keepdim=True), value=-1)
        scores = scores.mul_(1 / math.sqrt(q.shape[2])).to(q.dtype)
        asked = q.new_empty(3 if ctx.alone else 1, *q.shape)
        by_key, by_value = (asked[1], asked[2]) if ctx.alone else k.new_empty(2, *k.shape)
        torch.bmm(scores, k, out=asked[0])
        torch.bmm(scores.transpose(1, 2), q, out=by_key)
        torch.bmm(weights.transpose(1, 2), z, out=by_value)
        by_x = _together(asked, batch, heads, ctx.dtype)
        if ctx.alone:
            return by_x, None, None, None, None
        return by_x, by_key.unflatten(0, ctx.shape), by_value.unflatten(0, ctx.shape), None, None
