"""What stands in the data twice, in one part or in two; what is no example, or too long."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from regard.checks.findings import Finding, Severity, counted, finding
from regard.checks.sides import Part, Side
from regard.data import files
from regard.data.readers import suffix

Measure = Callable[[Sequence[Any]], list[int]]
"""How many positions each of some values has, at least."""

LONG = 20
"""Characters of an example that two people would hardly write alike by chance."""
REPEATED = 0.05
LEAKED = (0.01, 0.1, 0.5)
"""Shares of a part: of long examples for a warning, for an error, of all examples for an error."""
EVIDENCE = 20
"""Fewer examples than this are no error: a tiny part may be meant to be known by heart."""


TABLES = (".tsv", ".csv")
NAMES = re.compile(
    "source|target|src|tgt|trg|input|output|text|sentence|review|question|answer|word|"
    "labels?|class|category|sentiment|tags?|"
    "english|german|french|spanish|italian|dutch|portuguese|russian|chinese|japanese|"
    "en|de|fr|es|it|nl|pt|ru|zh|ja|eng|deu|ger|fra|fre|spa|ita|nld|por|rus|zho|jpn",
    re.IGNORECASE,
)
"""How people call columns."""


def header(part: Part) -> Iterator[Finding]:
    """A first line all of whose cells are names of columns."""
    side = part.sides[0]
    path, line = side.where[0]
    cells = [each.lines[0] for each in part.sides]
    names = [cell.strip() for cell in cells if cell.strip()]
    named = len(names) > 1 and all(map(NAMES.fullmatch, names))
    if named and line == 1 and suffix(path) in TABLES:
        what = f"looks like the names of the columns of {part.key}, but is taken for an example"
        yield finding("data.header", side.place(0), what, ", ".join(names))


def keys(sides: Sequence[Side]) -> list[str]:
    """Each example without blanks and case, its sides one after the other."""
    columns = [[line.lower().replace(" ", "") for line in side.lines] for side in sides]
    return ["\n".join(row) for row in zip(*columns, strict=True)]


def repeated(train: Part) -> Iterator[Finding]:
    """Long examples that are not there for the first time."""
    seen: dict[str, int] = {}
    again: list[int] = []
    known = keys(train.sides)
    for n, key in enumerate(known):
        if seen.setdefault(key, n) != n and len(key) >= LONG:
            again.append(n)
    total = sum(len(key) >= LONG for key in known)
    if len(again) > max(5, REPEATED * total):
        first = again[0]
        what = (
            f"stands at {train.sides[0].place(seen[known[first]])} already: repeated are "
            f"{counted(len(again), total, 'examples')} of data.train"
        )
        side = train.sides[0]
        yield finding("data.repeated", side.place(first), what, side.lines[first])


def leaked(parts: Sequence[Part]) -> Iterator[Finding]:
    """Examples of a later part (test, validation) that an earlier one has."""
    known = {part.name: keys(part.sides) for part in parts}
    for n, part in enumerate(parts):
        for before in parts[:n]:
            here = set(known[before.name])
            hit = [i for i, key in enumerate(known[part.name]) if key in here]
            yield from _leak(part, before, known[part.name], hit)
            if before.name == "train" and len(part.sides) > 1:
                yield from _inputs(part, before, set(hit))


def _leak(part: Part, before: Part, known: list[str], hit: list[int]) -> Iterator[Finding]:
    long = sum(len(key) >= LONG for key in known)
    lengthy = [n for n in hit if len(known[n]) >= LONG]
    share = len(lengthy) / max(1, long)
    severity: Severity = "warning"
    many = share > LEAKED[1] or len(hit) > LEAKED[2] * len(part)
    learnt = part.name == "test" and before.name == "train"
    if learnt and many and len(hit) > EVIDENCE:
        severity = "error"
    if severity == "error" or (share > LEAKED[0] and len(lengthy) > 2) or len(hit) > len(part) / 2:
        side = part.sides[0]
        first = (lengthy or hit)[0]
        what = f"{counted(len(hit), len(part), 'examples')} of {part.key} are in {before.key}, too"
        yield finding("data.leaked", side.place(first), what, side.lines[first], severity)


def _inputs(part: Part, train: Part, leaked: set[int]) -> Iterator[Finding]:
    """Inputs that training has with another output."""
    mine, here = keys(part.sides[:1]), set(keys(train.sides[:1]))
    hit = [n for n, key in enumerate(mine) if n not in leaked and len(key) >= LONG and key in here]
    total = sum(len(key) >= LONG for key in mine)
    if len(hit) > max(2, LEAKED[0] * total):
        side = part.sides[0]
        what = f"the {side.name} is in data.train, too: {counted(len(hit), total)} of {part.key}"
        yield finding("data.known", side.place(hit[0]), what, side.lines[hit[0]])


def long(
    parts: Sequence[Part], measures: Mapping[str, Measure], data: files.Config
) -> Iterator[Finding]:
    """Examples of more tokens than data.max_length, by the measure of each side."""
    rule: dict[str, Severity] = {"refuse": "error", "skip": "warning", "cut": "note"}
    for part in parts:
        hit: dict[int, Side] = {}
        for side in part.sides:
            longer = [n for n, line in enumerate(side.lines) if 2 * len(line) > data.max_length]
            sizes = measures[side.name]([side.values[n] for n in longer])
            hit |= {
                n: side for n, size in zip(longer, sizes, strict=True) if size > data.max_length
            }
        if hit and part.name != "test":
            what, severity = f"more than {data.max_length} tokens", rule[data.on_too_long]
            yield part.lines("data.long", hit[min(hit)], sorted(hit), what, severity=severity)
