"""Frames of sound as vectors, fewer than there are frames."""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.linear import Linear, glorot
from regard.recipe.values import Range, Share
from regard.types import Batch, FieldSize, Sequence

MICROSECONDS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Config:
    """Convolutions over time and frequency, each of which leaves every second place of both."""

    convolutions: Annotated[int, Range(1, 4)] = 2
    """How many: with 2, a position stands for 4 frames."""
    channels: Annotated[int, Range(1, 4096)] = 32
    """Of each convolution."""
    dropout: Share = 0.0
    """On the vectors."""

    @property
    def factor(self) -> int:
        """Frames for each position."""
        return int(2**self.convolutions)

    def positions(self, frames: int) -> int:
        """How many positions so many frames become."""
        return -(-frames // self.factor)


class Input(nn.Module):
    """frames (B, T, M) ↦ vectors (B, ⌈T / 2ⁿ⌉, D) of n convolutions:

        y_{t,m} = relu(b + Σ_{i,j ∈ {−1,0,1}} W_{ij} x_{2t+i, 2m+j})
        z_t = V [y_{t,1}; y_{t,2}; …]

    x is zero beyond the ends of its sound and of the bands, so padding changes nothing. What the
    convolutions leave of the bands is folded into the channels.
    """

    def __init__(
        self, config: Config, size: FieldSize, dim: int, *, shared: Embedding | None, scale: bool
    ) -> None:
        super().__init__()
        self.field, bands = size.name, size["mels"]
        self.seconds = config.factor * size["hop"] / MICROSECONDS
        inputs = [1] + [config.channels] * (config.convolutions - 1)
        self.filters = nn.ModuleList(
            nn.Conv2d(each, config.channels, 3, stride=2, padding=1) for each in inputs
        )
        for each in self.filters:
            assert isinstance(each, nn.Conv2d) and each.bias is not None
            nn.init.kaiming_normal_(each.weight, nonlinearity="relu")
            nn.init.zeros_(each.bias)
        self.project = glorot(Linear(config.positions(bands) * config.channels, dim))
        self.dropout = Dropout(config.dropout)

    def names(self, batch: Batch) -> list[str]:
        """When each position begins, in seconds."""
        count = batch[self.field].shape[1]
        for _ in self.filters:
            count = -(-count // 2)
        return [f"{n * self.seconds:.2f}" for n in range(count)]

    def forward(self, batch: Batch) -> Sequence:
        mask = batch[f"{self.field}_mask"]
        x = batch[self.field][:, None]  # (B, 1, T, M)
        for each in self.filters:
            x = F.relu(each(_real(x, mask)))
            mask = halved(mask)
        vectors = self.project(x.transpose(1, 2).flatten(2))  # (B, T', C · M')
        return Sequence(self.dropout(vectors), mask)


def _real(x: Float[Tensor, "B C T M"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B C T M"]:
    return x.masked_fill(~mask[:, None, :, None], 0.0)


def halved(mask: Bool[Tensor, "B T"]) -> Bool[Tensor, "B U"]:
    """Which of every second place are real."""
    return mask[:, torch.arange(0, mask.shape[1], 2, device=mask.device)]
