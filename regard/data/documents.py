"""Texts in files: one running text, or many documents: lines, what stands between empty lines, or
files."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

from regard.data import wrap

Kind = Literal["none", "line", "paragraph", "file"]
"""What a document is; none: all is one running text."""
Lines = Callable[[Path], Iterable[tuple[int, str]]]
"""The lines of a file with their numbers."""


def read(
    paths: Iterable[Path], lines: Lines, kind: Kind, most: int = 0
) -> Iterator[tuple[Path, int, str]]:
    """Each text with the file and the line where it begins: of running text each line, cut where it
    has more than `most` characters; empty documents are none."""
    for path in paths:
        if kind == "none":
            yield from ((path, n, p) for n, line in lines(path) for p in wrap.lines(line, most))
        elif kind == "line":
            yield from ((path, n, line) for n, line in lines(path) if line)
        else:
            yield from ((path, n, text) for n, text in _joined(lines(path), kind == "file"))


def _joined(lines: Iterable[tuple[int, str]], whole: bool) -> Iterator[tuple[int, str]]:
    """Lines that belong together, with the number of the first; the empty ones around them go."""
    first, found = 0, list[str]()
    for number, line in lines:
        if line.strip() or (whole and found):
            first = first if found else number
            found.append(line)
        elif found:
            yield first, "\n".join(found)
            found = []
    if text := "\n".join(found).rstrip("\n"):
        yield first, text
