"""The kinds of tables that can be extended: cells between delimiters, JSON objects, sentences."""

import csv
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from regard.data import delimiters
from regard.data.extended import (
    BOM,
    BREAKS,
    Column,
    Kind,
    Request,
    Row,
    Table,
    flaw,
    numbered,
    parted,
)
from regard.data.extended_sentences import Sentences
from regard.errors import UserError
from regard.recipe import checked

SEVERAL = re.compile(r"\w\W*\s+\W*\w")
"""More than one word."""
SPANNED = 200
"""A quoted cell may go over so many lines."""


def opened(raw: Iterable[bytes], name: str, kind: Kind, request: Request) -> Table:
    """The table that lines of bytes hold; `name` is what messages call it."""
    lines = numbered(raw)
    if kind == "jsonl":
        return Objects(name, lines, request)
    if kind == "conll":
        return Sentences(name, lines, request)
    return Cells(name, lines, request, kind)


def _text_columns(columns: Sequence[Sequence[str]]) -> list[int]:
    """Where texts stand: cells of several words, or else the only ones that are no numbers."""
    full = [[cell for cell in cells if cell.strip()] for cells in columns]
    words = [n for n, cells in enumerate(full) if _most(bool(SEVERAL.search(c)) for c in cells)]
    return words or [
        n for n, cells in enumerate(full) if _most(not delimiters.is_number(c) for c in cells)
    ]


def _most(true: Iterable[bool]) -> bool:
    found = list(true)
    return 2 * sum(found) > len(found)


# TSV and CSV


class Cells(Table):
    """Rows of cells between delimiters; those of tabs are never quoted."""

    def __init__(
        self, name: str, lines: Iterator[tuple[int, str]], request: Request, kind: Kind
    ) -> None:
        super().__init__(name, lines, request)
        start = [parted(line)[0] for _, line in self.start]
        self.between = self._delimiter(kind, [each.removeprefix(BOM) for each in start])
        rows = [row.values for row in self._records(iter(self.start)) if row.values]
        self.width = len(rows[0]) if rows else 0
        self.headed = self._has_header(rows)
        self._names: list[str] = rows[0] if self.headed else []
        self.places = self._places(rows) if rows else ()

    def _delimiter(self, kind: Kind, start: list[str]) -> str:
        if self.request.delimiter != "auto":
            return delimiters.character(self.request.delimiter)
        if kind == "tsv":
            return "\t"
        made, share = delimiters.shape(start, ",")
        found = delimiters.guess(start) if made.width < 2 or share < 0.5 else None
        return found.delimiter if found else ","

    def _has_header(self, rows: list[list[str]]) -> bool:
        request = self.request
        if request.header is not None or not rows:
            return bool(request.header)
        named = [each for each in (*request.columns, *request.usual) if not _numbered(each)]
        # A first text with such a word as “time” in it would be lost if it were taken for a name.
        short = all(len(cell.split()) <= 2 for cell in rows[0])
        return any(each in rows[0] for each in named) or (short and delimiters.has_header(rows))

    def _places(self, rows: list[list[str]]) -> Sequence[int]:
        request, there = self.request, self._names or [f"column {n + 1}" for n in range(self.width)]
        if request.columns:
            return [self._place(each, there) for each in request.columns]
        if self._names and all(self._names.count(str(each)) == 1 for each in request.usual):
            return [self._names.index(str(each)) for each in request.usual]
        if all(map(_numbered, request.usual)) and request.usual:
            return [self._place(each, there) for each in request.usual]
        body = rows[self.headed :]
        columns = [[r[n] for r in body if n < len(r)] for n in range(self.width)]
        texts = _text_columns(columns) if self.width > 1 else [0]
        if request.wanted == len(texts) == 1:
            return texts
        if self._names or self.width != len(request.own):
            raise self._refuse("which column is to be read?", there)
        return [request.own.index(each) for each in request.usual]

    def _place(self, column: Column, there: list[str]) -> int:
        if self._names.count(str(column)) == 1:
            return self._names.index(str(column))
        if not _numbered(column):
            which = "two columns" if str(column) in there else "no column"
            raise self._refuse(f"the header has {which} “{column}”.", there)
        number = int(column)
        if not 0 < abs(number) <= self.width:
            raise self._refuse(f"there is no column {number}.", there)
        return number - 1 if number > 0 else self.width + number

    @property
    def names(self) -> Sequence[str]:
        return self._names

    def rows(self) -> Iterator[Row]:
        headed = self.headed
        for row in self._records(self.lines):
            if not headed or not row.values:
                yield row
            headed = headed and not row.values

    def header(self, added: Sequence[str]) -> str:
        if not self.headed:
            return ""
        first = next(row for row in self._records(iter(self.start)) if row.values)
        return self._joined(first, added)

    def read(self, row: Row) -> tuple[Any, ...] | str:
        cells = row.values
        if len(cells) != self.width:
            return f"{len(cells)} columns instead of {self.width}"
        found = tuple(BREAKS.sub(" ", cells[place]) for place in self.places)
        return flaw(found) or found

    def extended(self, row: Row, cells: Mapping[str, Any]) -> str:
        if row.defect:  # nobody knows where its cells end
            return row.text + row.ending
        return self._joined(row, [*map(_cell, cells.values())])

    def as_object(self, row: Row) -> dict[str, Any]:
        names = self._names or [f"column_{n + 1}" for n in range(self.width)]
        return dict(zip(names, row.values, strict=False))

    def _joined(self, row: Row, cells: Sequence[str]) -> str:
        """Missing cells of a short row are filled up, so that the new ones stand in their place."""
        missing = [""] * max(0, self.width - len(row.values))
        quoted = row.text.endswith('"') and self.between != "\t"
        new = (self._written(cell, quoted) for cell in cells)
        return self.between.join([row.text, *missing, *new]) + row.ending

    def _written(self, cell: str, quoted: bool) -> str:
        cell = BREAKS.sub(" ", cell)
        if self.between == "\t":
            return cell.replace("\t", " ")
        if quoted or self.between in cell or '"' in cell or cell != cell.strip():
            return '"' + cell.replace('"', '""') + '"'
        return cell

    def _records(self, lines: Iterator[tuple[int, str]]) -> Iterator[Row]:
        """Rows and empty lines. A quote that is never closed would take in the good lines that
        follow: then only its first line is given up, and reading goes on with the second."""
        ahead: deque[tuple[int, str]] = deque()
        while True:
            taken: list[tuple[int, str]] = []
            try:
                cells = self._cut(ahead, lines, taken)
                defect = ""
            except csv.Error as error:
                ahead.extendleft(reversed(taken[1:]))
                several, cells = len(taken) > 1, []
                del taken[1:]
                defect = "a quote is not closed" if several else f"not CSV ({error})"
            if not taken:
                return
            text, ending = parted("".join(line for _, line in taken))
            empty = not text.strip().removeprefix(BOM)
            yield Row(taken[0][0], text, ending, None if empty else cells, defect)

    def _cut(
        self,
        ahead: deque[tuple[int, str]],
        lines: Iterator[tuple[int, str]],
        taken: list[tuple[int, str]],
    ) -> list[str]:
        """The cells of the next row; its lines are noted in `taken`."""

        def feed() -> Iterator[str]:
            while len(taken) < SPANNED:
                found = ahead.popleft() if ahead else next(lines, None)
                if found is None:
                    return
                taken.append(found)
                yield parted(found[1])[0].removeprefix(BOM if found[0] == 1 else "") + "\n"

        if self.between == "\t":
            return next(feed(), "").removesuffix("\n").split("\t")
        return next(csv.reader(feed(), delimiter=self.between, strict=True), [])


def _numbered(column: Column) -> bool:
    return isinstance(column, int) or column.removeprefix("-").isdecimal()


def _cell(value: Any) -> str:
    """A value as a cell shows it: numbers briefly, lists between blanks, nothing for None."""
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


# JSONL


class Objects(Table):
    """A JSON object in each line."""

    def __init__(self, name: str, lines: Iterator[tuple[int, str]], request: Request) -> None:
        super().__init__(name, lines, request)
        found = [row.values for row in map(_object, self.start) if row.values]
        self._names = list(dict.fromkeys(key for each in found for key in each))
        asked = [*map(str, request.columns or request.usual)]
        self.keys = self._keys(found) if found else asked

    def _keys(self, found: list[dict[str, Any]]) -> Sequence[str]:
        request = self.request
        for column in request.columns:
            if str(column) not in self._names:
                raise self._refuse(f"no object has a key “{column}”.", self._names)
        if request.columns:
            return [*map(str, request.columns)]
        if all(each in self._names for each in request.usual):
            return [*map(str, request.usual)]
        if request.whole in self._names and request.wanted == 1:
            return [request.whole]
        cells = [[v for each in found if isinstance(v := each.get(k), str)] for k in self._names]
        texts = [self._names[n] for n in _text_columns(cells) if cells[n]]
        if len(texts) != 1 or request.wanted != 1:
            raise self._refuse("which key is to be read?", self._names)
        return texts

    @property
    def names(self) -> Sequence[str]:
        return self._names

    def rows(self) -> Iterator[Row]:
        return map(_object, self.lines)

    def header(self, added: Sequence[str]) -> str:
        return ""

    def read(self, row: Row) -> tuple[Any, ...] | str:
        found = []
        for key in self.keys:
            value = row.values.get(key)
            kind = self.request.lists
            several = kind and isinstance(value, list) and all(isinstance(v, kind) for v in value)
            if not isinstance(value, str) and not several:
                return f"“{key}” is not text" if key in row.values else f"it has no “{key}”"
            one_line = isinstance(value, str) and not self.request.breaks
            found.append(BREAKS.sub(" ", value) if one_line else value)
        flat = (str(v) for value in found for v in ([value] if isinstance(value, str) else value))
        return flaw(flat) or tuple(found)

    def extended(self, row: Row, cells: Mapping[str, Any]) -> str:
        """What is no object cannot hold a key: it stays as it is."""
        if not isinstance(row.values, dict) or row.defect:
            return row.text + row.ending
        for key in cells:
            if key in row.values:
                raise UserError(
                    f"{self.name}:{row.line}: it has a key “{key}” already, which the first "
                    f"{len(self.start):,} lines have not: rename it"
                )
        end = row.text.rindex("}")
        new = checked.written(dict(cells))[1:-1]
        between = ", " if row.values and new else ""
        return f"{row.text[:end].rstrip()}{between}{new}{row.text[end:]}{row.ending}"


def _object(line: tuple[int, str]) -> Row:
    number, (text, ending) = line[0], parted(line[1])
    if not text.strip().removeprefix(BOM):
        return Row(number, text, ending)
    try:
        found = json.loads(text.removeprefix(BOM))
    except (ValueError, RecursionError):
        return Row(number, text, ending, {}, "not JSON")
    if not isinstance(found, dict):
        return Row(number, text, ending, {}, "not a JSON object")
    return Row(number, text, ending, found)
