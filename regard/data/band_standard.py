"""What a run keeps of the sounds to learn from: mean and deviation of each band of frequencies."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data import whole_file
from regard.errors import UserError
from regard.recipe import checked

SMALLEST = 1e-3
"""A band that does not vary is divided by no less."""


@dataclass(frozen=True)
class BandStandard:
    """v ↦ (v − mean) / deviation, for each band."""

    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]

    @classmethod
    def fit(cls, frames: Iterable[NDArray[np.float32]]) -> "BandStandard":
        """Over all frames of all sounds."""
        count, total, squares = 0, np.zeros(1), np.zeros(1)
        for each in frames:
            count += len(each)
            total = total + each.sum(0, dtype=np.float64)
            squares = squares + np.square(each, dtype=np.float64).sum(0)
        mean = total / max(1, count)
        spread = np.sqrt(np.maximum(0, squares / max(1, count) - mean**2))
        found = np.maximum(SMALLEST, spread).astype(np.float32)
        return cls(mean.astype(np.float32), found)

    def apply(self, frames: NDArray[np.float32]) -> NDArray[np.float32]:
        return (frames - self.mean) / self.deviation

    def save(self, folder: Path, name: str) -> None:
        table = {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}
        whole_file.write(folder / f"{name}.bands.json", json.dumps(table) + "\n")

    @classmethod
    def load(cls, folder: Path, name: str, bands: int) -> "BandStandard":
        path = folder / f"{name}.bands.json"
        try:
            table = checked.keys(checked.read(path), "it", {"mean", "deviation"})
            means, deviations = (checked.items(table[k], k, bands) for k in ("mean", "deviation"))
            found = cls(
                np.array([checked.number(each, "a mean") for each in means], np.float32),
                np.array(
                    [checked.number(each, "a deviation", above=0.0) for each in deviations],
                    np.float32,
                ),
            )
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be read: {error}") from None
        return found
