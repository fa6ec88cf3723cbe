"""The examples of a data set as they stand in its files: read once, and kept until a run is
prepared, so that doctor, tokenizer and store need not read the files again."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from regard.data import shards
from regard.data.readers import KEPT, Finding, Report
from regard.data.store import Column, Store, Writer
from regard.fields import Example, Field

BLOCK = 2048
"""Examples that are kept together."""


@dataclass(frozen=True)
class Block:
    """Many examples: where they stand, and the values of each field."""

    files: list[tuple[Path, ...]]
    lines: list[int]
    columns: list[list[Any]]

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, number: int) -> Example: ...
    @overload
    def __getitem__(self, number: slice) -> "Block": ...
    def __getitem__(self, number: int | slice) -> "Example | Block":
        if isinstance(number, slice):
            columns = [column[number] for column in self.columns]
            return Block(self.files[number], self.lines[number], columns)
        values = tuple(column[number] for column in self.columns)
        return Example(self.files[number], self.lines[number], values)

    def examples(self) -> Iterator[Example]:
        return map(Example, self.files, self.lines, zip(*self.columns, strict=True))


def keep(
    folder: Path,
    part: str,
    fields: Mapping[str, Field],
    examples: Iterable[Example],
    report: Report,
) -> None:
    """Write the examples of a part, and after them what was reported while they were read."""
    columns = {side: Column("u1") for side in fields}
    numbers = {"line": Column("i8"), "file": Column("u4")}
    with Writer(folder, f"raw_{part}", columns | numbers) as writer:
        if writer.complete:
            return
        paths: dict[tuple[Path, ...], int] = {}
        rows = _blocks(fields, examples, paths)
        writer.add(islice(rows, writer.done, None))
        about = {
            "files": [[str(p) for p in each] for each in paths],
            "report": written_report(report),
        }
        place = folder / f"raw_{part}.report"
        place.write_text(json.dumps(about), encoding="utf-8", newline="\n")


def is_kept(folder: Path, part: str) -> bool:
    """Whether all examples of a part were written."""
    return shards.index_path(folder, f"raw_{part}").exists()


def _blocks(
    fields: Mapping[str, Field], examples: Iterable[Example], paths: dict[tuple[Path, ...], int]
) -> Iterator[Mapping[str, Any]]:
    stream = iter(examples)
    while block := list(islice(stream, BLOCK)):
        files, lines, rows = zip(*block, strict=True)
        row: dict[str, Any] = {
            "line": np.array(lines, np.int64),
            "file": np.array([paths.setdefault(each, len(paths)) for each in files], np.uint32),
        }
        for (side, field), values in zip(fields.items(), zip(*rows, strict=True), strict=True):
            text = "\n".join(map(field.keep, values))
            row[side] = np.frombuffer(text.encode(), np.uint8)
        yield row


class Raw:
    """The examples of a part that `keep` has written."""

    def __init__(self, folder: Path, part: str, fields: Mapping[str, Field]) -> None:
        self._store, self._fields = Store(folder, f"raw_{part}"), fields
        about = json.loads((folder / f"raw_{part}.report").read_text(encoding="utf-8"))
        self._files = [tuple(map(Path, each)) for each in about["files"]]
        self._chosen: NDArray[np.bool_] | None = None
        self.report = read_report(about["report"])

    def only(self, chosen: NDArray[np.bool_]) -> "Raw":
        """Those that are chosen, by number."""
        found = copy(self)
        found._chosen = chosen
        return found

    def __len__(self) -> int:
        if self._chosen is not None:
            return int(self._chosen.sum())
        return int(self._store.lengths("line").sum())

    @property
    def rows(self) -> int:
        """How many blocks were kept."""
        return len(self._store)

    @property
    def signature(self) -> list[str]:
        """Hashes of all that was kept, and of what of it was chosen."""
        chosen = b"" if self._chosen is None else np.packbits(self._chosen).tobytes()
        return [self._store.signature, hashlib.sha256(chosen).hexdigest()]

    def blocks(self, most: int = BLOCK, rows: range | None = None) -> Iterator[Block]:
        """All of them, or those of some rows, many at a time, at most so many."""
        for block in self._blocks(range(self.rows) if rows is None else rows):
            for first in range(0, len(block), most):
                yield block[first : first + most] if len(block) > most else block

    def _blocks(self, rows: range) -> Iterator[Block]:
        first = rows.start * BLOCK
        for number in range(rows.start, min(rows.stop, self.rows)):
            row = self._store[number]
            lines, files = row["line"].tolist(), [self._files[n] for n in row["file"].tolist()]
            columns = [self._values(side, row) for side in self._fields]
            if self._chosen is not None:
                keep = self._chosen[first : first + len(lines)].tolist()
                first += len(lines)
                files, lines, *columns = (
                    [*compress(each, keep)] for each in (files, lines, *columns)
                )
            if lines:
                yield Block(files, lines, columns)

    def values(self, sides: Sequence[str]) -> Iterator[Any]:
        """The values of some sides, those of one example after the other."""
        numbers = [[*self._fields].index(side) for side in sides]
        for block in self.blocks():
            for each in zip(*(block.columns[n] for n in numbers), strict=True):
                yield from each

    def _values(self, side: str, row: Mapping[str, Any]) -> list[Any]:
        lines = row[side].tobytes().decode().split("\n")
        return [*map(self._fields[side].kept, lines)]

    def __iter__(self) -> Iterator[Example]:
        return (example for block in self.blocks() for example in block.examples())


def written_report(report: Report) -> dict[str, Any]:
    """What was reported, as JSON has it."""
    found = [
        [str(each.path), each.line, each.what, each.excerpt]
        for kind in report.findings.values()
        for each in kind
    ]
    return {"used": report.used, "counts": dict(report.counts), "findings": found}


def read_report(table: Mapping[str, Any]) -> Report:
    """The same, out of JSON."""
    report = Report(used=table["used"], most=len(table["findings"]) or KEPT)
    for path, line, what, excerpt in table["findings"]:
        report.add(Finding(Path(path), line, what, excerpt))
    report.counts.clear()
    report.counts.update(table["counts"])
    return report
