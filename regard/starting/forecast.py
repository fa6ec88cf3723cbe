"""Numbers that change with time: which column is the time, what repeats, what comes next."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data import clock, dates, series
from regard.data.cells import MISSING, Defect, is_number
from regard.data.clock import Step
from regard.data.files import PARTS
from regard.errors import RecipeError, UserError
from regard.starting import Asked, Draft, Key, Section, table
from regard.starting.table import Column, Table

TIMES = "date time datetime timestamp day month year ds week hour datum zeit"
"""Names of columns."""
SEASONS = {
    "0:15:00": 96,
    "0:30:00": 48,
    "1:00:00": 24,
    "1 day": 7,
    "7 days": 52,
    "1 month": 12,
    "3 months": 4,
}
"""Steps after which things tend to come again, by how long one is."""
REPEATS = 0.3
"""The least correlation with what was so many steps ago, to call it a season."""
SHORTEST = 4
"""Steps of a season that no calendar has: what comes again sooner goes up and down by chance."""
WINDOWS = 50_000
"""To learn from, all epochs together."""
SHARES = 0.7, 0.1, 0.2
"""Of rows: to learn from, to choose by, to score; the task's own."""


@dataclass(frozen=True)
class Seen:
    """A series, as the recipe would read it."""

    found: Table
    config: series.Config
    values: NDArray[np.float64]
    step: Step | None
    season: int
    defects: Counter[Defect]
    keys: Sequence[Key]


def fits(asked: Asked) -> float:
    """Sure where a column has times and another numbers."""
    try:
        found = table.read(asked.files[0])
        time = _time(found)
        numbers = [c for c in found.columns if c is not time and c.numeric > 0.9]
    except UserError:
        return 0.0
    texts = [c for c in found.columns if c.prose and c.words > 3]
    if not numbers or texts:
        return 0.0
    return 0.95 if time else 0.7 if len(numbers) == len(found.columns) else 0.2


def look(asked: Asked, base: Path) -> Draft:
    """What follows the last rows of a series."""
    if len(asked.files) > 1:
        raise RecipeError("new: forecast wants one file with all times; its last rows are held out")
    seen = _read(asked)
    rows, variables = seen.values.shape
    if rows < 40:
        raise UserError(f"{seen.found.path}: {rows} rows are too few to learn from")
    back, ahead = _window(rows, seen.season)
    shares = SHARES if SHARES[1] * rows >= 2 * ahead else (0.6, 0.2, 0.2)
    scores = _references(seen, ahead, shares)
    step = f", a step is {seen.step}" if seen.step else ""
    season = f"what was {seen.season} steps ago comes again" if seen.season else "no season is seen"
    time = seen.config.time or "none"
    said = [
        *seen.found.said(),
        f"  time: {time}{step}; {season}",
        f"  {variables} variable{'s' * (variables != 1)}: {_listed(seen.config.variables)}",
        *(f"  {count:,} × {SAID[defect]}" for defect, count in seen.defects.items()),
    ]
    facts = seen.found.facts() | {
        "time": seen.config.time, "variables": list(seen.config.variables), "steps": rows,
        "step": str(seen.step) if seen.step else None, "season": seen.season,
        "defects": dict(seen.defects),
    }  # fmt: skip
    best = min(scores, key=lambda name: scores[name])
    return Draft(
        title=f"{rows:,} steps of {variables} variable{'s' * (variables != 1)}",
        facts=facts,
        seen=said,
        sections=_sections(seen, base, back, ahead, shares),
        reference=[
            f"mse {scores[name]:.3g} (standardised, {ahead} steps ahead) by {HOW[name]}"
            for name in sorted(scores, key=lambda name: name != best)
        ],
        scores=scores,
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + ", …" * (len(names) > 8)


SAID: dict[Defect, str] = {
    "missing": "no value: filled with the one before",
    "start": "no value in the first row",
    "back": "the time goes back: rows are sorted",
    "repeated": "a repeated time: the first row counts",
    "gap": "steps are left out: filled with the row before",
    "uneven": "no whole number of steps: rows count as equally far apart",
    "summer": "an hour is left out as summer time begins: filled with the row before",
    "winter": "an hour stands there twice as summer time ends: the first counts",
}
REPAIRS: dict[Defect, tuple[str, str]] = {
    "missing": ("missing", "fill"),
    "back": ("order", "sort"),
    "repeated": ("repeated", "first"),
    "gap": ("gap", "fill"),
    "uneven": ("gap", "ignore"),
}
"""The key of a recipe that says what to do about a defect."""
HOW = {"persistence": "repeating the last value", "seasonal": "repeating the last season"}


def _time(found: Table) -> Column | None:
    """The column of times: dates, or numbers under a usual name that grow evenly."""
    for column in found.columns:
        cells = [cell.strip() for cell in column.cells[:500]]
        order = dates.order(cells) or "day_first"
        read = [clock.moment(dates.iso(cell, order)) for cell in cells]
        if sum(time is not None for time in read) < 0.95 * len(read):
            continue
        numbers = sum(map(is_number, cells)) > 0.5 * len(cells)
        named = not {*TIMES.split()}.isdisjoint(column.name.lower().replace("_", " ").split())
        if not numbers or (named and (order == "compact" or _grows(cells))):
            return column
    return None


def _grows(cells: Sequence[str]) -> bool:
    numbers = [float(cell) for cell in cells if is_number(cell)]
    return all(a <= b for a, b in pairwise(numbers))


def _read(asked: Asked) -> Seen:
    found = table.read(asked.files[0])
    if found.shape is None or not found.header:
        raise UserError(f"{found.path}: a CSV file is wanted, whose first line names its columns")
    time = _time(found)
    chosen = [found.column(each) for each in asked.columns]
    plain = [c for c in found.columns if c is not time and _numbers(c) > 0.9]
    used = [column for column in chosen if column is not time] or plain
    if not used:
        raise UserError(f"{found.path}: no column has numbers")
    _one(found, time)
    order = dates.order([cell.strip() for cell in time.cells]) if time else "auto"
    if order is None and time:
        raise UserError(
            f"{found.path}: {time.called}: is {time.cells[0]!r} the day or the month first? "
            "Write the dates as 2024-12-31"
        )
    comma = any("," in cell for column in used for cell in column.cells[:1000])
    some = used != plain or len(used) + bool(time) < len(found.columns)
    keys = [Key("time", time.name)] if time else []
    keys += [Key("dates", order)] if order not in ("auto", None) else []
    keys += [Key("decimal", ",", "numbers are written 1,5")] if comma else []
    keys += [Key("variables", [column.name for column in used])] if some else []
    return _scanned(found, used, keys)


def _one(found: Table, time: Column | None) -> None:
    """Refuse a table of several series, one below the other: each time stands there once for
    each value of another column."""
    if time is None or 2 * len(time.counts) > len(time.cells):
        return
    for column in found.columns:
        if column is time or not column.few or column.numeric > 0.5:
            continue
        pairs = {*zip(time.cells, column.cells, strict=True)}
        if len(pairs) > 0.9 * len(time.cells):
            raise UserError(
                f"{found.path}: several series, one below the other: {time.called} has every time "
                f"once for each of the {len(column.counts)} values of {column.called}. A column "
                "for each is wanted, or a file for each"
            )


def _numbers(column: Column) -> float:
    """The share of cells that are numbers, or say that there is none."""
    cells = [cell.strip() for cell in column.cells]
    absent = sum(cell.lower() in MISSING for cell in cells)
    right = sum(is_number(cell.replace(",", ".", 1)) for cell in cells)
    return (right + absent) / max(1, len(cells)) if right else 0.0


def _scanned(found: Table, used: Sequence[Column], keys: Sequence[Key]) -> Seen:
    """The series as the reader gives it, and the keys that let it be read."""
    place = found.path.resolve()
    given = {key.name: key.value for key in keys} | {"variables": tuple(c.name for c in used)}
    config = series.Config(
        folder=str(place.parent), file=place.name, missing="fill", gap="fill", repeated="first",
        order="sort" if "time" in given else "refuse", **{"time": "", **given},
    )  # fmt: skip
    scan = series.scanned(config)
    counts = Counter(defect for defect, _ in scan.defects)
    if counts["uneven"]:
        config = replace(config, gap="ignore")
        scan = series.scanned(config)
        counts.pop("gap", None)
    hard = [finding for defect, finding in scan.defects if defect not in SAID]
    if hard or scan.series is None:
        raise UserError(str(hard[0] if hard else scan.error))
    values, step = scan.series.values, scan.series.step
    extra = [Key(key, value, SAID[each]) for each, (key, value) in REPAIRS.items() if counts[each]]
    return Seen(found, config, values, step, season(values, step), counts, [*keys, *extra])


def season(values: NDArray[np.float64], step: Step | None) -> int:
    """After how many steps things come again: by the calendar if it is so, or by the highest
    correlation of changes; 0 if nothing does."""
    length = len(values)
    changes = np.diff(values[: int(0.7 * length)], axis=0)
    if not len(changes):
        return 0
    changes = (changes - changes.mean(0)) / (changes.std(0) + 1e-12)
    most = min(400, len(changes) // 3)
    alike = np.array(
        [0.0, *(float((changes[lag:] * changes[:-lag]).mean()) for lag in range(1, most))]
    )
    usual = SEASONS.get(str(step), 0)
    if usual and usual < most and alike[usual] > 0.5 * REPEATS:
        return usual
    inner = range(SHORTEST, most - 1)
    peaks = [n for n in inner if alike[n] > REPEATS and alike[n - 1] < alike[n] >= alike[n + 1]]
    return max(peaks, key=lambda n: float(alike[n])) if peaks else 0


def _window(rows: int, period: int) -> tuple[int, int]:
    """Steps to read and to forecast: seasons, as far as there are rows."""
    ahead = max(1, min(period or 24, rows // 12))
    back = max(2 * ahead, min(14 * (period or 24), 336))
    return max(2, min(back, rows // 4)), ahead


def _references(seen: Seen, ahead: int, shares: Sequence[float]) -> dict[str, float]:
    """Mean squared error on the validation part, in units of the training part's deviation."""
    first, last = (round(share * len(seen.values)) for share in (shares[0], sum(shares[:2])))
    train = seen.values[:first]
    scaled = (seen.values - train.mean(0)) / (train.std(0) + 1e-12)
    starts = np.arange(first, last - ahead + 1)
    future = scaled[starts[:, None] + np.arange(ahead)]  # (N, T, C)
    scores = {"persistence": float(((future - scaled[starts - 1][:, None]) ** 2).mean())}
    if seen.season:
        places = starts[:, None] - seen.season + np.arange(ahead) % seen.season
        scores["seasonal"] = float(((future - scaled[places]) ** 2).mean())
    return scores


def _sections(
    seen: Seen, base: Path, back: int, ahead: int, shares: Sequence[float]
) -> list[Section]:
    [name] = table.named([seen.found.path], base)
    usual = tuple(shares) == SHARES
    parts = [Key(part, share) for part, share in zip(PARTS, shares, strict=True)]
    why = "the last rows are held out: " + ("a tenth" if usual else "a fifth") + " to choose by, a "
    windows = max(1, round(shares[0] * len(seen.values)) - back - ahead)
    epochs = max(6, min(200, round(WINDOWS / windows)))
    trend = min(25, back - 1 + back % 2)
    return [
        Section("", (Key("task", "forecast"),)),
        Section(
            "data",
            (Key("file", name), *seen.keys, *([] if usual else parts)),
            f"{why}fifth to score",
        ),
        Section(
            "window",
            (
                Key("look_back", back, "steps that are read"),
                Key("horizon", ahead, "steps that are forecast: set it to what you need"),
            ),
        ),
        *([Section("model.encoder", (Key("window", trend),))] if trend < 25 else []),
        Section("train", (Key("epochs", epochs, "times through the data"),)),
    ]
