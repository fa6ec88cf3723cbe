"""Convolutions over words (Kim 2014), in residual layers."""

from collections.abc import Iterator
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.encoders import Stack
from regard.errors import RecipeError
from regard.layers.convolution import Convolutions
from regard.layers.dropout import Dropout
from regard.layers.probe import probe, scope
from regard.recipe.values import Depth, Share, Widths
from regard.types import Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """Filters of several widths, layer on layer."""

    layers: Depth = 1
    """How many layers stand on each other."""
    widths: Widths = (3, 4, 5)
    """How many words a filter sees; model.dim is shared out among the widths."""
    dropout: Share = 0.1
    """On the input and on each layer's output."""
    residual: bool = False
    """Whether a layer reads its input normalised and adds to it, for many layers."""

    def check(self, dim: int) -> None:
        """Refuse sizes that do not fit together."""
        if not self.widths:
            raise RecipeError("widths: names no width")
        if len(self.widths) > dim:
            raise RecipeError(f"widths: {len(self.widths)} share model.dim = {dim}: too few each")


class Encoder(Stack):
    """x ↦ relu(convolutions(x)), layer on layer; or x ↦ x + relu(convolutions(norm(x))), and a
    norm at the end."""

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__((dim,) * (config.layers + 1))
        config.check(dim)
        self.residual = config.residual
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(
            Convolutions(dim, dim, config.widths) for _ in range(config.layers)
        )
        count = config.layers + 1 if config.residual else 0
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(count))

    def _finish(self, x: Tensor) -> Tensor:
        return self.norms[-1](x) if self.residual else x

    def _states(self, source: Sequence) -> Iterator[Float[Tensor, "B S D"]]:
        x: Tensor = self.dropout(probe("input", source.states))
        yield x
        for number, layer in enumerate(self.layers):
            inside = self.norms[number](x) if self.residual else x
            y = self.dropout(F.relu(layer(inside, source.mask)))
            x = x + y if self.residual else y
            with scope(f"layer.{number}"):
                x = probe("output", x)
            yield x
