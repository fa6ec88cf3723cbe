"""What stands in the data twice, in one part or in two; what is no example, or too long."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from regard.checks.findings import Finding, Severity, finding
from regard.checks.sides import Part, Side
from regard.data import files
from regard.data.readers import suffix

Measure = Callable[[Sequence[Any]], list[int]]
"""How many positions each of some values has, at least."""

LONG = 20
"""Characters of an example that two people would hardly write alike by chance."""
REPEATED = 0.05
LEAKED = (0.01, 0.1, 0.5)
"""Shares of a part: of long examples for a warning and for an error, of others for an error."""
FREQUENT = 5
"""An example that stands in a part so many times as often as the others is frequent."""
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
WORD = re.compile(r"[^\W\d]\w{0,29}")


def header(part: Part) -> Iterator[Finding]:
    """A first line all of whose cells are names of columns."""
    side = part.sides[0]
    path, line = side.where[0]
    cells = [each.lines[0] for each in part.sides]
    names = [cell.strip() for cell in cells if cell.strip()]
    named = len(names) > 1 and all(map(NAMES.fullmatch, names))
    if (named or _unlike(part)) and line == 1 and suffix(path) in TABLES:
        what = f"looks like the names of the columns of {part.key}, but is taken for an example"
        yield finding("data.header", side.place(0), what, ", ".join(names))


def _unlike(part: Part) -> bool:
    """Whether the first example is a label that no other has, and a word where texts are long."""
    text, label = part.sides[0], part.sides[-1]
    if len(part) < EVIDENCE or isinstance(label.values[0], str) or len(part.sides) != 2:
        return False
    if not isinstance(text.values[0], str) or not WORD.fullmatch(text.lines[0]):
        return False
    others = label.lines[1:]
    alone = WORD.fullmatch(label.lines[0]) is not None and label.lines[0] not in others
    repeat = len({*others}) < len(others) / 2
    return alone and repeat and median(map(len, text.lines)) > 2 * len(text.lines[0])


def keys(sides: Sequence[Side]) -> list[str]:
    """Each example without whitespace and case, its sides one after the other."""
    return [*map(key, zip(*(side.lines for side in sides), strict=True))]


def key(lines: Iterable[str]) -> str:
    """That of one example, of which each side is a line."""
    return "\n".join("".join(line.lower().split()) for line in lines)


def wanted(part: Part) -> set[str]:
    """What another part may have of this one: whole examples, and their inputs."""
    return {*keys(part.sides), *keys(part.sides[:1])}


def repeated(train: Part) -> Iterator[Finding]:
    """Long examples that are not there for the first time."""
    seen: dict[str, int] = {}
    again: list[int] = []
    known = keys(train.sides)
    for n, each in enumerate(known):
        if seen.setdefault(each, n) != n and len(each) >= LONG:
            again.append(n)
    if len(again) > max(5, REPEATED * len(train)):
        first, side = again[0], train.sides[0]
        what = (
            f"stands at {side.place(seen[known[first]])} already: repeated are "
            f"{train.counted(len(again), 'examples')}"
        )
        yield finding("data.repeated", side.place(first), what, side.lines[first])


def leaked(parts: Sequence[Part]) -> Iterator[Finding]:
    """Examples of a later part (test, validation) that an earlier one has."""
    known = {part.name: keys(part.sides) for part in parts}
    for n, part in enumerate(parts):
        for before in parts[:n]:
            here = Counter(known[before.name])
            own = known[part.name]
            hit = [i for i, each in enumerate(own) if each in here or each in before.beyond]
            yield from _leak(part, before, own, hit, here)
            if before.name == "train" and len(part.sides) > 1:
                yield from _inputs(part, before, set(hit))


def _leak(
    part: Part, before: Part, known: list[str], hit: list[int], here: Counter[str]
) -> Iterator[Finding]:
    """Trivial ones, which anybody would write again, are counted apart."""
    least = min(LONG, median(map(len, known)) / 2)
    often = FREQUENT * len(before) / max(1, len(here))
    telling = [n for n in hit if len(known[n]) >= least and here[known[n]] < often]
    lengthy = [n for n in telling if len(known[n]) >= LONG]
    few, many, most = (share * len(part) for share in LEAKED)
    learnt = part.name == "test" and before.name == "train"
    severity: Severity = "warning"
    if learnt and len(telling) > EVIDENCE and (len(lengthy) > many or len(telling) > most):
        severity = "error"
    if len(lengthy) > max(2, few) or len(hit) > most:
        side, trivial = part.sides[0], len(hit) - len(telling)
        first = (lengthy or telling or hit)[0]
        what = f"{part.counted(len(telling), 'examples')} are in {before.key}, too"
        what += f", besides {trivial:,} short or frequent ones" * bool(trivial)
        yield finding("data.leaked", side.place(first), what, side.lines[first], severity)


def _inputs(part: Part, train: Part, leaked: set[int]) -> Iterator[Finding]:
    """Inputs that training has with another output."""
    mine, here = keys(part.sides[:1]), {*keys(train.sides[:1])} | train.beyond
    hit = [n for n, own in enumerate(mine) if n not in leaked and len(own) >= LONG and own in here]
    if len(hit) > max(2, LEAKED[0] * len(part)):
        side = part.sides[0]
        what = f"the {side.title} is in data.train, too: {part.counted(len(hit))}"
        yield finding("data.known", side.place(hit[0]), what, side.lines[hit[0]])


def long(
    parts: Sequence[Part],
    measures: Mapping[str, Measure],
    data: files.Config,
    *,
    together: bool = False,
) -> Iterator[Finding]:
    """Examples of more tokens than data.max_length, by the measure of each side; or of all sides
    `together`."""
    rule: dict[str, Severity] = {"refuse": "error", "skip": "warning", "cut": "note"}
    for part in parts:
        hit: dict[int, Side] = {}
        for sides in [part.sides] if together else [(side,) for side in part.sides]:
            lines = [*zip(*(side.lines for side in sides), strict=True)]
            longer = [n for n, each in enumerate(lines) if 2 * len("".join(each)) > data.max_length]
            sizes = [measures[side.name]([side.values[n] for n in longer]) for side in sides]
            totals = map(sum, zip(*sizes, strict=True))
            hit |= {
                n: sides[-1]
                for n, size in zip(longer, totals, strict=True)
                if size > data.max_length
            }
        if hit and part.name != "test":
            what, severity = f"more than {data.max_length} tokens", rule[data.on_too_long]
            yield part.lines("data.long", hit[min(hit)], sorted(hit), what, severity=severity)
