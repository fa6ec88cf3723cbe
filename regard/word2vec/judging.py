"""How well vectors agree with people: similarity of pairs, and analogies.

Pairs (WordSim-353, SimLex-999, MEN, …) are lines of two words and a number, between tabs, commas or
blanks; the score is Spearman's rank correlation of the numbers and the cosines,

    ρ = corr(rank(x), rank(y)),    t = ρ √((n − 2) / (1 − ρ²)) for p,
    artanh ρ ± 1.96 √((1 + ρ²/2) / (n − 3)) for the interval (Bonett and Wright 2000)

Analogies (questions-words.txt) are lines of four words, in sections that begin with ": name"; the
score is the percentage whose fourth word is nearest to b − a + c (3CosAdd), with Wilson's interval.
Words without a vector are left out, and counted.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.readers import excerpt, sound
from regard.errors import UserError
from regard.metrics.seeds import tail
from regard.word2vec.space import Space

Array = NDArray[np.float64]
Z = 1.959964
"""Of 95 %."""
BLOCK = 256
"""Questions that are answered together."""
COLUMNS = ("simlex999", "human", "score", "mean", "similarity")
"""How the column of people's judgements may be called."""


@dataclass(frozen=True)
class Agreement:
    """Of a file of pairs."""

    file: str
    pairs: int
    used: int
    spearman: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None


class Section(NamedTuple):
    """Of a file of analogies."""

    name: str
    questions: int
    used: int
    right: int

    @property
    def accuracy(self) -> float | None:
        """In per cent of those that are used."""
        return 100 * self.right / self.used if self.used else None

    @property
    def interval(self) -> tuple[float, float] | tuple[None, None]:
        return wilson(self.right, self.used)

    def as_dict(self) -> dict[str, Any]:
        low, high = self.interval
        return {**self._asdict(), "accuracy": self.accuracy, "low": low, "high": high}


@dataclass(frozen=True)
class Analogies:
    """Of all sections of a file."""

    file: str
    sections: tuple[Section, ...]

    @property
    def total(self) -> Section:
        own = self.sections
        questions, used = (sum(each.questions for each in own), sum(each.used for each in own))
        return Section("total", questions, used, sum(each.right for each in own))

    def as_dict(self) -> dict[str, Any]:
        sections = [each.as_dict() for each in self.sections]
        return {"file": self.file, **self.total.as_dict(), "sections": sections}


def judge(space: Space, path: Path) -> Agreement | Analogies:
    """What a file asks, by how it looks."""
    for _, line in sound(path):
        if line.startswith(":"):
            return analogies(space, path)
        if line.strip():
            break
    return agreement(space, path)


# Pairs


def agreement(space: Space, path: Path) -> Agreement:
    """How far cosines rise where people see more similarity."""
    total, said, cosines = 0, [], []
    for one, other, value in _pairs(path):
        total += 1
        rows = space.number(one), space.number(other)
        if rows[0] is not None and rows[1] is not None:
            said.append(value)
            cosines.append(float(space.directions[rows[0]] @ space.directions[rows[1]]))
    if not total:
        raise UserError(f"{path}: neither pairs of words with a number nor analogies")
    found = spearman(np.array(said), np.array(cosines)) if len(said) > 3 else None
    if found is None:
        return Agreement(str(path), total, len(said), None)
    return Agreement(str(path), total, len(said), found, *interval(found, len(said)))


def _pairs(path: Path) -> Iterator[tuple[str, str, float]]:
    place, first = 2, True
    for number, line in sound(path):
        if not line.strip() or line.startswith("#"):
            continue
        cut = "\t" if "\t" in line else "," if "," in line else None
        cells = [cell.strip() for cell in line.split(cut)]
        try:
            yield cells[0], cells[1], float(cells[place])
        except (ValueError, IndexError):
            if not first:
                what = "not two words and a number"
                raise UserError(f"{path}:{number}: {what}: “{excerpt(line)}”") from None
            place = _column(cells)
        first = False


def _column(names: Sequence[str]) -> int:
    """Which column a header calls people's judgement; the third, if none."""
    plain = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in names]
    found = (n for wanted in COLUMNS for n, name in enumerate(plain) if name.startswith(wanted))
    return next(found, 2)


def spearman(x: Array, y: Array) -> float | None:
    """ρ; None where all of one side are alike."""
    a, b = ranks(x), ranks(y)
    a, b = a - a.mean(), b - b.mean()
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale else None


def ranks(values: Array) -> Array:
    """From 1; those that are alike share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place], np.float64)


def interval(rho: float, n: int) -> tuple[float, float, float]:
    """The 95 % interval of a rank correlation, and p of none."""
    if abs(rho) >= 1:
        return rho, rho, 0.0
    half = Z * math.sqrt((1 + rho**2 / 2) / (n - 3))
    low, high = (math.tanh(math.atanh(rho) + side * half) for side in (-1, 1))
    return low, high, tail(rho * math.sqrt((n - 2) / (1 - rho**2)), n - 2)


# Analogies


def analogies(space: Space, path: Path) -> Analogies:
    """Which questions are answered right, section by section."""
    found = []
    for name, questions in _sections(path):
        rows = [[space.number(word) for word in question] for question in questions]
        known = np.array([row for row in rows if None not in row], np.int64).reshape(-1, 4)
        found.append(Section(name, len(questions), len(known), _right(space, known)))
    return Analogies(str(path), tuple(found))


def _sections(path: Path) -> Iterator[tuple[str, list[list[str]]]]:
    name, questions = "", list[list[str]]()
    for number, line in sound(path):
        if line.startswith(":"):
            if questions:
                yield name, questions
            name, questions = line[1:].strip(), []
        elif line.strip():
            words = line.split()
            if len(words) != 4:
                what = "not a question of four words"
                raise UserError(f"{path}:{number}: {what}: “{excerpt(line)}”")
            questions.append(words)
    if questions:
        yield name, questions


def _right(space: Space, rows: NDArray[np.int64]) -> int:
    """How many fourth words are nearest to b − a + c, the three themselves left out."""
    directions, right = space.directions, 0
    for first in range(0, len(rows), BLOCK):
        a, b, c, d = rows[first : first + BLOCK].T
        cosines = (directions[b] - directions[a] + directions[c]) @ directions.T
        each = np.arange(len(a))
        for known in (a, b, c):
            cosines[each, known] = -np.inf
        right += int((cosines.argmax(1) == d).sum())
    return right


def wilson(right: int, n: int) -> tuple[float, float] | tuple[None, None]:
    """The 95 % interval of a percentage (Wilson 1927)."""
    if not n:
        return None, None
    p, square = right / n, Z**2 / n
    middle = (p + square / 2) / (1 + square)
    half = Z * math.sqrt(p * (1 - p) / n + square / (4 * n)) / (1 + square)
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)
