"""What a store is on the disk: columns of arrays, cut into shards, and an index that names them.

NAME.json                      the index: columns, examples and hashes of each shard; written last
NAME.COLUMN.00000.values       the items of all examples of a shard, one after the other
NAME.COLUMN.00000.lengths      how many items each example has: little-endian, 4 bytes each

Lengths, not places: whatever they are, they never run backwards, and one sum says whether they fit.
While a store is written, `.NAME.journal` has a line for each shard that is whole.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data import whole_file
from regard.recipe import checked
from regard.recipe.checked import Table

FORMAT = 1
DTYPES = ("u1", "u2", "u4", "i2", "i4", "i8", "f2", "f4", "f8", "bool")
"""What a column may be of: never objects."""
SHARD = 1 << 26
"""Bytes after which a shard ends."""
AXES, LARGEST_ITEM = 8, 1 << 31
"""Of an item: how many, and how many bytes."""
NAMES = re.compile(r"\w{1,60}", re.ASCII)
HASH = re.compile("[0-9a-f]{64}")
BLOCK = 1 << 20


class Column(NamedTuple):
    """What one array of every example is like."""

    dtype: str
    """Such as "u2", "f4", "bool": NumPy's, little-endian."""
    shape: tuple[int, ...] = ()
    """Of one item: the array of an example is (length, *shape)."""

    @property
    def kind(self) -> np.dtype[Any]:
        return np.dtype(self.dtype).newbyteorder("<")

    @property
    def size(self) -> int:
        """Bytes of an item."""
        return self.kind.itemsize * math.prod(self.shape)

    def checked(self) -> "Column":
        """This; ValueError if no store could have such a column."""
        if self.dtype not in DTYPES:
            raise ValueError(f"no column is of type {self.dtype!r}: there are {', '.join(DTYPES)}")
        fine = len(self.shape) <= AXES and all(axis > 0 for axis in self.shape)
        if not fine or self.size > LARGEST_ITEM:
            raise ValueError(f"no item has the shape {self.shape}")
        return self


Columns = dict[str, Column]


class Part(NamedTuple):
    """A column of a shard."""

    items: int
    values: str
    lengths: str
    """Hashes of its two files."""


class Shard(NamedTuple):
    """Some of the examples, in files of their own."""

    examples: int
    parts: Mapping[str, Part]


class Index(NamedTuple):
    """All of a store."""

    columns: Columns
    shards: list[Shard]


def check_columns(columns: Mapping[str, Column]) -> Columns:
    """Those of a store; ValueError if there is something wrong with them."""
    if not columns:
        raise ValueError("a store has at least one column")
    for name in columns:
        if not NAMES.fullmatch(name):
            raise ValueError(f"a column cannot be called {name[:60]!r}: letters, digits and _ can")
    return {name: column.checked() for name, column in columns.items()}


def index_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def journal_path(folder: Path, name: str) -> Path:
    return folder / f".{name}.journal"


def paths(folder: Path, name: str, column: str, number: int) -> tuple[Path, Path]:
    """The files of values and of lengths of a column of a shard."""
    stem = f"{name}.{column}.{number:05}"
    return folder / f"{stem}.values", folder / f"{stem}.lengths"


def leftovers(folder: Path, name: str) -> list[tuple[int, Path]]:
    """All files of a store's shards, each with the number of its shard."""
    form = re.compile(re.escape(name) + r"\.\w+\.(\d{5,})\.(?:values|lengths)", re.ASCII)
    matches = ((form.fullmatch(path.name), path) for path in folder.iterdir())
    return [(int(match[1]), path) for match, path in matches if match]


# The index as JSON


def written_columns(columns: Columns) -> Table:
    return {name: {"dtype": c.dtype, "shape": list(c.shape)} for name, c in columns.items()}


def written_shard(shard: Shard) -> Table:
    parts = {name: part._asdict() for name, part in shard.parts.items()}
    return {"examples": shard.examples, "columns": parts}


def signature(index: Index) -> str:
    """A hash of all that a store holds."""
    table = [written_columns(index.columns), *map(written_shard, index.shards)]
    return hashlib.sha256(json.dumps(table).encode()).hexdigest()


def write_index(folder: Path, name: str, index: Index) -> None:
    """The index, whole or not at all."""
    table = {
        "format": FORMAT,
        "columns": written_columns(index.columns),
        "shards": [written_shard(shard) for shard in index.shards],
    }
    text = checked.written(checked.signed(table), indent=1)
    whole_file.write(index_path(folder, name), f"{text}\n")


def read_index(folder: Path, name: str) -> Index:
    """The index of a store, read as if it were forged; ValueError names what is wrong with it."""
    path = index_path(folder, name)
    table = checked.read(path)
    try:
        number = table.get("format")
        if type(number) is not int or number != FORMAT:
            raise ValueError(f"format {number!r:.20}, but this version of regard reads {FORMAT}")
        checked.keys(table, "it", {"format", "columns", "shards", "sha256"})
        if table != checked.signed(table):
            raise ValueError("it is damaged")
        columns = read_columns(table["columns"])
        shards = checked.items(table["shards"], "shards")
        return Index(columns, [read_shard(shard, columns) for shard in shards])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_columns(value: Any) -> Columns:
    found = {}
    for name, about in checked.table(value, "columns").items():
        checked.keys(about, f"column {name[:60]!r}", {"dtype", "shape"})
        axes = checked.items(about["shape"], "a shape")
        shape = tuple(checked.whole(axis, "an axis", 1, LARGEST_ITEM) for axis in axes)
        found[name] = Column(checked.text(about["dtype"], "a dtype"), shape)
    return check_columns(found)


def read_shard(value: Any, columns: Columns) -> Shard:
    table = checked.keys(value, "a shard", {"examples", "columns"})
    parts = checked.keys(table["columns"], "columns of a shard", columns.keys())
    # An example without items takes 4 bytes, too: there is no shard without any.
    examples = checked.whole(table["examples"], "examples", 1)
    return Shard(examples, {name: _read_part(parts[name]) for name in columns})


def _read_part(value: Any) -> Part:
    table = checked.keys(value, "a column of a shard", {*Part._fields})
    hashes = [checked.text(table[name], "a hash") for name in ("values", "lengths")]
    if not all(map(HASH.fullmatch, hashes)):
        raise ValueError("a hash is not one of SHA-256")
    return Part(checked.whole(table["items"], "items"), *hashes)


# Files


class File:
    """A file that is read at places, by several threads at once, as long as anybody holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = -1  # for __del__, where there is no such file
        self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._lock = Lock()

    def __del__(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)

    @property
    def size(self) -> int:
        return os.fstat(self._handle).st_size

    def read(self, count: int, place: int) -> bytes:
        """As many bytes from a place on as there are, up to `count`."""
        data = self._some(count, place)
        while 0 < len(data) < count:  # no system gives more than 2 GB at once
            if not (more := self._some(count - len(data), place + len(data))):
                break
            data += more
        return data

    if hasattr(os, "pread"):

        def _some(self, count: int, place: int) -> bytes:
            return os.pread(self._handle, count, place)

    else:  # Windows

        def _some(self, count: int, place: int) -> bytes:
            with self._lock:
                os.lseek(self._handle, place, os.SEEK_SET)
                return os.read(self._handle, count)

    def hash(self) -> str:
        digest, place = hashlib.sha256(), 0
        while block := self.read(BLOCK, place):
            digest.update(block)
            place += len(block)
        return digest.hexdigest()


def lengths_of(path: Path, part: Part, examples: int) -> NDArray[np.int64]:
    """(examples,): how many items each has; ValueError if the file is not what the index says."""
    file = File(path)
    if file.size != 4 * examples:
        raise ValueError(f"{path} has {file.size:,} bytes instead of {4 * examples:,}")
    data = file.read(4 * examples, 0)
    if hashlib.sha256(data).hexdigest() != part.lengths:
        raise ValueError(f"{path} is damaged")
    found = np.frombuffer(data, "<u4").astype(np.int64)
    if int(found.sum()) != part.items:
        raise ValueError(f"{path} does not add up to the {part.items:,} items of the index")
    return found


def values_of(path: Path, part: Part, column: Column) -> File:
    """The items' file, whole; ValueError if it is not what the index says."""
    file = File(path)
    if file.size != part.items * column.size:
        wanted = part.items * column.size
        raise ValueError(f"{path} has {file.size:,} bytes instead of {wanted:,}")
    if file.hash() != part.values:
        raise ValueError(f"{path} is damaged")
    return file
