"""From a file with one long series to what training reads of it, and back out of the store.

There are no single examples: a part is a stretch of rows, and every window of it is learnt from.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data import files, series
from regard.data.readers import Report
from regard.data.standard import Standardised, earlier_rows
from regard.data.store import Store, Writer
from regard.errors import RecipeError, UserError
from regard.examples.preparation import STORE, Check
from regard.fields.series import Field, Values

STEPS = "steps"
"""The store that has all steps to learn from and to choose by as one example."""
EARLIER = "series.npy"
"""The file that earlier versions had instead."""


@dataclass(frozen=True)
class Plan:
    """How a series comes from its file into the store."""

    fields: Mapping[str, Field]
    """past and future."""
    parts: Sequence[files.Part] = field(default_factory=list)
    """None that is made of single examples."""
    limited: bool = False
    """Nothing is too long."""

    @property
    def past(self) -> Field:
        return self.fields["past"]

    def has(self, part: str) -> bool:
        """Whether there is such a part."""
        return self.past.data.shares[part] > 0

    def prepare(
        self, folder: Path, given: Mapping[str, Field] | None = None, check: Check | None = None
    ) -> Report:
        """Read the series, standardise it by its training part or as another run does, which has
        `given` its fields."""
        if check is not None:
            check({})
        report = Report()
        found = self.past.scanned.accepted(report)
        self._suffices(len(found.values))
        fitted = self.past.fit([found])
        if given and "past" in given:
            fitted = fitted.in_unit_of(given["past"])
        # The test part stays where it is.
        learnt = replace(found, values=found.values[: fitted.standard.parts["validation"][1]])
        fitted.standard.apply(learnt.values, self.past.data.path)  # refuses what is too far off
        with Writer(folder / STORE, STEPS, fitted.columns) as writer:
            if not writer.complete:
                writer.add(fitted.encode([learnt])[writer.done :])
        fitted.save(folder)
        return report

    def _suffices(self, rows: int) -> None:
        """Refuse parts that no window fits into."""
        window = self.past.window
        for part, (start, end) in self.past.data.bounds(rows).items():
            back = window.look_back if part == "train" else 0
            ahead = window.steps if part == "train" else window.horizon
            if self.has(part) and end - start < back + ahead:
                raise RecipeError(
                    f"data.{part}: {end - start:,} rows are too few for window.look_back = "
                    f"{window.look_back} and window.horizon = {window.horizon}"
                )


class Stored:
    """The rows of a series: those that a run keeps, and the test part in its file."""

    def __init__(self, folder: Path, past: Field) -> None:
        self._place, self._field = folder / STORE, past

    def values(self, part: str) -> Standardised:
        """(T, C), standardised, up to a part's end at least."""
        return self._field.standard.apply(self.raw(part))

    def raw(self, part: str) -> Values:
        """The same in the unit of the file."""
        return self._read() if part == "test" else self._kept()

    def starts(self, part: str, steps: int) -> NDArray[np.int64]:
        """Where the futures of a part's windows begin."""
        rows = self._field.standard.parts[part]
        starts: NDArray[np.int64] = self._field.window.starts(rows, steps)
        if not len(starts):
            raise UserError(f"data.{part}: it has no row, or too few for a window")
        return starts

    def _kept(self) -> Values:
        """The rows to learn from and to choose by, as they were when the run began."""
        path, standard = self._place / EARLIER, self._field.standard
        if path.is_file() and not (self._place / f"{STEPS}.json").exists():
            return earlier_rows(path, standard.parts["validation"][1], len(standard.names))
        store = Store(self._place, STEPS)
        self._field.verify(store, sys.maxsize)
        return store[0][self._field.name]

    def _read(self) -> Values:
        """All rows of the file, if those that were learnt are still the same."""
        standard = self._field.standard
        config = replace(self._field.data, variables=standard.names)
        found, kept = series.read(config), self._kept()
        if len(found.values) < standard.parts["test"][1]:
            raise UserError(f"{config.path}: it has fewer rows than when the run began")
        changed = (found.values[: len(kept)] != kept).any(1)
        if changed.any():
            line = found.lines[changed.argmax()]
            raise UserError(
                f"{config.path}:{line}: not what it was when the run began: rows that were learnt "
                "might be scored. Restore the file, or start a new run"
            )
        return found.values
