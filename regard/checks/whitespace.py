"""Kinds of whitespace: one place, written with a blank here and with another character there.

French has U+202F before “!”, Japanese has U+3000: that is no fault where it is always so. Whether
it is, the neighbours say. With a the class of the character before (letter, digit, or the character
itself), b that of the one after, and p(a, b) the share of such places whose whitespace is not
U+0020, averaged over the parts, whitespace is mixed at (a, b) if MIXED < p < 1 − MIXED.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import mean

from regard.checks.findings import Finding
from regard.checks.sides import Part, Side

MIXED = 0.02
LINES = 0.01
"""A smaller share of lines is no warning."""
Place = tuple[str, str]
Counts = dict[Place, Counter[bool]]
"""How often whitespace is another than U+0020, and how often not, by place."""
BLANK = re.compile(r"(?=(\S\s\S))")
"""A character, whitespace, a character: each may be the first of the next, too."""


def check(parts: Sequence[Part]) -> Iterator[Finding]:
    """Lines of the one side of each part whose whitespace is another at mixed places."""
    odd = {part.name: _odd(part.sides[0]) for part in parts}
    if not any(odd.values()):
        return
    mixed = _mixed([_counts(part.sides[0]) for part in parts])
    for part in parts:
        [side] = part.sides
        hit = [
            n
            for n, line in enumerate(side.lines)
            if not odd[part.name].isdisjoint(line)
            and any(t[1] != " " and _place(t) in mixed for t in BLANK.findall(line))
        ]
        if len(hit) > LINES * len(part):
            names = ", ".join(f"U+{ord(c):04X}" for c in sorted(odd[part.name])[:5])
            what = f"{names} in the {side.title}, where other lines have U+0020"
            yield part.lines("text.whitespace", side, hit, what)


def _odd(side: Side) -> set[str]:
    alphabet = set[str]()
    for line in side.lines:
        alphabet.update(line)
    return {c for c in alphabet if c != " " and unicodedata.category(c) == "Zs"}


def _place(three: str) -> Place:
    return _class(three[0]), _class(three[2])


def _class(character: str) -> str:
    return "L" if character.isalpha() else "N" if character.isdigit() else character


def _counts(side: Side) -> Counts:
    seen: Counter[str] = Counter()
    for line in side.lines:
        seen.update(BLANK.findall(line))
    counts: Counts = {}
    for three, count in seen.items():
        counts.setdefault(_place(three), Counter())[three[1] != " "] += count
    return counts


def _mixed(counts: Sequence[Counts]) -> set[Place]:
    """The places where both kinds stand."""
    found = set()
    for place in {place for each in counts for place in each}:
        shares = [each[place][True] / each[place].total() for each in counts if place in each]
        if MIXED < mean(shares) < 1 - MIXED:
            found.add(place)
    return found
