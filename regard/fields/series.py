"""A series of numbers: what was seen so far, or what follows."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from regard.checks import series as checks
from regard.checks.findings import Finding, finding
from regard.checks.sides import Part
from regard.data import clock, delimiters, readers, series, windows
from regard.data.files import called
from regard.data.readers import Report
from regard.data.series import TOLERANCE, Scanned, Series
from regard.data.standard import Standard, Standardised
from regard.data.store import Column, Store
from regard.data.times import AUTO
from regard.errors import RecipeError, UserError
from regard.fields import Array, Draw, Field as Base, Row

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Config:
    """Series have no settings of their own: where one is, the section `data` says, and how far a
    model looks, the section `window`."""


@dataclass(frozen=True)
class Field(Base):
    """Values (T, C) of C variables at T times, stored in the unit of their file.

    A row of a batch is a window of them, normalised: the past and, if it is known, the future.
    One field reads its past, another, `ahead`, what follows.
    """

    name: str
    data: series.Config
    window: windows.Config
    ahead: bool = False
    """Whether it is what follows. That is stored and checked with what stands before it."""
    learnt: Standard | None = None

    # One series

    def parse(self, text: str, name: str = "the series", *, timed: bool = False) -> Series:
        """CSV in the form of the run's own file. Messages call it by its file, or by `name`. Its
        times have the run's step; unless they are needed (`timed`), they may be left out."""
        wanted, step = self.data, None
        if self.learnt is not None:
            wanted, step = replace(wanted, variables=self.learnt.names), self.learnt.step
        lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
        path = Path(called(text, name))
        return series.parse(lines, wanted, path, Report(), step, timed=timed)

    def both(self, past: str, future: str, names: Sequence[str]) -> tuple[Series, Series]:
        """A series, and what came after it; where both have times, it must be the next step."""
        found, then = (
            self.parse(text, name) for text, name in zip((past, future), names, strict=True)
        )
        step = found.step or then.step
        if found.last and then.first and step is not None:
            steps = clock.distance(found.last, then.first, step)
            loose = self.data.gap == "ignore"
            if steps <= 0 or (abs(steps - 1) > TOLERANCE and not loose):
                what = f"{then.first} does not follow {found.last}, the last time of {names[0]}"
                raise UserError(f"{names[1]}: {what}, by a step of {step}")
        return found, then

    def last(self, found: Series, name: str) -> Values:
        """The window that is read: the end of a series; `name` is what messages call it."""
        back = self.window.look_back
        values = found.values[-back:]
        if len(values) < back:
            raise UserError(f"{name}: {len(values)} rows, but the model looks back {back} steps")
        return values

    def show(self, value: Series) -> str:
        """CSV with all digits, and with times, if it has them."""
        rows = [[repr(each).removesuffix(".0") for each in row] for row in value.values.tolist()]
        if not (value.first and value.time):
            return self._table([[*value.names], *rows])
        step = value.step
        times = [value.first]
        times += [clock.add(value.first, step, n) for n in range(1, len(rows)) if step is not None]
        timed = ([time, *row] for time, row in zip(times, rows, strict=True))
        return self._table([[value.time, *value.names], *timed])

    def show_forecast(
        self, found: Series, mean: Values, low: Values, high: Values, like: str = ""
    ) -> str:
        """CSV of what follows a series: of each variable (T, C) the expected value and the ends of
        its interval; delimiter and decimals are those of the text `like`, if it is given."""
        names = [f"{name}{end}" for name in found.names for end in ("", ".low", ".high")]
        columns = np.stack([mean, low, high], -1).reshape(len(mean), -1)  # (T, C · 3)
        spread = np.repeat(self.standard.deviation, 3)
        times = found.after(len(mean))
        numbers = [[*map(_digits, row, spread)] for row in columns]
        between = ","
        if like:
            ending = readers.suffix(Path(called(like, "")))
            start = like.split("\n", delimiters.LOOKED)[: delimiters.LOOKED]
            between = delimiters.of_series(self.data.delimiter, ending, start)
            if self.data.decimal == ",":
                numbers = [[cell.replace(".", ",") for cell in row] for row in numbers]
        rows = ([t, *row] for t, row in zip(times, numbers, strict=True))
        named = "" if self.data.time == AUTO else self.data.time
        return self._table([[found.time or named or "step", *names], *rows], between)

    def _table(self, rows: Iterable[Sequence[str]], separator: str = "") -> str:
        """CSV without a newline at its end."""
        text = io.StringIO()
        if not separator:
            auto = self.data.delimiter == "auto"
            separator = "," if auto else delimiters.character(self.data.delimiter)
        csv.writer(text, lineterminator="\n", delimiter=separator).writerows(rows)
        return text.getvalue().removesuffix("\n")

    # The series of a recipe

    @cached_property
    def scanned(self) -> Scanned:
        """Its file, read once for all that ask this field: the doctor, and preparation."""
        return series.scanned(self.data)

    def check(self, parts: Sequence[Part], base: Path | None = None) -> Iterator[Finding]:
        """Every row that the reader would refuse, and values that look wrong."""
        if self.ahead:
            return
        follows = self.window.normalise != "none"  # the level of each window, wherever it is
        try:
            for found in checks.check(self.scanned):
                if not (follows and found.code == "series.drift"):
                    yield found
        except UserError as error:
            yield finding("data.unreadable", "data.file", str(error))

    def fit(self, values: Iterable[Series]) -> "Field":
        """Mean and deviation of the rows to learn from, and which rows these are."""
        (found,) = values
        return replace(self, learnt=Standard.fit(found, self.data.bounds(len(found.values))))

    def in_unit_of(self, given: "Field") -> "Field":
        """The same with mean and deviation of a run whose model is trained on."""
        own, other = self.standard, given.standard
        if other.names != own.names:
            raise RecipeError(
                f"data.variables: {', '.join(own.names)} here, and {', '.join(other.names)} in the "
                "run whose weights it begins with"
            )
        return replace(self, learnt=replace(other, parts=own.parts, step=own.step))

    def load(self, folder: Path) -> "Field":
        return replace(self, learnt=Standard.load(folder))

    def save(self, folder: Path) -> None:
        if not self.ahead:
            self.standard.save(folder)

    # What has learnt from data

    @property
    def standard(self) -> Standard:
        assert self.learnt is not None
        return self.learnt

    @property
    def size_names(self) -> Sequence[str]:
        return tuple(self.window.size(1))

    @property
    def size(self) -> Mapping[str, int]:
        return self.window.size(len(self.standard.names))

    @property
    def columns(self) -> Mapping[str, Column]:
        return {} if self.ahead else {self.name: Column("f8", (len(self.standard.names),))}

    def verify(self, store: Store, longest: int) -> None:
        """One example: the rows to learn from and to choose by, all finite."""
        for name, column in self.columns.items():
            store.check(name, finite=True)
            rows = self.standard.parts["validation"][1]
            if store.columns[name] != column or store.lengths(name).tolist() != [rows]:
                raise UserError(
                    f"the stored data cannot be read: the series is not one of {rows:,} rows and "
                    f"{column.shape[0]} variables. Start a new run from the recipe"
                )

    def encode(self, values: Sequence[Series]) -> list[Row]:
        return [{} if self.ahead else {self.name: value.values} for value in values]

    def rows(self, values: Standardised, starts: NDArray[np.int64], steps: int) -> list[Row]:
        """Windows of standardised values whose futures, of so many steps, begin at `starts`: each
        normalised by its own past, and what it was divided by."""
        found = self.window.cut(values, starts, steps)
        past = found[:, : self.window.look_back]
        centre, scale = windows.normaliser(past, self.window.normalise)
        pairs = zip((found - centre) / scale, scale, strict=True)
        return [{self.name: each, f"{self.name}_scale": by} for each, by in pairs]

    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        """Of windows the past (B, S, C), or the future as targets (B, T · C), and what they were
        divided by; independent variables as windows of their own."""
        back = self.window.look_back
        if not self.ahead:
            past = np.stack([row[self.name][:back] for row in rows])
            return {self.name: windows.fold(past, self.window)}
        future = np.stack([row[self.name][back:] for row in rows])
        scale = np.ones_like(future) * np.stack([row[f"{self.name}_scale"] for row in rows])
        arrays = {"targets": future, "scale": scale}
        folded = {name: windows.fold(array, self.window) for name, array in arrays.items()}
        return {name: array.reshape(len(array), -1) for name, array in folded.items()}

    def targets(self, arrays: Mapping[str, Any]) -> int:
        return int(arrays["targets"].size) if self.ahead else 0

    def pieces(self, row: Row) -> list[str]:
        """The last step of the past is 0, the first one that follows +1."""
        if self.ahead:
            return [f"+{n}" for n in range(1, self.window.steps + 1)]
        return [str(n) for n in range(1 - self.window.look_back, 1)]

    def status(self, row: Row, longest: int, *, strict: bool = False) -> str:
        return "ok"

    def ends(
        self, mean: Float[Any, "T C"], deviation: Float[Any, "T C"], reach: float
    ) -> tuple[Values, Values, Values]:
        """μ and μ ± reach · σ of standardised values, in the unit of the file."""
        half = reach * deviation
        middle, low, high = map(self.standard.undo, (mean, mean - half, mean + half))
        return middle, low, high


def _digits(value: float, spread: float) -> str:
    """Eight digits, or as many more as tell a millionth of the variable's deviation."""
    size = abs(value) / spread
    digits = 6 + math.ceil(math.log10(size)) if 0 < size < math.inf else 0
    return f"{value:.{min(max(8, digits), 17)}g}"
