"""The matrix products inside PyTorch's operations: their sizes, and their FLOPs.

`torch.utils.flop_counter` knows most of them; here are those that it does not: a recurrent layer,
attention on a processor, products in place.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

aten = torch.ops.aten


class Product(NamedTuple):
    """A matrix product of (m, k) with (k, n), or so many of them side by side."""

    batch: int
    m: int
    k: int
    n: int
    dtype: str
    """Of the operands: float32, bfloat16."""

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.k * self.n


Products = tuple[tuple[Product, int], ...]
"""Each with how often it is computed."""
IN_PLACE = {"addmm_", "baddbmm_"}
LOOKED_UP = {"aten.embedding", "aten.index_select", "aten.index", "aten.gather"}
"""They read as much as they write, and not the whole table."""
PUT = {"aten.index_put_", "aten.index_copy_", "aten.scatter_", "aten.index_add_"}
"""They write what they are given, and not the whole table."""
FILLED = {"aten.copy_", "aten.zero_", "aten.fill_", "aten.random_", "aten.uniform_"}
"""They do not read what they write to."""
PLAIN = {"aten.mm", "aten.bmm", "aten.addmm", "aten.baddbmm"}


def products(name: str, args: Any, made: Sequence[Tensor]) -> Products:
    """What one call multiplies; nothing where nobody knows."""
    if name.removesuffix("_") in PLAIN:
        a, b = [each for each in args if isinstance(each, Tensor) and each.dim() in (2, 3)][-2:]
        batch = a.shape[0] if a.dim() == 3 else 1
        return ((Product(batch, a.shape[-2], a.shape[-1], b.shape[-1], _type(a)), 1),)
    if name == "mkldnn._linear_pointwise":
        rows = math.prod(args[0].shape[:-1])
        return ((Product(1, rows, args[0].shape[-1], args[1].shape[0], _type(args[0])), 1),)
    if name.startswith("aten.mkldnn_rnn_layer"):
        return _of_recurrent(*args[:3], back=name.endswith("backward"))
    if name == "aten.convolution":
        return ((_of_convolution(args[0], args[1], made[0]), 1),)
    if name == "aten.convolution_backward":
        return ((_of_convolution(args[1], args[2], args[0]), 2),)
    if name.startswith("aten._scaled_dot_product_flash_attention_for_cpu"):
        back = name.endswith("backward")
        query, key = args[1:3] if back else args[:2]
        one = Product(
            math.prod(query.shape[:-2]), query.shape[-2], query.shape[-1], key.shape[-2],
            _type(query),
        )  # fmt: skip
        return ((one, 5 if back else 2),)
    return ()


def touched(name: str, tensors: Sequence[Tensor], made: Sequence[Tensor]) -> Sequence[Tensor]:
    """The tensors that an operation reads and writes; one that it does both with, twice."""
    if name in LOOKED_UP:
        return (*made, *made)
    if name in PUT or name in FILLED:
        return (*tensors[1:], *(made if name in FILLED else tensors[1:]))
    return (*tensors, *made)


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _of_recurrent(x: Tensor, u: Tensor, v: Tensor, *, back: bool) -> Products:
    """U x of all steps in one product, V h of each by itself; backwards also the gradients of U and
    V, in one product each."""
    steps, rows, dim = x.shape
    gates, hidden, dtype = v.shape[0], v.shape[1], _type(u)
    all_steps = steps * rows
    if not back:
        return (
            (Product(1, all_steps, dim, gates, dtype), 1),
            (Product(1, rows, hidden, gates, dtype), steps),
        )
    return (
        (Product(1, all_steps, gates, dim, dtype), 1),
        (Product(1, gates, all_steps, dim, dtype), 1),
        (Product(1, gates, all_steps, hidden, dtype), 1),
        (Product(1, rows, gates, hidden, dtype), steps),
    )


def _of_convolution(x: Tensor, weight: Tensor, y: Tensor) -> Product:
    """Each output place is the product of its neighbourhood with all filters."""
    outputs, near = weight.shape[0], math.prod(weight.shape[1:])
    return Product(1, y.numel() // outputs, near, outputs, _type(x))


def _recurrent(x: Any, u: Any, v: Any, *_: Any, **__: Any) -> int:
    """2 (|U| + |V|) for each row and step."""
    return int(2 * math.prod(x.shape[:2]) * (u.numel() + v.numel()))


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Q Kᵀ and A V."""
    rows = math.prod(query.shape[:-1])
    return int(2 * rows * key.shape[-2] * (query.shape[-1] + value.shape[-1]))


def _attention_backward(_: Any, query: Any, key: Any, value: Any, *__: Any, **___: Any) -> int:
    """Q Kᵀ again, and the four products of the gradients."""
    return 5 * _attention(query, key, value) // 2


def _pointwise(x: Any, weight: Any, *_: Any, **__: Any) -> int:
    return int(2 * math.prod(x.shape[:-1]) * weight.numel())


FLOPS: dict[str, Callable[..., int]] = {
    "aten.mkldnn_rnn_layer": _recurrent,
    "aten.mkldnn_rnn_layer_backward": lambda *a, **k: 2 * _recurrent(*a, **k),
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "mkldnn._linear_pointwise": _pointwise,
}


def _ctc(log_probs: Any, targets: Any, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
    """−log p (B), and α of each frame and of each token and blank (B, T, 2 L + 1)."""
    frames, rows, _ = log_probs.shape
    states = 2 * targets.shape[-1] + 1
    return log_probs.new_empty(rows), log_probs.new_empty(rows, frames, states)


STAND_INS: dict[Any, Callable[..., Any]] = {aten._ctc_loss: _ctc}
"""For operations whose shapes depend on numbers."""
