"""The kinds of numbers that a recipe holds, with the range that each may take.

Every number has an upper limit: the largest that anybody has a use for, or more. What is beyond it
is a slip of the pen, or somebody else's recipe that asks for a billion layers.
"""

import reprlib
import sys
from dataclasses import dataclass
from math import inf
from numbers import Integral, Real
from typing import Annotated, Any

from regard.errors import RecipeError

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = 80


@dataclass(frozen=True)
class Range:
    """low ≤ x ≤ high, or low < x < high at an end that is open."""

    low: float = -inf
    high: float = inf
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, x: Any) -> bool:
        above = x > self.low if self.open_low else x >= self.low
        below = x < self.high if self.open_high else x <= self.high
        return bool(above and below and x == x)

    def __str__(self) -> str:
        low = "" if self.low == -inf else f"{'>' if self.open_low else '≥'} {_digits(self.low)}"
        high = "" if self.high == inf else f"{'<' if self.open_high else '≤'} {_digits(self.high)}"
        return " and ".join(filter(None, (low, high)))


def _digits(limit: float) -> str:
    return f"{int(limit):,}" if limit == int(limit) else f"{limit:g}"


def shown(value: Any) -> str:
    """A value as a message can hold it: in one line, not too long."""
    try:
        return _repr.repr(value)
    except ValueError:  # Python writes no integer that is longer
        return f"a number of more than {sys.get_int_max_str_digits():,} digits"


def check(name: str, value: Any, hint: Any) -> None:
    """Refuse an option that is not of the kind `hint`, one of those below."""
    kind = Real if hint.__origin__ is float else Integral
    if isinstance(value, bool) or not isinstance(value, kind):
        wanted = "a number" if kind is Real else "an integer"
        raise RecipeError(f"{name}: {shown(value)} is not {wanted}")
    for limit in hint.__metadata__:
        if value not in limit:
            raise RecipeError(f"{name}: {shown(value)} must be {limit}")


@dataclass(frozen=True)
class Items:
    """How many items a list may have."""

    most: int

    def __str__(self) -> str:
        return f"at most {self.most:,} items"


Count = Annotated[int, Range(1, 10**9)]
"""Of updates, say: there may be very many."""
Natural = Annotated[int, Range(0, 10**9)]
Few = Annotated[int, Range(1, 10_000)]
"""Of what costs time or memory each: hypotheses, samples, checkpoints."""
FewOrZero = Annotated[int, Range(0, 10_000)]
Samples = Annotated[int, Range(1, 10**6)]
"""Of a bootstrap."""
Depth = Annotated[int, Range(1, 256)]
"""A number of layers."""
Heads = Annotated[int, Range(1, 1024)]
HeadsOrZero = Annotated[int, Range(0, 1024)]
Width = Annotated[int, Range(1, 2**17)]
"""Numbers that a vector has."""
WidthOrZero = Annotated[int, Range(0, 2**17)]
Length = Annotated[int, Range(1, 10**7)]
"""Tokens or steps of one sequence."""
LengthOrZero = Annotated[int, Range(0, 10**7)]
Symbols = Annotated[int, Range(1, 10**7)]
"""Of a vocabulary."""
SymbolsOrZero = Annotated[int, Range(0, 10**7)]
Rows = Annotated[int, Range(1, 10**8)]
"""What a batch holds."""
RowsOrZero = Annotated[int, Range(0, 10**8)]
Threads = Annotated[int, Range(0, 1024)]
Seed = Annotated[int, Range(0, 2**63 - 1)]
Positive = Annotated[float, Range(0, open_low=True, high=1e9)]
NonNegative = Annotated[float, Range(0, 1e9)]
Factor = Annotated[float, Range(0, open_low=True, high=1000)]
Weight = Annotated[float, Range(0, 1000)]
"""Of one term beside others: a penalty, a decay."""
Share = Annotated[float, Range(0, 1, open_high=True)]
"""A part of the whole that is not all of it: dropout, smoothing, decay."""
Fraction = Annotated[float, Range(0, 1, open_low=True)]
"""A part of the whole, or all of it."""
Widths = Annotated[tuple[Annotated[int, Range(1, 1024)], ...], Items(32)]
"""Of filters."""
