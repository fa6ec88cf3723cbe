"""Attention of a whole text in which no place sees what is later, in training on a processor.

PyTorch's kernel works on blocks of hundreds of keys, so that up to that length it computes the half
that nobody sees, too. Here the queries are cut into c chunks, each of which asks the keys up to its
own end alone: (c + 1) / 2c of the work is left.

    Z_i = softmax(Q_i K_{≤i}ᵀ / √K + bias) V_{≤i}      i = 1 … c

Gradients of keys and values are sums over the chunks that ask them.
"""

from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

SHORTEST, LONGEST = 224, 768
"""Lengths between which it is faster: beyond, the general kernel leaves out what nobody sees."""
CHUNKS = 4


def suits(query: Tensor) -> bool:
    """Whether this is the faster way."""
    return (
        query.is_cpu
        and torch.is_grad_enabled()
        and query.requires_grad
        and SHORTEST <= query.shape[2] <= LONGEST
        and query.dtype == torch.float32
        and hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward")
    )


def causal_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H T K"],
    value: Float[Tensor, "B H T K"],
    bias: Float[Tensor, "#B #H T T"] | None,
) -> Float[Tensor, "B H T K"]:
    """Z; a bias hides what is later, too."""
    result: Tensor = _Causal.apply(query, key, value, bias)  # type: ignore[no-untyped-call]
    return result


def _borders(length: int) -> list[tuple[int, int]]:
    return list(pairwise(length * n // CHUNKS for n in range(CHUNKS + 1)))


def _biases(length: int, bias: Tensor | None, like: Tensor) -> Float[Tensor, "#B #H T T"]:
    if bias is not None:
        return bias
    return torch.full((length, length), -torch.inf, dtype=like.dtype).triu_(1)[None, None]


class _Causal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
        attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        hidden, found, sums = _biases(query.shape[2], bias, query), [], []
        for first, end in _borders(query.shape[2]):
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
        borders = _borders(query.shape[2])
        for (first, end), z, total in zip(borders, found, sums, strict=True):
            by_query, k, v = undo(
                grad[:, :, first:end], query[:, :, first:end], key[:, :, :end], value[:, :, :end],
                z, total, 0.0, False, attn_mask=hidden[:, :, first:end, :end],
            )  # fmt: skip
            asked.append(by_query)
            by_key[:, :, :end] += k
            by_value[:, :, :end] += v
        return torch.cat(asked, 2), by_key, by_value, None
