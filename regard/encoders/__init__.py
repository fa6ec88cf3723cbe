"""A Sequence of vectors becomes one in which positions know of each other."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.probe import scope
from regard.types import Batch, Encoder, Input, Layered, Sequence


def encoded(input: Input, encoder: Encoder | None, batch: Batch) -> Sequence:
    """The memory of a batch."""
    sequence = input(batch)
    if encoder is None:
        return sequence
    with scope("encoder"):
        return encoder(sequence)


def encoded_layers(input: Input, encoder: Encoder | None, batch: Batch) -> list[Sequence]:
    """What the encoder reads and what each of its layers gives. One that is not `Layered` counts as
    one layer."""
    sequence = input(batch)
    if encoder is None:
        return [sequence]
    with scope("encoder"):
        if isinstance(encoder, Layered):
            return encoder.all_layers(sequence)
        return [sequence, encoder(sequence)]


def side_by_side(layers: list[Sequence]) -> Sequence:
    """The states of all layers, of each position one behind the other."""
    return Sequence(torch.cat([each.states for each in layers], -1), layers[-1].mask)


def width(encoder: Any, dim: int) -> int:
    """Of all layers side by side."""
    if isinstance(encoder, Layered):
        return sum(encoder.widths())
    return dim if encoder is None else 2 * dim


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
