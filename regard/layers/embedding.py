"""Tokens become vectors (Vaswani et al. 2017, section 3.4)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F


class Embedding(nn.Module):
    """Row v of E ∈ R^(V×D) stands for token v; scaled by √D where the paper does.

    Drawn from N(0, 1/D), so that a scaled embedding has unit variance and an unscaled one is of
    use as the projection of a tied head.
    """

    def __init__(self, symbols: int, dim: int, *, scale: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(symbols, dim))
        nn.init.normal_(self.weight, std=dim**-0.5)
        self.factor = math.sqrt(dim) if scale else 1.0
        self.sparse = False

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        vectors = F.embedding(tokens, self.weight, sparse=self.sparse)
        return vectors * self.factor if self.factor != 1.0 else vectors
