"""Dropout whose mask comes from random bytes (Srivastava et al. 2014, §4, with inverted scaling).

    y = s · (m ⊙ x)        mᵢ = [bᵢ < t]        t = round(256 (1 − p))        s = 256 / t

for x ∈ ℝⁿ and independent bytes bᵢ, uniform on {0 … 255}. A value is kept with the probability
t/256 that the bytes can express, and s belongs to that probability, so E[y] = x exactly. One 64-bit
word of the generator serves eight values, where `torch.nn.functional.dropout` draws a number for
each: on a CPU that draw costs more than many a layer. p below 1/512 rounds to no dropout at all.

Other devices than the CPU have fast generators and use `torch.nn.functional.dropout`.
"""

from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from regard.layers.draws import generator


class Dropout(nn.Module):
    """Dropout with probability `p` in training, the identity otherwise."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"p is the probability of dropping a value, 0 ≤ p < 1, not {p}")
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


def dropout(x: Float[Tensor, "*shape"], p: float, training: bool) -> Float[Tensor, "*shape"]:
    """s · (m ⊙ x), or x itself where nothing is dropped."""
    if not training or (t := threshold(p)) == 256:
        return x
    if not x.is_cpu:
        return F.dropout(x, p)
    y: Tensor = _Dropout.apply(x, None, t)  # type: ignore[no-untyped-call]
    return y


def dropout_add(
    x: Float[Tensor, "*shape"], residual: Float[Tensor, "*shape"], p: float, training: bool
) -> Float[Tensor, "*shape"]:
    """residual + dropout(x), in one pass over the memory."""
    if not training or (t := threshold(p)) == 256:
        return residual + x
    if not x.is_cpu:
        return residual + F.dropout(x, p)
    y: Tensor = _Dropout.apply(x, residual, t)  # type: ignore[no-untyped-call]
    return y


def threshold(p: float) -> int:
    """t, the number of byte values that keep: at least one, so that the scale is finite."""
    return min(max(round(256 * (1 - p)), 1), 256)


def bytes_below(t: int, shape: torch.Size) -> UInt8[Tensor, "*shape"]:
    """m ∈ {0, 1}: 1 with probability t/256, for t < 256."""
    count = shape.numel()
    words = torch.empty((count + 7) // 8, dtype=torch.int64)
    # All 64 bits; without bounds the sign bit is always 0.
    words.random_(-(2**63), None, generator=generator(words.device))
    return words.view(torch.uint8)[:count].view(shape).lt_(t)


class _Dropout(torch.autograd.Function):
    """Keeps the mask as bytes: a product with uint8 is as fast as with float, with bool slow."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, residual: Tensor | None, t: int) -> Tensor:
        mask = bytes_below(t, x.shape)
        ctx.save_for_backward(mask)
        ctx.scale = 256 / t
        if residual is None:
            return (x * mask).mul_(ctx.scale)
        return torch.addcmul(residual, x, mask, value=ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (mask,) = ctx.saved_tensors
        by_x, by_residual, _ = ctx.needs_input_grad
        dx = (grad * mask).mul_(ctx.scale) if by_x else None
        return dx, grad if by_residual else None, None
