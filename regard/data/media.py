"""Files that are examples: pictures and sounds, in folders of classes, tables and containers.

    labelled   places and labels: of a folder of classes, of a table of paths, of Parquet
    located    the place that a cell of a table names
    contents   the bytes at a place, within a limit

A place is a text: the path of a file, or "digits.parquet#17", one of many in a container, counted
from 0. What cannot be read is a `ValueError` whose message is a kind of defect, without the path:
that stands in the report beside it.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data import parquet, pictures, sound
from regard.data.labelled import Labelled, texts
from regard.data.readers import Finding, Policy, Report, forbidden, suffix
from regard.data.tables import Name
from regard.errors import UserError

LITTER = ("thumbs.db", "desktop.ini")
"""What systems leave in folders; so are names that begin with a point."""
CUT = 4096
"""Characters of a path that are shown: no path has more."""
FILES = 10_000
"""Broken files of a kind that a report names."""


SUFFIXES = {*pictures.SUFFIXES, *sound.SUFFIXES}
"""How names of such files end."""


def is_media(path: Path) -> bool:
    """Whether a file is such a one by its name."""
    return path.suffix.lower() in SUFFIXES


def is_inside(text: str) -> bool:
    """Whether it is a place in a file that is there."""
    path, number = split(text)
    return number is not None and os.path.isfile(path)  # noqa: PTH113 - no path at all is none


def split(place: str) -> tuple[Path, int | None]:
    """The file, and which of those in it, if it is a container."""
    name, mark, number = place.rpartition("#")
    inside = bool(mark) and number.isdecimal() and len(number) < 19 and not os.path.exists(place)  # noqa: PTH110 - no path at all is none that exists
    return (Path(name), int(number)) if inside else (Path(place), None)


def located(cell: str, table: Path, folder: str = "") -> str:
    """The place that a cell names: from the folder of its table, or else from that of the data."""
    cell = cell.strip()
    beside = table.parent / cell
    if not folder or split(str(beside))[0].exists():
        return str(beside)
    other = Path(folder) / cell
    return str(other if split(str(other))[0].exists() else beside)


def contents(place: str, most: int, column: str = "") -> bytes:
    """The bytes of a file, or of one in a container, whose column is called so; at most so many."""
    if isinstance(place, Inline):
        return _limited(place.data, len(place.data), most)
    path, number = split(place)
    check(path)
    if number is not None:
        if suffix(path) != parquet.SUFFIX:
            raise ValueError("no container that is known")
        found = parquet.cell(path, column, number)
        return _limited(found, len(found), most)
    try:
        with path.open("rb") as file:
            return _limited(file.read(most + 1), os.fstat(file.fileno()).st_size, most)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None


def check(path: Path) -> None:
    """Refuse what is no regular file: a pipe would wait for ever."""
    try:
        there, regular = path.exists(), path.is_file()
    except (OSError, ValueError) as error:
        raise ValueError(f"is no path: {error}") from None
    if not regular:
        raise ValueError("is not a regular file" if there else "there is no such file")


def _limited(found: bytes, size: int, most: int) -> bytes:
    if not found:
        raise ValueError("the file is empty")
    if size > most or len(found) > most:
        raise ValueError(f"the file has more than {most:,} bytes")
    return found


class Inline(str):
    """What Python gives in place of a file; messages call it by this text."""

    data: bytes

    def __new__(cls, name: str, data: bytes) -> "Inline":
        made = super().__new__(cls, name)
        made.data = data
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> "Inline":
        return self  # nothing of it changes


def labelled(
    paths: Sequence[Path],
    columns: tuple[Name, ...],
    policy: Policy,
    report: Report,
    *,
    folder: str = "",
    separator: str = "",
    **layout: Any,
) -> Iterator[Labelled]:
    """Places and labels; `columns` are those of the label and of the file.

    Of a folder of classes, FOLDER/label/…, the line of an example is its number, from 1.
    """
    if all(map(Path.is_dir, paths)):
        for path in paths:
            yield from _classes(path, policy, report)
    elif suffix(paths[0]) == parquet.SUFFIX:
        for path in paths:
            yield from _rows(path, columns, report)
    else:
        how = {"separator": separator, **layout}
        for row in texts(paths, columns, policy, report, **how):
            yield row._replace(value=located(row.value, row.path, folder))


def _classes(folder: Path, policy: Policy, report: Report) -> Iterator[Labelled]:
    """The files of each folder inside, at any depth, whose label is that folder's name."""
    number = 0
    for inner in classes(folder):
        for path in files(inner):
            number += 1
            shown = str(path)
            if defect := forbidden(shown):
                found = Finding(folder, number, f"the name has a {defect[0]}", repr(shown))
                if policy.broken == "refuse":
                    raise UserError(f'{found}. With data.on_bad_line = "skip" it is left out')
                report.add(found)
                continue
            report.used += 1
            yield Labelled(folder, number, shown, (inner.name,))
    if not number:
        raise UserError(f"{folder}: no file in a folder that is called by its label")


def classes(folder: Path) -> list[Path]:
    """The folders inside, each of which is a class, by the alphabet."""
    inside = (path for path in folder.iterdir() if not path.name.startswith("."))
    return sorted(path for path in inside if path.is_dir())


def files(folder: Path) -> Iterator[Path]:
    """All files inside, at any depth, by the alphabet; not what systems leave there."""
    for place, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and name.lower() not in LITTER:
                yield Path(place, name)


def stamp(folder: Path) -> tuple[int, int]:
    """How large the files inside are together, and when the last of them changed: to notice that
    they are others than they were."""
    size = last = 0
    for path in files(folder):
        about = path.lstat()
        size, last = size + about.st_size, max(last, about.st_mtime_ns)
    return size, last


def _rows(path: Path, columns: tuple[Name, ...], report: Report) -> Iterator[Labelled]:
    """A place for each row of a file of Parquet."""
    label, column = map(str, columns)
    for number, name in enumerate(parquet.labels(path, label, column)):
        report.used += 1
        yield Labelled(path, number + 1, f"{path}#{number}", (name,))
