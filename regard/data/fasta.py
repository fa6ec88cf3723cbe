"""FASTA: sequences, their labels position by position, and if there is one a mask.

    >1es5-A SET=train VALIDATION=False
    VTKPTIAAVGG …

Files belong together by the names of their entries, in whatever order. A header may name the part
that its entry is of; one that names none is of every part that names its file.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from regard.data import files
from regard.data.readers import Broken, Finding, Row, excerpt, lines, opened
from regard.errors import UserError

SUFFIXES = (".fasta", ".fa", ".faa", ".fna")


class Entry(NamedTuple):
    """A sequence, what its header says, and what is wrong with it."""

    line: int
    says: list[tuple[str, str]]
    sequence: str
    finding: Finding | None


def rows(paths: list[Path], part: files.Part, broken: Broken, unknown: str) -> Iterator[Row]:
    """Residues and labels of each name, one a line; `unknown` where the mask is 0."""
    if len(paths) not in (2, 3):
        raise UserError(
            f"{', '.join(map(str, paths))}: give a FASTA file of sequences, one of labels, "
            "and if there is one, a mask"
        )
    found = [_entries(path) for path in paths]
    for name in dict.fromkeys(name for entries in found for name in entries):
        there = {path: entries.get(name) for path, entries in zip(paths, found, strict=True)}
        path, first = next((path, entry) for path, entry in there.items() if entry)
        says = {key: value for entry in there.values() if entry for key, value in entry.says}
        if _part(says, part, f"{path}:{first.line}") != part:
            continue
        if defect := _defect(there):
            broken[first.line] = (
                defect if isinstance(defect, Finding) else Finding(path, first.line, defect, name)
            )
            yield first.line, ("", "")
        else:
            residues, labels, *mask = (entry.sequence for entry in there.values() if entry)
            shown = mask[0] if mask else "1" * len(labels)
            tags = (unknown if s == "0" else tag for tag, s in zip(labels, shown, strict=True))
            yield first.line, ("\n".join(residues), "\n".join(tags))


def _part(says: dict[str, str], default: files.Part, place: str) -> str:
    """The part that a header names, or the default."""
    if says.get("VALIDATION", "").lower() == "true":
        return "validation"
    named = says.get("SET", default).lower()
    if named not in files.PARTS:
        raise UserError(f"{place}: SET={named} is not one of {', '.join(files.PARTS)}")
    return named


def _defect(there: dict[Path, Entry | None]) -> Finding | str:
    """What is wrong with an entry or between its files; nothing: an empty text."""
    for entry in there.values():
        if entry and entry.finding:
            return entry.finding
    for path, entry in there.items():
        if entry is None:
            return f"{path} has nothing of this name"
    lengths = [len(entry.sequence) for entry in there.values() if entry]
    return f"unequal lengths: {', '.join(map(str, lengths))}" if len(set(lengths)) > 1 else ""


def _entries(path: Path) -> dict[str, Entry]:
    """The entries of a FASTA file by name: “>name KEY=value …”, then lines of the sequence."""
    broken: Broken = {}
    found: dict[str, Entry] = {}
    headers: set[int] = set()
    name = ""
    for number, line in enumerate(lines(path, broken), 1):
        if line.startswith(">"):
            name, *rest = line[1:].split() or [""]
            finding = None
            if not name or name in found:
                what = f"a second {name!r}" if name else "a header without a name"
                finding, name = Finding(path, number, what, excerpt(line)), f"{name} ({number})"
            says = [each.partition("=")[::2] for each in rest if "=" in each]
            found[name] = Entry(number, says, "", finding)
        elif number in broken and number in (headers := headers or _headers(path)):
            name = f" ({number})"
            found[name] = Entry(number, [], "", broken[number])
        elif name:
            entry = found[name]
            finding = entry.finding or broken.get(number)
            found[name] = entry._replace(sequence=entry.sequence + line.strip(), finding=finding)
        elif line.strip() or number in broken:
            raise UserError(f"{path}:{number}: not FASTA: the first line has no “>”")
    return found


def _headers(path: Path) -> set[int]:
    """Lines that begin like a header, also those that cannot be decoded."""
    with opened(path) as stream:
        return {n for n, raw in enumerate(stream.read().split(b"\n"), 1) if raw[:1] == b">"}
