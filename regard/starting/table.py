"""A table that nobody has described: its rows, and what its columns look like."""

import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data import clock, dates, delimiters
from regard.data.cells import is_number
from regard.data.delimiters import Shape
from regard.data.readers import suffix
from regard.errors import RecipeError, UserError
from regard.starting import Key
from regard.starting.sample import Sample, take

PARTS = {
    "validation": re.compile(r"(?<![a-z])(valid|validation|val|dev|devel)(?![a-z])"),
    "test": re.compile(r"(?<![a-z])(test|tst|eval)(?![a-z])"),
    "train": re.compile(r"(?<![a-z])(train|training|trn)(?![a-z])"),
}
"""How files of parts are often called."""
PREFIX = 8
"""Characters that nearly all cells begin with, where a column says the same in every row."""


@dataclass(frozen=True)
class Column:
    """One column of a table, without its name."""

    number: int
    """From 1."""
    name: str
    """Empty where the table has no header."""
    cells: Sequence[str]

    @property
    def called(self) -> str:
        return f"“{self.name}”" if self.name else f"column {self.number}"

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each value stands there; a cell without one is none."""
        return Counter(filter(None, map(str.strip, self.cells)))

    @property
    def empty(self) -> int:
        return len(self.cells) - self.counts.total()

    @cached_property
    def words(self) -> float:
        """Of a cell, on average."""
        return sum(len(cell.split()) for cell in self.cells) / max(1, len(self.cells))

    @cached_property
    def characters(self) -> float:
        return sum(map(len, self.cells)) / max(1, len(self.cells))

    @cached_property
    def numeric(self) -> float:
        """The share of cells that are numbers, decimal commas included."""
        full = [cell for cell in self.cells if cell.strip()]
        return sum(is_number(cell.replace(",", ".", 1)) for cell in full) / max(1, len(full))

    @property
    def few(self) -> bool:
        """Whether its values repeat so often that they may be labels."""
        distinct, rows = len(self.counts), self.counts.total()
        return 1 < distinct <= max(2, min(500, rows / 3))

    @property
    def prose(self) -> bool:
        """Whether it may be text that somebody wrote: no number, no label, no address."""
        if self.numeric > 0.5 or len(self.counts) <= 1:
            return False
        starts = Counter(cell[:PREFIX] for cell in self.cells if len(cell) > PREFIX)
        most = starts.most_common(1)[0][1] if starts else 0
        return most < 0.9 * len(self.cells) or self.few


@dataclass(frozen=True)
class Table:
    """Rows of a file, cut into columns."""

    sample: Sample
    shape: Shape | None
    """None of JSONL."""
    header: bool
    columns: tuple[Column, ...]
    rows: int
    uneven: int
    """Rows with another number of columns."""

    @property
    def path(self) -> Path:
        return self.sample.path

    def column(self, given: str) -> Column:
        """The one that a user names, by its name or its number."""
        for column in self.columns:
            if column.name == given:
                return column
        if given.lstrip("-").isdigit() and 0 < abs(int(given)) <= len(self.columns):
            return self.columns[int(given) - (int(given) > 0)]
        known = ", ".join(column.name or str(column.number) for column in self.columns)
        raise RecipeError(f"--columns: {self.path} has no column {given!r}; it has {known}")

    def keys(self, chosen: Sequence[Column], usual: Sequence[str] = ()) -> list[Key]:
        """How a recipe names these columns; `usual` are those that it takes by default."""
        found = []
        names = [column.name for column in self.columns]
        if self.shape is None:
            if [column.name for column in chosen] != [*usual]:
                found.append(Key("columns", [column.name for column in chosen]))
            return found
        named = self.header and all(names.count(c.name) == 1 and c.name for c in chosen)
        if self.header:
            found.append(Key("header", True))
        if named:
            if [column.name for column in chosen] != [*usual]:
                found.append(Key("columns", [column.name for column in chosen]))
        elif len(names) > len(chosen) or [c.number for c in chosen] != [*range(1, len(chosen) + 1)]:
            found.append(Key("columns", [column.number for column in chosen]))
        return found

    def said(self) -> list[str]:
        """What the file is like, a line each."""
        sample = self.sample
        rows = f"{self.rows:,} rows" if sample.whole else f"about {self.estimated:,} rows"
        between = (
            "" if self.shape is None else f", {delimiters.called(self.shape.delimiter)} between"
        )
        found = [
            f"{sample.path}: {rows} of {len(self.columns)} columns{between}, {encoding(sample)}"
        ]
        if not sample.whole:
            found[0] += f"; only the first {self.rows:,} were looked at"
        for column in self.columns:
            found.append(f"  {column.number} {column.name or '(no name)'}: {_like(column)}")
        return found

    @property
    def estimated(self) -> int:
        return self.rows if self.sample.whole else round(self.rows / self.sample.share)

    def facts(self) -> dict[str, Any]:
        """The same for a program."""
        return {
            "file": str(self.path),
            "rows": self.estimated,
            "sampled": not self.sample.whole,
            "delimiter": None if self.shape is None else delimiters.called(self.shape.delimiter),
            "header": self.header,
            "columns": [column.name or column.number for column in self.columns],
            "bom": self.sample.bom,
            "crlf": self.sample.crlf,
        }


def _like(column: Column) -> str:
    if not column.counts:
        return "empty"
    if len(column.counts) == 1:
        return f"always {shown(next(iter(column.counts)), 20)}" + _absent(column)
    return _kind(column) + _absent(column)


def _absent(column: Column) -> str:
    return f"; empty in {column.empty:,} rows" if column.empty else ""


def _kind(column: Column) -> str:
    if column.numeric > 0.9:
        return f"numbers, such as {next(iter(column.counts))}"
    if column.few:
        return f"{len(column.counts)} values, such as {shown(next(iter(column.counts)), 20)}"
    start = [*islice(column.counts, 20)]
    if all(clock.moment(dates.iso(cell, "day_first")) is not None for cell in start):
        return f"times, such as {start[0]}"
    return f"texts of {column.words:.1f} words on average"


def shown(text: str, most: int = 40) -> str:
    """A value in quotes, cut where it is long."""
    return f"“{text if len(text) <= most else text[: most - 1] + '…'}”"


def encoding(sample: Sample) -> str:
    marks = [" with a BOM"] * sample.bom + [", lines end in CRLF"] * sample.crlf
    return "UTF-8" + "".join(marks)


def read(path: Path) -> Table:
    """A table; UserError where the file holds none."""
    found = attempt(take(path))
    if found is None:
        raise UserError(
            f"{path}: no table: neither tabs, semicolons, bars nor commas cut its lines into the "
            "same number of columns"
        )
    return found


def attempt(sample: Sample) -> Table | None:
    """The table that lines hold, if they hold one."""
    if suffix(sample.path) in (".jsonl", ".ndjson") or sample.lines[0].lstrip().startswith("{"):
        return _json(sample)
    made = delimiters.guess(sample.lines)
    if made is None:
        return None
    rows = [row for row in delimiters.cut(sample.lines, made.delimiter) if any(map(str.strip, row))]
    even = [row for row in rows if len(row) == made.width]
    header = len(rows[0]) == made.width and delimiters.has_header(even)
    names = [cell.strip() for cell in even[0]] if header else [""] * made.width
    cells = zip(*even[header:], strict=True)
    columns = (Column(n, name, c) for n, (name, c) in enumerate(zip(names, cells, strict=True), 1))
    return Table(sample, made, header, tuple(columns), len(even) - header, len(rows) - len(even))


def _json(sample: Sample) -> Table | None:
    """Keys that most objects have, with texts and numbers for values."""
    records = objects(sample)
    if len(records) < 0.9 * sum(map(bool, map(str.strip, sample.lines))):
        return None
    plain = (str, int, float)
    counts = Counter(
        key for each in records for key, value in each.items() if isinstance(value, plain)
    )
    keys = [key for key, count in counts.items() if count >= 0.9 * len(records)]
    full = [each for each in records if all(isinstance(each.get(key), plain) for key in keys)]
    columns = (Column(n, key, [_cell(each[key]) for each in full]) for n, key in enumerate(keys, 1))
    return Table(sample, None, False, tuple(columns), len(full), len(records) - len(full))


def objects(sample: Sample) -> list[dict[str, Any]]:
    """The JSON objects that stand on lines of their own."""
    found = []
    for line in filter(str.strip, sample.lines):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        found += [record] if isinstance(record, dict) else []
    return found


def _cell(value: str | float) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def parts(files: Sequence[Path]) -> dict[str, list[Path]]:
    """Which files belong to which part, by their names; all to the first where none says so."""
    found: dict[str, list[Path]] = {}
    for file in files:
        name = re.sub(r"[\W\d_]+", " ", file.name.lower())
        part = next((part for part, how in PARTS.items() if how.search(name)), "train")
        found.setdefault(part, []).append(file)
    if "train" not in found:
        return {"train": list(files)}
    return {part: found[part] for part in ("train", "validation", "test") if part in found}


def with_columns(
    files: dict[str, list[Path]], chosen: Sequence[Column]
) -> tuple[dict[str, list[Path]], list[str]]:
    """The parts whose files have these columns, and what is to be said of others."""
    kept, said = {"train": files["train"]}, list[str]()
    for part in (part for part in files if part != "train"):
        there = read(files[part][0]).columns
        lacks = [each for each in chosen if not any(_same(each, other) for other in there)]
        if lacks:
            named = " and ".join(each.called for each in lacks)
            said.append(
                f"{files[part][0]}: no {named}: it is not used; regard predict takes it later"
            )
        else:
            kept[part] = files[part]
    return kept, said


def _same(one: Column, other: Column) -> bool:
    return one.name == other.name if one.name else one.number == other.number


def unread(count: int) -> list[Key]:
    """What to do with rows that cannot be read, if there are any."""
    return [Key("on_bad_line", "skip", f"{count:,} rows cannot be read")] if count else []


def named(files: Sequence[Path], base: Path) -> list[str]:
    """Files as a recipe in the folder `base` names them."""
    return [_relative(file, base) for file in files]


def _relative(file: Path, base: Path) -> str:
    near = Path(os.path.relpath(file.resolve(), base.resolve()))
    return str(file.resolve()) if near.parts[:3].count("..") == 3 else near.as_posix()
