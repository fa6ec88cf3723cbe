"""Residual connections with normalisation (Vaswani et al. 2017, section 3.1; Xiong et al. 2020)."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.dropout import dropout_add

Norm = Literal["post", "pre"]
Normalisation = Literal["layer", "rms"]


EPSILON = {"layer": 1e-5, "rms": 1e-6}
"""ε where none is given."""


def normalisation(kind: Normalisation, dim: int, epsilon: float = 0.0) -> nn.Module:
    """LayerNorm:  (x − mean x) / √(var x + ε) ⊙ g + b;   RMSNorm:  x / √(mean x² + ε) ⊙ g."""
    eps = epsilon or EPSILON[kind]
    return nn.LayerNorm(dim, eps) if kind == "layer" else RMSNorm(dim, eps=eps)


class RMSNorm(nn.RMSNorm):
    """x / √(mean x² + ε) ⊙ g, by PyTorch's kernel; by its operations where it is traced for ONNX,
    which has none."""

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:
        if not torch.onnx.is_in_onnx_export():
            return super().forward(x)
        assert self.eps is not None
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class Residual(nn.Module):
    """What stands around a sublayer f.

        post-norm, as in the paper:   x ↦ norm(x + dropout(f(x)))
        pre-norm:                     x ↦ x + dropout(f(norm(x)))

    In parallel (GPT-NeoX), both sublayers of a block read the block's own x, each by its own norm:
    x ↦ x + f(norm(x)) + g(norm′(x)).
    In two halves, because sublayers take and give more than x:  y = f(enter(x)), x = leave(x, y).
    """

    def __init__(
        self, dim: int, norm: Norm, kind: Normalisation, dropout: float, epsilon: float = 0.0
    ) -> None:
        super().__init__()
        self.pre = norm == "pre"
        self.norm = normalisation(kind, dim, epsilon)
        self.dropout = dropout

    def enter(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        result: Tensor = self.norm(x) if self.pre else x
        return result

    def leave(self, x: Float[Tensor, "B T D"], y: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        total = dropout_add(y, x, self.dropout, self.training)
        result: Tensor = total if self.pre else self.norm(total)
        return result
