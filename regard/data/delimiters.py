"""Tables as they come: what stands between their columns, and whether the first line names them.

A delimiter fits where the same number of columns, two at least, comes of nearly every line. Tabs
are looked for first, then semicolons and bars: text seldom has as many of these in every line.
Cells between tabs are taken as they are; between other characters they may be quoted, as in CSV.
"""

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from regard.errors import RecipeError

DELIMITERS = {"tab": "\t", "semicolon": ";", "pipe": "|", "comma": ","}
"""By name, in the order in which they are looked for."""
USUAL = {".tsv": "\t", ".csv": ","}
"""What a suffix promises."""
ALIKE = 0.9
"""The least share of rows with the same number of columns."""
LOOKED = 200
"""Rows that are looked at."""
LONG = 40
"""No name of a column has more characters."""
NAMES = """id label labels class category sentiment tag tags intent topic rating stars score text
sentence review comment body content message tweet title question answer source target src tgt input
output date time timestamp day month year value lang language word token"""
"""Words that columns are often called by."""


Fits = Callable[[Sequence[str], int], bool]
"""Whether a table may be the one that is wanted, by its first row and the width of most."""


class Shape(NamedTuple):
    """How a table is written."""

    delimiter: str
    width: int
    """Columns of nearly every row."""


def character(name: str) -> str:
    """What stands between columns, by its name in a recipe."""
    found = DELIMITERS.get(name, name)
    if len(found) != 1 or found in '"\r\n':
        known = ", ".join(map(repr, DELIMITERS))
        raise RecipeError(f"delimiter: {name!r} is neither one of {known} nor one character")
    return found


def called(delimiter: str) -> str:
    """The name of a delimiter, or the character itself."""
    return next((name for name, each in DELIMITERS.items() if each == delimiter), delimiter)


def cut(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """The rows of lines that hold a table; where it is not well formed, as far as it goes."""
    if delimiter == "\t":
        yield from (line.split("\t") for line in lines)
        return
    try:
        yield from csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    except csv.Error:
        return


def shape(lines: Sequence[str], delimiter: str) -> tuple[Shape, float]:
    """The width of most rows, and the share of rows that have it."""
    rows = [row for row in cut(lines[:LOOKED], delimiter) if any(map(str.strip, row))]
    if not rows:
        return Shape(delimiter, 0), 0.0
    [(width, count)] = Counter(map(len, rows)).most_common(1)
    return Shape(delimiter, width), count / len(rows)


def guess(lines: Sequence[str]) -> Shape | None:
    """How a table is written, if lines hold one. A single line says little: two are wanted."""
    full = [line for line in lines[: 2 * LOOKED] if line.strip()]
    found = [shape(full, each) for each in DELIMITERS.values()]
    fits = [(share, made) for made, share in found if made.width > 1 and share >= ALIKE]
    if len(full) < 2 or not fits:
        return None
    return max(fits, key=lambda each: each[0])[1]  # the first of the best


def settled(name: str, suffix: str, lines: Sequence[str], fits: Fits) -> str:
    """What stands between the columns of a file: as a recipe says, or by suffix and content. What
    the suffix promises holds, unless it fits less than half of the rows and another character
    nearly all."""
    if name != "auto":
        return character(name)
    promised = USUAL.get(suffix, "")
    shares = {each: _share(lines, each, fits) for each in (promised, *DELIMITERS.values()) if each}
    best = max(shares, key=lambda each: shares[each])
    other = shares[best] >= ALIKE and shares.get(promised, 0.0) < 0.5
    return best if other or not promised else promised


def _share(lines: Sequence[str], delimiter: str, fits: Fits) -> float:
    """Of the rows that are not empty, those with as many columns as most have, if that fits."""
    rows = [row for row in cut(lines[:LOOKED], delimiter) if any(map(str.strip, row))]
    made, share = shape(lines, delimiter)
    return share if rows and fits(rows[0], made.width) else 0.0


def of_series(name: str, suffix: str, lines: Sequence[str]) -> str:
    """The same of a table of numbers, which may have any number of columns: what the suffix says
    holds, unless it cuts the header into nothing and another character cuts all lines alike."""
    if name != "auto":
        return character(name)
    usual = USUAL.get(suffix, ",")
    found = guess(lines) if len(next(cut(lines, usual), [])) < 2 else None
    return usual if found is None else found.delimiter


def others(lines: Sequence[str], delimiter: str) -> str:
    """What to set where a delimiter gives one column alone: the one that gives more."""
    found = guess(lines)
    if found is None or found.delimiter == delimiter:
        return ""
    name = called(found.delimiter)
    return f"; {name}s would give {found.width}: set data.delimiter = {name!r}"


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names columns: its cells are short, all unlike each other, and one is
    a usual name, or a number stands below it, or what repeats below it never is what it says."""
    if len(rows) < 2:
        return False
    first, rest = [cell.strip() for cell in rows[0]], rows[1 : LOOKED + 1]
    if len({*first}) < len(first) or not all(0 < len(cell) <= LONG for cell in first):
        return False
    if any(map(is_number, first)):
        return False
    columns = [[row[n].strip() for row in rest if n < len(row)] for n in range(len(first))]
    if any(name in below for name, below in zip(first, columns, strict=True)):
        return False
    return any(_names(*each) for each in zip(first, columns, strict=True))


def _names(name: str, below: Sequence[str]) -> bool:
    """Whether a cell names what stands below it."""
    words = name.lower().replace("_", " ").replace("-", " ").split()
    numbers = sum(map(is_number, below)) / max(1, len(below))
    repeats = len(below) >= 20 and len({*below}) <= len(below) / 10
    usual = len(words) < 3 and not {*NAMES.split()}.isdisjoint(words)
    return usual or numbers > ALIKE or repeats


def is_number(text: str) -> bool:
    """Whether a text is a finite number, spelt as in data rather than in a program."""
    try:
        return math.isfinite(float(text)) and "_" not in text
    except ValueError:
        return False
