"""Recurrent layers (LSTM, GRU, plain), in one direction or both (Schuster & Paliwal 1997)."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.encoders import Stack
from regard.layers.dropout import Dropout
from regard.layers.linear import Linear, glorot
from regard.layers.probe import probe, scope
from regard.layers.recurrent import Kind, recurrent
from regard.recipe.values import Depth, Share, WidthOrZero
from regard.types import Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """Recurrent layers that stand on each other."""

    cell: Kind = "lstm"
    """What a layer does at each step."""
    layers: Depth = 2
    """How many layers stand on each other."""
    bidirectional: bool = True
    """Whether a layer also reads from right to left."""
    hidden: WidthOrZero = 0
    """Width of a layer's state in each direction; 0: that of the model."""
    dropout: Share = 0.1
    """On each layer's input and on the output; never from one step to the next."""
    residual: bool = False
    """Add each layer's input to its output, from the second on (Wu et al. 2016, section 3.1)."""


class Layer(nn.Module):
    """x ↦ →h, or the two directions side by side:  x ↦ [→h; ←h]."""

    def __init__(self, config: Config, dim: int, hidden: int) -> None:
        super().__init__()
        self.onward = recurrent(config.cell, dim, hidden)
        both = config.bidirectional
        self.backward = recurrent(config.cell, dim, hidden) if both else None

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"] | None
    ) -> Float[Tensor, "B S W"]:
        with scope("forward"):
            states = self.onward.read(x, mask)
        if self.backward is None:
            return states
        with scope("backward"):
            return torch.cat([states, self.backward.read(x, mask, reverse=True)], -1)


class Encoder(Stack):
    """N layers; a projection at the end where they are not as wide as the model."""

    def __init__(self, config: Config, dim: int) -> None:
        hidden = config.hidden or dim
        width = hidden * (2 if config.bidirectional else 1)
        sizes = (dim, *[width] * (config.layers - 1))
        super().__init__((*sizes, dim))
        self.layers = nn.ModuleList(Layer(config, size, hidden) for size in sizes)
        self.output = nn.Identity() if width == dim else glorot(Linear(width, dim))
        self.dropout = Dropout(config.dropout)
        self.residual = config.residual

    def _finish(self, x: Tensor) -> Tensor:
        return self.output(self.dropout(x))  # type: ignore[no-any-return]

    def _states(self, source: Sequence) -> Iterator[Float[Tensor, "B S W"]]:
        x = probe("input", source.states)
        yield x
        mask = None if bool(source.mask.all()) else source.mask
        for number, layer in enumerate(self.layers):
            with scope(f"layer.{number}"):
                y = layer(self.dropout(x), mask)
                x = probe("output", x + y if self.residual and number else y)
            yield x
