"""y = x Wᵀ + b, in training on a processor with operands in bfloat16 where that is faster."""

from collections.abc import Callable, MutableMapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary

from regard.layers import int8
from regard.layers.lora import Adapter

SMALLEST = 2**15
"""A weight with fewer entries does not earn back the casts."""


FEW, LARGE = 32, 2**19
"""Up to so many rows, and from so many entries on, a product is faster with a prepared weight."""


def prepared_product(
    x: Float[Tensor, "N I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, "O"] | None
) -> Float[Tensor, "N O"]:
    """x Wᵀ + b without gradients, for the few rows of a step of a search.

    Such a product reads the weight and does little else. On a processor the general kernel first
    copies it into the order that it wants; here that is done once, until the weight changes. A
    single row on a single thread is multiplied fastest by the longer rows, of W or of Wᵀ: memory
    is then read at the rate that it has. That kernel knows no second thread, oneDNN's does.
    """
    few = x.is_cpu and len(x) <= FEW and weight.numel() >= LARGE and x.dtype == torch.float32
    # There is no telling when a weight of inference changes.
    if not few or torch.is_grad_enabled() or weight.is_inference():
        return F.linear(x, weight, bias)
    if len(x) == 1 and torch.get_num_threads() == 1:
        long = len(weight) < weight.shape[1]
        table = weight.t() if long else _prepared(weight, _transposed)
        return torch.mm(x, table) if bias is None else torch.addmm(bias, x, table)
    if (table := _prepared(weight, _reordered)) is None:
        return F.linear(x, weight, bias)
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, table, bias, "none", [], "")
    return y


def _transposed(weight: Tensor) -> Tensor:
    return weight.t().contiguous()


def _reordered(weight: Tensor) -> Tensor | None:
    """In the order that oneDNN wants; None if there is no oneDNN."""
    try:
        table: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, FEW)
    except (AttributeError, RuntimeError):  # NotImplementedError is one of the latter
        return None
    return table


Order = Callable[[Tensor], Tensor | None]
_ready: MutableMapping[Tensor, tuple[tuple[int, int], dict[Order, Any]]] = WeakTensorKeyDictionary()
"""Of each weight its state, by which a change is noticed, and what was prepared."""


def _prepared(weight: Tensor, order: Order) -> Any:
    """The weight in another order, which is made once for each of its states."""
    state = (weight.data_ptr(), weight._version)
    known = _ready.get(weight)
    if known is None or known[0] != state:
        _ready[weight] = known = (state, {})
    if order not in known[1]:
        known[1][order] = order(weight.detach())
    return known[1][order]


class Linear(nn.Linear):
    """y = x Wᵀ + b.

    With `precision` bfloat16, which the trainer sets where the processor multiplies it natively,
    the three products of training (y, ∂x, ∂W) take bfloat16 operands and sum in float32; weights
    and their gradients stay float32. Prediction and inspection are always in full precision.
    """

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias=bias)
        self.precision = torch.float32
        self.packed: int8.Packed = None
        """The weight in 8 bits, where that is what prediction takes."""
        self.adapter: Adapter | None = None
        """What is trained instead of the weight, if anything is."""

    def forward(self, x: Float[Tensor, "*N I"]) -> Float[Tensor, "*N O"]:
        return self._product(x, True)

    def narrow(self, x: Float[Tensor, "*N I"]) -> Float[Tensor, "*N O"]:
        """The same for a reader that takes bfloat16, if that is what comes out: one pass less."""
        return self._product(x, False)

    def _product(self, x: Float[Tensor, "*N I"], widen: bool) -> Float[Tensor, "*N O"]:
        y: Tensor
        if self._narrowed(x):
            y = _Narrow.apply(x, self.weight, self.bias, widen)  # type: ignore[no-untyped-call]
        elif self.packed is not None and not torch.is_grad_enabled():
            return int8.product(x, self.packed)
        else:
            y = super().forward(x)
        return y if self.adapter is None else y + self.adapter(x).to(y.dtype)

    @property
    def effective(self) -> Float[Tensor, "O I"]:
        """The weight, with what its adapter changes it by."""
        return self.weight if self.adapter is None else self.weight + self.adapter.change()

    def part(self, x: Float[Tensor, "*N I"], first: int, end: int) -> Float[Tensor, "*N P"]:
        """Entries from `first` up to `end` of y, by themselves."""
        weight = self.weight[first:end]
        bias = None if self.bias is None else self.bias[first:end]
        narrow: Any = _Narrow.apply
        y: Tensor = (
            narrow(x, weight, bias, True) if self._narrowed(x) else F.linear(x, weight, bias)
        )
        return y if self.adapter is None else y + self.adapter(x)[..., first:end].to(y.dtype)

    def _narrowed(self, x: Tensor) -> bool:
        return (
            self.precision == torch.bfloat16
            and self.training
            and torch.is_grad_enabled()
            and x.is_cpu
            and (x.dtype == torch.bfloat16 or self.weight.numel() >= SMALLEST)
        )


def glorot(linear: Linear) -> Linear:
    """The same with weights drawn as Glorot & Bengio (2010) do, and no bias."""
    nn.init.xavier_uniform_(linear.weight)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
    return linear


def _biased(
    x: Float[Tensor, "N I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, "O"]
) -> Float[Tensor, "N O"]:
    """x Wᵀ + b, to the bit what addmm gives, which first writes b into all rows."""
    try:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    except (AttributeError, RuntimeError):  # no oneDNN
        return torch.addmm(bias, x, weight.t())
    return y


class _Narrow(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, widen: bool
    ) -> Float[Tensor, "*N O"]:
        states = x.flatten(0, -2).to(torch.bfloat16)
        table = weight.to(torch.bfloat16)
        ctx.save_for_backward(states, table)
        ctx.shape, ctx.dtype = x.shape, x.dtype
        y = states @ table.t() if bias is None else _biased(states, table, bias.to(torch.bfloat16))
        y = y.view(*x.shape[:-1], -1)
        return y.to(weight.dtype) if widen else y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "*N O"]) -> tuple[Tensor | None, ...]:
        states, table = ctx.saved_tensors
        wide = grad.flatten(0, -2)
        narrow = wide.to(torch.bfloat16)
        by_x = (narrow @ table).to(ctx.dtype).view(ctx.shape)
        by_weight = (narrow.t() @ states).float() if ctx.needs_input_grad[1] else None
        by_bias = wide.sum(0, dtype=torch.float32) if ctx.needs_input_grad[2] else None
        return by_x, by_weight, by_bias, None
