"""A field of the batch becomes a Sequence of vectors."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor

from regard.types import Batch


@runtime_checkable
class Names(Protocol):
    """An input whose positions are its own doing, as patches of a picture are."""

    def names(self, batch: Batch) -> list[str]:
        """What stands at each position."""
        ...


@runtime_checkable
class Grid(Names, Protocol):
    """The same where positions are places of a picture."""

    grid: tuple[int, int]
    """Rows and columns of them; others may stand before them."""


@runtime_checkable
class Timed(Protocol):
    """An input whose positions are times: of sound."""

    seconds: float
    """From one position to the next."""


@runtime_checkable
class Resamples(Protocol):
    """An input with a vector for each place of a grid, which can be found for those of another."""

    grid: tuple[int, int]

    def taken_over(self, weights: Mapping[str, Tensor], grid: tuple[int, int]) -> dict[str, Tensor]:
        """Weights of such an input, whose grid is this one, for the own."""
        ...
