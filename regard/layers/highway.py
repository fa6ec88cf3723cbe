"""Highway layers (Srivastava et al. 2015): how much of a vector is changed, it decides itself."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.linear import Linear, glorot

CARRIED = -2.0
"""The gate's first bias: a new layer leaves most of its input as it is."""


class Highway(nn.Module):
    """y = g ⊙ relu(W x + b) + (1 − g) ⊙ x,  g = σ(U x + c) ∈ (0, 1)ᴰ."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.change = glorot(Linear(dim, dim))
        self.gate = glorot(Linear(dim, dim))
        nn.init.constant_(self.gate.bias, CARRIED)

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:
        return torch.lerp(x, F.relu(self.change(x)), torch.sigmoid(self.gate(x)))
