"""Two stacks of recurrent layers that read from either end and never see each other: ELMo's.

A position of the forward stack knows nothing of what follows it, one of the backward stack nothing
of what comes before, however many layers there are: so each may be asked for what it has not read
yet (Peters et al. 2018, section 3.1). In `rnn`, the second layer reads both directions of the
first.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.encoders import Stack
from regard.errors import RecipeError
from regard.layers.dropout import Dropout
from regard.layers.linear import Linear, glorot
from regard.layers.probe import probe, scope
from regard.layers.recurrent import Kind, recurrent
from regard.recipe.values import Depth, Share, WidthOrZero
from regard.types import Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """Two stacks, each of half the model's width."""

    cell: Kind = "lstm"
    """Which layers."""
    layers: Depth = 2
    """How many stand on each other, in each direction."""
    hidden: WidthOrZero = 0
    """Width of a layer's state, which is projected to half the model's width; 0: that half."""
    dropout: Share = 0.1
    """On each layer's input and on the output; never from one step to the next."""
    residual: bool = True
    """Add each layer's input to its output, from the second on."""


class OneWay(nn.Module):
    """x ↦ W h, or x ↦ h where h is as wide as is wanted."""

    def __init__(self, config: Config, inputs: int, width: int) -> None:
        super().__init__()
        hidden = config.hidden or width
        self.cell = recurrent(config.cell, inputs, hidden)
        self.project = None if hidden == width else glorot(Linear(hidden, width))

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"] | None, *, reverse: bool
    ) -> Float[Tensor, "B S W"]:
        h = self.cell.read(x, mask, reverse=reverse)
        return h if self.project is None else self.project(h)


class Layer(nn.Module):
    """→x, ←x ↦ →h, ←h."""

    def __init__(self, config: Config, inputs: int, width: int) -> None:
        super().__init__()
        self.onward = OneWay(config, inputs, width)
        self.backward = OneWay(config, inputs, width)

    def forward(
        self,
        onward: Float[Tensor, "B S D"],
        backward: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B S"] | None,
    ) -> tuple[Float[Tensor, "B S W"], Float[Tensor, "B S W"]]:
        with scope("forward"):
            onward = self.onward(onward, mask, reverse=False)
        with scope("backward"):
            return onward, self.backward(backward, mask, reverse=True)


class Encoder(Stack):
    """h_{t,0} = x_t ∈ ℝᴰ and h_{t,j} = [→h_{t,j}; ←h_{t,j}] with both in ℝᴰ⸍²."""

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__((dim,) * (config.layers + 1))
        if dim % 2:
            raise RecipeError(f"kind: model.dim = {dim} is not even: half is for each direction")
        sizes = [dim, *[dim // 2] * (config.layers - 1)]
        self.layers = nn.ModuleList(Layer(config, size, dim // 2) for size in sizes)
        self.dropout = Dropout(config.dropout)
        self.residual = config.residual

    def _finish(self, x: Tensor) -> Tensor:
        return self.dropout(x)  # type: ignore[no-any-return]

    def _states(self, source: Sequence) -> Iterator[Float[Tensor, "B S D"]]:
        x = probe("input", source.states)
        yield x
        mask = None if bool(source.mask.all()) else source.mask
        sides = (x, x)
        for number, layer in enumerate(self.layers):
            with scope(f"layer.{number}"):
                dropped = self.dropout(x)
                read = dropped.chunk(2, -1) if number else (dropped, dropped)
                onward, backward = layer(*read, mask)
                if self.residual and number:
                    onward, backward = sides[0] + onward, sides[1] + backward
                sides = onward, backward
                x = probe("output", torch.cat(sides, -1))
            yield x
