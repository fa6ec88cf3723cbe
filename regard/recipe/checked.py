"""JSON: written so that any program can read it, and read as if somebody had forged it.

A number that is not finite has no JSON: null is written for it.

What is no JSON, or not of the form that is wanted, is a ValueError that names the value; the reader
of a file adds the file's name. A whole number is one that fits into 64 bits, a number is finite,
and a text can be written as UTF-8.
"""

import hashlib
import json
import math
from collections.abc import Set
from pathlib import Path
from typing import Any

LARGEST = 1 << 23
"""Bytes of a file, where its reader knows no better."""
MOST = 1 << 20
"""Values in a file. A few bytes of JSON are a hundred of memory."""
DIGITS = 20
"""Of an integer: as many as 64 bits and a sign take."""
WHOLE = (1 << 63) - 1

Table = dict[str, Any]


def written(value: Any, **options: Any) -> str:
    """JSON, with null for every number that is not finite; options are those of `json.dumps`."""
    options = {"ensure_ascii": False} | options
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, **options)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read(path: Path, largest: int = LARGEST) -> Table:
    """The object in a JSON file of reasonable size."""
    if path.stat().st_size > largest:
        raise ValueError(f"{path.name} is larger than {largest:,} bytes")
    try:
        return parse(path.read_bytes().decode())
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def parse(text: str, most: int = MOST) -> Table:
    """The object that a text is, of so many values at most; no key stands in it twice."""
    if text.count(",") > most or text.count("[") + text.count("{") > most:
        raise ValueError("it has more values than any file of a run")
    try:
        found = json.loads(text, object_pairs_hook=_object, parse_int=_integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return table(found, "it")


def _object(pairs: list[tuple[str, Any]]) -> Table:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands in it twice")
    return found


def _integer(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits")
    return int(digits)


def table(value: Any, what: str) -> Table:
    """An object, whatever its keys are."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no object: {_shown(value)}")
    return value


def signed(value: Table) -> Table:
    """With its own hash, so that a damaged list does not accuse the files in it."""
    rest = {key: each for key, each in value.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    return rest | {"sha256": digest.hexdigest()}


def keys(value: Any, what: str, needed: Set[str], also: Set[str] = frozenset()) -> Table:
    """An object with these keys, perhaps also those, and no others."""
    found = table(value, what)
    for name in sorted(needed - found.keys()):
        raise ValueError(f"{what} has no {name!r}")
    for name in sorted(found.keys() - needed - also):
        raise ValueError(f"{what} has an unknown key, {_shown(name)}")
    return found


def truth(value: Any, what: str) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise ValueError(f"{what} is neither true nor false: {_shown(value)}")
    return value


def whole(value: Any, what: str, low: int = 0, high: int = WHOLE) -> int:
    """A whole number from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{what} is no whole number from {low} to {high}: {_shown(value)}")
    return value


def number(value: Any, what: str, low: float = -math.inf, *, above: float = -math.inf) -> float:
    """A finite number of at least `low` and more than `above`."""
    if type(value) not in (int, float):
        raise ValueError(f"{what} is no number: {_shown(value)}")
    if not math.isfinite(value) or value < low or value <= above:
        limit = f" above {above:g}" if above > -math.inf else f" of at least {low:g}"
        least = "" if low == above == -math.inf else limit
        raise ValueError(f"{what} is no finite number{least}: {_shown(value)}")
    return float(value)


def text(value: Any, what: str) -> str:
    """A text that is one line, such as a name."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is no text: {_shown(value)}")
    if "\n" in value or "\r" in value or "\0" in value:
        raise ValueError(f"{what} has a line break or a zero character: {_shown(value)}")
    value.encode()  # half a surrogate pair is a ValueError
    return value


def items(value: Any, what: str, count: int | None = None) -> list[Any]:
    """A list, perhaps of so many."""
    if not isinstance(value, list):
        raise ValueError(f"{what} is no list: {_shown(value)}")
    if count is not None and len(value) != count:
        raise ValueError(f"{what} has {len(value):,} values instead of {count:,}")
    return value


def _shown(value: Any) -> str:
    """A glimpse of a value, whatever it is."""
    match value:
        case None | bool() | int() | float():
            return repr(value)
        case str():
            return ascii(value[:60])
    return type(value).__name__
