"""A picture as the grid of features of a small residual network (He et al. 2016)."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RecipeError
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.filters import Filters
from regard.layers.linear import Linear
from regard.layers.position import grid_sinusoid
from regard.layers.probe import probe
from regard.recipe.values import Depth, Range, Share, Widths
from regard.types import Batch, FieldSize, Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """Stages of residual blocks; each halves the height and the width of the one before it."""

    widths: Widths = (32, 64, 128)
    """How many filters the blocks of each stage have."""
    blocks: Depth = 1
    """Residual blocks of a stage."""
    stem: Annotated[int, Range(1, 8)] = 1
    """How many pixels apart the first filters stand: 2 or 4 for photographs."""
    groups: Annotated[int, Range(1, 1024)] = 8
    """Channels are normalised in so many groups (Wu and He 2018): each picture by itself, so that
    no prediction depends on the batch, and nothing has to be remembered."""
    norm: bool = False
    """Whether the vector of each place is normalised (Ba et al. 2016), for decoders that look at
    the grid; docs/captions.md has what it was worth there."""
    position: bool = False
    """Whether every place of the grid has a vector of its own added to it: it begins as a sinusoid
    of row and column, and is learnt."""
    dropout: Share = 0.0
    """On the features."""

    def __post_init__(self) -> None:
        if not self.widths:
            raise RecipeError("widths: names no stage")
        for width in self.widths:
            if width % self.groups:
                raise RecipeError(f"groups: {self.groups} groups cannot share {width} filters")

    def grid(self, size: FieldSize) -> tuple[int, int]:
        """Rows and columns of the features."""
        rows, columns = size["height"], size["width"]
        for stride in (self.stem, *(2 for _ in self.widths[1:])):
            rows, columns = -(-rows // stride), -(-columns // stride)
        return rows, columns

    def fixed_length(self, size: FieldSize) -> int:
        return math.prod(self.grid(size))


class Block(nn.Module):
    """x ↦ relu(S x + norm(K₂ ∗ relu(norm(K₁ ∗ x)))), S the identity, or a map if sizes differ."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        self.first = Filters(inputs, outputs, 3, stride)
        self.second = Filters(outputs, outputs, 3)
        self.first_norm = nn.GroupNorm(groups, outputs)
        self.second_norm = nn.GroupNorm(groups, outputs)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else Filters(inputs, outputs, 1, stride)

    def forward(self, x: Float[Tensor, "B I Y X"]) -> Float[Tensor, "B O Y2 X2"]:
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.shortcut(x) + self.second_norm(self.second(y)))


class Input(nn.Module):
    """x_n = [norm](W g_n + b) (+ p_n), where g_n is the last stage's vector at place n of the grid,
    row by row of the picture."""

    def __init__(
        self, config: Config, size: FieldSize, dim: int, *, shared: Embedding | None, scale: bool
    ) -> None:
        super().__init__()
        self.field, self.grid = size.name, config.grid(size)
        first, near = config.widths[0], 3 if config.stem < 3 else 7
        self.stem = Filters(size["channels"], first, near, config.stem)
        self.norm = nn.GroupNorm(config.groups, first)
        self.stages = nn.ModuleList()
        before = first
        for stage, width in enumerate(config.widths):
            blocks = []
            for n in range(config.blocks):
                stride = 2 if stage and not n else 1
                blocks.append(Block(before, width, stride, config.groups))
                before = width
            self.stages.append(nn.Sequential(*blocks))
        self.project = Linear(before, dim)
        self.states_norm = nn.LayerNorm(dim) if config.norm else nn.Identity()
        self.position: nn.Parameter | None = None
        if config.position:
            self.position = nn.Parameter(grid_sinusoid(*self.grid, dim))
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.zeros_(self.project.bias)
        self.dropout = Dropout(config.dropout)

    def forward(self, batch: Batch) -> Sequence:
        x = F.relu(self.norm(self.stem(batch[self.field])))
        x = probe("input.stem", x)
        for number, stage in enumerate(self.stages):
            x = probe(f"input.stage.{number}", stage(x))
        states = self.states_norm(self.project(x.flatten(2).transpose(1, 2)))  # (B, N, D)
        if self.position is not None:
            states = states + self.position
        mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        return Sequence(self.dropout(states), mask)

    def names(self, batch: Batch) -> list[str]:
        """The row and the column of each place of the grid, from 1."""
        rows, columns = self.grid
        return [f"{r},{c}" for r in range(1, rows + 1) for c in range(1, columns + 1)]
