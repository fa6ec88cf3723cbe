"""Running text: parallel streams to learn from, windows to read one text to its end.

A text y₁ … y_N is said token by token: y_i after reading y₀ … y_{i−1}, where y₀ is the token
that stands before every text. Places are counted from 0: place i reads y_i and says y_{i+1}.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.documents import Kind
from regard.data.store import Array, Flat
from regard.errors import UserError
from regard.recipe.values import Length, Rows
from regard.types import ALL, Batch, Position


@dataclass(frozen=True, kw_only=True)
class Config:
    """How running text is read in training: truncated back-propagation through time."""

    streams: Rows = 32
    """How many places of the text are read side by side: the rows of a batch."""
    length: Length = 64
    """The most tokens of each stream in one batch; the gradient reaches no farther back."""
    documents: Kind = "none"
    """What a text is: all of it one running text, or many documents, packed one after the other:
    lines, what stands between empty lines, or files. The token END ends each of them."""
    across: bool = False
    """Whether a model sees across the border between documents while it learns: attention, and the
    state of a recurrent one; otherwise each is read as if it were alone."""

    @property
    def packs(self) -> bool:
        return self.documents != "none"


class Streams:
    """The endless stream of training batches, each of which goes on where the one before stopped.

    With an offset o < length drawn for each epoch, stream b of B covers m = ⌊(N − o) / B⌋ places
    from o + b · m on, in ⌈m / length⌉ chunks whose lengths differ by one at most. The few places
    that are left over at either end are others in each epoch.
    """

    def __init__(self, text: Array | Flat, before: int, config: Config, seed: int) -> None:
        if len(text) < config.streams:
            raise UserError(
                f"data.train: {len(text):,} tokens are too few for {config.streams} streams: "
                "set stream.streams lower, or give more text"
            )
        self._text, self._before, self._config, self._seed = text, before, config, seed

    def _layout(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each stream begins (B), and the borders of its chunks, counted from there."""
        streams, length = self._config.streams, self._config.length
        random = np.random.Generator(np.random.PCG64([self._seed, epoch]))
        offset = int(random.integers(min(length, len(self._text) - streams + 1)))
        each = (len(self._text) - offset) // streams
        chunks = -(-each // length)
        return offset + each * np.arange(streams), each * np.arange(chunks + 1) // chunks

    def at(self, position: Position, rows: slice = ALL) -> Batch:
        """The chunk of each stream at a position, or of those streams that `rows` selects."""
        begins, borders = self._layout(position.epoch)
        if position.index + 1 >= len(borders):
            raise UserError(f"{position}: the data has {len(borders) - 1:,} batches in that epoch")
        first, end = borders[position.index : position.index + 2]
        begins, length = begins[rows] + first, end - first
        table = np.empty((len(begins), length + 1), np.int64)  # each with the token before it
        for row, begin in zip(table, begins.tolist(), strict=True):
            row[0] = self._before
            row[begin == 0 :] = self._text[max(0, begin - 1) : begin + length]
        text = torch.from_numpy(table)
        tensors = {
            "target_in": text[:, :-1],
            "target_out": text[:, 1:],
            "target_mask": torch.ones(len(begins), length, dtype=torch.bool),
        }
        ids, targets = tuple(begins.tolist()), len(begins) * int(length)
        return Batch(tensors=tensors, ids=ids, targets=targets, continues=position.index > 0)

    def after(self, position: Position) -> Position:
        """The position that follows."""
        _, borders = self._layout(position.epoch)
        if position.index + 2 < len(borders):
            return Position(position.epoch, position.index + 1)
        return Position(position.epoch + 1, 0)


def windows(places: int, length: int, overlap: int = 0) -> Iterator[tuple[int, int, int]]:
    """(first, new, end) of each window over so many places: read from `first`, count from `new`.

    Every place is counted once. All windows but the first begin with `overlap` places that were
    counted before, for a model that knows nothing of what it does not read.
    """
    new = 0
    while new < places:
        first = max(0, new - overlap)
        end = min(places, first + length)
        yield first, new, end
        new = end
