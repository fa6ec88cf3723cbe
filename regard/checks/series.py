"""A series of numbers: every row that the reader would refuse, and values that look wrong."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.checks.findings import Finding, Severity, counted, finding
from regard.data import dates
from regard.data.cells import Defect
from regard.data.readers import Finding as Row
from regard.data.series import Config, Scanned, Series
from regard.data.standard import moments
from regard.data.times import is_date

FAR = 20.0
DRIFT = 2.0
STUCK = 0.02
"""The share of all rows for which a value must stay the same to be stuck."""
SAYS: dict[Defect, tuple[str, str]] = {
    "encoding": ("text.encoding", "not UTF-8"),
    "control": ("text.control", "control characters"),
    "columns": ("series.columns", "another number of columns than in the header"),
    "number": ("series.number", "not a number"),
    "time": ("series.time", "not a time, or not one like the first"),
    "missing": ("series.missing", "no value"),
    "start": ("series.missing", "no value, and none before it"),
    "back": ("series.back", "the time goes back"),
    "repeated": ("series.repeated", "a repeated time"),
    "gap": ("series.gap", "steps are left out"),
    "uneven": ("series.gap", "no whole number of steps"),
    "summer": ("series.gap", "an hour is left out, as where summer time begins"),
    "winter": ("series.repeated", "an hour stands there twice, as where summer time ends"),
}
"""The finding for each defect of a row, and how it is put."""
NAMES = {"date", "time", "datetime", "timestamp", "day", "month", "year", "week", "hour", "ds"}
"""How people call a column of times."""
LOST = ("encoding", "control", "columns", "time")
"""Defects for which a row cannot be read."""


def check(found: Scanned) -> Iterator[Finding]:
    """Everything about a series: first its rows, then, if they can be read, its values."""
    config, path = found.config, found.path
    lost = {at.line for defect, at in found.defects if defect in LOST}
    hits: dict[Defect, list[Row]] = {}
    for defect, at in found.defects:
        # A gap may only be there because the row before could not be read.
        if defect not in ("gap", "uneven") or at.line - 1 not in lost:
            hits.setdefault(defect, []).append(at)
    for defect, rows in hits.items():
        severity: Severity = "error" if config.rule(defect) == "refuse" else "note"
        code, said = SAYS[defect]
        shown = f"{said}: {counted(len({at.line for at in rows}), found.rows, 'rows')}"
        if defect == "number" and is_date(rows[0].excerpt, config.dates):
            shown += "; it looks like a date: data.time names the column of times"
        yield finding(code, f"{path}:{rows[0].line}", shown, rows[0].excerpt, severity)
    if found.series is not None:
        yield from _dates(found.series, config, path)
    if any(config.rule(defect) == "refuse" for defect in hits):
        return
    if found.error is not None:
        raise found.error
    if found.series is not None:
        yield from _values(config, path, found.series)


def _values(config: Config, path: Path, found: Series) -> Iterator[Finding]:
    lines = found.lines
    bounds = config.bounds(len(found.values))
    shown = ", ".join(f"{part} {last - first:,}" for part, (first, last) in bounds.items())
    yield finding("data.counts", "data", f"rows: {shown}")
    start, end = bounds["train"]
    learnt = found.values[start:end]
    if not len(learnt):
        return
    mean, deviation, flat = moments(learnt)
    for n, name in enumerate(found.names):
        if flat[n]:
            yield finding("series.constant", path, f"“{name}” is always {learnt[0, n]:g}")
            continue
        distance = np.abs(found.values[:, n] - mean[n]) / deviation[n]
        far = np.flatnonzero(distance > FAR)
        if len(far):
            worst = int(distance.argmax())
            share = counted(len(far), len(distance), "rows")
            what = f"“{name}” is {distance[worst]:.0f} deviations off: {share}"
            yield finding(
                "series.outlier", f"{path}:{lines[worst]}", what, f"{found.values[worst, n]:g}"
            )
        yield from _stuck(found.values[:, n], name, path, lines)
        for part, (first, last) in bounds.items():
            if part != "train" and last > first:
                gap = (found.values[first:last, n].mean() - mean[n]) / deviation[n]
                if abs(gap) > DRIFT:
                    what = f"the mean of “{name}” is {gap:+.1f} deviations from that of training"
                    yield finding("series.drift", f"data.{part}", what)


def _stuck(
    values: NDArray[np.float64], name: str, path: Path, lines: NDArray[np.int64]
) -> Iterator[Finding]:
    changes = np.flatnonzero(np.diff(values) != 0)
    borders = np.concatenate([[-1], changes, [len(values) - 1]])
    runs = np.diff(borders)
    longest = int(runs.argmax())
    if runs[longest] > max(50, STUCK * len(values)):
        first = int(borders[longest]) + 1
        what = f"“{name}” stays the same for {runs[longest]:,} rows"
        yield finding("series.stuck", f"{path}:{lines[first]}", what, f"{values[first]:g}")


def _dates(found: Series, config: Config, path: Path) -> Iterator[Finding]:
    """Numbers that are dates: 19580329 as a variable, or as a time that counts as a number."""
    number = found.step is not None and found.step.unit == "number"
    if number and dates.order([found.first, found.last]) == "compact":
        what = f"the times of “{found.time}” are dates, but count as numbers"
        yield finding("series.dates", f"{path}:{found.lines[0]}", what, found.first)
    for n, name in enumerate(found.names):
        if not found.time and name not in config.variables and _grows(found.values[:, n], name):
            count = counted(len(found.values), len(found.values), "rows")
            what = f"“{name}” looks like times, but is read and predicted as a variable: {count}"
            first = found.values[0, n]
            yield finding("series.dates", f"{path}:{found.lines[0]}", what, f"{first:.12g}")


def _grows(values: NDArray[np.float64], name: str) -> bool:
    """Whether whole numbers grow from row to row, and are dates, or are called so."""
    if len(values) < 2 or (values % 1).any() or (np.diff(values) <= 0).any():
        return False
    compact = dates.order([f"{value:.0f}" for value in values[:1000]]) == "compact"
    return compact or name.lower() in NAMES
