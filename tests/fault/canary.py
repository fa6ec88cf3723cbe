"""What leaves a mark if anybody runs it."""

from pathlib import Path

MARK = "pickle-was-here"


def pickled(outside: Path) -> bytes:
    """Unpickled, it makes a folder outside: os.mkdir(path), spelt out, as pickle is banned."""
    return b"cposix\nmkdir\n(S'" + str(outside / MARK).encode() + b"'\ntR."


def program(outside: Path) -> str:
    """Imported, it makes the same folder."""
    return f"import os\nos.mkdir({str(outside / MARK)!r})\n"
