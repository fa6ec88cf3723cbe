"""What a run keeps of a series: mean and deviation of each variable, the step, the parts."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data import stored_series
from regard.data.clock import Step
from regard.data.series import Series
from regard.errors import UserError

Standardised = NDArray[np.float32]
FLAT = 1e-12
"""What varies by less than this part of its size does not vary: it is rounding."""


@dataclass(frozen=True)
class Standard:
    """v ↦ (v − mean) / deviation, with the mean and the deviation of each variable in training."""

    names: tuple[str, ...]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    parts: dict[str, tuple[int, int]]
    """First row of each part, and the row after its last."""
    step: Step | None = None
    """From one time to the next; None without times, and in runs that did not keep it."""

    @classmethod
    def fit(cls, series: Series, parts: dict[str, tuple[int, int]]) -> "Standard":
        """The rows to learn from decide, alone; what never changes there has the deviation 1."""
        start, end = parts["train"]
        mean, deviation, flat = moments(series.values[start:end])
        return cls(series.names, mean, np.where(flat, 1.0, deviation), parts, series.step)

    def apply(self, values: NDArray[np.float64], where: object = "data.file") -> Standardised:
        """(T, C) standardised; refused where that is no finite number, by the name of the file."""
        with np.errstate(over="ignore"):
            found: Standardised = ((values - self.mean) / self.deviation).astype(np.float32)
        if not np.isfinite(found).all():
            row, column = np.argwhere(~np.isfinite(found))[0]
            what = f"“{self.names[column]}”: {values[row, column]:g} is too far from what was"
            known = f"mean {self.mean[column]:g}, deviation {self.deviation[column]:g}"
            raise UserError(f"{where}: {what} learnt: {known}")
        return found

    def undo(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        return values.astype(np.float64) * self.deviation + self.mean

    def save(self, folder: Path) -> None:
        table = {
            "variables": list(self.names),
            "mean": self.mean.tolist(),
            "deviation": self.deviation.tolist(),
            "parts": {name: list(ends) for name, ends in self.parts.items()},
            "step": self.step and self.step.as_dict(),
        }
        text = json.dumps(table, ensure_ascii=False, indent=2)
        (folder / "series.json").write_text(text + "\n", encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, folder: Path) -> "Standard":
        path = folder / "series.json"
        found = stored_series.scaler(path, frozenset({"step"}))
        step = found.table.get("step")
        try:
            known = Step.from_dict(step) if step else None
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise UserError(f"{path} cannot be read: step: {error}") from None
        return cls(found.names, found.mean, found.deviation, found.parts, known)


def moments(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Mean and deviation of each variable (T, C), and whether it never changes."""
    deviation: NDArray[np.float64] = values.std(0)
    return values.mean(0), deviation, deviation <= FLAT * np.abs(values).max(0)
