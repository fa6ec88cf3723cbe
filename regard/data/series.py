"""Real-valued series from CSV: a row for each step, a column for each variable, perhaps one
of times.

What cannot be a number, a row with too few columns, times that go back are refused with file and
line. A missing value, a gap in the times and a repeated time are dealt with as the recipe says.
What is filled in is always the last known value: nothing is ever taken from the future.
"""

import csv
import difflib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regard.data import catalogue, readers
from regard.data.files import find
from regard.data.readers import Finding, Report, excerpt
from regard.errors import RecipeError, UserError
from regard.values import NonNegative, Positive

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")
MISSING = {"", "na", "n/a", "nan", "null", "none"}
DAY = 86_400.0
TOLERANCE = 1e-3
"""By which part of a step a time may be off: numbers such as 0.1 are not exact."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Where the series is, and which part of it is for what: first train, then validation, then
    test. A number up to 1 is a share of all rows, a larger one a number of rows."""

    set: str = ""
    """A data set of the catalogue (`regard data list`)."""
    folder: str = ""
    """A folder that the file is in; of itself, the recipe's own."""
    file: str
    """A CSV file, plain or gzip, whose first line names its columns."""
    separator: str = ","
    """What stands between two columns."""
    time: str = ""
    """The column of times: ISO dates or numbers. Without one, rows are equally far apart."""
    variables: tuple[str, ...] = ()
    """The columns that are read and predicted; none: all but that of times."""
    train: Positive = 0.7
    """Rows to learn from."""
    validation: NonNegative = 0.1
    """Rows to choose by: checkpoints, early stopping, the width of intervals."""
    test: NonNegative = 0.2
    """Rows that `regard evaluate` scores; never looked at in training."""
    missing: Literal["refuse", "fill"] = "refuse"
    """What to do with a value that is not there (empty, NA, NaN); fill: with the one before it."""
    gap: Literal["refuse", "fill", "ignore"] = "refuse"
    """What to do where times leave out steps; fill: with the row before, ignore: as if none did."""
    repeated: Literal["refuse", "first"] = "refuse"
    """What to do with rows of the same time; first: take the first of them."""

    def __post_init__(self) -> None:
        if self.set and self.folder:
            raise RecipeError("folder: give either a data set or a folder, not both")
        if self.set and self.set not in catalogue.names():
            near = difflib.get_close_matches(self.set, catalogue.names(), 1)
            hint = f"did you mean {near[0]!r}?" if near else "`regard data list` has them all"
            raise RecipeError(f"set: there is no data set {self.set!r}; {hint}")
        if len(self.separator) != 1:
            raise RecipeError(f"separator: {self.separator!r} is not one character")
        if self.time and self.time in self.variables:
            raise RecipeError(f"variables: {self.time!r} is the column of times")
        if len({*self.variables}) < len(self.variables):
            raise RecipeError("variables: a name stands there twice")
        for part in PARTS:
            if getattr(self, part) > 1 and getattr(self, part) % 1:
                raise RecipeError(f"{part}: {getattr(self, part)} is neither a share nor a number")
        if sum(getattr(self, part) for part in PARTS if getattr(self, part) <= 1) > 1 + 1e-9:
            raise RecipeError("train: the shares of train, validation and test are more than 1")

    @property
    def path(self) -> Path:
        """The file; it must be there."""
        return find(self.set, self.folder, self.file, "data.file")

    def bounds(self, rows: int) -> dict[str, tuple[int, int]]:
        """First row of each part and the row after its last, of `rows` in all."""
        ends, total = [0], 0.0
        for part in PARTS:
            wanted = float(getattr(self, part))
            total += wanted * rows if wanted <= 1 else wanted
            ends.append(round(total))
        if ends[-1] > rows:
            raise RecipeError(
                f"data.test: train, validation and test want {ends[-1]:,} rows, "
                f"but {self.file} has {rows:,}"
            )
        return {part: (ends[n], ends[n + 1]) for n, part in enumerate(PARTS)}


@dataclass(frozen=True)
class Series:
    """Values (T, C) of C variables at T equally distant times."""

    names: tuple[str, ...]
    values: NDArray[np.float64]
    last: str = ""
    """The last time as it is written; empty without a column of times."""
    step: float = 1.0
    """From one time to the next: seconds, or a number."""

    def after(self, count: int) -> list[str]:
        """The times that follow, written like the last one; 1, 2, … without times."""
        if not self.last:
            return [str(n) for n in range(1, count + 1)]
        return [_later(self.last, self.step * n) for n in range(1, count + 1)]


def read(config: Config, report: Report | None = None) -> Series:
    """The series of a recipe."""
    path, broken = config.path, dict[int, Finding]()

    def lines() -> Iterator[str]:
        for number, line in enumerate(readers.lines(path, broken), 1):
            if number in broken:
                raise UserError(str(broken[number]))
            yield line

    return parse(lines(), config, path, Report() if report is None else report)


def parse(lines: Iterable[str], config: Config, path: Path, report: Report) -> Series:
    """The same from lines; `path` is what messages call them."""
    rows = _rows(lines, config.separator, path)
    _, header = next(rows, (1, []))
    names = config.variables or tuple(name for name in header if name != config.time)
    if not names:
        raise UserError(f"{path}:1: no column to read; the first line must name the columns")
    places = [_place(path, header, name) for name in names]
    clock = _place(path, header, config.time) if config.time else None
    numbers: list[int] = []
    times: list[str] = []
    table: list[list[float]] = []
    before: Sequence[float | None]
    for number, cells in rows:
        if len(cells) != len(header):
            what = f"{len(cells)} columns instead of {len(header)}"
            raise UserError(str(Finding(path, number, what, excerpt(" | ".join(cells)))))
        before = table[-1] if table else [None] * len(names)
        row = []
        for name, place, known in zip(names, places, before, strict=True):
            where = Finding(path, number, name, excerpt(cells[place]))
            row.append(_value(cells[place], known, where, config, report))
        table.append(row)
        numbers.append(number)
        if clock is not None:
            times.append(cells[clock].strip())
    if not table:
        raise UserError(f"{path}: no row follows the names of the columns")
    report.used += len(table)
    found = Series(names, np.array(table))
    return _regular(found, times, numbers, config, path, report) if times else found


def _rows(lines: Iterable[str], separator: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Cells of each line that has any, with its number; a line ends a row, whatever is quoted."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                [cells] = csv.reader([line], delimiter=separator, strict=True)
            except csv.Error as error:
                what = f"not CSV ({error})"
                raise UserError(str(Finding(path, number, what, excerpt(line)))) from None
            yield number, [cell.strip() for cell in cells] if number == 1 else cells


def _place(path: Path, header: list[str], name: str) -> int:
    if header.count(name) == 1:
        return header.index(name)
    which = "two columns" if name in header else "no column"
    near = difflib.get_close_matches(name, header, 1)
    hint = f"did you mean {near[0]!r}?" if near and name not in header else ""
    there = hint or f"it reads: {', '.join(header)}"
    raise UserError(f"{path}:1: the header has {which} “{name}”; {there}")


def _value(
    cell: str, before: float | None, where: Finding, config: Config, report: Report
) -> float:
    """The number in a cell, or what the recipe says of one that is missing."""
    text = cell.strip()
    if text.lower() in MISSING:
        finding = replace(where, what=f"no value of “{where.what}”")
        if config.missing == "refuse":
            raise UserError(f"{finding}. With data.missing = 'fill' the one before it is taken")
        if before is None:
            raise UserError(f"{finding}. There is none before it that could be taken")
        report.add(finding)
        return before
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in text:
        raise UserError(str(replace(where, what=f"“{where.what}” is not a number")))
    return value


# Times


def _regular(
    series: Series, times: list[str], lines: list[int], config: Config, path: Path, report: Report
) -> Series:
    """The series without repeated times and gaps, or a refusal of the first one."""
    clock = _clock(times, lines, path)
    steps = np.diff(clock)
    onward = steps[steps > 0]
    if not len(onward):
        return replace(series, last=times[-1])
    each, counts = np.unique(np.round(onward, 6), return_counts=True)
    step = float(each[counts.argmax()])
    copies = np.ones(len(times), np.int64)
    for place in np.flatnonzero(np.abs(steps / step - 1) > TOLERANCE) + 1:
        ratio = steps[place - 1] / step
        finding = Finding(path, lines[place], "", f"{times[place]} after {times[place - 1]}")
        if ratio < 0:
            raise UserError(str(replace(finding, what="the time goes back")))
        if ratio == 0:
            _deal(replace(finding, what="a repeated time"), "repeated", config.repeated, report)
            copies[place] = 0
        elif config.gap != "ignore":
            whole = abs(ratio - round(ratio)) <= TOLERANCE
            what = "steps are left out" if whole else "no whole number of steps"
            rule = config.gap if whole else "refuse"
            _deal(replace(finding, what=what), "gap", rule, report)
            copies[place - 1] += round(ratio) - 1
    if copies.sum() > 2 * len(times):
        raise UserError(f"{path}: more rows would be filled in than there are: see data.time")
    values = np.repeat(series.values, copies, axis=0)
    return replace(series, values=values, last=times[-1], step=step)


def _deal(finding: Finding, key: str, rule: str, report: Report) -> None:
    if rule == "refuse":
        raise UserError(f"{finding}. The key data.{key} says what to do")
    report.add(finding)


def _clock(times: list[str], lines: list[int], path: Path) -> NDArray[np.float64]:
    """Seconds or numbers; all are of the kind of the first."""
    kind = _kind(times[0])
    found = []
    for text, line in zip(times, lines, strict=True):
        if kind is None or _kind(text) != kind:
            what = "not a time: ISO dates (2016-07-01 13:00) or numbers are wanted, all alike"
            raise UserError(str(Finding(path, line, what, excerpt(text))))
        found.append(_seconds(text))
    return np.array(found)


def _kind(text: str) -> str | None:
    try:
        return "number" if math.isfinite(float(text)) else None
    except ValueError:
        pass
    try:
        return "local" if datetime.fromisoformat(text).tzinfo is None else "absolute"
    except ValueError:
        return None


def _seconds(text: str) -> float:
    if _kind(text) == "number":
        return float(text)
    moment = datetime.fromisoformat(text)
    return (moment - datetime(1970, 1, 1, tzinfo=moment.tzinfo)).total_seconds()


def _later(text: str, seconds: float) -> str:
    if _kind(text) == "number":
        return f"{float(text) + seconds:.12g}"
    moment = datetime.fromisoformat(text) + timedelta(seconds=seconds)
    if len(text) <= len("2016-07-01") and seconds % DAY == 0:
        return moment.date().isoformat()
    short = len(text) == len("2016-07-01 13:00") and seconds % 60 == 0
    return moment.isoformat("T" if "T" in text else " ", "minutes" if short else "auto")


# What a run keeps


@dataclass(frozen=True)
class Standard:
    """v ↦ (v − mean) / deviation, with the mean and the deviation of each variable in training."""

    names: tuple[str, ...]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    parts: dict[str, tuple[int, int]]
    """First row of each part, and the row after its last."""

    @classmethod
    def fit(cls, series: Series, parts: dict[str, tuple[int, int]]) -> "Standard":
        """The rows to learn from decide, alone; what never changes there has the deviation 1."""
        start, end = parts["train"]
        learnt = series.values[start:end]
        deviation = learnt.std(0)
        flat = deviation <= 1e-12 * np.abs(learnt).max(0)
        return cls(series.names, learnt.mean(0), np.where(flat, 1.0, deviation), parts)

    def apply(self, values: NDArray[np.float64]) -> NDArray[np.float32]:
        return ((values - self.mean) / self.deviation).astype(np.float32)

    def undo(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        return values.astype(np.float64) * self.deviation + self.mean

    def save(self, folder: Path) -> None:
        table = {
            "variables": list(self.names),
            "mean": self.mean.tolist(),
            "deviation": self.deviation.tolist(),
            "parts": {name: list(ends) for name, ends in self.parts.items()},
        }
        text = json.dumps(table, ensure_ascii=False, indent=2)
        (folder / "series.json").write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "Standard":
        path = folder / "series.json"
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            mean, deviation = (np.array(table[key], float) for key in ("mean", "deviation"))
            parts = {name: (int(start), int(end)) for name, (start, end) in table["parts"].items()}
            return cls(tuple(table["variables"]), mean, deviation, parts)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} cannot be read: {error}") from None
