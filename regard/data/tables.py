"""Rows of several columns: one table (TSV, CSV, JSONL), or a plain file for each column.

What stands between the columns of a table a recipe says, or it is found there (`delimiters`).
A line break inside a quoted cell, or in a text of JSON, is read as a blank: a text is one line.
"""

import csv
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data import delimiters, parquet
from regard.data.readers import (
    Broken,
    Finding,
    Policy,
    Report,
    Row,
    check,
    count,
    excerpt,
    forbidden,
    lines,
    suffix,
    usable,
)
from regard.errors import RecipeError, UserError

TABLES = (".tsv", ".csv", ".jsonl", ".ndjson", ".parquet")
"""Suffixes of files that have all columns."""
BREAKS = re.compile(r"\r\n?|\n")
Name = str | int
"""Of a column: what the header or a JSON object calls it, or its number, from 1 (-1: the last)."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a recipe says of a table."""

    columns: tuple[Name, ...]
    """Those that are read, in this order."""
    header: bool = False
    """Whether the first line names them."""
    delimiter: str = "auto"
    held: frozenset[int] = frozenset()
    """Which of the columns are files: in Parquet, those that have bytes become places of these."""

    @property
    def names(self) -> tuple[str, ...]:
        return called(self.columns)

    @property
    def by_number(self) -> bool:
        return all(map(_numbered, self.columns))

    def places(self, path: Path, cells: Sequence[str]) -> list[int]:
        """Where in a row the columns stand; `cells` are those of its first line."""
        return [self._place(path, each, cells) for each in self.columns]

    def _place(self, path: Path, column: Name, cells: Sequence[str]) -> int:
        if self.header and cells.count(str(column)) == 1:
            return cells.index(str(column))
        if _numbered(column):
            number = int(column)
            if not 0 < abs(number) <= len(cells):
                raise UserError(f"{path}:1: there is no column {number}: the line has {len(cells)}")
            return number - (number > 0) if number > 0 else len(cells) + number
        which = "two columns" if column in cells else "no column"
        raise UserError(
            f"{path}:1: the header has {which} “{column}”; it reads: "
            f"{', '.join(cells)}; say by data.columns which are meant"
        )

    def fits(self, first: Sequence[str], width: int) -> bool:
        """Whether a table may be this one, by its first row and the columns of most rows."""
        if self.header:
            return width == len(first) and all(self._is_there(each, first) for each in self.columns)
        if self.by_number:
            return width >= max(2, *(abs(int(each)) for each in self.columns))
        return width == len(self.columns)

    def _is_there(self, column: Name, cells: Sequence[str]) -> bool:
        within = _numbered(column) and 0 < abs(int(column)) <= len(cells)
        return within or list(cells).count(str(column)) == 1


def called(columns: Sequence[Name]) -> tuple[str, ...]:
    """What messages call columns."""
    return tuple(f"column {each}" if _numbered(each) else str(each) for each in columns)


def _numbered(column: Name) -> bool:
    return isinstance(column, int) or column.removeprefix("-").isdecimal()


def parallel(
    paths: Sequence[Path],
    columns: tuple[Name, ...],
    policy: Policy,
    report: Report,
    *,
    header: bool = False,
    delimiter: str = "auto",
    held: frozenset[int] = frozenset(),
) -> Iterator[Row]:
    """Rows of `len(columns)` fields, with the number of the line on which each begins.

    Either one table, or as many plain files as columns, whose lines belong together. The columns of
    a table go by position, by number, or with `header` by the names in the first line; those of
    JSONL by key.
    """
    for path in paths:
        check(path)
    broken: Broken = {}
    layout = Layout(columns=columns, header=header, delimiter=delimiter, held=held)
    kinds = {suffix(path) for path in paths} & {*TABLES}
    rows: Iterable[Row]
    if kinds and len(paths) > 1:
        raise UserError(
            f"{', '.join(map(str, paths))}: give one {kinds.pop()} file that has all columns "
            "or one plain text file for each column"
        )
    if len(paths) == 1 and (kinds or _is_table(layout)):
        rows = _one(paths[0], layout, broken)
    elif len(paths) == len(columns):
        rows = _aligned(paths, broken)
    else:
        raise UserError(
            f"{len(paths)} plain text file{'s' * (len(paths) > 1)} for the {len(columns)} columns "
            f"{', '.join(layout.names)}: give one file for each"
        )
    return usable(rows, broken, paths, layout.names, policy, report)


def _is_table(layout: Layout) -> bool:
    """Whether a file of any name must be one: it has to have several columns, or they are said."""
    return (
        len(layout.columns) > 1 or layout.delimiter != "auto" or isinstance(layout.columns[0], int)
    )


def _one(path: Path, layout: Layout, broken: Broken) -> Iterator[Row]:
    if suffix(path) == parquet.SUFFIX:
        return _parquet(path, layout, broken)
    if is_json(path):
        columns = keys(path, layout.columns)
        return records(path, len(columns), partial(_values, columns), broken)
    first = list(islice(lines(path, {}), delimiters.LOOKED))
    delimiter = delimiters.settled(layout.delimiter, suffix(path), first, layout.fits)
    _check_width(path, first, delimiter, layout)
    return _table(path, layout, broken, delimiter)


def _parquet(path: Path, layout: Layout, broken: Broken) -> Iterator[Row]:
    """Rows of Parquet, counted from 1; a file inside is called "pairs.parquet#0"."""
    names = parquet.names(path)
    columns = tuple(names[n] for n in replace(layout, header=True).places(path, names))
    inside = {columns[n] for n in layout.held if parquet.has_bytes(path, columns[n])}
    read = [name for name in columns if name not in inside] or columns
    for number, record in enumerate(parquet.records(path, read), 1):
        place = f"{path.name}#{number - 1}"
        found = _values(columns, record | dict.fromkeys(inside, place))
        if isinstance(found, str):
            broken[number] = Finding(path, number, found, excerpt(str(record)))
            found = ("",) * len(columns)
        yield number, found


def is_json(path: Path) -> bool:
    """Whether a file has an object on each line, by its suffix or by its first line."""
    if suffix(path) in TABLES:
        return suffix(path) in (".jsonl", ".ndjson")
    first = islice(lines(path, {}), delimiters.LOOKED)
    start = next((line for line in first if line.strip()), "")
    return start.startswith("{") and isinstance(_object(start), dict)


def _check_width(path: Path, first: Sequence[str], delimiter: str, layout: Layout) -> None:
    """Refuse a table of which no row can be read, with the key that would let it be."""
    rows = [row for row in delimiters.cut(first, delimiter) if any(map(str.strip, row))]
    if layout.header or not rows or any(layout.fits(row, len(row)) for row in rows):
        return
    width, wanted = len(rows[0]), len(layout.columns)
    if (other := delimiters.others(first, delimiter)) and width < 2:
        name = delimiters.called(delimiter)
        raise UserError(f"{path}:1: one column, with {name}s between columns{other}")
    if suffix(path) not in TABLES and width < 2:
        raise UserError(
            f"1 plain text file for the {wanted} columns {', '.join(layout.names)}: give one file "
            f"for each, or a table; nothing cuts the lines of {path} into columns"
        )
    if width > wanted and not layout.by_number:
        numbers = [*range(1, wanted + 1)]
        raise UserError(
            f"{path}:1: {width} columns instead of {wanted} ({', '.join(layout.names)}): say by "
            f"data.columns which are meant, such as {numbers}"
        )


def _aligned(paths: Sequence[Path], broken: Broken) -> Iterable[Row]:
    """Line n of every file. Lengths are compared first, unless that means unpacking twice."""
    if len(paths) > 1 and all(path.suffix.lower() != ".gz" for path in paths):
        _compare(paths)

    def rows() -> Iterator[Row]:
        streams = [lines(path, broken) for path in paths]
        try:
            yield from enumerate(zip(*streams, strict=True), 1)
        except ValueError:
            _compare(paths)
            raise

    return rows()


def _compare(paths: Sequence[Path]) -> None:
    counts = [count(path) for path in paths]
    if len(set(counts)) > 1:
        each = ", ".join(f"{path} has {n:,}" for path, n in zip(paths, counts, strict=True))
        raise UserError(f"files that belong together have unequal numbers of lines: {each}")


Parse = Callable[[dict[str, Any]], tuple[str, ...] | str]
"""A JSON object → its fields, or what is wrong with it."""


def keys(path: Path, columns: Sequence[Name]) -> tuple[str, ...]:
    """The columns of JSON, which have names."""
    if numbers := [each for each in columns if isinstance(each, int)]:
        raise RecipeError(f"data.columns: {path} is JSONL: its columns go by key, not {numbers[0]}")
    return tuple(map(str, columns))


def records(path: Path, width: int, parse: Parse, broken: Broken) -> Iterator[Row]:
    """The `width` fields of each JSON object, one a line."""
    for number, line in enumerate(lines(path, broken), 1):
        fields: tuple[str, ...] | str = ("",) * width
        if line.strip():
            record = _object(line)
            fields = parse(record) if isinstance(record, dict) else str(record)
        if isinstance(fields, str):
            broken[number] = Finding(path, number, fields, excerpt(line))
            fields = ("",) * width
        yield number, fields


def _object(line: str) -> dict[str, Any] | str:
    """The JSON object of a line, or what it is instead."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return "not JSON"
    return record if isinstance(record, dict) else "not a JSON object"


def _values(columns: tuple[str, ...], record: dict[str, Any]) -> tuple[str, ...] | str:
    """The columns' values in a JSON object; or what is wrong."""
    fields = []
    for column in columns:
        try:
            value = one_line(text_of(record, column))
        except ValueError as error:
            return str(error)
        if defect := forbidden(value):
            return defect[0]
        fields.append(value)
    return tuple(fields)


def text_of(record: Mapping[str, Any], column: str) -> str:
    """A value in a JSON object, a number as it is written; ValueError if it is no text."""
    if column not in record:
        raise ValueError(f"no key “{column}”")
    value = record[column]
    if isinstance(value, int | float):
        value = json.dumps(value)
    if not isinstance(value, str):
        raise ValueError(f"“{column}” is not text")
    return value


def one_line(text: str) -> str:
    """A text whose line breaks have become blanks."""
    return BREAKS.sub(" ", text)


def _table(path: Path, layout: Layout, broken: Broken, delimiter: str) -> Iterator[Row]:
    nothing = ("",) * len(layout.columns)
    stream = lines(path, broken)
    first, width, places = 1, len(layout.columns), list(range(len(layout.columns)))
    if layout.header:
        taken: list[str] = []
        source = (line.removesuffix("\n") for line in _take(deque(), stream, taken))
        names = next(delimiters.cut(source, delimiter), [])
        first, width, places = 1 + len(taken), len(names), layout.places(path, names)
    elif layout.by_number:
        width = 0
    for number, fields in _split(stream, path, first, width, broken, delimiter):
        full = any(map(str.strip, fields))
        if full and not width:
            width, places = len(fields), layout.places(path, fields)
        if len(fields) == width:
            yield number, tuple(fields[i] for i in places)
        else:
            if full:
                what = f"{len(fields)} columns instead of {width}"
                broken[number] = Finding(path, number, what, excerpt(" | ".join(fields)))
            yield number, nothing


def _split(
    stream: Iterator[str], path: Path, first: int, width: int, broken: Broken, delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """(number, fields) of each row; `width` is how many they should be, 0 for any."""
    if delimiter == "\t":
        return ((number, line.split("\t")) for number, line in enumerate(stream, first))
    return _quoted(stream, path, first, width, broken, delimiter)


def _quoted(
    stream: Iterator[str], path: Path, first: int, width: int, broken: Broken, delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """Records of CSV, each under the number of its first line.

    A quote that is never closed would swallow the good lines that follow: when what it spans
    is no record, only its first line is given up, and reading goes on from the second.
    """
    ahead: deque[str] = deque()
    number = first
    while True:
        taken: list[str] = []
        what = "quote that is not closed"
        try:
            reader = csv.reader(_take(ahead, stream, taken), delimiter=delimiter, strict=True)
            fields = next(reader, [])
        except csv.Error as error:
            fields, what = [], f"not CSV ({error})"
        if not taken:
            return
        if len(taken) > 1 and (not fields or width not in (0, len(fields))):
            ahead.extendleft(reversed(taken[1:]))
            del taken[1:]
            what, fields = "quote that is not closed", []
        if len(taken) > 1:
            fields = [*map(one_line, fields)]
            if inside := [n for n in range(number, number + len(taken)) if n in broken]:
                broken[number], fields = broken.pop(inside[0]), []  # one of its lines is no text
        elif not fields and taken[0].strip():
            broken[number] = Finding(path, number, what, excerpt(taken[0]))
        yield number, fields
        width = width or len(fields)
        number += len(taken)


def _take(ahead: deque[str], stream: Iterator[str], taken: list[str]) -> Iterator[str]:
    """The lines put back, then those of the stream; each is noted in `taken`."""
    while (line := ahead.popleft() if ahead else next(stream, None)) is not None:
        taken.append(line)
        yield line + "\n"
