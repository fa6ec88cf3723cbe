"""Scores that are functions of sums over lines, and the intervals that drawing lines anew gives.

With a row r_n of numbers for each line n, a score is f(Σ_n r_n): a mean is the sum of its values by
the sum of their counts, F₁ is a function of three counts for each class. On draw b of the lines,
with replacement, it is f(Σ_n w_bn r_n), w_bn being how often line n was drawn.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.metrics import SEED, Score, retrieval

BLOCK = 500
"""Tokens of running text that are drawn together: neighbours are as alike as a line's words."""
CELLS = 1 << 22
"""Of the table of draws that is held at once."""
Grade = Callable[[Sequence[int] | None, Sequence[str] | None, int], Mapping[str, Score]]
"""(which lines, which scores, resamples) → scores with intervals; None stands for all."""
Array = npt.NDArray[np.float64]
Function = Callable[[Array], Array]
"""Sums (B, K) → scores (B); NaN where there is none."""


class Statistic(NamedTuple):
    """A score that is f(Σ rows) over lines."""

    score: Score
    rows: Array
    """(N, K)"""
    f: Function

    def value(self, lines: Any = slice(None)) -> float:
        """The score of some lines."""
        return float(self.f(self.rows[lines].sum(0)[None])[0])

    def drawn(self, samples: int) -> Array:
        """The score of each draw (B) of as many lines; the draws depend on their number alone."""
        return self.f(resampled(self.rows, samples))

    def fits(self) -> bool:
        """Whether it gives the score that it stands for."""
        return math.isclose(self.value(), self.score.value, rel_tol=1e-5, abs_tol=1e-9)


def resampled(rows: Array, samples: int) -> Array:
    """Σ_n w_bn r_n for each draw b (B, K), always the same draws."""
    draw, count = np.random.default_rng(SEED), len(rows)
    found, step = [], max(1, CELLS // max(1, count))
    for first in range(0, samples, step):
        lines = (draw.integers(count, size=count) for _ in range(min(step, samples - first)))
        weights = np.stack([np.bincount(each, minlength=count) for each in lines])
        found.append(weights.astype(np.float64) @ rows)
    return np.concatenate(found)


def interval(statistic: Statistic, samples: int) -> tuple[float, float] | tuple[None, None]:
    """The ends of 95 % of its draws; None where no draw has a score."""
    found = statistic.drawn(samples)
    found = found[np.isfinite(found)]
    if not len(found):
        return None, None
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def ratio(
    score: Score, values: npt.ArrayLike, counts: npt.ArrayLike, f: Function | None = None
) -> Statistic:
    """f(Σ values / Σ counts); f is the identity where none is given."""

    def of(sums: Array) -> Array:
        total, count = sums.T
        mean = np.divide(total, count, out=np.full(len(sums), np.nan), where=count > 0)
        return mean if f is None else f(mean)

    return Statistic(score, np.array([values, counts], dtype=float).T, of)


def percent(mean: Array) -> Array:
    return 100 * mean


def grader(found: Mapping[str, Statistic]) -> Grade:
    def grade(
        ids: Sequence[int] | None, which: Sequence[str] | None, samples: int
    ) -> Mapping[str, Score]:
        graded = {}
        for name in found if which is None else which:
            score, rows, f = found[name]
            chosen = Statistic(score, rows if ids is None else rows[list(ids)], f)
            low, high = interval(chosen, samples)
            graded[name] = replace(score, value=chosen.value(), low=low, high=high)
        return graded

    return grade


def accuracy(score: Score, said: Sequence[str], references: Sequence[str]) -> dict[str, Statistic]:
    """Right lines, or right words of a line: whichever the score is the share of; else nothing."""
    pairs = list(zip(said, references, strict=True))
    lines = [(float(one == true), 1.0) for one, true in pairs]
    words = [_right_words(one.split(), true.split()) for one, true in pairs]
    for each in (lines, words):
        right, counts = np.array(each).T
        made = ratio(score, right, counts, percent)
        if made.fits():
            return {"accuracy": made}
    return {}


def _right_words(said: Sequence[str], true: Sequence[str]) -> tuple[float, float]:
    """Places with the right word, and all; “_” is the place of one that nobody asks for."""
    asked = [(one, other) for one, other in zip_longest(said, true) if other not in (None, "_")]
    return float(sum(one == other for one, other in asked)), float(len(asked))


def likelihood(
    scores: Mapping[str, Score], texts: Sequence[Mapping[str, Any]]
) -> dict[str, Statistic]:
    """Bits per character and byte, and perplexity, of each text; of running text, by blocks."""
    rows = [np.array(text["log_probs"], dtype=float) for text in texts]
    bits = np.array([text["bits"] for text in texts], dtype=float)
    characters, size = (
        np.array([text[name] for text in texts], dtype=float) for name in ("characters", "bytes")
    )
    if len(rows) == 1:
        [row] = rows
        rows = np.array_split(row, max(1, len(row) // BLOCK))
        # What is spelt and how many characters a token has is taken to be the same everywhere.
        bits = np.array([bits[0] * block.sum() / row.sum() for block in rows])
        parts = np.array([len(block) / len(row) for block in rows])
        characters, size = characters[0] * parts, size[0] * parts
    nats, symbols = np.array([-row.sum() for row in rows]), np.array([float(len(r)) for r in rows])
    found: dict[str, tuple[Array, Array, Function | None]] = {
        "bits_per_character": (bits, characters, None),
        "bits_per_byte": (bits, size, None),
        "perplexity": (nats, symbols, np.exp),
    }
    return {name: ratio(scores[name], *each) for name, each in found.items() if name in scores}


def recovered(
    scores: Mapping[str, Score], texts: Sequence[tuple[float, int, int]], suffix: str = ""
) -> dict[str, Statistic]:
    """Of hidden tokens of each text: −Σ log p, how many were found again, how many there are; of
    the scores whose names end with `suffix`."""
    nats, right, counts = np.array(texts, dtype=float).reshape(-1, 3).T
    found: dict[str, tuple[Array, Array, Function | None]] = {
        "nll": (nats, counts, None),
        "perplexity": (nats, counts, np.exp),
        "accuracy": (right, counts, percent),
    }
    names = {f"{name}{suffix}": each for name, each in found.items()}
    return {name: ratio(scores[name], *each) for name, each in names.items() if name in scores}


def retrieved(
    scores: Mapping[str, Score],
    ranks: Sequence[retrieval.Ranks],
    ways: Sequence[str],
    named: Mapping[str, Sequence[bool]],
) -> dict[str, Statistic]:
    """Queries of each example that find what belongs to it, and labels that are found."""
    found = {
        name: retrieval.hits(ranks, way, k) for name, (way, k) in retrieval.names(ways).items()
    }
    found |= {name: ([*map(float, right)], [1.0] * len(right)) for name, right in named.items()}
    return {name: ratio(scores[name], *each, percent) for name, each in found.items()}


def windowed(
    scores: Mapping[str, Score], figures: Mapping[str, Array], horizon: int
) -> dict[str, Statistic]:
    """Means over windows. Those that share a future are drawn together, as one."""
    count = len(next(iter(figures.values())))
    found = {}
    for name in figures if count >= 2 * horizon else ():
        blocks = np.array_split(figures[name], count // horizon)
        found[name] = ratio(scores[name], [b.sum() for b in blocks], [len(b) for b in blocks])
    return found
