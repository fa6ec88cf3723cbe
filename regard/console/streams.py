"""Standard input, output and error, as well-behaved tools treat them.

A stream that was closed before we began (`2>&-`) is filled again: else the next file that is opened
would take its number, and whatever writes to that number would write into the file. To read from a
filled stdin or to write to a filled stdout fails, as it should; a filled stderr takes all and keeps
nothing.

What cannot be written to stdout is an error, and reported. What cannot be written to stderr is
dropped, since no other place is left for it: a full log must not end a training. A reader that has
gone away (`| head`) ends the command, whichever of the two it was reading.
"""

import errno
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.errors import UserError

INPUT, OUTPUT, ERROR = "standard input", "standard output", "standard error"
READER_GONE = 141
"""The exit code: that of a command that SIGPIPE ends."""
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class _Output(io.FileIO):
    """The raw end of stdout. An error has its name and is remembered; nothing is tried again."""

    lost: OSError | None = None

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = OUTPUT
            self.lost = error
            _fill(self.fileno(), os.O_WRONLY)
            raise


class _Error(io.FileIO):
    """The raw end of stderr."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError as error:
            error.filename = ERROR
            _fill(self.fileno(), os.O_WRONLY)
            raise
        except OSError:
            return len(data)


def reader_gone(error: OSError) -> bool:
    """Whether nobody reads our output any more, which Windows calls an invalid argument."""
    ours = error.filename in (OUTPUT, ERROR)
    windows = os.name == "nt" and error.errno == errno.EINVAL
    return ours and (isinstance(error, BrokenPipeError) or windows)


@contextmanager
def standard() -> Iterator[Callable[[], OSError | None]]:
    """Let the three streams behave as above; what is given tells why output was lost, if it was."""
    before = sys.stdin, sys.stdout, sys.stderr
    if sys.stdin is None:
        _fill(0, os.O_WRONLY)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    if sys.stdout is None:
        _fill(1, os.O_RDONLY)
    if sys.stderr is None:
        _fill(2, os.O_WRONLY)
    output = _Output(1, "w", closefd=False) if _ours(sys.stdout, 1) else None
    if output is not None:
        sys.stdout = _text(output, sys.stdout)
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    if _ours(sys.stderr, 2):
        sys.stderr = _text(_Error(2, "w", closefd=False), sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # Windows would take another encoding, and \r\n
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    try:
        yield lambda: output.lost if output is not None else None
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


def _ours(stream: Any, number: int) -> bool:
    """Whether it is the process's own stream, and not what a test, a notebook or a console of
    Windows has in its place."""
    if stream is None:
        return True
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    return type(raw) is io.FileIO and raw.fileno() == number


def _text(raw: io.FileIO, before: Any) -> io.TextIOWrapper:
    """Written at once where a person may be reading."""
    if before is not None:
        before.flush()
    lines = raw.fileno() == 2 or raw.isatty()
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", line_buffering=lines)


def _fill(number: int, way: int) -> None:
    opened = os.open(os.devnull, way)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)


def warn(text: str) -> None:
    """A message, in its own line or lines, for the person at the terminal."""
    if sys.stderr is not None:  # `print` would take stdout instead
        print(f"regard: {printable(text)}", file=sys.stderr)


def printable(text: str) -> str:
    """`text` without what moves a cursor, turns a line around or has no encoding."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def reason(error: OSError) -> str:
    """What went wrong where, in a line."""
    where = f"{error.filename}: " if error.filename else ""
    if error.filename in (INPUT, OUTPUT) and error.errno == errno.EBADF:
        return f"{where}it is closed"
    return f"{where}{error.strerror or error}"


def check_place(path: Path) -> None:
    """Refuse a file that cannot be written, before the work is done that it is for."""
    if not path.parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file")


def put(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all; what is no plain file (/dev/stdout) takes it as it is."""
    plain = path.is_file() or not path.exists()
    path = path.resolve() if plain else path  # a link stays a link
    writing = path.with_name(f".{path.name}.{os.getpid()}.part") if plain else path
    try:
        writing.write_bytes(data)
        if plain:
            writing.replace(path)
    except OSError as error:
        if plain:
            writing.unlink(missing_ok=True)
        raise UserError(f"{path}: {error.strerror or error}") from None
