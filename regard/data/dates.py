"""Dates as people write them, made into ISO's: 31.12.2024 13:05, 12/31/2024 1:05 PM, 20241231.

What begins with the year, or has points between day, month and year, can be read in one way. Of
5/6/2024 nobody knows which is the day: a recipe must say so.
"""

import re
from collections.abc import Sequence
from typing import Literal

Order = Literal["auto", "day_first", "month_first", "compact"]
YEAR_FIRST = re.compile(
    r"(?P<year>\d{4})(?P<between>[./])(?P<month>\d\d?)(?P=between)(?P<day>\d\d?)"
)
YEAR_LAST = re.compile(
    r"(?P<first>\d\d?)(?P<between>[./-])(?P<second>\d\d?)(?P=between)(?P<year>\d{4})"
)
COMPACT = re.compile(r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)")
HOURS = re.compile(
    r"(?:[T ,]+(?P<hour>\d\d?)[:.](?P<minute>\d\d)(?P<rest>[:.]\d\d(?:[.,]\d+)?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?)?\s*"
)


def iso(text: str, order: Order = "auto") -> str:
    """The same date in ISO's form; a text that is none of these, or could be read in two ways,
    comes back as it is."""
    if order == "compact" and (found := COMPACT.match(text)):
        return _joined(found["year"], found["month"], found["day"], text[found.end() :], text)
    if found := YEAR_FIRST.match(text):
        return _joined(found["year"], found["month"], found["day"], text[found.end() :], text)
    if not (found := YEAR_LAST.match(text)):
        return text
    day, month = found["first"], found["second"]
    if order == "month_first":
        day, month = month, day
    elif order != "day_first" and found["between"] != ".":
        return text
    return _joined(found["year"], month, day, text[found.end() :], text)


def _joined(year: str, month: str, day: str, rest: str, text: str) -> str:
    hours = HOURS.fullmatch(rest)
    if hours is None:
        return text
    date = f"{year}-{month:0>2}-{day:0>2}"
    if hours["hour"] is None:
        return date
    hour = int(hours["hour"])
    if half := hours["half"]:
        hour = hour % 12 + 12 * (half[0] in "Pp")
    rest = (hours["rest"] or "").replace(",", ".")
    return f"{date} {hour:02}:{hours['minute']}{rest and ':' + rest[1:]}"


def ambiguous(text: str) -> bool:
    """Whether a recipe must say which number is the day."""
    found = YEAR_LAST.match(text)
    return found is not None and found["between"] != "."


def order(texts: Sequence[str]) -> Order | None:
    """How times are written, if they are dates; None where two ways fit them all."""
    if texts and all(COMPACT.fullmatch(text.strip()) for text in texts):
        plausible = all(_in_calendar(text.strip()) for text in texts)
        return "compact" if plausible else "auto"
    found = [match for text in texts if (match := YEAR_LAST.match(text)) and ambiguous(text)]
    if not found:
        return "auto"
    if any(int(match["first"]) > 12 for match in found):
        return "day_first"
    return "month_first" if any(int(match["second"]) > 12 for match in found) else None


def _in_calendar(text: str) -> bool:
    year, month, day = int(text[:4]), int(text[4:6]), int(text[6:])
    return 1500 < year < 2500 and 1 <= month <= 12 and 1 <= day <= 31
