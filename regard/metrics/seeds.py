"""How far the seeds of one recipe lie apart, and whether two recipes differ by more than that.

Of n₁ and n₂ runs with means m and deviations s (Welch 1947)

    t = (m₁ − m₂) / √(s₁²/n₁ + s₂²/n₂)
    ν = (s₁²/n₁ + s₂²/n₂)² / ((s₁²/n₁)² / (n₁ − 1) + (s₂²/n₂)² / (n₂ − 1))

A single run beside several is taken to be as uncertain as one of these:
t = (m₁ − y) / (s₁ √(1/n₁ + 1)) and ν = n₁ − 1.
"""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

NODES = 400
"""Places at which the density is asked for."""


class Spread(NamedTuple):
    """What several runs reached."""

    mean: float
    deviation: float | None
    """√(Σ (v − mean)² / (n − 1)); None of one run."""

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        several = len(values) > 1
        return cls(statistics.fmean(values), statistics.stdev(values) if several else None)


def apart(one: Sequence[float], other: Sequence[float]) -> float | None:
    """The probability of means as far apart, were the recipes equally good; None where neither has
    several seeds."""
    if len(one) < len(other):
        one, other = other, one
    (mine, spread), (yours, theirs) = Spread.of(one), Spread.of(other)
    if spread is None:
        return None
    first = spread**2 / len(one)
    second = spread**2 if theirs is None else theirs**2 / len(other)
    if not first + second:
        return float(mine == yours)
    t = (mine - yours) / math.sqrt(first + second)
    if theirs is None:
        return tail(t, len(one) - 1)
    parts = first**2 / (len(one) - 1) + second**2 / (len(other) - 1)
    return tail(t, (first + second) ** 2 / parts)


def tail(t: float, freedom: float) -> float:
    """P(|T| ≥ |t|) of Student's T with ν ≥ 1 degrees of freedom. With t = √ν tan θ it is

    ∫_θ^{π/2} cos^{ν−1} / ∫_0^{π/2} cos^{ν−1}
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)

    def above(low: float) -> float:
        half = (math.pi / 2 - low) / 2
        places = low + half * (nodes + 1)
        return float(half * (weights * np.cos(places) ** (freedom - 1)).sum())

    return above(math.atan(abs(t) / math.sqrt(freedom))) / above(0.0)
