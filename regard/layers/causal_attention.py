"""Attention of a whole text in which no place sees what is later, in training on a processor.

PyTorch's kernel works on blocks of hundreds of keys, so that up to that length it computes the half
that nobody sees, too. Here the queries are cut into c chunks, each of which asks the keys up to its
own end alone: (c + 1) / 2c of the work is left.

    Z_i = softmax(Q_i K_{≤i}ᵀ / √K + bias) V_{≤i}      i = 1 … c

Gradients of keys and values are sums over the chunks that ask them.

In float32 a chunk is what PyTorch's kernel is asked. In bfloat16, which that kernel is slow with, a
chunk is a few batches of products (twice as fast), whose results are rounded; exponentials and sums
are in float32. A = softmax(S) is kept, so that nothing is computed again:

    ∂V = Aᵀ ∂Z    ∂A = ∂Z Vᵀ    ∂S = A ⊙ (∂A − Σ_s A ⊙ ∂A)    ∂Q = ∂S K / √K    ∂K = ∂Sᵀ Q / √K
"""

import math
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

SHORTEST, LONGEST = 224, 768
"""Lengths between which it is faster: beyond, the general kernel leaves out what nobody sees."""
CHUNKS = 4
"""In float32."""
CHUNK = 128
"""Queries of a chunk in bfloat16, about."""


def suits(query: Float[Tensor, "B H T K"]) -> bool:
    """Whether this is the faster way."""
    if not query.requires_grad or not reaches(query, query.shape[2]):
        return False
    kernel = hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward")
    return query.dtype == torch.bfloat16 or (query.dtype == torch.float32 and kernel)


def reaches(states: Tensor, length: int) -> bool:
    """Whether texts of this length are learnt from in chunks."""
    return states.is_cpu and torch.is_grad_enabled() and SHORTEST <= length <= LONGEST


def causal_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H T K"],
    value: Float[Tensor, "B H T K"],
    bias: Float[Tensor, "#B #H T T"] | None,
) -> Float[Tensor, "B H T K"]:
    """Z; a bias hides what is later, too."""
    kind: Any = _NarrowCausal if query.dtype == torch.bfloat16 else _Causal
    result: Tensor = kind.apply(query, key, value, bias)
    return result


def _borders(length: int, chunks: int) -> list[tuple[int, int]]:
    return list(pairwise(length * n // chunks for n in range(chunks + 1)))


def _biases(length: int, bias: Tensor | None, like: Tensor) -> Float[Tensor, "#B #H T T"]:
    if bias is not None:
        return bias
    return torch.full((length, length), -torch.inf, dtype=like.dtype).triu_(1)[None, None]


class _Causal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
        attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        hidden, found, sums = _biases(query.shape[2], bias, query), [], []
        for first, end in _borders(query.shape[2], CHUNKS):
            mask = hidden[:, :, first:end, :end]
            asked = query[:, :, first:end]
            z, total = attend(asked, key[:, :, :end], value[:, :, :end], attn_mask=mask)
            found.append(z)
            sums.append(total)
        ctx.save_for_backward(query, key, value, hidden, *found, *sums)
        return torch.cat(found, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        undo = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        query, key, value, hidden, *rest = ctx.saved_tensors
        found, sums = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        asked, by_key, by_value = [], torch.zeros_like(key), torch.zeros_like(value)
        borders = _borders(query.shape[2], CHUNKS)
        for (first, end), z, total in zip(borders, found, sums, strict=True):
            by_query, k, v = undo(
                grad[:, :, first:end], query[:, :, first:end], key[:, :, :end], value[:, :, :end],
                z, total, 0.0, False, attn_mask=hidden[:, :, first:end, :end],
            )  # fmt: skip
            asked.append(by_query)
            by_key[:, :, :end] += k
            by_value[:, :, :end] += v
        return torch.cat(asked, 2), by_key, by_value, None


class _NarrowCausal(torch.autograd.Function):
    """The same in bfloat16. What is multiplied has heads and rows in one batch, and no gaps: from
    anything else the kernel would make a copy of its own."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
        length, scale = query.shape[2], 1 / math.sqrt(query.shape[3])
        borders = _borders(length, max(1, round(length / CHUNK)))
        queries = [_dense(query[:, :, first:end]) * scale for first, end in borders]
        found = torch.empty_like(query.transpose(1, 2), memory_format=torch.contiguous_format)
        weights = []
        for (first, end), q in zip(borders, queries, strict=True):
            k, v = _dense(key[:, :, :end]), _dense(value[:, :, :end])
            scores = torch.bmm(q, k.transpose(1, 2))  # (B H, chunk, end)
            if bias is None:
                scores[:, :, first:] += _biases(end - first, None, scores)[0]
            else:
                scores.view(*query.shape[:2], *scores.shape[1:]).add_(bias[:, :, first:end, :end])
            weights.append(scores.softmax(-1))
            _put(torch.bmm(weights[-1], v), found[:, first:end])
        ctx.save_for_backward(k, v, *queries, *weights)  # the last chunk sees all keys
        ctx.borders = borders
        return found.transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        k, v, *rest = ctx.saved_tensors
        queries, weights = rest[: len(ctx.borders)], rest[len(ctx.borders) :]
        by_query = torch.empty_like(grad.transpose(1, 2), memory_format=torch.contiguous_format)
        by_key, by_value = torch.zeros_like(k), torch.zeros_like(v)
        for (first, end), q, a in zip(ctx.borders, queries, weights, strict=True):
            z = _dense(grad[:, :, first:end])
            by_weights = torch.bmm(z, v[:, :end].transpose(1, 2))
            scores = torch._softmax_backward_data(by_weights, a, -1, a.dtype)
            _put(torch.bmm(scores, k[:, :end]), by_query[:, first:end])
            by_key[:, :end] += torch.bmm(scores.transpose(1, 2), q)
            by_value[:, :end] += torch.bmm(a.transpose(1, 2), z)
        by_query *= 1 / math.sqrt(k.shape[2])
        return by_query.transpose(1, 2), by_key.view(grad.shape), by_value.view(grad.shape), None


def _dense(part: Float[Tensor, "B H C K"]) -> Float[Tensor, "BH C K"]:
    return part.reshape(-1, *part.shape[2:])


def _put(part: Float[Tensor, "BH C K"], into: Float[Tensor, "B C H K"]) -> None:
    into.copy_(part.view(len(into), -1, *part.shape[1:]).transpose(1, 2))
