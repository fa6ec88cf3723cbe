"""Attention without parameters: the idea alone, before queries, keys and values."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from regard.encoders import Stack
from regard.layers.attention import attend_to, attention_weights
from regard.layers.probe import probe, scope, watched
from regard.recipe.values import Depth
from regard.types import Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """Layers that have nothing to learn."""

    layers: Depth = 1
    """How many layers stand on each other."""
    scale: bool = False
    """Divide the products by √dim, which keeps the weights from being all or nothing."""


class Encoder(Stack):
    """y_i = Σ_j α_ij x_j,   α_ij = softmax_j(x_iᵀ x_j)   for x_i ∈ ℝᴰ, N times.

    Each position becomes a mean of all, weighted by how alike they are. The order does not count.
    """

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__((dim,) * (config.layers + 1))
        self.layers = config.layers
        self.scale = 1 / math.sqrt(dim) if config.scale else 1.0

    def _states(self, source: Sequence) -> Iterator[Float[Tensor, "B S D"]]:
        x = probe("input", source.states)
        yield x
        mask = attend_to(source.mask)
        for number in range(self.layers):
            with scope(f"block.{number}"):
                x = probe("output", self._attend(x[:, None], mask)[:, 0])
            yield x

    def _attend(
        self, x: Float[Tensor, "B 1 S D"], mask: Bool[Tensor, "B 1 1 S"] | None
    ) -> Float[Tensor, "B 1 S D"]:
        if not watched():
            return F.scaled_dot_product_attention(x, x, x, mask, scale=self.scale)
        query = x * (self.scale * math.sqrt(x.shape[-1]))  # `attention_weights` divides by it
        with scope("attention"):
            weights = probe("weights", attention_weights(query, x, mask))
        return weights @ x
