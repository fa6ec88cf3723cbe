"""Scores of forecasts: means over windows, which share steps with those beside them."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from regard.metrics import Score, bootstrap

VERSION = "1"
"""Of the definitions of the figures: it changes when a value would."""
FEWEST = 10
"""Futures that do not overlap, for an interval of a score."""


def scores(
    figures: Mapping[str, NDArray[np.float64]],
    *,
    look_back: int,
    horizon: int,
    level: float,
    samples: int = 0,
) -> dict[str, Score]:
    """The mean of each figure, of which every window (N) has one; `level` is the intervals' whose
    coverage is among them. With `samples`, scores have bootstrap intervals."""
    found = {}
    for name, values in figures.items():
        windows = f"look_back:{look_back}|horizon:{horizon}|windows:{len(values)}"
        covered = f"|level:{level:g}" if name == "coverage" else ""
        low, high = interval(values, horizon, samples)
        found[name] = Score(
            name=name,
            value=float(values.mean()),
            signature=f"{windows}|values:standardised{covered}|version:{VERSION}",
            higher_is_better=name == "coverage",
            low=low,
            high=high,
        )
    return found


def interval(
    values: NDArray[np.float64], horizon: int, samples: int
) -> tuple[float | None, float | None]:
    """The 95 % interval of a mean over windows. Windows that share a future are drawn together."""
    blocks = np.array_split(values, len(values) // horizon) if len(values) >= horizon else []
    if not samples or len(blocks) < FEWEST:
        return None, None
    sums, counts = [block.sum() for block in blocks], [len(block) for block in blocks]
    return bootstrap(sums, counts, samples)
