"""Training rows that are not stored: they are read from their files again in every epoch.

When a run is prepared, all files are read once, and of each row no more than its lengths are kept,
block by block (`store/streamed`). The first examples alone are kept as they are, so that doctor and
fields have something to learn from.

    epoch       sources in an order of their own, each from its beginning to its end
    window      so many blocks of these: their rows are shuffled, and cut into batches; those of up
                to three are in memory, since batches are made ahead

Lengths say how many batches each window has: which rows are at a position is a function of
(seed, epoch, position), and to resume is arithmetic. What is read again then is the beginning of
one file. Lengths that are not those that were kept say that a file has changed.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data import batching, files
from regard.data.batching import Draw, Lengths
from regard.data.labels import TRAINING
from regard.data.readers import Report
from regard.data.store import Column, Store, Writer
from regard.errors import UserError
from regard.examples.preparation import STORE, Fields, Plan
from regard.examples.raw import BLOCK, Block
from regard.examples.stored import learnt
from regard.fields import Example, Flat, Row
from regard.types import Batch

NAME = "streamed"
OPEN = 4
"""Sources that are read at the same time: a window may have several."""
CHARACTERS = 1 << 20
"""Of a block of texts that may have any length; a text with more is a block by itself."""
Source = Callable[[int, int], Iterator[Example]]
"""The examples of a source, by its number, of so many files."""


class _Columns:
    """Arrays of many rows, of which fields ask lengths as of a store."""

    def __init__(self, flat: Mapping[str, Flat]) -> None:
        self._flat = flat

    def lengths(self, column: str) -> Lengths:
        return self._flat[column][1]


def _lengths(fields: Fields, flat: Mapping[str, Flat]) -> Lengths:
    """(rows, sides that have positions)"""
    columns: Any = _Columns(flat)
    found = (field.lengths(columns) for field in fields.values())
    return np.stack([each for each in found if each is not None], 1)


def _blocks(examples: Iterator[Example], limited: bool = True) -> Iterator[Block]:
    """Those of one source; `limited` says that examples are of a bounded length."""
    for some in _batched(examples) if limited else _bounded(examples):
        values = [list(column) for column in zip(*(each.values for each in some), strict=True)]
        yield Block([each.files for each in some], [each.line for each in some], values)


def _batched(examples: Iterator[Example]) -> Iterator[list[Example]]:
    while some := [*islice(examples, BLOCK)]:
        yield some


def _bounded(examples: Iterator[Example]) -> Iterator[list[Example]]:
    """As many texts as have so many characters together."""
    some, size = list[Example](), 0
    for each in examples:
        more = sum(map(len, each.values))
        if some and (len(some) == BLOCK or size + more > CHARACTERS):
            yield some
            some, size = [], 0
        some.append(each)
        size += more
    if some:
        yield some


def _encoded(plan: Plan, fields: Fields, block: Block, report: Report) -> dict[str, Flat]:
    by = dict.fromkeys(fields, TRAINING)
    return plan.encoded(block, "train", fields, by, report)[0]


def keep(plan: Plan, folder: Path, fields: Fields, report: Report) -> int:
    """Read all of the training part, and keep the lengths of its rows; how many there are."""
    place = folder / STORE
    sides = sum(field.lengths(_Nothing()) is not None for field in fields.values())
    columns = {"source": Column("u4"), "files": Column("u1"), "lengths": Column("u4", (sides,))}
    with Writer(place, NAME, columns) as writer:
        if not writer.complete:
            rows = _kept(plan, fields, report)
            writer.add(islice(rows, writer.done, None))
    store = Store(place, NAME)
    return int(store.lengths("lengths").sum())


class _Nothing:
    """A store without rows."""

    def lengths(self, column: str) -> Lengths:
        return np.zeros(0, np.int64)


def _kept(plan: Plan, fields: Fields, report: Report) -> Iterator[dict[str, Any]]:
    examples = plan.read("train", plan.policy, report)
    by_source = groupby(examples, lambda example: example.files)
    for number, (paths, found) in enumerate(by_source):
        for block in _blocks(found, plan.limited):
            lengths = _lengths(fields, _encoded(plan, fields, block, report)).astype(np.uint32)
            yield {"source": [number], "files": [len(paths)], "lengths": lengths}


@dataclass(frozen=True, kw_only=True)
class Streamed:
    """The rows of a run that are read from files while it trains."""

    folder: Path
    plan: Plan
    fields: Fields
    source: Source

    @cached_property
    def _store(self) -> Store:
        return Store(self.folder / STORE, NAME)

    @cached_property
    def width(self) -> int:
        """How many files a source has."""
        return int(self._store[0]["files"][0])

    def known(self, data: files.Config) -> tuple[Lengths, "Windows"]:
        """The lengths of all rows, and which blocks of them are read together."""
        store = self._store
        counts = store.lengths("lengths")
        sources = np.array([int(each[0]) for each in store.read_all("source")])
        flat = store.flat("lengths")
        lengths = np.concatenate([*flat.pieces()]).astype(np.int64)
        return lengths, Windows(counts, sources, max(1, data.shuffle // BLOCK))

    def batches(
        self,
        config: batching.Config,
        seed: int,
        change: Callable[[Batch], Batch] = lambda batch: batch,
        *,
        data: files.Config,
        by_length: bool = True,
    ) -> batching.Batches:
        """As those of stored rows, but shuffled within windows."""
        lengths, windows = self.known(data)
        planned = lengths if by_length else np.broadcast_to(lengths.max(0), lengths.shape)
        rows = Rows(self, lengths, windows)

        def make(ids: Sequence[int], draw: Draw) -> Batch:
            return change(learnt([*self.fields.values()], rows.of, ids, draw))

        return Shuffled(planned, make, config, seed, windows)


class Windows:
    """Which blocks are in memory together."""

    def __init__(
        self, counts: NDArray[np.int64], sources: NDArray[np.int64], together: int
    ) -> None:
        """`counts` and `sources` are those of the blocks, so many of which are a window."""
        self.starts = np.concatenate([[0], np.cumsum(counts)])
        """The first row of each block, and where the last one ends."""
        self.sources, self.together = sources, together
        self.first = {int(s): int(np.argmax(sources == s)) for s in np.unique(sources)}
        """The first block of each source."""

    def of(self, seed: int, epoch: int) -> list[NDArray[np.int64]]:
        """The blocks of each window of an epoch."""
        random = np.random.Generator(np.random.PCG64([seed, epoch, 1]))
        order = random.permutation([*self.first])
        blocks = np.concatenate([np.flatnonzero(self.sources == source) for source in order])
        return [blocks[n : n + self.together] for n in range(0, len(blocks), self.together)]


class Shuffled(batching.Batches):
    """Batches of one window after the other."""

    def __init__(
        self, lengths: Lengths, make: batching.Collate, config: batching.Config, seed: int,
        windows: Windows,
    ) -> None:  # fmt: skip
        super().__init__(lengths, make, config, seed)
        self._all, self._windows = lengths, windows

    def _plan(self, number: int) -> list[NDArray[np.int64]]:
        random = np.random.Generator(np.random.PCG64([self._seed, number]))
        found: list[NDArray[np.int64]] = []
        starts = self._windows.starts
        for window in self._windows.of(self._seed, number):
            rows = np.concatenate([np.arange(starts[b], starts[b + 1]) for b in window])
            planned = batching.plan(self._all, self._config, random.permutation(rows))
            found += [planned[n] for n in random.permutation(len(planned))]
        return found


Arrays = Mapping[str, tuple[Any, Lengths]]
"""The arrays of a block by name: those of all rows in one, and where each row ends, from 0."""


class Rows:
    """Blocks of rows, and rows by number, of the windows that were asked for last."""

    def __init__(self, streamed: Streamed, lengths: Lengths, windows: Windows) -> None:
        self._streamed, self._lengths, self._windows = streamed, lengths, windows
        self._held: dict[int, Arrays] = {}
        self._place: dict[int, tuple[int, Iterator[Block]]] = {}
        """Of each source that is open: the next block, and what follows."""
        self._lock = Lock()

    def of(self, ids: Sequence[int]) -> list[Row]:
        starts = self._windows.starts
        blocks = (np.searchsorted(starts, np.asarray(ids), "right") - 1).tolist()
        held = self.blocks({*blocks}, self._windows.together)
        return [self._row(held[b], n - int(starts[b])) for n, b in zip(ids, blocks, strict=True)]

    def blocks(self, numbers: Collection[int], before: int = 1) -> dict[int, Arrays]:
        """Some blocks by number; `before` says how many, up to one that has to be read, will be
        asked for, too."""
        with self._lock:
            for block in sorted(numbers):
                if block not in self._held:
                    self._load_around(block, before)
            held = {block: self._held[block] for block in numbers}
            for block in numbers:  # the last that is asked for is the last to go
                self._held[block] = self._held.pop(block)
            while len(self._held) > 3 * self._windows.together:
                del self._held[next(iter(self._held))]
        return held

    @staticmethod
    def _row(block: Arrays, number: int) -> Row:
        return {n: values[ends[number] : ends[number + 1]] for n, (values, ends) in block.items()}

    def _load_around(self, block: int, span: int) -> None:
        """A block, and those of its source before it that will be asked for: files are read in
        order, and to go back is to begin them again."""
        windows, streamed = self._windows, self._streamed
        source = int(windows.sources[block])
        begin = windows.first[source]
        place, blocks = self._place.pop(source, (block + 1, iter(())))
        if place > block:
            examples = streamed.source(source, streamed.width)
            place, blocks = begin, _blocks(examples, streamed.plan.limited)
        if (first := max(begin, block - span + 1)) > place:
            place, blocks = first, islice(blocks, first - place, None)
        for number in range(place, block + 1):
            self._held[number] = self._load(number, next(blocks, None))
        self._place[source] = (block + 1, blocks)
        while len(self._place) > OPEN:
            del self._place[next(iter(self._place))]

    def _load(self, number: int, block: Block | None) -> Arrays:
        streamed, starts = self._streamed, self._windows.starts
        wanted = self._lengths[starts[number] : starts[number + 1]]
        flat = {} if block is None else _encoded(
            streamed.plan, streamed.fields, block, Report()
        )  # fmt: skip
        if block is None or not np.array_equal(_lengths(streamed.fields, flat), wanted):
            where = block[0].place if block else f"block {number}"
            raise UserError(
                f"{where}: the data has changed since the run was prepared: it is read while the "
                "run trains (data.streaming). Bring the files back, or start a new run"
            )
        return {
            name: (values, np.concatenate([[0], np.cumsum(lengths)]))
            for name, (values, lengths) in flat.items()
        }
