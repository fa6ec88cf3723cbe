"""Arrays on disk, by example and by column, read piece by piece.

    Writer        writes them (writer.py); what the files are: shards.py
    Store         the examples by number
    Flat          a whole column, one item after the other

A text that is wanted as it was is a column, too: of its bytes in UTF-8.

Files are read where they are sliced, not mapped into memory: where a mapped file is cut off, the
process ends without a word.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data import earlier_store, shards
from regard.data.shards import SHARD, Column, Columns, File, Index
from regard.data.writer import Writer
from regard.errors import UserError

__all__ = [
    "SHARD", "Array", "Column", "Flat", "Store", "Writer", "pad",
]  # fmt: skip

Array = NDArray[Any]
BLOCK = 1 << 20
"""Items that are looked at together, if they are numbers; of larger ones fewer."""
OPEN = 16
"""Files of a column that are kept open."""


class Flat:
    """A column as one sequence of items, which is read where it is sliced."""

    def __init__(self, column: Column, files: Iterable[File], starts: NDArray[np.int64]) -> None:
        """The items of the files, one after the other; example n has those from `starts[n]` to
        `starts[n + 1]`."""
        self.column, self.starts = column, starts
        self._kind, self._size = column.kind, column.size
        self._places = np.ascontiguousarray(starts, np.int64).data  # quicker than the array
        self._paths: list[Path] = []
        self._open: dict[int, File] = {}
        self._lock = Lock()
        self._borders = [0]
        for number, file in enumerate(files):
            self._paths.append(file.path)
            self._borders.append(self._borders[-1] + file.size // self._size)
            if number < OPEN:
                self._open[number] = file

    def __len__(self) -> int:
        """Items."""
        return self._borders[-1]

    def __getitem__(self, piece: slice) -> Array:
        first, end, _ = piece.indices(len(self))
        return self._items(first, end)

    def example(self, number: int) -> Array:
        """The items of an example: (length, *shape)."""
        if number < 0:
            raise IndexError(number)
        places = self._places
        return self._items(places[number], places[number + 1])

    def _items(self, first: int, end: int) -> Array:
        borders = self._borders
        shard = bisect_right(borders, first) - 1 if len(borders) > 2 else 0
        if first >= end:
            return np.empty((0, *self.column.shape), self._kind)
        if end <= borders[shard + 1]:
            return self._piece(shard, first, end)
        pieces = []
        while first < end:
            if (stop := min(end, borders[shard + 1])) > first:
                pieces.append(self._piece(shard, first, stop))
            first, shard = stop, shard + 1
        return np.concatenate(pieces)

    def _piece(self, shard: int, first: int, end: int) -> Array:
        wanted = (end - first) * self._size
        file = self._open.get(shard) or self._opened(shard)
        data = file.read(wanted, (first - self._borders[shard]) * self._size)
        if len(data) < wanted:
            raise UserError(
                f"{file.path} has been cut off while it was in use. Bring the file back and go on "
                "with --resume, or start a new run from the recipe"
            )
        found = np.frombuffer(data, self._kind)
        return found.reshape(-1, *self.column.shape) if self.column.shape else found

    def _opened(self, shard: int) -> File:
        """A file that was closed again: no process may hold any number of them open."""
        path = self._paths[shard]
        try:
            file = File(path)
        except OSError as error:
            raise UserError(
                f"{path} cannot be read: {error.strerror}. Bring the file back and go on with "
                "--resume, or start a new run from the recipe"
            ) from None
        with self._lock:  # another thread that reads one that goes holds it until it has read
            while len(self._open) >= OPEN:
                del self._open[next(iter(self._open))]
            self._open[shard] = file
        return file

    def view(self, column: Column) -> "Flat":
        """The same bytes as items of another type of the same size."""
        found = copy(self)
        found.column, found._kind = column, column.kind
        return found

    def pieces(self) -> Iterator[Array]:
        """All of it, a large piece at a time."""
        return (self[n : n + self._block] for n in range(0, len(self), self._block))

    @property
    def _block(self) -> int:
        return max(1, BLOCK * self._kind.itemsize // self._size)

    def where(self, value: int) -> NDArray[np.int64]:
        """The places at which it stands, in a column of numbers."""
        found = [np.flatnonzero(piece == value) for piece in self.pieces()]
        block = self._block
        return np.concatenate(
            [np.empty(0, np.int64), *(n * block + places for n, places in enumerate(found))]
        )


class Store:
    """Examples by number, each with an array for every column."""

    def __init__(self, folder: Path, name: str) -> None:
        """What is damaged, or not as any `Writer` leaves it, is refused. A store of an earlier
        version has no index: its columns are the files NAME.COLUMN.tokens, of unsigned integers."""
        self.name = str(folder / name)
        with _readable():
            self.signature = ""
            if shards.index_path(folder, name).exists():
                index = shards.read_index(folder, name)
                self.columns, self._flat = _indexed(folder, name, index)
                self.signature = shards.signature(index)
            else:
                self.columns, self._flat = _earlier(folder, name)
            for column, flat in self._flat.items():
                # NumPy takes any byte for true, and some operations for other than 1.
                bools = flat.pieces() if self.columns[column].dtype == "bool" else ()
                if any(piece.view(np.uint8).max() > 1 for piece in bools):
                    raise ValueError(f"{self.name}.{column}: not all are true or false")
            counts = {len(flat.starts) - 1 for flat in self._flat.values()}
            if len(counts) != 1:
                raise ValueError(f"the files {self.name}.* are not of the same examples")
            (self._count,) = counts

    def rename(self, names: Mapping[str, str]) -> None:
        """Call columns by other names."""
        self.columns = {names.get(name, name): each for name, each in self.columns.items()}
        self._flat = {names.get(name, name): each for name, each in self._flat.items()}

    def view(self, column: str, dtype: str) -> None:
        """Take the bits of a column's numbers for those of another type of the same size."""
        self.columns[column] = Column(dtype, self.columns[column].shape)
        self._flat[column] = self._flat[column].view(self.columns[column])

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> dict[str, Array]:
        return {name: flat.example(number) for name, flat in self._flat.items()}

    def __iter__(self) -> Iterator[dict[str, Array]]:
        return map(self.__getitem__, range(len(self)))

    def read(self, column: str, numbers: Iterable[int]) -> list[Array]:
        """One column of many examples."""
        return [*map(self._flat[column].example, numbers)]

    def read_all(self, column: str) -> list[Array]:
        """One column of all examples."""
        return self.read(column, range(len(self)))

    def texts(self, column: str) -> list[str]:
        """A column of UTF-8, as the texts that it was."""
        flat = self._flat[column]
        with _readable():
            try:
                rows = map(flat.example, range(len(self)))
                return [row.astype(np.uint8).tobytes().decode() for row in rows]
            except UnicodeDecodeError as error:
                raise ValueError(f"{self.name}.{column}: {error}") from None

    def lengths(self, column: str) -> NDArray[np.int64]:
        """(N,): how many items each example has."""
        return np.diff(self._flat[column].starts)

    def flat(self, column: str) -> Flat:
        """The items of all examples."""
        return self._flat[column]

    def sums(self, column: str) -> NDArray[np.int64]:
        """(N,): of the numbers of each example."""
        flat = self._flat[column]
        found = np.zeros(len(self), np.int64)
        for first in range(0, len(found), BLOCK):
            ends = flat.starts[first : first + BLOCK + 1]
            piece = flat[int(ends[0]) : int(ends[-1])]
            totals = np.concatenate([[0], np.cumsum(piece, dtype=np.int64)])
            found[first : first + BLOCK] = np.diff(totals[ends - ends[0]])
        return found

    def check(
        self,
        column: str,
        *,
        values: range | None = None,
        longest: int | None = None,
        end: int | None = None,
        finite: bool = False,
        missing: bool = False,
    ) -> None:
        """Refused is a column that holds any but these `values`, an example of more than `longest`
        items, with an `end` what does not have it at the end of each example and nowhere else, and
        with `finite` numbers that are not; with `missing`, NaN stands for one that is not known."""
        what = f"{self.name}.{column}"
        with _readable():
            if column not in self._flat:
                raise ValueError(f"{what} is missing")
            flat = self._flat[column]
            if longest is not None and self.lengths(column).max(initial=0) > longest:
                raise ValueError(f"{what}: a sequence has more than {longest} tokens")
            if values is not None and not all(
                values.start <= piece.min() and piece.max() < values.stop for piece in flat.pieces()
            ):
                raise ValueError(f"{what}: not all are from {values.start} to {values.stop - 1}")
            if end is not None and not np.array_equal(flat.where(end), flat.starts[1:] - 1):
                raise ValueError(f"{what}: its lines do not end where their lengths say")
            odd = (np.isinf(p) if missing else ~np.isfinite(p) for p in flat.pieces())
            if (finite or missing) and any(piece.any() for piece in odd):
                raise ValueError(f"{what}: not all are finite numbers")


@contextmanager
def _readable() -> Iterator[None]:
    """Says that stored data cannot be read, and what to do, where something is wrong with it."""
    try:
        yield
    except (OSError, ValueError, MemoryError) as error:
        raise UserError(
            f"the stored data cannot be read: {error}. Start a new run from the recipe"
        ) from None


def _indexed(folder: Path, name: str, index: Index) -> tuple[Columns, dict[str, Flat]]:
    """The columns of a store, all hashes checked."""
    found = {}
    for column, about in index.columns.items():
        places = [shards.paths(folder, name, column, n) for n in range(len(index.shards))]
        parts = [(*paths, shard) for paths, shard in zip(places, index.shards, strict=True)]
        lengths = [
            shards.lengths_of(path, shard.parts[column], shard.examples) for _, path, shard in parts
        ]
        starts = np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths]))
        files = (shards.values_of(path, shard.parts[column], about) for path, _, shard in parts)
        found[column] = Flat(about, files, starts)
    return index.columns, found


def _earlier(folder: Path, name: str) -> tuple[Columns, dict[str, Flat]]:
    """Those of a store of an earlier version: the columns that are there."""
    found = {}
    for column in earlier_store.columns(folder, name):
        file, width, offsets = earlier_store.opened(folder, f"{name}.{column}")
        found[column] = Flat(Column(f"u{width}"), [file], offsets)
    if not found:
        raise FileNotFoundError(f"{shards.index_path(folder, name)} is missing")
    return {column: flat.column for column, flat in found.items()}, found


def pad(
    rows: Sequence[Array], value: int, *, start: Sequence[int] = (), end: Sequence[int] = ()
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Rows of one length, filled up on the right with `value`, and the mask of what is real."""
    lengths = np.array([len(row) for row in rows], np.int64) + len(start) + len(end)
    longest = int(lengths.max(initial=0))
    mask = np.arange(longest) < lengths[:, None]
    table = np.full(mask.shape, value, np.int64)
    table[:, : len(start)] = start
    for line, row in zip(table, rows, strict=True):
        line[len(start) : len(start) + len(row)] = row
    for n, symbol in enumerate(end):
        table[np.arange(len(rows)), lengths - len(end) + n] = symbol
    return table, mask
