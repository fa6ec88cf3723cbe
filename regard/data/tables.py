"""Rows of several columns: of one .tsv, .csv or .jsonl, or of plain files that belong together.

Every defect is noted with its file and line, and dealt with as the policy says; see `readers`.
"""

import csv
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

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
)  # fmt: skip
from regard.errors import UserError


def parallel(
    paths: Sequence[Path],
    columns: tuple[str, ...],
    policy: Policy,
    report: Report,
    *,
    header: bool = False,
) -> Iterator[Row]:
    """Rows of `len(columns)` fields, with the number of the line on which each begins.

    Either one .tsv, .csv or .jsonl, or as many plain files as columns, whose lines belong
    together. The columns of .tsv and .csv go by position, with `header` by the names in the
    first line.
    """
    for path in paths:
        check(path)
    broken: Broken = {}
    kinds = {suffix(path) for path in paths} & {".tsv", ".csv", ".jsonl"}
    rows: Iterable[Row]
    if kinds and len(paths) > 1:
        raise UserError(
            f"{', '.join(map(str, paths))}: give one {kinds.pop()} file that has all columns "
            "or one plain text file for each column"
        )
    if kinds == {".jsonl"}:
        rows = records(paths[0], len(columns), partial(_values, columns), broken)
    elif kinds:
        rows = _table(paths[0], columns, broken, header)
    elif len(paths) == len(columns):
        rows = _aligned(paths, broken)
    else:
        raise UserError(
            f"{len(paths)} plain text files for the {len(columns)} columns "
            f"{', '.join(columns)}: give one file for each"
        )
    return usable(rows, broken, paths, columns, policy, report)


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


def records(path: Path, width: int, parse: Parse, broken: Broken) -> Iterator[Row]:
    """The `width` fields of each JSON object, one a line."""
    for number, line in enumerate(lines(path, broken), 1):
        fields: tuple[str, ...] | str = ("",) * width
        if line.strip():
            try:
                record = json.loads(line)
                fields = parse(record) if isinstance(record, dict) else "not a JSON object"
            except (ValueError, RecursionError):
                fields = "not JSON"
        if isinstance(fields, str):
            broken[number] = Finding(path, number, fields, excerpt(line))
            fields = ("",) * width
        yield number, fields


def _values(columns: tuple[str, ...], record: dict[str, Any]) -> tuple[str, ...] | str:
    """The columns' values in a JSON object, numbers as they are written; or what is wrong."""
    fields = []
    for column in columns:
        if column not in record:
            return f"no key “{column}”"
        value = record[column]
        if isinstance(value, int | float):
            value = json.dumps(value)
        if not isinstance(value, str):
            return f"“{column}” is not text"
        if defect := forbidden(value):
            return defect[0]
        fields.append(value)
    return tuple(fields)


def _table(path: Path, columns: tuple[str, ...], broken: Broken, header: bool) -> Iterator[Row]:
    """Rows of .tsv or .csv."""
    nothing = ("",) * len(columns)
    stream = lines(path, broken)

    def split(first: int, width: int) -> Iterator[tuple[int, list[str]]]:
        """The number and the fields of each row, from line `first` on; a width of 0 is any."""
        if suffix(path) == ".csv":
            return _commas(stream, path, first, width, broken)
        return ((number, line.split("\t")) for number, line in enumerate(stream, first))

    first, width, places = 1, len(columns), list(range(len(columns)))
    if header:
        _, names = next(split(1, 0), (1, []))
        first, width, places = 2, len(names), _places(path, names, columns)
    for number, fields in split(first, width):
        if len(fields) == width:
            yield number, tuple(fields[i] for i in places)
        else:
            if any(map(str.strip, fields)):
                what = f"{len(fields)} columns instead of {width}"
                broken[number] = Finding(path, number, what, excerpt(" | ".join(fields)))
            yield number, nothing


def _places(path: Path, names: list[str], columns: tuple[str, ...]) -> list[int]:
    for column in columns:
        if names.count(column) != 1:
            which = "two columns" if column in names else "no column"
            raise UserError(
                f"{path}:1: the header has {which} “{column}”; it reads: "
                f"{', '.join(names)}; say by data.columns which are meant"
            )
    return [names.index(column) for column in columns]


def _commas(
    stream: Iterator[str], path: Path, first: int, width: int, broken: Broken
) -> Iterator[tuple[int, list[str]]]:
    """Records of CSV. One that goes over several lines is broken, as its field has a newline.

    A quote that is never closed would swallow the good lines that follow: when what it spans
    is no record, only its first line is given up, and reading goes on from the second.
    """
    ahead: deque[str] = deque()
    number = first
    while True:
        taken: list[str] = []
        what = "line break inside a field"
        try:
            fields = next(csv.reader(_take(ahead, stream, taken), strict=True), [])
        except csv.Error as error:
            fields, what = [], f"not CSV ({error})"
        if not taken:
            return
        if len(taken) > 1 and (not fields or width not in (0, len(fields))):
            ahead.extendleft(reversed(taken[1:]))
            del taken[1:]
            what, fields = "quote that is not closed", []
        if len(taken) > 1 or (not fields and taken[0].strip()):
            broken[number] = Finding(path, number, what, excerpt(" ".join(taken)))
            fields = []
        yield number, fields
        number += len(taken)


def _take(ahead: deque[str], stream: Iterator[str], taken: list[str]) -> Iterator[str]:
    """The lines put back, then those of the stream; each is noted in `taken`."""
    while (line := ahead.popleft() if ahead else next(stream, None)) is not None:
        taken.append(line)
        yield line + "\n"
