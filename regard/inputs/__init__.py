"""A field of the batch becomes a Sequence of vectors."""

from typing import Protocol, runtime_checkable

from regard.types import Batch


@runtime_checkable
class Names(Protocol):
    """An input whose positions are its own doing, as patches of a picture are."""

    grid: tuple[int, int]
    """Rows and columns of them; others may stand before them."""

    def names(self, batch: Batch) -> list[str]:
        """What stands at each position."""
        ...
