"""Label-smoothed cross-entropy from hidden vectors, without ever holding all logits.

For hidden vectors hₙ ∈ ℝᴰ, a table W ∈ ℝⱽˣᴰ, a bias b ∈ ℝⱽ and targets yₙ ∈ {1 … V},

    ℓₙᵥ = wᵥ·hₙ + bᵥ        p(v | n) = exp ℓₙᵥ / Σᵤ exp ℓₙᵤ

    L = Σₙ [ (1 − ε) (−log p(yₙ | n)) + ε · (1/V) Σᵥ (−log p(v | n)) ]

The smoothing ε is spread uniformly over the whole vocabulary, the target included (Szegedy et al.
2016, §7; Vaswani et al. 2017, §5.4).

`cross_entropy` takes a few rows at a time, so that a block of logits stays in the cache, and makes
the gradient right where the block is:

    ∂L/∂ℓₙᵥ = p(v | n) − (1 − ε) [v = yₙ] − ε/V

What it does differently from the equations, and why:

- Logits are measured from the target's: with eₙᵥ = exp(ℓₙᵥ − ℓₙ,yₙ) and Zₙ = Σᵥ eₙᵥ the loss of a
  row is −log p(yₙ | n) = log Zₙ, and no small number is the difference of two large ones. With bf16
  operands this matters most: a product is rounded when it is stored, and this keeps it small where
  the probability is. The shift and the bias are two more columns of the matrix product.
- The block holds eₙᵥ and never p: the division by Zₙ is done on the small factors of the products.
- ε/V and the mean of a row's logits come from the means of W and b, not from the block.
- exp is 2 to the power of a logit in base 2: PyTorch's exp2 is three times as fast on a CPU.
- Where the table has some words of a larger vocabulary alone (`layers/sampled_softmax.py`), a word
  v counts by its `offset` oᵥ in the sum of a row of which it is not the target:
  Zₙ = 1 + Σ_{v≠yₙ} exp(ℓₙᵥ + oᵥ − ℓₙ,yₙ).
- Zₙ ≥ 1, and by Cauchy–Schwarz ℓₙᵥ ≤ ‖hₙ‖ maxᵥ ‖wᵥ‖ + maxᵥ bᵥ. So only where this bound leaves the
  exponent's range need a row's maximum be found and taken off.
"""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

LOG2E = 1 / math.log(2)


def reference(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The equation as it stands: L and, for perplexity, L with ε = 0."""
    surprise = -torch.log_softmax(torch.nn.functional.linear(hidden, weight, bias), dim=1)  # (N, V)
    nll = surprise.gather(1, targets[:, None])[:, 0]  # (N,)
    loss = (1 - smoothing) * nll + smoothing * surprise.mean(1)
    return loss.sum(), nll.sum()


def cross_entropy(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    smoothing: float,
    *,
    offset: Float[Tensor, " V"] | None = None,
    precision: torch.dtype = torch.float32,
    chunk: int | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """`reference`, fast: the loss's sum, and the negative log-likelihood's, without gradient.

    `precision` is that of the operands of the matrix products (float64, float32 or bfloat16); sums
    are as precise as `weight`, float32 at least. `chunk` is the number of rows that a block has.
    With an `offset` there is no smoothing.
    """
    assert offset is None or not smoothing
    chunk = chunk or block_rows(len(weight), weight.shape[1], hidden.device)
    learn = torch.is_grad_enabled()
    with torch.autocast(hidden.device.type, enabled=False):
        loss, nll = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
            hidden, weight, bias, targets, smoothing, offset, precision, chunk, learn
        )
    return loss, nll


def block_rows(vocabulary: int, dim: int, device: torch.device) -> int:
    """How many rows of a block fit into the last cache of a CPU, or keep a GPU busy.

    Each block also goes once through ∂L/∂W, of (V, D): fewer than D rows would not pay for that.
    """
    size = 2**22 if device.type == "cpu" else 2**26
    return max(32, dim, size // vocabulary // 32 * 32)


class _CrossEntropy(torch.autograd.Function):
    """The gradients are made in the forward pass; the backward pass has only to scale them."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "N D"],
        weight: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"] | None,
        targets: Int[Tensor, " N"],
        smoothing: float,
        offset: Float[Tensor, " V"] | None,
        precision: torch.dtype,
        chunk: int,
        learn: bool,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        x = operands(hidden, weight, bias, targets, offset, precision)
        grads = Gradients(x, [learn and need for need in ctx.needs_input_grad[:3]])
        nll = torch.empty_like(x.own)
        narrow = x.table.new_empty(min(chunk, len(nll)), len(weight))
        wide = narrow if x.table.dtype == nll.dtype else torch.empty_like(narrow, dtype=nll.dtype)
        index = torch.arange(len(narrow), device=nll.device)
        for start in range(0, len(nll), chunk):
            rows = slice(start, start + chunk)
            here = index[: len(nll) - start], targets[rows]
            product = narrow[: len(here[0])]  # (chunk, V)
            torch.mm(x.query[rows], x.table.t(), out=product)
            e = product if wide is narrow else wide[: len(product)].copy_(product)
            share, total, nll[rows] = exponentials(e, here, x, rows)
            if grads.wanted:
                e[here] = share - (1 - smoothing) * total  # Z ∂L/∂ℓ, but for ε/V
                block = e if wide is narrow else product.copy_(e)
                grads.add(rows, block, e, total)

        ctx.grads = grads.smoothed(smoothing)
        ctx.mark_non_differentiable(plain := nll.sum())
        return plain + smoothing * x.surplus(), plain

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, ""], _: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if each is None else each * grad for each in ctx.grads), *[None] * 6


class Operands(NamedTuple):
    """What the blocks are made of. Logits are in base 2, and measured from the target's own."""

    hidden: Float[Tensor, "N D"]
    weight: Float[Tensor, "V D"]
    bias: Float[Tensor, " V"]
    query: Float[Tensor, "N D+2"]
    """[H, 1, −own] · log₂ e, in the products' precision."""
    table: Float[Tensor, "V D+2"]
    """[W, b + o, 1], in the same."""
    own: Float[Tensor, " N"]
    """The target's logit."""
    lead: Float[Tensor, " N"]
    """What rounding leaves of it where it is measured from itself."""
    most: Float[Tensor, " N"]
    """What no logit of the row can exceed."""

    def surplus(self) -> Float[Tensor, ""]:
        """Σ of the targets' logits over the means of their rows: what ε = 1 adds to the loss."""
        mean = self.hidden @ self.weight.mean(0) + self.bias.mean()
        return (self.own / LOG2E - mean).sum()


def operands(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    offset: Float[Tensor, " V"] | None,
    precision: torch.dtype,
) -> Operands:
    """The target's logit is that of the rounded operands, as all others are: so what rounding hₙ
    does to all of them alike is not taken for a difference between them."""
    exact = torch.promote_types(weight.dtype, torch.float32)
    precision = min(precision, exact, key=lambda dtype: dtype.itemsize)
    hidden, weight = hidden.to(exact), weight.to(exact)
    bias = weight.new_zeros(len(weight)) if bias is None else bias.to(exact)
    dim = weight.shape[1]
    table = weight.new_empty(len(weight), dim + 2, dtype=precision)
    table[:, :dim], table[:, dim], table[:, dim + 1] = weight, bias, 1
    query = table.new_empty(len(hidden), dim + 2)
    query[:, :dim], query[:, dim], query[:, dim + 1] = hidden * LOG2E, LOG2E, 0
    own = (query.to(exact) * table[targets]).sum(1)
    query[:, dim + 1] = -own
    lead = own + query[:, -1]
    added = bias if offset is None else bias + offset.to(exact)
    table[:, dim] = added
    bound = LOG2E * (hidden.norm(dim=1) * weight.norm(dim=1).max() + added.max())
    most = torch.maximum(bound + query[:, -1], lead.abs())
    return Operands(hidden, weight, bias, query, table, own, lead, most)


def exponentials(
    e: Float[Tensor, "C V"],
    here: tuple[Int[Tensor, " C"], Int[Tensor, " C"]],
    x: Operands,
    rows: slice,
) -> tuple[Float[Tensor, " C"], Float[Tensor, " C"], Float[Tensor, " C"]]:
    """Turn logits in base 2 into eₙᵥ, in place; gives the target's e, Z, and −log p(y | n).

    The test for a CPU alone is there because elsewhere it would wait for the device.
    """
    lead = x.lead[rows]
    limit = 0.75 * math.log2(torch.finfo(x.table.dtype).max)  # leaves room for a sum over V
    if not (e.is_cpu and bool(x.most[rows].max() < limit)):
        top = e.amax(1)
        e -= top[:, None]
        lead = lead - top
    e.exp2_()
    share = lead.exp2()
    e[here] = share  # known better than the product could hold it
    total = e.sum(1)
    return share, total, total.log() - lead / LOG2E


class Gradients:
    """The sums ∂L/∂H, ∂L/∂W and ∂L/∂b, as far as they are wanted."""

    def __init__(self, x: Operands, wanted: list[bool]) -> None:
        self.x = x
        self.wanted = any(wanted)
        self.hidden = torch.empty_like(x.hidden) if wanted[0] else None
        self.weight = torch.zeros_like(x.weight) if wanted[1] else None
        self.bias = torch.zeros_like(x.bias) if wanted[2] else None

    def add(
        self,
        rows: slice,
        block: Float[Tensor, "C V"],
        e: Float[Tensor, "C V"],
        total: Float[Tensor, " C"],
    ) -> None:
        """Add what a block of Z ∂L/∂ℓ gives: as `e`, and as `block` in the products' precision."""
        if self.hidden is not None:
            dim = self.hidden.shape[1]
            torch.div(block @ self.x.table[:, :dim], total[:, None], out=self.hidden[rows])
        if self.weight is not None:
            states = (self.x.hidden[rows] / total[:, None]).to(block.dtype)
            if block is e:
                self.weight.addmm_(block.t(), states)
            else:
                self.weight += block.t() @ states  # the sum over blocks is not to be rounded
        if self.bias is not None:
            self.bias.addmv_(e.t(), total.reciprocal())

    def smoothed(self, smoothing: float) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The gradients, now with the part that −ε/V has in ∂L/∂ℓ."""
        if self.hidden is not None:
            self.hidden -= smoothing * self.x.weight.mean(0)
        if self.weight is not None:
            self.weight -= smoothing / len(self.weight) * self.x.hidden.sum(0)
        if self.bias is not None:
            self.bias -= smoothing / len(self.bias) * len(self.x.hidden)
        return self.hidden, self.weight, self.bias
