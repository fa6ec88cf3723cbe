"""Reading lines of text, plain or gzip, without ever losing or shifting one in silence.

    opened   a checked file, as bytes                         (any format)
    blocks   bytes → lists of decoded lines, defects noted    (any text format)
    usable   rows and their defects → the rows that the policy lets through
    text     the reader of running text; those of tables are in tables.py

A reader of another text format takes `lines`, notes its own defects in the same dictionary and
hands its rows to `usable`.
"""

import difflib
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from regard.errors import UserError

BLOCK = 1 << 20
KEPT = 10
CONTROLS = bytes(c for c in range(32) if c not in b"\t\n")
FORBIDDEN = re.compile("[\0-\x08\n-\x1f\ud800-\udfff]")
"""What no field may hold: C0 controls except the tab, and halves of surrogate pairs."""
MAGIC = {
    b"\x1f\x8b": "is compressed by gzip: its name must end in .gz",
    b"PK\x03\x04": "is a zip archive: unpack it first",
    b"\xff\xfe": "is UTF-16: convert it to UTF-8 first",
    b"\xfe\xff": "is UTF-16: convert it to UTF-8 first",
}
LONGEST_MAGIC = max(map(len, MAGIC))

Row = tuple[int, tuple[str, ...]]
"""The number of a line, from 1, and its fields."""


@runtime_checkable
class Readable(Protocol):
    """Bytes to read: a file, or what is packed inside one."""

    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What to do with a defective line. Skipped lines are counted and reported."""

    broken: Literal["refuse", "skip", "keep"] = "refuse"
    """Bad UTF-8, control characters, bad JSON, a wrong number of columns, a missing key."""
    empty: Literal["refuse", "skip", "keep"] = "skip"
    """A line of which one side is empty or only whitespace."""


@dataclass(frozen=True)
class Finding:
    """A defect: where it is, what it is, and a glimpse of the line."""

    path: Path
    line: int
    what: str
    excerpt: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}: “{self.excerpt}”"


Broken = dict[int, Finding]
"""The broken lines seen so far, by number. In the stream they stand as empty ones."""


@dataclass
class Report:
    """What a reader found: every defect is counted, the first few of each kind are kept."""

    used: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    most: int = KEPT
    """How many of each kind are kept: more where each is a file of its own."""

    def add(self, finding: Finding) -> None:
        self.counts[finding.what] += 1
        kept = self.findings.setdefault(finding.what, [])
        if len(kept) < self.most:
            kept.append(finding)

    def include(self, other: "Report") -> None:
        """Also report what was found in another part; used are the lines of this one."""
        self.most = max(self.most, other.most)
        for what, found in other.findings.items():
            self.counts[what] += other.counts[what]
            self.findings[what] = [*self.findings.get(what, []), *found][: self.most]

    def summary(self) -> list[str]:
        """Lines for a person: how many were used, then each kind of defect with its places."""
        lines = [f"{self.used:,} lines used"]
        for what, count in self.counts.most_common():
            lines.append(
                f"{count:,} × {what}" + (f", the first {self.most}:" if count > self.most else ":")
            )
            lines += [f"  {f.path}:{f.line}: “{f.excerpt}”" for f in self.findings[what]]
        return lines


def check(path: Path) -> None:
    """Refuse a path that is not a file, with the nearest name that is there."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file in it")
    if path.is_file():
        return
    if path.exists():
        raise UserError(f"{path} is not a regular file")
    if not path.parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.parent}")
    names = [other.name for other in path.parent.iterdir()]
    near = difflib.get_close_matches(path.name, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UserError(f"{path}: no such file in {path.parent}{hint}")


def suffix(path: Path) -> str:
    """The suffix that tells the format: that before .gz, in lower case."""
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


@contextmanager
def opened(path: Path) -> Iterator[Readable]:
    """The file's bytes, unpacked if its name ends in .gz. What goes wrong names the path."""
    check(path)
    packed = path.suffix.lower() == ".gz"
    try:
        with gzip.open(path) if packed else path.open("rb") as stream:
            yield stream
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is not a whole gzip file: {error}") from None
    except BrokenPipeError:  # of what is written meanwhile
        raise
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


def count(path: Path) -> int:
    """The number of lines; a last one without its newline counts."""
    lines, last, first = 0, b"\n", True
    with opened(path) as stream:
        while block := stream.read(BLOCK):
            if first:
                check_text(path, block)
            first = False
            lines += block.count(b"\n")
            last = block[-1:]
    return lines + (last != b"\n")


def check_text(path: Path, start: bytes) -> None:
    """Refuse what is no plain text by how it begins."""
    for magic, what in MAGIC.items():
        if start.startswith(magic):
            raise UserError(f"{path} {what}")


def blocks(path: Path, broken: Broken) -> Iterator[list[str]]:
    """The lines in lists of about a megabyte. Only "\\n" and "\\r\\n" end a line.

    A broken line comes as an empty one, so that numbers stay right, and is noted in `broken`.
    """
    number = 1
    for raw in _whole_lines(path):
        if number == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
            check_text(path, raw)
        if b"\r" in raw:
            raw = raw.replace(b"\r\n", b"\n").removesuffix(b"\r")
        lines = _decoded(raw, path, number, broken)
        yield lines
        number += len(lines)


def lines(path: Path, broken: Broken) -> Iterator[str]:
    """The lines one by one; see `blocks`."""
    return chain.from_iterable(blocks(path, broken))


def sound(path: Path) -> Iterator[tuple[int, str]]:
    """The lines with their numbers; a broken one is refused."""
    broken: Broken = {}
    for number, line in enumerate(lines(path, broken), 1):
        if number in broken:
            raise UserError(str(broken[number]))
        yield number, line


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Blocks that end where a line ends, without that last newline."""
    with opened(path) as stream:
        rest: list[bytes] = []
        while block := stream.read(BLOCK):
            head, newline, tail = block.rpartition(b"\n")
            if newline:
                yield b"".join((*rest, head))
                rest = []
            rest.append(tail)
        if last := b"".join(rest):
            yield last


def _decoded(raw: bytes, path: Path, number: int, broken: Broken) -> list[str]:
    """The lines of a block: checked as a whole, line by line only where that fails."""
    with suppress(UnicodeDecodeError):
        text = raw.decode()
        if len(raw.translate(None, CONTROLS)) == len(raw):
            return text.split("\n")
    return [_line(each, path, n, broken) for n, each in enumerate(raw.split(b"\n"), number)]


def _line(raw: bytes, path: Path, number: int, broken: Broken) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        place = len(raw[: error.start].decode())
        shown = excerpt(raw.decode(errors="backslashreplace"), place)
        broken[number] = Finding(path, number, "not UTF-8", shown)
        return ""
    if defect := forbidden(text):
        broken[number] = Finding(path, number, *defect)
        return ""
    return text


def forbidden(text: str) -> tuple[str, str] | None:
    """What a field must not hold, and a glimpse of its place; None if the text is fine."""
    if not (match := FORBIDDEN.search(text)):
        return None
    kind = "half a surrogate pair" if match[0] >= "\ud800" else "control character"
    return f"{kind} U+{ord(match[0]):04X}", excerpt(text, match.start())


def excerpt(text: str, place: int = 0, width: int = 60) -> str:
    """At most `width` characters around a place, safe to print."""
    start = max(0, place - width // 3)
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in text[start : start + width]
    )
    return "…" * (start > 0) + shown + "…" * (start + width < len(text))


def usable(
    rows: Iterable[Row],
    broken: Broken,
    paths: Sequence[Path],
    columns: Sequence[str],
    policy: Policy,
    report: Report,
) -> Iterator[Row]:
    """The rows that the policy lets through; every other one is refused, or reported.

    A broken row has an empty field, so full rows need no look at `broken`. `paths` holds one
    file, or one for each column.
    """
    used, first = 0, None
    try:
        for number, fields in rows:
            if not all(map(str.strip, fields)):
                finding = broken.pop(number, None)
                rule: str = policy.broken if finding else policy.empty
                key = "on_bad_line" if finding else "on_empty"
                finding = finding or _empty(number, fields, paths, columns)
                if rule == "refuse":
                    raise UserError(f'{finding}. With data.{key} = "skip" such lines are left out')
                report.add(finding)
                first = first or finding
                if rule == "skip":
                    continue
            used += 1
            yield number, fields
    finally:
        report.used += used
    if not used:
        names = ", ".join(dict.fromkeys(map(str, paths)))
        raise UserError(f"{names}: no usable line" + (f". The first: {first}" if first else ""))


def _empty(
    number: int, fields: Sequence[str], paths: Sequence[Path], columns: Sequence[str]
) -> Finding:
    side = next(i for i, each in enumerate(fields) if not each.strip())
    path = paths[side] if len(paths) > 1 else paths[0]
    return Finding(path, number, f"empty {columns[side]}", excerpt(" | ".join(fields)))


def text(path: Path, policy: Policy, report: Report) -> Iterator[tuple[int, str]]:
    """The lines of one plain file of running text, with their numbers."""
    check(path)
    broken: Broken = {}
    rows = enumerate(zip(lines(path, broken), strict=True), 1)
    found = usable(rows, broken, [path], ["line"], policy, report)
    return ((number, line) for number, (line,) in found)
