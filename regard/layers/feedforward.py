"""The position-wise feed-forward network (Vaswani et al. 2017, section 3.3)."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.dropout import Dropout
from regard.layers.linear import Linear
from regard.layers.probe import probe

Activation = Literal["relu", "gelu", "gelu_tanh", "quick_gelu", "silu", "swiglu"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """The same small network at each position.

    relu, gelu, silu:  f(x) = σ(x W₁ + b₁) W₂ + b₂
    swiglu:            f(x) = (silu(x W₁ + b₁) ⊙ (x W₃ + b₃)) W₂ + b₂     (Shazeer 2020)

    gelu is x Φ(x); gelu_tanh, as in GPT-2, x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2; quick_gelu,
    as in CLIP, x σ(1.702 x).
    """

    def __init__(
        self,
        dim: int,
        inner: int,
        activation: Activation = "relu",
        *,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.up = Linear(dim, inner, bias=bias)
        self.gate = Linear(dim, inner, bias=bias) if activation == "swiglu" else None
        self.down = Linear(inner, dim, bias=bias)
        self.dropout = Dropout(dropout)
        for linear in (self.up, self.gate, self.down):
            if linear is not None:
                nn.init.xavier_uniform_(linear.weight)
                if bias:
                    nn.init.zeros_(linear.bias)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        inner = self.up.narrow(x)
        if self.gate is not None:
            inner = F.silu(inner) * self.gate.narrow(x)
        else:
            inner = ACTIVATIONS[self.activation](inner)
        output: Tensor = self.down(self.dropout(probe("inner", inner)))
        return output
