"""Real-valued series from CSV: a row for each step, a column for each variable, perhaps one
of times.

What cannot be a number and a row with too few columns are refused with file and line. Times that go
back, repeated times, missing values and gaps are dealt with as the recipe says, in this order: rows
are sorted, the first of repeated times is kept, missing values are filled in, then gaps. What is
filled in is always the last known value: nothing is taken from the future, nor from a row that was
left out.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regard.data import clock, dates, delimiters, readers
from regard.data.cells import MISSING, Columns, Defect, Note, and_blanks, split_rows, unread
from regard.data.clock import Moment, Step
from regard.data.dates import Order
from regard.data.files import PARTS, check_set, find
from regard.data.readers import Broken, Finding, Report, excerpt
from regard.data.times import AUTO, TOLERANCE as TOLERANCE, column_of_times, regular
from regard.errors import RecipeError, UserError
from regard.recipe.values import NonNegative, Positive

LARGEST = 1e100
"""No measurement is larger, and sums of squares of larger ones would be no numbers any more."""

HINTS: dict[Defect, str] = {
    "missing": "With data.missing = 'fill' the one before it is taken",
    "start": "There is none before it that could be taken",
    "back": "With data.order = 'sort' rows are sorted by time",
    "repeated": "The key data.repeated says what to do",
    "gap": "The key data.gap says what to do",
    "uneven": "With data.gap = 'ignore' rows count as equally far apart",
}
"""What is said where a defect is refused."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Where the series is, and which part of it is for what: first train, then validation, then
    test. A number up to 1 is a fraction of all rows, a larger one a number of rows."""

    set: str = ""
    """A data set of the catalogue (`regard data list`)."""
    folder: str = ""
    """A folder that the file is in; by default, the recipe's own."""
    file: str
    """A CSV file, plain or gzip, whose first line names its columns."""
    delimiter: str = "auto"
    """What stands between columns: tab, comma, semicolon, pipe or a character; auto: as the suffix
    says, or else what cuts its lines into the same number of columns."""
    decimal: Literal[".", ","] = "."
    """What stands before the decimals of a number."""
    time: str = AUTO
    """The column of times: dates or numbers; auto: the first whose cells are dates; empty: none, so
    that rows are equally far apart."""
    dates: Order = "auto"
    """How dates are written; auto: 2024-12-31, 2024/12/31 or 31.12.2024; day_first: 31/12/2024;
    month_first: 12/31/2024; compact: 20241231, which else is a number. Hours may follow."""
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
    order: Literal["refuse", "sort"] = "refuse"
    """What to do where times go back, as in a file whose newest row comes first; sort: sort all
    rows by time, before anything is filled in."""

    def __post_init__(self) -> None:
        check_set(self.set, self.folder)
        if self.delimiter != "auto":
            delimiters.character(self.delimiter)
        if self.order == "sort" and not self.time:
            raise RecipeError("order: rows are sorted by time; data.time must name its column")
        if self.time and self.time in self.variables:
            raise RecipeError(f"variables: {self.time!r} is the column of times")
        if len({*self.variables}) < len(self.variables):
            raise RecipeError("variables: each may be named only once")
        for part, share in self.shares.items():
            if share > 1 and share % 1:
                raise RecipeError(
                    f"{part}: {share} is neither a fraction nor a whole number of rows"
                )
        if sum(share for share in self.shares.values() if share <= 1) > 1 + 1e-9:
            raise RecipeError(
                "train: the fractions of train, validation and test are more than 1 together"
            )

    @property
    def path(self) -> Path:
        """The file; it must be there."""
        return find(self.set, self.folder, self.file, "data.file")

    @property
    def shares(self) -> dict[str, float]:
        """What each part takes of the rows: a fraction up to 1, or else a number of rows."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    def bounds(self, rows: int) -> dict[str, tuple[int, int]]:
        """First row of each part and the row after its last, of `rows` in all."""
        ends, total = [0], 0.0
        for wanted in self.shares.values():
            total += wanted * rows if wanted <= 1 else wanted
            ends.append(round(total))
        if ends[-1] > rows:
            raise RecipeError(
                f"data.test: train, validation and test want {ends[-1]:,} rows, "
                f"but {self.file} has {rows:,}"
            )
        return {part: (ends[n], ends[n + 1]) for n, part in enumerate(PARTS)}

    def rule(self, defect: Defect) -> str:
        """What the recipe says of a defect: refuse, or what else is to be done."""
        match defect:
            case "missing" | "repeated" | "gap":
                return str(getattr(self, defect))
            case "back":
                return self.order
            case "summer":
                return "ignore" if self.gap == "ignore" else "fill"
            case "winter":
                return "first"
            case "uneven":
                return "ignore" if self.gap == "ignore" else "refuse"
        return "refuse"


@dataclass(frozen=True)
class Series:
    """Values (T, C) of C variables at T equally distant times."""

    names: tuple[str, ...]
    values: NDArray[np.float64]
    lines: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """The line that each row (T) comes from."""
    time: str = ""
    """The name of the column of times; empty without one."""
    first: str = ""
    """The first time as it is written; empty without a column of times."""
    last: str = ""
    """The last time."""
    step: Step | None = None
    """From one time to the next; None where there are no two."""

    def after(self, count: int) -> list[str]:
        """The times that follow, written like the last one; 1, 2, … without times."""
        if not self.last:
            return [str(n) for n in range(1, count + 1)]
        if self.step is None:
            raise UserError(f"what follows {self.last} is not known: one time alone has no step")
        return [clock.add(self.last, self.step, n) for n in range(1, count + 1)]


@dataclass(frozen=True)
class Scanned:
    """A file that was read to its end, whatever is wrong with it."""

    config: Config
    path: Path
    defects: list[tuple[Defect, Finding]]
    """In the order in which the reader saw them."""
    rows: int
    """Lines that are not empty, but for the names of the columns."""
    series: Series | None
    error: UserError | None
    """Why there is no series."""

    def accepted(self, report: Report) -> Series:
        """The series; refused if the recipe does not say how to deal with what is
        wrong with it."""
        note = _strict(self.config, report)
        for defect, finding in self.defects:
            note(defect, finding)
        if self.series is None:
            raise self.error or UserError(f"{self.path}: nothing was read")
        report.used += len(np.unique(self.series.lines))
        return self.series


def scanned(config: Config) -> Scanned:
    """The file of a recipe, for those who want to know all that is wrong with it."""
    path, defects, rows = config.path, list[tuple[Defect, Finding]](), -1
    found, error = None, None

    def note(defect: Defect, finding: Finding) -> None:
        defects.append((defect, finding))

    def lines() -> Iterator[str | None]:
        """None for one that is no text."""
        nonlocal rows
        broken: Broken = {}
        for number, line in enumerate(readers.lines(path, broken), 1):
            if bad := broken.pop(number, None):
                note("encoding" if bad.what == "not UTF-8" else "control", bad)
            rows += bool(bad or line.strip())
            yield None if bad else line

    try:
        found = scan(lines(), config, path, note)
    except UserError as what:
        error = what
    return Scanned(config, path, defects, rows, found, error)


def read(config: Config, report: Report | None = None) -> Series:
    """The series of a recipe."""
    return scanned(config).accepted(Report() if report is None else report)


def parse(
    lines: Iterable[str | None],
    config: Config,
    path: Path,
    report: Report,
    step: Step | None = None,
    *,
    timed: bool = True,
) -> Series:
    """A series from lines; `path` is what messages call them. The rest is that of `scan`."""
    found = scan(lines, config, path, _strict(config, report), step, timed=timed)
    report.used += len(np.unique(found.lines))
    return found


def _strict(config: Config, report: Report) -> Note:
    """Refuses what the recipe does not say how to deal with."""

    def note(defect: Defect, finding: Finding) -> None:
        rule = config.rule(defect)
        if rule == "refuse":
            raise UserError(f"{finding}. {HINTS[defect]}" if defect in HINTS else str(finding))
        if rule != "ignore":
            report.add(finding)

    return note


def scan(
    lines: Iterable[str | None],
    config: Config,
    path: Path,
    note: Note,
    step: Step | None = None,
    *,
    timed: bool = True,
) -> Series:
    """The series that lines hold. `note` gets each defect; if it returns, reading continues.

    `step` is that of the series which a model learnt, if there is one; without `timed`, the column
    of times may be absent.
    """
    stream = split_rows(lines, config.delimiter, path, note)
    first, cells = next(((number, cells) for number, cells in stream if cells), (1, []))
    header = [cell.strip() for cell in cells]
    if config.time == AUTO:
        looked = list(islice(stream, delimiters.LOOKED))
        stream = chain(looked, stream)
        rows = [cells for _, cells in looked if cells]
        time = column_of_times(header, rows, config.dates, config.variables)
        if config.order == "sort" and not time:
            raise UserError(f"{path}: no column of times to sort by; name it by data.time")
    else:
        time = config.time if timed or config.time in header else ""
    columns = Columns.find(header, config.variables, time, f"{path}:{first}")
    table = Table(columns, path, note, config)
    for number, cells in and_blanks(stream, len(header)):
        table.add(number, cells)
    if not table.lines:
        raise UserError(f"{path}: no row follows the names of the columns")
    if columns.time is None:
        return table.series(list(range(len(table.lines))), config)
    return regular(table, config, step)


class Table:
    """The rows that were read, in the order of the file."""

    def __init__(self, columns: Columns, path: Path, note: Note, config: Config) -> None:
        self.columns, self.path, self.note, self.config = columns, path, note, config
        self.lines: list[int] = []
        self.values: list[list[float]] = []
        self.absent: dict[int, dict[int, str]] = {}
        """The cells that hold no value, by row and variable."""
        self.times: list[Moment] = []
        self.texts: list[str] = []
        """The times as they are written."""

    def add(self, line: int, cells: list[str]) -> None:
        """A row. Where `note` lets a defect pass, it stands for its time alone."""
        names, width = self.columns.names, self.columns.width
        if len(cells) != width:
            what = f"{len(cells)} columns instead of {width}"
            self._note("columns", line, what, " | ".join(cells))
        if self.columns.time is not None and not self._clock(line, cells):
            return
        row = [math.nan] * len(names)
        if len(cells) == width:
            for n, place in enumerate(self.columns.places):
                text = cells[place].strip()
                if self.config.decimal == ",":
                    text = text.replace(",", ".", 1)
                if text.lower() in MISSING:
                    self.absent.setdefault(len(self.lines), {})[n] = cells[place]
                elif not delimiters.is_number(text):
                    self._note("number", line, f"“{names[n]}” is not a number{unread(text)}", text)
                elif abs(float(text)) > LARGEST:
                    self._note("number", line, f"“{names[n]}” is beyond {LARGEST:g}", text)
                else:
                    row[n] = float(text)
        self.lines.append(line)
        self.values.append(row)

    def _clock(self, line: int, cells: list[str]) -> bool:
        """Take down the time of a row; whether it has one of the same kind as the first."""
        assert self.columns.time is not None
        text = cells[self.columns.time].strip() if self.columns.time < len(cells) else ""
        text = dates.iso(text, self.config.dates)
        time = clock.moment(text)
        if time is None or clock.kind(time) != clock.kind(next(iter(self.times), time)):
            if len(cells) == self.columns.width:
                what = "not a time: ISO dates (2016-07-01 13:00) or numbers are wanted, all alike"
                hint = "; data.dates says whether the day or the month comes first"
                self._note("time", line, what + hint * dates.ambiguous(text), text)
            return False
        self.times.append(time)
        self.texts.append(text)
        return True

    def _note(self, defect: Defect, line: int, what: str, text: str) -> None:
        self.note(defect, Finding(self.path, line, what, excerpt(text)))

    def follows(self, defect: Defect, what: str, row: int, before: int) -> None:
        """Note what is wrong with the time of a row after that of another."""
        self._note(defect, self.lines[row], what, f"{self.texts[row]} after {self.texts[before]}")

    def series(
        self,
        rows: Sequence[int],
        config: Config,
        copies: Sequence[int] = (),
        step: Step | None = None,
    ) -> Series:
        """These rows in this order, each as often as `copies` says, missing values filled in."""
        for n, row in enumerate(rows):
            for column, cell in self.absent.get(row, {}).items():
                unknown = not n and config.missing == "fill"
                what = f"no value of “{self.columns.names[column]}”"
                self._note("start" if unknown else "missing", self.lines[row], what, cell)
                if n:
                    self.values[row][column] = self.values[rows[n - 1]][column]
        repeats = np.array(copies or [1] * len(rows))
        return Series(
            self.columns.names,
            np.repeat(np.array([self.values[row] for row in rows]), repeats, axis=0),
            np.repeat(np.array([self.lines[row] for row in rows]), repeats),
            self.columns.clock,
            self.texts[rows[0]] if self.texts else "",
            self.texts[rows[-1]] if self.texts else "",
            step,
        )
