"""Cross-entropy of two readings of the same text, and how far they are apart.

Dropout makes two readings of an example two different models. With p and q for what the first and
the second expect at a place, R-Drop (Liang et al. 2021) trains

    L = ½ (CE(p) + CE(q)) + w · J      J = ½ (KL(p ‖ q) + KL(q ‖ p)) = ½ Σᵥ (pᵥ − qᵥ) log(pᵥ / qᵥ)

where CE is the label-smoothed cross-entropy of `layers.cross_entropy`; the paper's α is 2 w. With
dᵥ = log(pᵥ / qᵥ) and k = Σᵥ pᵥ dᵥ = KL(p ‖ q), the gradient by the first reading's logits ℓ is

    2 ∂L/∂ℓᵥ = ∂CE/∂ℓᵥ + w (pᵥ (dᵥ − k + 1) − qᵥ)

and the second's is the same with p and q exchanged. Blocks are taken as in `cross_entropy`: here,
too, the logits never stand in memory all at once, and a block holds Z p and not p.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.layers.cross_entropy import LOG2E, Gradients, block_rows, exponentials, operands

Sums = tuple[Float[Tensor, ""], Float[Tensor, ""], Float[Tensor, ""]]


def reference(
    hidden: Float[Tensor, "M D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " M"],
    smoothing: float,
    consistency: float,
) -> Sums:
    """The equations as they stand: sums over N of L, of −log p(y) (mean of both) and of J."""
    logs = torch.log_softmax(torch.nn.functional.linear(hidden, weight, bias), dim=1)
    nll = -logs.gather(1, targets[:, None])[:, 0]
    loss = (1 - smoothing) * nll - smoothing * logs.mean(1)
    first, second = logs.chunk(2)
    gap = ((first.exp() - second.exp()) * (first - second)).sum() / 2
    return loss.sum() / 2 + consistency * gap, nll.sum() / 2, gap


def twin_cross_entropy(
    hidden: Float[Tensor, "M D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " M"],
    smoothing: float,
    consistency: float,
    *,
    precision: torch.dtype = torch.float32,
    chunk: int | None = None,
) -> Sums:
    """`reference`, fast; only the first of the three has a gradient.

    Of M = 2 N rows, row n belongs to the first reading; row N + n is the same place in the second.
    The options are those of `cross_entropy`; a block holds `chunk` rows of either reading.
    """
    chunk = chunk or block_rows(2 * len(weight), weight.shape[1], hidden.device)
    with torch.autocast(hidden.device.type, enabled=False):
        loss, nll, gap = _TwinCrossEntropy.apply(  # type: ignore[no-untyped-call]
            hidden, weight, bias, targets, smoothing, consistency, precision, chunk
        )
    return loss, nll, gap


class _TwinCrossEntropy(torch.autograd.Function):
    """The gradients are made in the forward pass; the backward pass has only to scale them."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "M D"],
        weight: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"] | None,
        targets: Int[Tensor, " M"],
        smoothing: float,
        consistency: float,
        precision: torch.dtype,
        chunk: int,
    ) -> Sums:
        x = operands(hidden, weight, bias, targets, precision)
        grads = Gradients(x, list(ctx.needs_input_grad[:3]))
        half = len(targets) // 2
        nll, gap = torch.empty_like(x.own), x.own.new_zeros(())
        blocks = nll.new_empty(5, min(chunk, half), len(weight))
        index = torch.arange(blocks.shape[1], device=nll.device)
        for start in range(0, half, chunk):
            end = min(start + chunk, half)
            sides = slice(start, end), slice(half + start, half + end)
            here = index[: end - start], targets[start:end]
            p, q, far, *slopes = blocks[:, : end - start]  # (C, V) each
            for e, rows in zip((p, q), sides, strict=True):
                e.copy_(x.query[rows] @ x.table.t())
            torch.sub(p, q, out=far)
            far[here] = x.lead[sides[0]] - x.lead[sides[1]]
            totals = []
            for e, rows in zip((p, q), sides, strict=True):
                _, total, nll[rows] = exponentials(e, here, x, rows)
                totals.append(total)
            first, second = (x.lead[rows] + LOG2E * nll[rows] for rows in sides)  # log₂ Z
            gap += _apart((p, q), far, second - first, totals, consistency, slopes)
            if grads.wanted:
                for slope, rows, total in zip(slopes, sides, totals, strict=True):
                    slope[here] -= (1 - smoothing) * total
                    grads.add(rows, slope.to(x.table.dtype), slope, total)

        ctx.grads = grads.smoothed(smoothing)
        plain = nll.sum() / 2
        ctx.mark_non_differentiable(plain, gap)
        return plain + smoothing * x.surplus() / 2 + consistency * gap, plain, gap

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, ""], *_: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if each is None else each * (grad / 2) for each in ctx.grads), *[None] * 5


def _apart(
    pair: tuple[Float[Tensor, "C V"], Float[Tensor, "C V"]],
    far: Float[Tensor, "C V"],
    shift: Float[Tensor, " C"],
    totals: list[Float[Tensor, " C"]],
    weight: float,
    slopes: list[Float[Tensor, "C V"]],
) -> Float[Tensor, ""]:
    """Σ J of a block, for Z p and Z q, Z being `totals`; writes Z (p + w (p (d − k + 1) − q)) and
    its like for q into `slopes`. In base 2, d is `far` + `shift`; `far` is used up."""
    (p, q), (z, y) = pair, totals
    one = torch.linalg.vecdot(p, far) / z + shift  # KL(p ‖ q), in bits
    two = -torch.linalg.vecdot(q, far) / y - shift
    nats = weight / LOG2E
    far *= nats
    factor = 1 + weight + nats * (shift - one)
    torch.add(far, factor[:, None], out=slopes[0]).mul_(p)
    slopes[0].addcmul_(q, (weight * z / y)[:, None], value=-1)
    factor = 1 + weight - nats * (shift + two)
    torch.sub(factor[:, None], far, out=slopes[1]).mul_(q)
    slopes[1].addcmul_(p, (weight * y / z)[:, None], value=-1)
    total: Tensor = (one + two).sum() / (2 * LOG2E)
    return total
