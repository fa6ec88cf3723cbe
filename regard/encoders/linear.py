"""What a linear model of time reads: the trend and what remains (Zeng et al. 2023, section 4).

With the head's readout `flatten`, which is one linear map of all positions, this is DLinear:
ŷ = W₁ trend + W₂ remainder + b. Nothing is learnt here.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RecipeError
from regard.layers.probe import probe
from regard.recipe.values import Length
from regard.types import Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """How smooth a trend is."""

    window: Length = 25
    """Positions whose mean is the trend, as many before as after; 1: no trend is separated."""

    def __post_init__(self) -> None:
        if self.window % 2 == 0:
            raise RecipeError(f"window: {self.window} has no middle: take an odd number")


class Encoder(nn.Module):
    """x₁ … x_S ↦ trend₁ … trend_S, x₁ − trend₁ … x_S − trend_S: twice as many positions."""

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__()
        self.window = config.window
        self.names = ("trend", "remainder")[: self.resized(1)]

    def resized(self, positions: int) -> int:
        return positions if self.window == 1 else 2 * positions

    def forward(self, source: Sequence) -> Sequence:
        x = probe("input", source.states)
        if self.window == 1:
            return source
        trend = moving_average(x, source.mask, self.window)
        parts = torch.cat([trend, x - trend], 1)  # (B, 2S, D)
        return Sequence(probe("output", parts), torch.cat([source.mask, source.mask], 1))


def moving_average(
    x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"], window: int
) -> Float[Tensor, "B S D"]:
    """trend_t = the mean of the real x_s with |s − t| ≤ ⌊window / 2⌋: fewer at both ends."""
    real = mask[:, None].to(x.dtype)  # (B, 1, S)
    near = (window, 1, window // 2)
    sums = F.avg_pool1d(x.transpose(1, 2) * real, *near)
    return (sums / F.avg_pool1d(real, *near).clamp(min=1 / (2 * window))).transpose(1, 2)
