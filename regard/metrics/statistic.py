"""Scores that are means over lines, and the intervals that drawing lines anew gives them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.metrics import Score, bootstrap

BLOCK = 500
"""Tokens of running text that are drawn together: neighbours are as alike as a line's words."""
Grade = Callable[[Sequence[int] | None, Sequence[str] | None, int], Mapping[str, Score]]
"""(which lines, which scores, resamples) → scores with intervals; None stands for all."""
Array = npt.NDArray[np.float64]


class Statistic(NamedTuple):
    """A score that is f(Σ values / Σ counts) over lines."""

    score: Score
    values: Array
    counts: Array
    f: Callable[[float], float]


def grader(found: Mapping[str, Statistic]) -> Grade:
    def grade(
        ids: Sequence[int] | None, which: Sequence[str] | None, samples: int
    ) -> Mapping[str, Score]:
        graded = {}
        for name in found if which is None else which:
            score, values, counts, f = found[name]
            chosen = slice(None) if ids is None else list(ids)
            value, total = values[chosen], counts[chosen]
            ends = bootstrap(value, total, samples)
            low, high = sorted(map(f, ends))
            mean = f(float(value.sum() / total.sum()))
            graded[name] = replace(score, value=mean, low=low, high=high)
        return graded

    return grade


def accuracy(score: Score, said: Sequence[str], references: Sequence[str]) -> dict[str, Statistic]:
    """Right lines, or right words of a line: whichever the score is the share of; else nothing."""
    pairs = list(zip(said, references, strict=True))
    lines = [(float(one == true), 1.0) for one, true in pairs]
    words = [_right_words(one.split(), true.split()) for one, true in pairs]
    for each in (lines, words):
        right, counts = np.array(each).T
        if counts.sum() and math.isclose(100 * right.sum() / counts.sum(), score.value):
            return {"accuracy": Statistic(score, right, counts, lambda mean: 100 * mean)}
    return {}


def _right_words(said: Sequence[str], true: Sequence[str]) -> tuple[float, float]:
    """Places with the right word, and all; “_” is the place of one that nobody asks for."""
    asked = [(one, other) for one, other in zip_longest(said, true) if other not in (None, "_")]
    return float(sum(one == other for one, other in asked)), float(len(asked))


def likelihood(
    scores: Mapping[str, Score], texts: Sequence[Mapping[str, Any]]
) -> dict[str, Statistic]:
    """Bits per character and perplexity of each text; of running text, block by block."""
    rows = [np.array(text["log_probs"], dtype=float) for text in texts]
    bits = np.array([text["bits"] for text in texts], dtype=float)
    characters = np.array([text["characters"] for text in texts], dtype=float)
    if len(rows) == 1:
        [row] = rows
        rows = np.array_split(row, max(1, len(row) // BLOCK))
        # What is spelt and how many characters a token has is taken to be the same everywhere.
        bits = np.array([bits[0] * block.sum() / row.sum() for block in rows])
        characters = np.array([characters[0] * len(block) / len(row) for block in rows])
    nats, symbols = np.array([-row.sum() for row in rows]), np.array([float(len(r)) for r in rows])
    found = {
        "bits_per_character": (bits, characters, float),
        "perplexity": (nats, symbols, math.exp),
    }
    return {name: Statistic(scores[name], *each) for name, each in found.items() if name in scores}


def windowed(
    scores: Mapping[str, Score], figures: Mapping[str, Array], horizon: int
) -> dict[str, Statistic]:
    """Means over windows. Those that share a future are drawn together, as one."""
    count = len(next(iter(figures.values())))
    found = {}
    for name in figures if count >= 2 * horizon else ():
        blocks = np.array_split(figures[name], count // horizon)
        sums, sizes = (np.array([f(b) for b in blocks], dtype=float) for f in (np.sum, len))
        found[name] = Statistic(scores[name], sums, sizes, float)
    return found
