"""Rows of cells from lines of CSV, and which of them are variables."""

import csv
import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from regard.data.delimiters import LOOKED, called, is_number as is_number, of_series
from regard.data.readers import Finding, excerpt, suffix
from regard.errors import UserError

MISSING = {"", "na", "n/a", "nan", "null", "none"}
Defect = Literal[
    "encoding", "control", "columns", "number", "time", "missing", "start", "back", "repeated",
    "gap", "uneven", "summer", "winter",
]  # fmt: skip
Note = Callable[[Defect, Finding], None]
"""Deals with a defect: the reader refuses or reports it, the doctor collects all."""


def _begun(lines: Iterable[str | None]) -> tuple[list[str], Iterator[str | None]]:
    """The first lines that are text, and all lines."""
    stream = iter(lines)
    first = [*islice(stream, LOOKED)]
    return [line for line in first if line], chain(first, stream)


def unread(text: str) -> str:
    """What would make a number of a cell that is none."""
    found = re.fullmatch(r"-?\d+,\d+", text)
    return "; with data.decimal = ',' it is one" if found else ""


def split_rows(
    lines: Iterable[str | None], delimiter: str, path: Path, note: Note
) -> Iterator[tuple[int, list[str]]]:
    """Cells of each line, none of an empty one; a line ends a row, whatever is quoted. `delimiter`
    is what a recipe says of it."""
    start, lines = _begun(lines)
    separator = of_series(delimiter, suffix(path), start)
    for number, line in enumerate(lines, 1):
        if line is None:
            continue
        if not line.strip() and separator not in line:
            yield number, []
            continue
        try:
            [cells] = csv.reader([line], delimiter=separator, strict=True)
        except csv.Error as error:
            note("columns", Finding(path, number, f"not CSV ({error})", excerpt(line)))
        else:
            yield number, cells


def and_blanks(
    rows: Iterable[tuple[int, list[str]]], width: int
) -> Iterator[tuple[int, list[str]]]:
    """Empty lines say nothing, but among the values of one column alone: one is not there."""
    empty: list[int] = []
    for number, cells in rows:
        if cells:
            yield from ((before, [""]) for before in empty)
            yield number, cells
            empty = []
        elif width == 1:
            empty.append(number)


@dataclass(frozen=True)
class Columns:
    """Where in a row the variables are, and its time."""

    names: tuple[str, ...]
    places: tuple[int, ...]
    time: int | None
    width: int
    clock: str = ""
    """The name of the column of times."""

    @classmethod
    def find(
        cls, header: list[str], variables: tuple[str, ...], time: str, where: str
    ) -> "Columns":
        """Those of the variables, or of all but the time; `where` the header is."""
        names = variables or tuple(name for name in header if not time or name != time)
        if not variables and not time and all(map(is_number, header)):
            names = ()
        if not names:
            raise UserError(f"{where}: no column to read; the first line must name the columns")
        if "" in names and "" in header:
            what = f"column {header.index('') + 1} has no name"
            raise UserError(f"{where}: {what}; name it, or the columns to read by data.variables")
        places = tuple(_place(where, header, name) for name in names)
        clock = _place(where, header, time) if time else None
        return cls(names, places, clock, len(header), time)


def _place(where: str, header: list[str], name: str) -> int:
    if header.count(name) == 1:
        return header.index(name)
    which = "two columns" if name in header else "no column"
    near = difflib.get_close_matches(name, header, 1)
    hint = f"did you mean {near[0]!r}?" if near and name not in header else ""
    if len(header) == 1 and (other := next((c for c in ";\t|," if c in header[0]), "")):
        count = header[0].count(other) + 1
        hint = f"{called(other)}s would give {count} columns: data.delimiter = {called(other)!r}"
    there = hint or f"it reads: {', '.join(header)}"
    raise UserError(f"{where}: the header has {which} “{name}”; {there}")
