"""A series of numbers: every row that the reader would refuse, and values that look wrong."""

import csv
import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data import series
from regard.data.readers import Broken, lines
from regard.data.series import MISSING, TOLERANCE
from regard.doctor.findings import Finding, Severity, counted, finding

FAR = 20.0
DRIFT = 2.0
STUCK = 0.02
"""The share of all rows for which a value must stay the same to be stuck."""


class Hit(NamedTuple):
    """A defect and its line."""

    code: str
    line: int
    example: str


def check(config: series.Config) -> Iterator[Finding]:
    """Everything about a series: first its rows, then, if they can be read, its values."""
    path = config.path
    total, hits = _rows(config, path)
    rules = {
        "series.missing": config.missing,
        "series.repeated": config.repeated,
        "series.gap": config.gap,
    }
    refused = False
    for code in dict.fromkeys(hit.code for hit in hits):
        same = [hit for hit in hits if hit.code == code]
        severity: Severity = "error" if rules.get(code, "refuse") == "refuse" else "note"
        refused |= severity == "error"
        what = f"{_SAYS[code]}: {counted(len(same), total, 'rows')}"
        yield finding(code, f"{path}:{same[0].line}", what, same[0].example, severity)
    if not refused:
        yield from _values(config, series.read(config), path)


_SAYS = {
    "text.encoding": "not UTF-8",
    "text.control": "control characters",
    "series.columns": "another number of columns than in the header",
    "series.number": "not a number",
    "series.missing": "no value",
    "series.back": "the time goes back, or is none",
    "series.repeated": "a repeated time",
    "series.gap": "steps are left out",
}


def _rows(config: series.Config, path: Path) -> tuple[int, list[Hit]]:
    """How many rows there are, and every defect of them."""
    broken: Broken = {}
    stream = enumerate(lines(path, broken), 1)
    header = [cell.strip() for cell in _cells(next(stream, (1, ""))[1], config.separator)]
    number, hits = 1, list[Hit]()
    times: list[tuple[int, str]] = []
    wanted = config.variables or tuple(name for name in header if name != config.time)
    places = {name: header.index(name) for name in wanted if name in header}
    clock = header.index(config.time) if config.time in header else None
    for number, line in stream:
        if number in broken:
            defect = broken.pop(number)
            code = "text.encoding" if defect.what == "not UTF-8" else "text.control"
            hits.append(Hit(code, number, defect.excerpt))
        elif line.strip():
            cells = _cells(line, config.separator)
            if len(cells) != len(header):
                hits.append(Hit("series.columns", number, line))
            else:
                for name, place in places.items():
                    if code := _odd(cells[place].strip()):
                        hits.append(Hit(code, number, f"{name}: {cells[place]}"))
            if clock is not None and clock < len(cells):
                times.append((number, cells[clock].strip()))
    return number - 1, hits + _clock(times)


def _cells(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator, strict=True), [])
    except csv.Error:
        return []


def _odd(cell: str) -> str:
    if cell.lower() in MISSING:
        return "series.missing"
    try:
        fine = math.isfinite(float(cell)) and "_" not in cell
    except ValueError:
        fine = False
    return "" if fine else "series.number"


def _clock(times: Sequence[tuple[int, str]]) -> list[Hit]:
    """Times that go back, stand still or leave out steps; a step is the usual difference."""
    hits, known = [], []
    for number, text in times:
        try:
            known.append((number, text, _seconds(text)))
        except (ValueError, TypeError):
            hits.append(Hit("series.back", number, text))
    if len(known) < 3:
        return hits
    moments = np.array([moment for _, _, moment in known])
    steps = np.diff(moments)
    onward = steps[steps > 0]
    if not len(onward):
        return hits
    each, counts = np.unique(np.round(onward, 6), return_counts=True)
    ratios = steps / each[counts.argmax()]
    for place in np.flatnonzero(np.abs(ratios - 1) > TOLERANCE):
        number, text, _ = known[place + 1]
        ratio = ratios[place]
        code = "back" if ratio < 0 else "repeated" if ratio == 0 else "gap"
        hits.append(Hit(f"series.{code}", number, f"{text} after {known[place][1]}"))
    return hits


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        return (moment - datetime(1970, 1, 1, tzinfo=moment.tzinfo)).total_seconds()


# Values


def _values(config: series.Config, found: series.Series, path: Path) -> Iterator[Finding]:
    bounds = config.bounds(len(found.values))
    shown = ", ".join(f"{part} {last - first:,}" for part, (first, last) in bounds.items())
    yield finding("data.counts", "data", f"rows: {shown}")
    start, end = bounds["train"]
    learnt = found.values[start:end]
    mean, deviation = learnt.mean(0), learnt.std(0)
    for n, name in enumerate(found.names):
        if deviation[n] <= 1e-12 * max(1e-12, float(np.abs(learnt[:, n]).max())):
            yield finding("series.constant", path, f"“{name}” is always {learnt[0, n]:g}")
            continue
        distance = np.abs(found.values[:, n] - mean[n]) / deviation[n]
        far = np.flatnonzero(distance > FAR)
        if len(far):
            worst = int(distance.argmax())
            share = counted(len(far), len(distance), "rows")
            what = f"“{name}” is {distance[worst]:.0f} deviations off: {share}"
            yield finding(
                "series.outlier", f"{path}:{worst + 2}", what, f"{found.values[worst, n]:g}"
            )
        yield from _stuck(found.values[:, n], name, path)
        for part, (first, last) in bounds.items():
            if part != "train" and last > first:
                gap = (found.values[first:last, n].mean() - mean[n]) / deviation[n]
                if abs(gap) > DRIFT:
                    what = f"the mean of “{name}” is {gap:+.1f} deviations from that of training"
                    yield finding("series.drift", f"data.{part}", what)


def _stuck(values: NDArray[np.float64], name: str, path: Path) -> Iterator[Finding]:
    changes = np.flatnonzero(np.diff(values) != 0)
    borders = np.concatenate([[-1], changes, [len(values) - 1]])
    runs = np.diff(borders)
    longest = int(runs.argmax())
    if runs[longest] > max(50, STUCK * len(values)):
        first = int(borders[longest]) + 1
        what = f"“{name}” stays the same for {runs[longest]:,} rows"
        yield finding("series.stuck", f"{path}:{first + 2}", what, f"{values[first]:g}")
