"""A store that is built in pieces: each by itself, by any process of any machine, in any order.

.NAME/plan.json            how many pieces there are, and the key: of what they are made
.NAME/00000/               a piece: a store of its own, and note.json, written last

Which examples a piece has is a function of the data alone, so that the store that they are joined to
does not depend on who made them. A piece with another key is made of something else, and goes.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data import shards, whole_file
from regard.data.shards import Column, Index, Shard
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
    columns: Mapping[str, Column]
    count: int
    key: str

    @property
    def place(self) -> Path:
        return self.folder / f".{self.name}"

    def of(self, number: int) -> Path:
        """The folder of a piece."""
        return self.place / f"{number:05}"

    def begin(self) -> bool:
        """Say what is to be made. False if something else was: it is removed."""
        plan = {"count": self.count, "key": self.key}
        before = _read(self.place / PLAN)
        if before == plan:
            return True
        there = self.place.exists()
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        whole_file.write(self.place / PLAN, checked.written(plan))
        return not there

    def is_begun(self) -> bool:
        """Whether whoever reads the data has said so."""
        return _read(self.place / PLAN) == {"count": self.count, "key": self.key}

    def is_made(self, number: int) -> bool:
        """Whether a piece is there: by its note, which is written last."""
        return (_read(self.of(number) / NOTE) or {}).get("key") == self.key

    def missing(self, numbers: Iterable[int] | None = None) -> list[int]:
        """Those that are still to be made."""
        every = range(self.count) if numbers is None else numbers
        return [number for number in every if not self.is_made(number)]

    def make(self, number: int, blocks: Callable[[], Blocks], note: Callable[[], Table]) -> None:
        """Write a piece of these blocks, then what is to be noted of it."""
        place = self.of(number)
        shutil.rmtree(place, ignore_errors=True)
        with Writer(place, self.name, self.columns) as writer:
            for block in blocks():
                writer.add_columns(block)
        whole_file.write(place / NOTE, checked.written({"key": self.key, "note": note()}))

    def drop_damaged(self) -> None:
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
        index = Index(dict(self.columns), found)
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


def _read(path: Path) -> Table | None:
    """A file of JSON, if it is there and whole."""
    try:
        return checked.table(checked.read(path), path.name)
    except (OSError, ValueError):
        return None
