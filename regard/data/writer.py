"""Examples written to a store: into shards, hashed on the way, and taken up after a kill."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.data import shards, whole_file
from regard.data.shards import Column, Columns, Index, Part, Shard
from regard.recipe import checked

ROWS = 2048
"""Examples that are converted together."""
LONGEST = (1 << 32) - 1
"""Items of an example."""

Values = NDArray[Any]
Lengths = NDArray[np.int64]


class Writer:
    """Streams examples into shards; a context manager.

        with Writer(folder, "train", {"source": Column("u2"), "target": Column("u2")}) as writer:
            writer.add(islice(examples, writer.done, None))

    Where an earlier try was killed, its whole shards are taken over if they are of the same columns
    and their hashes agree: `done` examples, which the caller skips. Of a store that is `complete`
    already nothing is left to do. Shards end where the data say, never where a try did, so that the
    files are the same whether or not there was a kill.
    """

    def __init__(
        self, folder: Path, name: str, columns: Mapping[str, Column], *, shard: int = 0
    ) -> None:
        """A shard ends after so many bytes, by default after `shards.SHARD`."""
        self._folder, self._name, self._most = folder, name, shard or shards.SHARD
        self._columns = shards.check_columns(columns)
        self._journal = shards.journal_path(folder, name)
        folder.mkdir(parents=True, exist_ok=True)
        found = whole(folder, name, self._columns)
        self.complete = found is not None
        if self.complete:  # a kill may have come before this
            self._journal.unlink(missing_ok=True)
        self._shards = found if found is not None else self._take_over()
        self.done = sum(each.examples for each in self._shards)
        self._open: _Open | None = None

    def add(self, rows: Iterable[Mapping[str, ArrayLike]]) -> None:
        """Examples one after the other: of each column an array (length, *shape), or what NumPy
        makes one of."""
        stream = iter(rows)
        while block := list(islice(stream, ROWS)):
            self.add_columns(joined(block, self._columns))

    def add_columns(self, block: Mapping[str, tuple[Values, ArrayLike]]) -> None:
        """Many examples at once: of each column all items (Σ lengths, *shape), and the lengths (N,)
        of the examples."""
        if self.complete:
            raise ValueError(f"{self._name} is complete: nothing can be added")
        flat, ends = {}, {}
        for name, column in self._columns.items():
            values, lengths = block[name]
            flat[name] = fitted(values, column)
            ends[name] = _ends(np.asarray(lengths, np.int64), len(flat[name]), name)
        counts = {len(each) for each in ends.values()}
        if block.keys() != self._columns.keys() or len(counts) > 1:
            raise ValueError(f"{self._name}: the columns are not of the same examples")
        size = 4 * len(ends) * np.arange(counts.pop())
        for name, column in self._columns.items():
            size += ends[name] * column.size
        self._put(flat, ends, size)

    def _put(self, flat: Mapping[str, Values], ends: Mapping[str, Lengths], size: Lengths) -> None:
        """Of these examples, which begin and end at `ends` (N + 1) and at so many bytes (N + 1),
        those that the open shard has room for; then the rest."""
        first, last = 0, len(size) - 1
        while first < last:
            if self._open is None:
                self._open = _Open(self._folder, self._name, self._columns, len(self._shards))
            # The example that fills the shard is its last one.
            room = self._most - self._open.size + size[first]
            stop = min(last, max(first + 1, int(np.searchsorted(size, room))))
            for name, column in self._open.columns.items():
                part = ends[name][first : stop + 1]
                column.write(flat[name][part[0] : part[-1]], np.diff(part))
            self._open.examples += stop - first
            self._open.size += int(size[stop] - size[first])
            if self._open.size >= self._most:
                self._end_shard()
            first = stop

    def _end_shard(self) -> None:
        """Close the open shard, and note that it is whole."""
        assert self._open is not None
        self._shards.append(self._open.close())
        self._open = None
        with self._journal.open("a", encoding="utf-8", newline="\n") as file:
            file.write(_line(shards.written_shard(self._shards[-1])))

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None or self.complete:
            if self._open is not None:
                self._open.abandon()
            return
        if self._open is not None:
            self._end_shard()
        shards.write_index(self._folder, self._name, Index(self._columns, self._shards))
        self._journal.unlink(missing_ok=True)

    def _take_over(self) -> list[Shard]:
        """The whole shards of an earlier try; all else that is left of it is removed."""
        head = {"columns": shards.written_columns(self._columns), "shard": self._most}
        found = list(_journal(self._journal, head, self._columns))
        for number, shard in enumerate(found):
            if not is_whole(self._folder, self._name, self._columns, number, shard):
                del found[number:]
                break
        shards.index_path(self._folder, self._name).unlink(missing_ok=True)
        for number, path in shards.leftovers(self._folder, self._name):
            if number >= len(found):
                path.unlink()
        text = _line(head) + "".join(_line(shards.written_shard(shard)) for shard in found)
        whole_file.write(self._journal, text)
        return found


class _OpenColumn:
    """The two files of a column of a shard that is being written."""

    def __init__(self, paths: Sequence[Path]) -> None:
        with ExitStack() as stack:
            self._files: list[BinaryIO] = [stack.enter_context(p.open("wb")) for p in paths]
            self._closing = stack.pop_all()
        self._sums = [hashlib.sha256() for _ in paths]
        self._items = 0

    def write(self, values: Values, lengths: Lengths) -> None:
        arrays = values, lengths.astype("<u4")
        for file, digest, array in zip(self._files, self._sums, arrays, strict=True):
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            file.write(data)
            digest.update(data)
        self._items += len(values)

    def close(self) -> Part:
        self._closing.close()
        return Part(self._items, *(digest.hexdigest() for digest in self._sums))


class _Open:
    """A shard that is being written."""

    def __init__(self, folder: Path, name: str, columns: Columns, number: int) -> None:
        self.examples = self.size = 0
        self.columns = {c: _OpenColumn(shards.paths(folder, name, c, number)) for c in columns}

    def close(self) -> Shard:
        return Shard(self.examples, {name: each.close() for name, each in self.columns.items()})

    def abandon(self) -> None:
        """Close the files. What cannot be written any more is of no use anyway."""
        for each in self.columns.values():
            with suppress(OSError):
                each.close()


# Arrays


def joined(
    rows: Sequence[Mapping[str, ArrayLike]], columns: Mapping[str, Column]
) -> dict[str, tuple[Values, Lengths]]:
    """Of each column the arrays of many examples as one, and the length of each."""
    return {name: _joined([row[name] for row in rows], each) for name, each in columns.items()}


def _joined(rows: Sequence[ArrayLike], column: Column) -> tuple[Values, Lengths]:
    """For lists of plain numbers this is several times as fast as an array of each."""
    if not column.shape and all(isinstance(row, list) for row in rows):
        lists: Sequence[list[Any]] = rows  # type: ignore[assignment]
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        _check_numbers(lists, column)
        flat = np.fromiter(chain.from_iterable(lists), column.kind, int(lengths.sum()))
        return flat, lengths
    arrays = [np.asarray(row) for row in rows]
    lengths = np.fromiter(map(len, arrays), np.int64, len(arrays))
    filled = [array for array in arrays if len(array)]
    return np.concatenate(filled) if filled else np.empty((0, *column.shape), column.kind), lengths


def _check_numbers(rows: Sequence[list[Any]], column: Column) -> None:
    """`fromiter` would cut off fractions: the first number of each list stands for the others."""
    kinds = {type(row[0]) for row in rows if row}
    if column.kind.kind in "iu" and not kinds <= {int, bool}:
        others = ", ".join(sorted(kind.__name__ for kind in kinds - {int, bool}))
        raise ValueError(f"a column of type {column.dtype} takes no {others}")


def fitted(values: Values, column: Column) -> Values:
    """The same values as the column's type; ValueError if they are not of its shape, or if not all
    of them have a place in that type."""
    values = np.asarray(values)
    if values.shape[1:] != column.shape:
        raise ValueError(f"items of the shape {values.shape[1:]} instead of {column.shape}")
    if values.dtype == column.kind:
        return values
    if column.kind.kind in "iu" and values.dtype.kind in "iu" and values.size:
        limits = np.iinfo(column.kind)
        fits = limits.min <= int(values.min()) and int(values.max()) <= limits.max
    else:
        fits = not values.size or np.can_cast(values.dtype, column.kind, "same_kind")
    if not fits:
        raise ValueError(f"{values.dtype} values that do not fit into type {column.dtype}")
    return values.astype(column.kind)


def _ends(lengths: Lengths, items: int, name: str) -> Lengths:
    """Where each example begins, and where the last one ends."""
    if lengths.ndim != 1 or lengths.min(initial=0) < 0 or lengths.max(initial=0) > LONGEST:
        raise ValueError(f"{name}: a length is a number from 0 to {LONGEST}")
    ends = np.concatenate([[0], np.cumsum(lengths)])
    if ends[-1] != items:
        raise ValueError(f"{name}: {items} items, but lengths of {ends[-1]}")
    return ends


# What an earlier try has left


def is_whole(folder: Path, name: str, columns: Columns, number: int, shard: Shard) -> bool:
    """Whether the files of a shard are there and as they were written."""
    try:
        for column, part in shard.parts.items():
            values, lengths = shards.paths(folder, name, column, number)
            shards.lengths_of(lengths, part, shard.examples)
            shards.values_of(values, part, columns[column])
    except (OSError, ValueError):
        return False
    return True


def whole(folder: Path, name: str, columns: Columns) -> list[Shard] | None:
    """The shards of a store of these columns that is complete, if it is."""
    try:
        index = shards.read_index(folder, name)
    except (OSError, ValueError):
        return None
    found = enumerate(index.shards)
    same = [*index.columns.items()] == [*columns.items()]  # in the same order
    if same and all(is_whole(folder, name, columns, n, shard) for n, shard in found):
        return index.shards
    return None


def _journal(path: Path, head: Mapping[str, Any], columns: Columns) -> Iterable[Shard]:
    """The shards that a journal with this head names, up to a line that was not written whole."""
    with suppress(OSError, ValueError):
        lines = path.read_bytes().decode().splitlines(keepends=True)
        if lines and lines[0] == _line(head):
            for line in lines[1:]:
                yield shards.read_shard(checked.parse(line), columns)


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value) + "\n"
