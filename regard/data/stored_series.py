"""What a run keeps of a series, checked when it is read: series.json and store/series.npy."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from regard.errors import UserError
from regard.recipe import checked
from regard.recipe.checked import Table

PARTS = ("train", "validation", "test")
KEYS = {"variables", "mean", "deviation", "parts"}


class Scaler(NamedTuple):
    """The mean and the deviation of C variables, and which rows belong to which part."""

    names: tuple[str, ...]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    parts: dict[str, tuple[int, int]]
    table: Table
    """All that the file holds."""


def scaler(path: Path, also: frozenset[str] = frozenset()) -> Scaler:
    """A run's series.json, which may have the keys `also`, too."""
    try:
        table = checked.keys(checked.read(path), "it", KEYS, also)
        names = [checked.text(each, "a variable") for each in _list(table, "variables")]
        if not names or len({*names}) < len(names):
            raise ValueError("variables: there must be one, and each once")
        means, deviations = (_list(table, key, len(names)) for key in ("mean", "deviation"))
        return Scaler(
            tuple(names),
            np.array([checked.number(each, "a mean") for each in means]),
            np.array([checked.number(each, "a deviation", above=0.0) for each in deviations]),
            _parts(table["parts"]),
            table,
        )
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None


def _list(table: Table, key: str, count: int | None = None) -> list[object]:
    return checked.items(table[key], key, count)


def _parts(value: object) -> dict[str, tuple[int, int]]:
    """First row of each part and the row after its last: one part follows the other."""
    found, last = {}, 0
    for name in PARTS:
        ends = checked.items(checked.keys(value, "parts", {*PARTS})[name], f"parts.{name}", 2)
        start = checked.whole(ends[0], f"the beginning of {name}", last, last)
        last = checked.whole(ends[1], f"the end of {name}", start + (name == "train"))
        found[name] = (start, last)
    return found


def rows(path: Path, count: int, columns: int) -> NDArray[np.float64]:
    """The array (count, columns) of finite numbers in a .npy file. What its header says is checked
    before any memory is taken for it."""
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
