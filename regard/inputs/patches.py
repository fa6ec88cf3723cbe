"""Patches of a picture as vectors (Dosovitskiy et al. 2021, section 3.1)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RecipeError
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.linear import Linear
from regard.layers.position import grid_sinusoid
from regard.layers.probe import probe
from regard.recipe.values import Range, Share
from regard.types import Batch, FieldSize, Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """What becomes one position of the sequence."""

    patch: Annotated[int, Range(1, 1024)] = 16
    """The side of a patch, in pixels; height and width must be multiples of it."""
    class_token: bool = True
    """Whether a learnt vector stands before the patches, for model.head.pooling = "class"."""
    position: bool = True
    """Whether every place has a vector of its own added to it: it begins as a sinusoid of row and
    column, and is learnt."""
    bias: bool = True
    """Whether the map of patches adds a vector."""
    dropout: Share = 0.0
    """On the vectors."""

    def grid(self, size: FieldSize) -> tuple[int, int]:
        """Rows and columns of patches."""
        height, width = size["height"], size["width"]
        if height % self.patch or width % self.patch:
            raise RecipeError(
                f"patch: pictures of {height} × {width} pixels (source.size) cannot be cut into "
                f"patches of {self.patch} × {self.patch}"
            )
        return height // self.patch, width // self.patch

    def fixed_length(self, size: FieldSize) -> int:
        rows, columns = self.grid(size)
        return rows * columns + self.class_token

    def example(self, dim: int) -> dict[str, int]:
        return {"height": 2 * self.patch, "width": 3 * self.patch, "channels": 3}


class Input(nn.Module):
    """x₀ = c + p₀,  x_n = W v_n + b + p_n,  where v_n ∈ ℝ^{P²C} has the pixels of patch n,
    row by row of the picture, and c, p₀ … p_N ∈ ℝᴰ are learnt. p begins as a sinusoid of
    row and column: vectors near zero take long to be heard beside those of the patches.

    Pictures of another size than the model was made for have their positions interpolated.
    """

    def __init__(
        self, config: Config, size: FieldSize, dim: int, *, shared: Embedding | None, scale: bool
    ) -> None:
        super().__init__()
        self.field, self.patch = size.name, config.patch
        self.grid = config.grid(size)
        self.project = Linear(config.patch**2 * size["channels"], dim, bias=config.bias)
        self.class_token = nn.Parameter(torch.zeros(dim)) if config.class_token else None
        self.position: nn.Parameter | None = None
        if config.position:
            first = torch.zeros(int(config.class_token), dim)
            self.position = nn.Parameter(torch.cat([first, grid_sinusoid(*self.grid, dim)]))
        if self.class_token is not None:
            nn.init.trunc_normal_(self.class_token, std=0.02)
        nn.init.xavier_uniform_(self.project.weight)
        if self.project.bias is not None:
            nn.init.zeros_(self.project.bias)
        self.dropout = Dropout(config.dropout)

    def forward(self, batch: Batch) -> Sequence:
        pixels = batch[self.field]
        x = self.project(patches(pixels, self.patch))  # (B, N, D)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(x.shape[0], 1, -1), x], 1)
        if self.position is not None:
            height, width = pixels.shape[2:]
            x = x + self.positions(height // self.patch, width // self.patch)
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        return Sequence(self.dropout(probe("input.patches", x)), mask)

    def positions(self, rows: int, columns: int) -> Float[Tensor, "N D"]:
        """The vectors of the places of a grid, interpolated where it is not the model's own."""
        assert self.position is not None
        if (rows, columns) == self.grid:
            return self.position
        first = int(self.class_token is not None)
        return torch.cat(
            [self.position[:first], resampled(self.position[first:], self.grid, (rows, columns))]
        )

    def taken_over(self, weights: Mapping[str, Tensor], grid: tuple[int, int]) -> dict[str, Tensor]:
        """Weights that were learnt on pictures of another size."""
        table, first = weights.get("position"), int(self.class_token is not None)
        if self.position is None or table is None or len(table) != first + math.prod(grid):
            return dict(weights)  # what does not fit is said of them all
        places = table[first:] if grid == self.grid else resampled(table[first:], grid, self.grid)
        return {**weights, "position": torch.cat([table[:first], places])}

    def names(self, batch: Batch) -> list[str]:
        """What stands at each position: the row and the column of a patch, from 1."""
        rows, columns = (side // self.patch for side in batch[self.field].shape[2:])
        places = [f"{r},{c}" for r in range(1, rows + 1) for c in range(1, columns + 1)]
        return ["[CLASS]", *places] if self.class_token is not None else places


def patches(pixels: Float[Tensor, "B C Y X"], side: int) -> Float[Tensor, "B N E"]:
    """v: the pixels of each patch, channel by channel, rows of patches from above."""
    count, channels, height, width = pixels.shape
    cut = pixels.reshape(count, channels, height // side, side, width // side, side)
    return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def resampled(
    table: Float[Tensor, "N D"], grid: tuple[int, int], wanted: tuple[int, int]
) -> Float[Tensor, "M D"]:
    """Vectors of the places of one grid for those of another."""
    across = table.t().reshape(1, -1, *grid)
    found = F.interpolate(across, size=wanted, mode="bicubic", align_corners=False)
    return found[0].flatten(1).t()
