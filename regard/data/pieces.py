"""A store that is built in pieces: each by itself, by any process of any machine, in any order.

.NAME/plan.json            how many pieces there are, and the key: of what they are made
.NAME/00000/               a piece: a store of its own, and note.json
.NAME/00000.claim          somebody makes it, or has begun to
.NAME/00000.1f3a5c7e/      a piece that is being made; renamed when it is whole

Which examples a piece has is a function of the data alone, so that the store that they are joined
to does not depend on who made them. A claim saves double work and is no lock: where two make the
same piece, both make the same bytes, and the first one's stay. A piece with another key is made of
something else, and goes.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data import shards, whole_file
from regard.data.shards import Columns, Index, Shard
from regard.data.writer import Writer, whole
from regard.recipe import checked
from regard.recipe.checked import Table

PLAN, NOTE = "plan.json", "note.json"
Blocks = Iterable[Mapping[str, Any]]
"""Arrays of many examples at once, by column."""


def key_of(*about: Any) -> str:
    """A hash of all that pieces depend on."""
    return hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class Pieces:
    """Those of one store."""

    folder: Path
    name: str
    columns: Columns
    count: int
    key: str
    about: Table = field(default_factory=dict)
    """What whoever helps must know, beside the data."""

    @property
    def place(self) -> Path:
        return self.folder / f".{self.name}"

    def of(self, number: int) -> Path:
        """The folder of a piece."""
        return self.place / f"{number:05}"

    @property
    def _plan(self) -> Table:
        return {"count": self.count, "key": self.key, "about": self.about}

    def begin(self) -> bool:
        """Say what is to be made. False if pieces of something else were there: they are removed.
        Of an earlier try whole pieces stay; claims and what was being made go."""
        if _read(self.place / PLAN) == self._plan:
            for left in self.place.glob("*.*"):
                if left.name != PLAN:
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
            self._drop_damaged()
            return True
        others = any(self.place.glob("[0-9]*"))
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        whole_file.write(self.place / PLAN, checked.written(self._plan))
        return not others

    def is_begun(self) -> bool:
        """Whether somebody has said that these are to be made."""
        return _read(self.place / PLAN) == self._plan

    def unclaimed(self) -> Iterator[int]:
        """Pieces that nobody else makes, claimed one by one."""
        for number in range(self.count):
            if self.is_made(number):
                continue
            try:
                (self.place / f"{number:05}.claim").touch(exist_ok=False)
            except FileExistsError:
                continue
            except FileNotFoundError:  # all are made, joined and gone
                return
            yield number

    def is_made(self, number: int) -> bool:
        """Whether a piece is there: by its note, which is written last."""
        return (_read(self.of(number) / NOTE) or {}).get("key") == self.key

    def missing(self) -> list[int]:
        """Those that are still to be made."""
        return [number for number in range(self.count) if not self.is_made(number)]

    def make(self, number: int, blocks: Callable[[], Blocks], note: Callable[[], Table]) -> None:
        """Write a piece of these blocks, then what is to be noted of it."""
        making = self.place / f"{number:05}.{os.urandom(4).hex()}"
        making.mkdir()
        try:
            with Writer(making, self.name, self.columns) as writer:
                for block in blocks():
                    writer.add_columns(block)
            whole_file.write(making / NOTE, checked.written({"key": self.key, "note": note()}))
            if not self.is_made(number):
                shutil.rmtree(self.of(number), ignore_errors=True)
                making.rename(self.of(number))
        except OSError:
            if not self.is_made(number):  # somebody else was quicker
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)

    def _drop_damaged(self) -> None:
        """Remove pieces of an earlier try whose files are not what they were: a power cut may have
        taken what was never synced."""
        for number in range(self.count):
            if self.is_made(number) and whole(self.of(number), self.name, self.columns) is None:
                shutil.rmtree(self.of(number))

    def notes(self) -> list[Any]:
        """What was noted of each piece."""
        return [(_read(self.of(number) / NOTE) or {})["note"] for number in range(self.count)]

    def join(self) -> None:
        """Make the store of them. The pieces stay until all of the preparation is done."""
        shards.index_path(self.folder, self.name).unlink(missing_ok=True)
        for _, path in shards.leftovers(self.folder, self.name):
            path.unlink()
        found: list[Shard] = []
        for number in range(self.count):
            for inside, shard in enumerate(shards.read_index(self.of(number), self.name).shards):
                self._take(self.of(number), inside, len(found))
                found.append(shard)
        index = Index(self.columns, found)
        shards.write_index(self.folder, self.name, index)

    def _take(self, place: Path, inside: int, number: int) -> None:
        """The files of a shard of a piece under their names in the store."""
        for column in self.columns:
            before: Sequence[Path] = shards.paths(place, self.name, column, inside)
            after: Sequence[Path] = shards.paths(self.folder, self.name, column, number)
            for source, target in zip(before, after, strict=True):
                try:
                    os.link(source, target)
                except OSError:  # a file system without links
                    shutil.copyfile(source, target)


def begun(folder: Path, name: str) -> Table | None:
    """What there is to know of the pieces of a store that somebody makes: their `count`, their
    `key`, and what they are `about`."""
    return _read(folder / f".{name}" / PLAN)


def _read(path: Path) -> Table | None:
    """A file of JSON, if it is there and whole."""
    try:
        return checked.table(checked.read(path), path.name)
    except (OSError, ValueError):
        return None
