"""What each line adds to the scores of labels, tags and texts (`statistic.py` has the equation)."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from regard.metrics import Score
from regard.metrics.labels import BINS, UNKNOWN, counted_spans
from regard.metrics.statistic import Array, Function, Statistic, percent, ratio
from regard.metrics.text import Evaluation

MOST = 20_000_000
"""Numbers of a table of lines and classes: a larger one is not made."""
Pair = tuple[Iterable[Hashable], Iterable[Hashable]]
"""What is predicted and what is true: sets of labels."""


def labels(
    scores: Mapping[str, Score],
    said: Sequence[Sequence[str]],
    true: Sequence[Sequence[str]],
    chances: Sequence[Mapping[str, float]],
    *,
    several: bool,
) -> dict[str, Statistic]:
    """Accuracy, F₁, likelihood and calibration of texts with labels; a text without `chances` was
    empty."""
    found = dict[str, Statistic]()
    right = [sorted(one) == sorted(other) for one, other in zip(said, true, strict=True)]
    if "accuracy" in scores:
        found["accuracy"] = ratio(scores["accuracy"], right, np.ones(len(right)), percent)
    found |= classes(scores, [[pair] for pair in zip(said, true, strict=True)])
    rows = list(zip(true, chances, strict=True))
    if "nll" in scores:
        lines = [_surprise(names, by, several) for names, by in rows]
        found["nll"] = ratio(scores["nll"], *np.array(lines).T)
    if "ece" in scores:
        table = np.array([_gaps(names, by, several) for names, by in rows])
        found["ece"] = Statistic(scores["ece"], table, _calibration)
    return {name: each for name, each in found.items() if each.fits()}


def _surprise(
    true: Sequence[str], chances: Mapping[str, float], several: bool
) -> tuple[float, int]:
    """−log p of the true labels, and whether it counts: not if the text was empty, or a label was
    never seen."""
    if not chances or not {*true} <= chances.keys():
        return 0.0, 0
    asked = [p if name in true else 1 - p for name, p in chances.items() if several or name in true]
    return math.fsum(-math.log(p) if p > 0 else math.inf for p in asked), 1


def _gaps(true: Sequence[str], chances: Mapping[str, float], several: bool) -> Array:
    """right − sure in each bin, and how many answers there are, (BINS + 1)."""
    found = np.zeros(BINS + 1)
    best = max(chances, key=chances.__getitem__, default="")
    for name, p in chances.items() if several else [(best, chances[best])] if chances else []:
        sure = max(p, 1 - p) if several else p
        right = (p > 0.5) == (name in true) if several else name in true
        place = min(max(math.ceil(sure * BINS) - 1, 0), BINS - 1)
        found[place] += right - sure
        found[-1] += 1
    return found


def _calibration(sums: Array) -> Array:
    counts = sums[:, -1]
    gaps = np.abs(sums[:, :-1]).sum(1)
    made: Array = np.divide(gaps, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return 100 * made


def classes(scores: Mapping[str, Score], lines: Sequence[Sequence[Pair]]) -> dict[str, Statistic]:
    """F₁: macro, micro and of each class; a line has one pair of labels, or one for each word."""
    names = sorted({str(name) for line in lines for pair in line for side in pair for name in side})
    asked = [name for name in scores if name.partition(":")[0] in ("f1", "f1.micro")]
    if not asked or not names or len(lines) * len(names) * 3 > MOST:
        return {}
    place = {name: n for n, name in enumerate(names)}
    table = np.zeros((len(lines), len(names), 3))
    for row, line in zip(table, lines, strict=True):
        for one, other in line:
            said, true = {*map(str, one)}, {*map(str, other)}
            for column, some in enumerate((said & true, said, true)):
                row[[place[name] for name in some], column] += 1
    found = dict[str, Statistic]()
    for name in asked:
        kind, _, label = name.partition(":")
        if label:
            rows = table[:, place[label]] if label in place else table[:, 0] * 0
        else:
            rows = table.sum(1) if kind == "f1.micro" else table.reshape(len(table), -1)
        found[name] = Statistic(scores[name], rows, _macro)
    return {name: each for name, each in found.items() if each.fits()}


def _macro(sums: Array) -> Array:
    """The mean of F₁ = 200 · both / (said + true) over the classes that are there."""
    both, said, true = np.moveaxis(sums.reshape(len(sums), -1, 3), -1, 0)  # (B, C) each
    there = said + true > 0
    each = np.divide(200 * both, said + true, out=np.zeros_like(both), where=there)
    count = there.sum(1)
    found: Array = np.divide(each.sum(1), count, out=np.zeros(len(sums)), where=count > 0)
    return found


def tags(
    scores: Mapping[str, Score],
    said: Sequence[Sequence[str]],
    true: Sequence[Sequence[str]],
    log_probs: Sequence[Sequence[float]],
) -> dict[str, Statistic]:
    """Accuracy, F₁ of spans or of classes, likelihood of sentences with tags; or errors of numbers.
    `log_probs` are those of the true tags."""
    rows = [
        [pair for pair in zip(*each, strict=True) if pair[1] != UNKNOWN]
        for each in zip(said, true, strict=True)
    ]
    counts = [len(row) for row in rows]
    found = dict[str, Statistic]()
    if "accuracy" in scores:
        right = [sum(one == other for one, other in row) for row in rows]
        found["accuracy"] = ratio(scores["accuracy"], right, counts, percent)
    if "mse" in scores:
        gaps = [np.array([float(one) - float(other) for one, other in row]) for row in rows]
        found["mse"] = ratio(scores["mse"], [(each**2).sum() for each in gaps], counts)
        found["mae"] = ratio(scores["mae"], [np.abs(each).sum() for each in gaps], counts)
    elif "precision" in scores:
        found |= _spans(scores, said, true)
    else:
        found |= classes(scores, [[([one], [other]) for one, other in row] for row in rows])
    if "nll" in scores and log_probs:
        sums = [-math.fsum(each) for each in log_probs]
        found["nll"] = ratio(scores["nll"], sums, [len(each) for each in log_probs])
    return {name: each for name, each in found.items() if each.fits()}


def _spans(
    scores: Mapping[str, Score], said: Sequence[Sequence[str]], true: Sequence[Sequence[str]]
) -> dict[str, Statistic]:
    counted = [counted_spans([one], [other]) for one, other in zip(said, true, strict=True)]
    rows = np.array([(len(a & b), len(a), len(b)) for a, b in counted], dtype=float)

    def share(column: int) -> Function:
        return lambda sums: 100 * sums[:, 0] / np.maximum(1, sums[:, column])

    functions = {"f1": _macro, "precision": share(1), "recall": share(2)}
    return {n: Statistic(scores[n], rows, f) for n, f in functions.items() if n in scores}


def texts(
    scores: Mapping[str, Score],
    how: Evaluation,
    outputs: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
) -> dict[str, Statistic]:
    """Lines that are right, and edits of lines; not what sacrebleu draws anew itself."""
    found = {
        name: ratio(scores[name], *lines, percent)
        for name, lines in how.by_line(outputs, references).items()
        if name in scores
    }
    return {name: each for name, each in found.items() if each.fits()}
