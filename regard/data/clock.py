"""Times as they are written in a file, ISO dates or numbers, and the step from one to the next.

All arithmetic is exact: 0.1 + 0.2 is 0.3 here, and nanoseconds since 1970 keep their last digit.
Times with an offset from UTC are compared as moments, others as a clock on the wall shows them.
Where every time is on the same day of its month, or on the last one, months are counted, since
they are not equally long.
"""

import math
import re
from calendar import monthrange
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from itertools import pairwise
from typing import Literal, get_args

from regard.errors import UserError

Moment = Decimal | datetime
Unit = Literal["number", "seconds", "months", "month_ends"]
DAY = 86_400
HOUR_LENGTH = 3_600
CHANGES = (3, 4, 9, 10, 11)
"""Months in which summer time begins or ends somewhere."""
ALIKE = Context(prec=6)
"""Steps that agree in six digits are the same: numbers may have been rounded when written."""
HOUR = re.compile(r"\d\d:\d\d(?P<seconds>:\d\d)?(?P<fraction>[.,]\d+)?")


@dataclass(frozen=True)
class Step:
    """From one time to the next."""

    unit: Unit
    length: Decimal

    def __str__(self) -> str:
        count, name = self.length, "month"
        if self.unit == "number":
            return f"{count:f}"
        if self.unit == "seconds":
            if count % DAY:
                return str(_seconds(count))
            count, name = count / DAY, "day"
        return f"{count.to_integral_value():f} {name}{'s' * (count != 1)}"

    def as_dict(self) -> dict[str, str]:
        return {"unit": self.unit, "length": str(self.length)}

    @classmethod
    def from_dict(cls, table: dict[str, str]) -> "Step":
        """ValueError where it says no step."""
        if table["unit"] not in get_args(Unit):
            raise ValueError(f"unit {table['unit']!r}")
        length = moment(table["length"])
        if not isinstance(length, Decimal) or length <= 0:
            raise ValueError(f"length {table['length']!r}")
        return cls(table["unit"], length)  # type: ignore[arg-type]


def moment(text: str) -> Moment | None:
    """The time that a text says; None if it says none."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            return None
    fine = "_" not in text and number.is_finite() and math.isfinite(float(number))
    return number if fine else None


def kind(time: Moment) -> str:
    """Times of different kinds cannot be compared."""
    if isinstance(time, Decimal):
        return "number"
    return "local" if time.tzinfo is None else "absolute"


def may_change(time: Moment) -> bool:
    """Whether clocks on the wall may be changed then: early on a Sunday of spring or autumn."""
    if not isinstance(time, datetime) or time.tzinfo is not None:
        return False
    return time.weekday() == 6 and time.month in CHANGES and time.hour < 4


def unit(times: Sequence[Moment]) -> Unit:
    """What the distance between times (all of one kind) is counted in."""
    dates = [time for time in times if isinstance(time, datetime)]
    if len(dates) < len(times):
        return "number"
    if len(set(map(_month, dates))) > 1:
        for each in ("month_ends", "months"):
            if fits(dates, each):
                return each
    return "seconds"


def fits(times: Sequence[Moment], unit: Unit) -> bool:
    """Whether times (all of one kind) can be counted in this unit."""
    dates = [time for time in times if isinstance(time, datetime)]
    if unit == "number" or len(dates) < len(times):
        return unit == "number" and not dates
    if unit == "seconds":
        return True
    if len({date.time() for date in dates}) > 1:
        return False
    return all(map(_ends_month, dates)) if unit == "month_ends" else len({d.day for d in dates}) < 2


def tick(time: Moment, unit: Unit) -> Decimal:
    """A time as a number of a unit that fits it."""
    if isinstance(time, Decimal):
        return time
    if unit != "seconds":
        return Decimal(_month(time))
    passed = time - datetime(1970, 1, 1, tzinfo=UTC if time.tzinfo else None)
    return Decimal(passed // timedelta(microseconds=1)).scaleb(-6)


def usual(ticks: Sequence[Decimal]) -> Decimal | None:
    """The most frequent distance between neighbours in time, the smallest of several; None where
    there are no two times."""
    steps = Counter(later - early for early, later in pairwise(sorted(ticks)) if later > early)
    groups = Counter[Decimal]()
    for step, count in steps.items():
        groups[ALIKE.plus(step)] += count
    if not groups:
        return None
    chosen = min(groups, key=lambda group: (-groups[group], group))
    alike = [step for step in steps if ALIKE.plus(step) == chosen]
    # Of those that rounding has made of one, the plainest.
    return min(alike, key=lambda step: (-steps[step], len(step.as_tuple().digits), step))


def distance(early: str, later: str, step: Step) -> Decimal:
    """How many steps lie between two times that fit the step."""
    before, after = (
        tick(time, step.unit) for text in (early, later) if (time := moment(text)) is not None
    )
    return (after - before) / step.length


def add(text: str, step: Step, count: int) -> str:
    """The time `count` steps later, written in the same way."""
    time = moment(text)
    if isinstance(time, Decimal):
        return f"{time + count * step.length:f}"
    assert time is not None
    try:
        if step.unit == "seconds":
            later = time + _seconds(count * step.length)
        else:
            later = _months_later(time, int(count * step.length), step.unit)
    except (OverflowError, ValueError):
        raise UserError(f"{count} steps of {step} after {text} there is no date") from None
    return _written(later, text)


def _seconds(length: Decimal) -> timedelta:
    return timedelta(microseconds=int(length.scaleb(6)))


def _month(date: datetime) -> int:
    return 12 * date.year + date.month - 1


def _ends_month(date: datetime) -> bool:
    return date.day == monthrange(date.year, date.month)[1]


def _months_later(date: datetime, count: int, unit: Unit) -> datetime:
    """On the same day of that month, if it has one, or on the last."""
    year, month = divmod(_month(date) + count, 12)
    last = monthrange(year, month + 1)[1]
    day = last if unit == "month_ends" else min(date.day, last)
    return date.replace(year=year, month=month + 1, day=day)


def _written(date: datetime, like: str) -> str:
    hour = HOUR.search(like)
    if hour is None and not (date.hour or date.minute or date.second or date.microsecond):
        return date.date().isoformat()
    spec = "auto"
    if hour is not None:
        if not (hour["seconds"] or date.second or date.microsecond):
            spec = "minutes"
        if len(hour["fraction"] or "") == len(".250") and date.microsecond % 1000 == 0:
            spec = "milliseconds"
    text = date.isoformat("T" if "T" in like else " ", spec)
    return text.removesuffix("+00:00") + "Z" if like[-1] in "Zz" else text
