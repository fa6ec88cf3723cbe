"""TOML that anybody may have written, and how to speak of what it says."""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from regard.errors import RecipeError

LARGEST = 4 << 20
"""Bytes. No recipe is that long; a file that was named by mistake may be."""
NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""What no path has and no file of UTF-8 can hold."""


def read(path: Path) -> str:
    """The text of a recipe."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror}") from None
    if len(raw) > LARGEST:
        raise RecipeError(f"{path}: more than {LARGEST >> 20} MB: this is no recipe")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise RecipeError(f"{path}: not UTF-8 but UTF-16: save it as UTF-8")
    try:
        text = raw.decode("utf-8-sig")  # some editors mark UTF-8 at its beginning
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: not UTF-8: {error}") from None
    return re.sub("\r\n?", "\n", text)


def parse(text: str) -> dict[str, Any]:
    """The table; a ValueError says why there is none."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError(_too_long(text)) from None


def _too_long(text: str) -> str:
    """Which number has more digits than Python reads."""
    most, lines = sys.get_int_max_str_digits(), text.split("\n")
    said = f"a number has more than {most:,} digits"
    for number, line in enumerate(lines, 1):
        if len(lines) > 1 and re.search(rf"\d{{{most}}}", line.replace("_", "")):
            return f"{named(line.partition('=')[0].strip())}: {said} (at line {number})"
    return said


def named(text: str) -> str:
    """A key, or a change of one, as a message can hold it: in one line, not too long."""
    short = _cut(text, 120)
    return short if short.isprintable() and short.strip() else repr(short)


def sentence(text: str) -> str:
    """A message that holds values as they were given: in one line, not too long."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in _cut(text, 800))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 20]}…{text[-19:]}"


def line_of(text: str, key: str) -> tuple[int, bool]:
    """The line of a dotted key, or of the nearest section around it; whether it is the key's."""
    parts = key.split(".")
    section: list[str] = []
    best, depth = 1, 0
    for number, line in enumerate(text.split("\n"), 1):
        name, equals, _ = line.partition("=")
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            section = [part.strip() for part in header[1].split(".")]
            here = section
        elif equals and re.fullmatch(r"[\w.\- ]+", name := name.strip()):
            here = section + name.split(".")
        else:
            continue
        if here == parts[: len(here)] and len(here) > depth:
            best, depth = number, len(here)
    return best, depth == len(parts)
