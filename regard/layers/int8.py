"""Products with weights of 8 bits, for prediction on a processor.

    y = s_x s_w ⊙ (X Wᵀ) + b      X, W whole numbers of 8 bits, x ≈ s_x (X − z), w_o ≈ s_w,o W_o

A weight has a scale for each output, found once; x has one scale and zero for all of it, found in
each product. A step of a search mostly waits for weights to come from memory, and these are a
quarter. PyTorch's own kernels; where it has none (they are to leave it some day), there is no int8.
"""

import warnings
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

SMALLEST = 2**14
"""A weight with fewer entries is not worth the rounding."""
Packed = Any
"""A weight and its bias in the order that the kernel wants."""


def available() -> bool:
    """Whether this PyTorch, on this processor, has the kernels."""
    try:
        packed = pack(torch.eye(8), None)
        return bool(product(torch.ones(1, 8), packed).sub(1).abs().max() < 0.1)
    except (AttributeError, RuntimeError):
        return False


def pack(weight: Float[Tensor, "O I"], bias: Float[Tensor, "O"] | None) -> Packed:
    """A weight for `product`."""
    table = weight.detach().float().cpu()
    scales = table.abs().amax(1).clamp_min(1e-12).double() / 127
    zeros = torch.zeros(len(table), dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that these tensors are deprecated
        rounded = torch.quantize_per_channel(table, scales, zeros, 0, torch.qint8)
        return torch.ops.quantized.linear_prepack(
            rounded, None if bias is None else bias.detach().float()
        )


def product(x: Float[Tensor, "*N I"], packed: Packed) -> Float[Tensor, "*N O"]:
    """x Wᵀ + b. Without VNNI the kernel's sums of products saturate, unless x has 7 bits."""
    y: Tensor = torch.ops.quantized.linear_dynamic(x, packed, _reduced())
    return y


@cache
def _reduced() -> bool:
    known = getattr(torch.cpu, "_is_vnni_supported", lambda: False)
    return not known()


def quantize(model: nn.Module) -> None:
    """Let all larger products of a model be with weights of 8 bits, as long as nothing is learnt.

    Its parts that can do so have a place `packed`, a weight and perhaps a bias."""
    for module in model.modules():
        weight = getattr(module, "effective", getattr(module, "weight", None))
        if hasattr(module, "packed") and isinstance(weight, Tensor) and weight.numel() >= SMALLEST:
            module.packed = pack(weight, getattr(module, "bias", None))
