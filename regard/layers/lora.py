"""Low-rank adaptation of a linear layer (Hu et al. 2022, section 4.1).

    y = x Wᵀ + b + (α/r) (x Aᵀ) Bᵀ        A ∈ ℝʳˣᴵ, B ∈ ℝᴼˣʳ, W ∈ ℝᴼˣᴵ is not trained

B begins with zeros, so that the layer begins as it was. W + (α/r) B A is one weight again: with it,
prediction costs what it did before.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.dropout import Dropout


class Adapter(nn.Module):
    """x ↦ (α/r) (x Aᵀ) Bᵀ."""

    def __init__(
        self, inputs: int, outputs: int, rank: int, alpha: float, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.empty(rank, inputs))
        self.up = nn.Parameter(torch.zeros(outputs, rank))
        nn.init.normal_(self.down, std=inputs**-0.5)
        self.factor = alpha / rank
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*N I"]) -> Float[Tensor, "*N O"]:
        inner = F.linear(self.dropout(x.to(self.down.dtype)), self.down * self.factor)
        return F.linear(inner, self.up)

    def change(self) -> Float[Tensor, "O I"]:
        """(α/r) B A, which W is changed by."""
        return self.up @ (self.down * self.factor)
