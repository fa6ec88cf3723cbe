"""The times of a series: which column has them, and rows in their order, at equal distances.

A clock on the wall leaves out an hour in spring and has one twice in autumn. That is no fault: the
hour that is left out is filled with the row before, and of the other the first is taken, so that
days stay equally long.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from regard.data import clock, dates
from regard.data.cells import MISSING
from regard.data.clock import Step
from regard.data.dates import Order
from regard.data.delimiters import is_number
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.data.series import Config, Series, Table

AUTO = "auto"
TOLERANCE = Decimal("0.001")
"""By which part of a step a time may be off: numbers such as 0.1 are not exact."""
MOST = 0.9
"""The share of a column's cells that must be dates."""


def column_of_times(
    header: Sequence[str], rows: Sequence[Sequence[str]], order: Order, variables: Collection[str]
) -> str:
    """The first column that has a name and dates, and is no variable; empty if there is none."""
    for n, name in enumerate(header):
        cells = [row[n].strip() for row in rows if n < len(row)]
        known = [cell for cell in cells if cell.lower() not in MISSING]
        count = sum(is_date(cell, order) for cell in known)
        if name and name not in variables and count and count >= MOST * len(known):
            return name
    return ""


def is_date(cell: str, order: Order) -> bool:
    """Whether it is one, or would be if it were known which number is the day."""
    text = dates.iso(cell, order)
    return isinstance(clock.moment(text), datetime) or (
        dates.ambiguous(cell) and not is_number(cell)
    )


def regular(table: "Table", config: "Config", step: Step | None) -> "Series":
    """The series in the order of its times, without repeated ones and gaps."""
    unit = clock.unit(table.times) if step is None else step.unit
    if not clock.fits(table.times, unit):
        what = "its times are of another kind than those that were learnt"
        raise UserError(f"{table.path}: {what}, where a step is {step}")
    ticks = [clock.tick(time, unit) for time in table.times]
    if step is None and (length := clock.usual(ticks)) is not None:
        step = Step(unit, length)
    twice = _twice(table, ticks, step)
    for row in range(1, len(ticks)):
        if ticks[row] < ticks[row - 1] and row not in twice:
            table.follows("back", "the time goes back", row, row - 1)
    rows, copies = list[int](), list[int]()
    for row in sorted(range(len(ticks)), key=ticks.__getitem__):
        if rows and ticks[row] == ticks[rows[-1]]:
            if row in twice:
                what = "an hour stands there twice, as at the end of summer time"
                table.follows("winter", what, row, rows[-1])
            else:
                table.follows("repeated", "a repeated time", row, rows[-1])
            continue
        if rows and step is not None:
            ratio = (ticks[row] - ticks[rows[-1]]) / step.length
            copies[-1] += _left_out(table, config, row, rows[-1], ratio, step)
        rows.append(row)
        copies.append(1)
    if sum(copies) > 2 * len(ticks):
        raise UserError(f"{table.path}: more rows would be filled in than there are: see data.time")
    return table.series(rows, config, copies, step)


def _left_out(
    table: "Table", config: "Config", row: int, before: int, ratio: Decimal, step: Step
) -> int:
    """How many rows are to be filled in between two whose distance is `ratio` steps."""
    whole = ratio.to_integral_value()
    if abs(ratio - whole) > TOLERANCE or not whole:
        table.follows("uneven", f"no whole number of steps (of {step})", row, before)
        return 0
    hour = step.unit == "seconds" and (whole - 1) * step.length == clock.HOUR_LENGTH
    if hour and clock.may_change(table.times[before]):
        table.follows("summer", "an hour is left out, as where summer time begins", row, before)
        return 0 if config.gap == "ignore" else int(whole) - 1
    if whole > 1:
        table.follows("gap", f"steps are left out (one is {step})", row, before)
    return int(whole) - 1 if config.gap == "fill" else 0


def _twice(table: "Table", ticks: Sequence[Decimal], step: Step | None) -> set[int]:
    """Rows of an hour that the clock shows a second time: their times were there just before."""
    found, most = set[int](), clock.HOUR_LENGTH
    if step is None or step.unit != "seconds" or step.length > most:
        return found
    seen = set[Decimal]()
    for row, (tick, time) in enumerate(zip(ticks, table.times, strict=True)):
        if not clock.may_change(time):
            continue
        # It begins an hour after its first time, and goes on from there.
        begins = row and ticks[row - 1] + step.length - tick == most
        if tick in seen and (begins or row - 1 in found):
            found.add(row)
        seen.add(tick)
    return found
