"""The kinds of numbers that a recipe holds, with the range that each may take."""

from dataclasses import dataclass
from math import inf
from typing import Annotated


@dataclass(frozen=True)
class Range:
    """low ≤ x ≤ high, or low < x < high at an end that is open."""

    low: float = -inf
    high: float = inf
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, x: float) -> bool:
        above = x > self.low if self.open_low else x >= self.low
        below = x < self.high if self.open_high else x <= self.high
        return above and below and x == x

    def __str__(self) -> str:
        low = "" if self.low == -inf else f"{'>' if self.open_low else '≥'} {self.low:g}"
        high = "" if self.high == inf else f"{'<' if self.open_high else '≤'} {self.high:g}"
        return " and ".join(filter(None, (low, high)))


Count = Annotated[int, Range(1)]
Natural = Annotated[int, Range(0)]
Depth = Annotated[int, Range(1, 256)]
"""A number of layers. (Somebody else's recipe must not be able to ask for a billion.)"""
Positive = Annotated[float, Range(0, open_low=True, high=1e9)]
NonNegative = Annotated[float, Range(0, 1e9)]
Share = Annotated[float, Range(0, 1, open_high=True)]
"""A part of the whole that is not all of it: dropout, smoothing, decay."""
