"""Windows of a series: a past that is read, a future that is predicted, and how well it was."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import RecipeError
from regard.recipe.values import Length, LengthOrZero
from regard.types import Batch, Sizes, float64


@dataclass(frozen=True, kw_only=True)
class Config:
    """How far a model looks, back and ahead."""

    look_back: Length = 336
    """Steps that are read."""
    horizon: Length = 96
    """Steps that are forecast."""
    block: LengthOrZero = 0
    """Steps that are predicted at once, and then read to predict the next; 0: the horizon."""
    normalise: Literal["none", "last", "window"] = "none"
    """What is taken off each window before it is read and given back after: its last value, or
    its mean, and then it is divided by its deviation, too (Kim et al. 2022)."""
    independent: bool = False
    """Each variable is a series of its own, for one model that sees no other (Nie et al. 2023)."""

    def __post_init__(self) -> None:
        if self.block > self.horizon:
            raise RecipeError(f"block: {self.block} steps are more than the horizon")

    @property
    def steps(self) -> int:
        """Steps that are predicted at once."""
        return self.block or self.horizon

    def sizes(self, variables: int) -> Sizes:
        """Of a model of a series with so many variables."""
        seen = 1 if self.independent else variables
        size = {"variables": seen, "length": self.look_back, "steps": self.steps}
        fields = {"series": size | {"outputs": seen * self.steps}}
        return Sizes(fields, reads="series", writes="series")


def collate(
    past: Float[Tensor, "B S C"],
    future: Float[Tensor, "B T C"] | None,
    window: Config,
    ids: Sequence[int],
) -> Batch:
    """Windows, each normalised by its own past, as the model reads them."""
    centre, scale = normaliser(past, window.normalise)
    tensors = {"series": fold((past - centre) / scale, window)}
    if future is not None:
        tensors["targets"] = fold((future - centre) / scale, window).flatten(1)
        tensors["scale"] = fold(scale.expand_as(future), window).flatten(1)
    count = 0 if future is None else future.numel()
    return Batch(tensors=tensors, ids=tuple(ids), targets=count)


def normaliser(
    past: Float[Tensor, "B S C"], kind: str
) -> tuple[Float[Tensor, "B 1 C"], Float[Tensor, "B 1 C"]]:
    """What is subtracted from a window, and what it is divided by."""
    last = past[:, -1:]
    match kind:
        case "last":
            return last, torch.ones_like(last)
        case "window":
            variance = past.var(1, keepdim=True, correction=0)
            return past.mean(1, keepdim=True), (variance + 1e-5).sqrt()
    return torch.zeros_like(last), torch.ones_like(last)


def fold(x: Float[Tensor, "B S C"], window: Config) -> Float[Tensor, "B2 S C2"]:
    """Independent variables become windows of one variable: (B · C, S, 1)."""
    return x.transpose(1, 2).reshape(-1, x.shape[1], 1) if window.independent else x


def unfold(
    y: Float[Tensor, "B2 O"], window: Config, variables: int
) -> Float[Tensor, "B T {variables}"]:
    """What the head gives for a folded batch, as steps of all variables."""
    if window.independent:
        return y.view(-1, variables, window.steps).transpose(1, 2)
    return y.view(len(y), window.steps, variables)


class Forecasts(NamedTuple):
    """What came, what was expected, and how surely, in standardised values."""

    future: Float[Tensor, "*N T C"]
    mean: Float[Tensor, "*N T C"]
    deviation: Float[Tensor, "*N T C"]

    def distance(self) -> Float[Tensor, "*N T C"]:
        """z = (y − μ) / σ."""
        return float64(self.future - self.mean) / float64(self.deviation)

    def nll(self) -> Float[Tensor, "*N T C"]:
        """−log N(y; μ, σ²) = ½ log 2π + log σ + ½ z²."""
        constant = 0.5 * math.log(2 * math.pi)
        return constant + float64(self.deviation).log() + self.distance().square() / 2

    def figures(self, reach: float) -> dict[str, float]:
        """Means over all windows, steps and variables; coverage: how many lie in μ ± reach · σ."""
        return {name: float(each.mean()) for name, each in self.by_window(reach).items()}

    def by_window(self, reach: float) -> dict[str, Float[Tensor, " N"]]:
        """The same figures of each window."""
        error = float64(self.future - self.mean)
        found = {
            "mse": error.square(),
            "mae": error.abs(),
            "nll": self.nll(),
            "coverage": (self.distance().abs() <= reach).double(),
        }
        return {name: values.flatten(-2).mean(-1) for name, values in found.items()}
