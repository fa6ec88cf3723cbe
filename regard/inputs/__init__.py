"""A field of the batch becomes a Sequence of vectors."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor

from regard.types import Batch, FieldSize


@runtime_checkable
class FixedLength(Protocol):
    """The Config of an input that gives as many positions for every example."""

    def fixed_length(self, size: FieldSize) -> int:
        """How many."""
        ...


@runtime_checkable
class Particular(Protocol):
    """The Config of a part that reads fields of certain sizes alone."""

    def example(self, dim: int) -> Mapping[str, int]:
        """Sizes that it can read, for a check without data; any others may be any number."""
        ...


@runtime_checkable
class Pretrained(Protocol):
    """The Config of an input that may begin with vectors from a file: its `embedding` has them, or
    is None."""

    vectors: str


@runtime_checkable
class Counted(Protocol):
    """The Config of an input that may begin with the weights of naive Bayes."""

    naive_bayes: float
    """How many occurrences are added to what is counted; 0: it does not."""


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
