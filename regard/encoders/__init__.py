"""A Sequence of vectors becomes one in which positions know of each other."""

from collections import deque
from collections.abc import Iterator

from torch import Tensor, nn

from regard.types import Sequence


class Stack(nn.Module):
    """An encoder of layers that stand on each other; it is `Layered`."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        """How wide what the first layer reads is, then what each layer gives."""
        super().__init__()
        self._widths = widths

    def widths(self) -> tuple[int, ...]:
        return self._widths

    def forward(self, source: Sequence) -> Sequence:
        x = deque(self._states(source), maxlen=1).pop()  # no other is kept
        return Sequence(self._finish(x), source.mask)

    def all_layers(self, source: Sequence) -> list[Sequence]:
        *before, x = self._states(source)
        return [Sequence(y, source.mask) for y in (*before, self._finish(x))]

    def _states(self, source: Sequence) -> Iterator[Tensor]:
        """What the first layer reads, then what each layer gives."""
        raise NotImplementedError

    def _finish(self, x: Tensor) -> Tensor:
        """What stands behind the last layer."""
        return x
