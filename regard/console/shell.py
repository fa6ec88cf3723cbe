"""Commands as a person can paste them into a shell."""

import os
import re
import shlex
from pathlib import Path

SAFE = re.compile(r"[\w.:\\/@=+,~-]+", re.ASCII)
"""Words that no shell of Windows takes for anything else."""


def command(*words: object) -> str:
    """`regard` and these words, each of them quoted where a shell needs it."""
    return " ".join(["regard", *map(quoted, words)])


def quoted(word: object) -> str:
    """One word. A path that begins with a dash is written so that it is no option."""
    text = str(word)
    if isinstance(word, Path) and text.startswith("-"):
        text = os.path.join(os.curdir, text)  # noqa: PTH118 (Path would take the dot away)
    if os.name == "nt":
        return text if SAFE.fullmatch(text) else '"' + text.replace('"', r"\"") + '"'
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, os.fsencode(text))) + "'"


def _escaped(byte: int) -> str:
    """As bash, zsh and POSIX.1-2024 read it between $' and '."""
    plain = 0x20 <= byte < 0x7F and chr(byte) not in "'\\"
    return chr(byte) if plain else f"\\x{byte:02x}"
