"""Running text: parallel streams to learn from, windows to read one text to its end.

A text y₁ … y_N is said token by token: y_i after reading y₀ … y_{i−1}, where y₀ is the token
that stands before every text. Places are counted from 0: place i reads y_i and says y_{i+1}.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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


class Text(Protocol):
    """Tokens that are read where they are sliced."""

    def __len__(self) -> int: ...

    def __getitem__(self, piece: slice, /) -> Any: ...


@dataclass(frozen=True)
class Layout:
    """Where streams begin in a text of N places, and where their chunks end.

    With an offset o < length drawn by a key, stream b of B covers m = ⌊(N − o) / B⌋ places from
    o + b · m on, in ⌈m / length⌉ chunks whose lengths differ by one at most. The few places that
    are left over at either end are others with each key.
    """

    begins: NDArray[np.int64]
    """(B,)"""
    borders: NDArray[np.int64]
    """(chunks + 1,): counted from where a stream begins."""

    @classmethod
    def of(cls, places: int, config: Config, key: Sequence[int]) -> "Layout":
        streams, length = config.streams, config.length
        random = np.random.Generator(np.random.PCG64(key))
        offset = int(random.integers(min(length, places - streams + 1)))
        each = (places - offset) // streams
        chunks = -(-each // length)
        return cls(offset + each * np.arange(streams), each * np.arange(chunks + 1) // chunks)

    def __len__(self) -> int:
        """Chunks."""
        return len(self.borders) - 1

    def batch(self, text: Text, before: int, chunk: int, rows: slice = ALL) -> Batch:
        """A chunk of each stream, or of those that `rows` selects; `before` stands before the text.
        An example's number is the place where its stream is."""
        first, end = self.borders[chunk : chunk + 2]
        begins, length = self.begins[rows] + first, end - first
        table = np.empty((len(begins), length + 1), np.int64)  # each with the token before it
        for row, begin in zip(table, begins.tolist(), strict=True):
            row[0] = before
            row[begin == 0 :] = text[max(0, begin - 1) : begin + length]
        read = torch.from_numpy(table)
        tensors = {
            "target_in": read[:, :-1],
            "target_out": read[:, 1:],
            "target_mask": torch.ones(len(begins), length, dtype=torch.bool),
        }
        ids, targets = tuple(begins.tolist()), len(begins) * int(length)
        return Batch(tensors=tensors, ids=ids, targets=targets, continues=chunk > 0)


class Streams:
    """The endless stream of training batches, each of which goes on where the one before stopped;
    in each epoch by another layout."""

    def __init__(self, text: Array | Flat, before: int, config: Config, seed: int) -> None:
        check_size(len(text), config)
        self._text, self._before, self._config, self._seed = text, before, config, seed

    def _layout(self, epoch: int) -> Layout:
        return Layout.of(len(self._text), self._config, [self._seed, epoch])

    def at(self, position: Position, rows: slice = ALL) -> Batch:
        """The chunk of each stream at a position, or of those streams that `rows` selects."""
        layout = self._layout(position.epoch)
        check_place(position, len(layout))
        return layout.batch(self._text, self._before, position.index, rows)

    def after(self, position: Position) -> Position:
        """The position that follows."""
        if position.index + 1 < len(self._layout(position.epoch)):
            return Position(position.epoch, position.index + 1)
        return Position(position.epoch + 1, 0)


def check_size(tokens: int, config: Config) -> None:
    """Refuse a text that has no token for each stream."""
    if tokens < config.streams:
        raise UserError(
            f"data.train: {tokens:,} tokens are too few for {config.streams} streams: "
            "set stream.streams lower, or give more text"
        )


def check_place(position: Position, batches: int) -> None:
    if position.index >= batches:
        raise UserError(f"{position}: the data has {batches:,} batches in that epoch")


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
