"""What a run keeps of a series: mean and deviation of each variable, the step, the parts; all of it
is checked when it is read."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from regard.data.clock import Step
from regard.data.files import PARTS
from regard.data.series import Series
from regard.errors import UserError
from regard.recipe import checked

Standardised = NDArray[np.float32]
KEYS = {"variables", "mean", "deviation", "parts"}
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
        try:
            table = checked.keys(checked.read(path), "it", KEYS, {"step"})
            variables = checked.items(table["variables"], "variables")
            names = tuple(checked.text(each, "a variable") for each in variables)
            if not names or len({*names}) < len(names):
                raise ValueError("variables: there must be one, and each once")
            means, deviations = (
                checked.items(table[key], key, len(names)) for key in ("mean", "deviation")
            )
            return cls(
                names,
                np.array([checked.number(each, "a mean") for each in means]),
                np.array([checked.number(each, "a deviation", above=0.0) for each in deviations]),
                _parts(table["parts"]),
                _step(table.get("step")),
            )
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be read: {error}") from None


def _parts(value: object) -> dict[str, tuple[int, int]]:
    """First row of each part and the row after its last: one part follows the other."""
    found: dict[str, tuple[int, int]] = {}
    last = 0
    for name in PARTS:
        ends = checked.items(checked.keys(value, "parts", {*PARTS})[name], f"parts.{name}", 2)
        start = checked.whole(ends[0], f"the beginning of {name}", last, last)
        last = checked.whole(ends[1], f"the end of {name}", start + (name == "train"))
        found[name] = (start, last)
    return found


def _step(value: Any) -> Step | None:
    try:
        return Step.from_dict(value) if value else None
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"step: {error}") from None


def moments(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Mean and deviation of each variable (T, C), and whether it never changes."""
    deviation: NDArray[np.float64] = values.std(0)
    return values.mean(0), deviation, deviation <= FLAT * np.abs(values).max(0)


def earlier_rows(path: Path, count: int, columns: int) -> NDArray[np.float64]:
    """The array (count, columns) of finite numbers in a .npy file, as earlier versions kept it.
    What its header says is checked before any memory is taken for it."""
    try:
        with path.open("rb") as file:
            if npy.read_magic(file) != (1, 0):
                raise ValueError("its version of the format is another")
            shape, _, kind = npy.read_array_header_1_0(file)
            size = file.tell() + 8 * count * columns
        if (shape, kind) != ((count, columns), np.dtype("<f8")):
            raise ValueError(f"{shape} numbers of type {kind} instead of {(count, columns)}")
        if path.stat().st_size != size:
            raise ValueError(f"{path.stat().st_size:,} bytes instead of {size:,}")
        values: NDArray[np.float64] = np.load(path, allow_pickle=False)
        if not np.isfinite(values).all():
            raise ValueError("it holds what is no finite number")
    except (OSError, ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise UserError(
            f"the stored data cannot be read: {path}: {error}. Start a new run from the recipe"
        ) from None
    return values
