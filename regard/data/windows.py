"""Windows of a series: a past that is read, a future that is predicted, each in its own unit.

The equations take NumPy's arrays, of which batches are made, and torch's tensors, on whichever
device a forecast goes on from what it has said itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from regard.errors import RecipeError
from regard.recipe.values import Length, LengthOrZero


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

    def size(self, variables: int) -> Mapping[str, int]:
        """What a model of a series with so many variables must know."""
        seen = 1 if self.independent else variables
        size = {"variables": seen, "length": self.look_back, "steps": self.steps}
        return size | {"outputs": seen * self.steps}

    def starts(self, part: tuple[int, int], steps: int) -> Int[Any, " N"]:
        """Where futures of so many steps begin: every place where one lies inside the part (from,
        up to) and a whole past stands before it, in whatever part that is."""
        start, end = part
        return np.arange(max(start, self.look_back), end - steps + 1)

    def cut(
        self, values: Float[Any, "T C"], starts: Int[Any, " B"], steps: int
    ) -> Float[Any, "B N C"]:
        """The windows of a series whose futures, of so many steps, begin at `starts`: the past and
        then the future of each, N = look_back + steps."""
        places = starts[:, None] + np.arange(-self.look_back, steps)
        return values.take(places, axis=0)  # several times as fast as values[places]


def normaliser(
    past: Float[Any, "B S C"], kind: str
) -> tuple[Float[Any, "B 1 C"], Float[Any, "B 1 C"]]:
    """c and s of (x − c) / s: what is subtracted from a window, and what it is divided by.

    none: 0 and 1. last: its last value and 1. window: its mean and √(variance + 10⁻⁵).
    """
    last = past[:, -1:]
    one = last * 0 + 1
    if kind == "window":
        mean = past.mean(axis=1, keepdims=True)
        variance = ((past - mean) ** 2).mean(axis=1, keepdims=True)
        return mean, (variance + 1e-5) ** 0.5
    return (last if kind == "last" else last * 0), one


def fold(x: Float[Any, "B S C"], window: Config) -> Float[Any, "B2 S C2"]:
    """Independent variables become windows of one variable: (B · C, S, 1)."""
    return x.swapaxes(1, 2).reshape(-1, x.shape[1], 1) if window.independent else x


def unfold(y: Float[Any, "B2 O"], window: Config, variables: int) -> Float[Any, "B T {variables}"]:
    """What the head gives for a folded batch, as steps of all variables."""
    if window.independent:
        return y.reshape(-1, variables, window.steps).swapaxes(1, 2)
    return y.reshape(-1, window.steps, variables)
