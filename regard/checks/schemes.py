"""Tags that mark spans: whether each span begins, goes on and ends as its scheme wants.

    IOB2           a span is B-X I-X … I-X
    IOB1           I-X … I-X; B-X only where a span of the same type stands just before
    IOBES, BILOU   B-X I-X … E-X, or S-X alone (L and U instead of E and S)

Between spans is O. Which scheme it is, the tags say: E, S, L or U are of IOBES; a B after O, or
after another type, is of IOB2.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from regard.checks.findings import Finding, counted, finding
from regard.checks.sides import Part
from regard.data.labels import UNKNOWN

MARKS = frozenset("BIESLU")
ENDS = {"E", "L"}
ALONE = {"S", "U"}
Mark = tuple[str, str]
"""The letter of a tag, and its type."""
OUTSIDE: Mark = ("O", "")


def check(parts: Sequence[Part], counts: Counter[str]) -> Iterator[Finding]:
    """Tags that cannot follow each other, in each part by the scheme of the first."""
    if not marks_spans(counts):
        return
    rows = [[list(map(mark, row)) for row in part.sides[-1].values] for part in parts]
    scheme = scheme_of(rows[0])
    for part, marked in zip(parts, rows, strict=True):
        hit = [(n, word) for n, row in enumerate(marked) for word in sorted({*broken(row, scheme)})]
        if hit:
            yield _finding(part, marked, hit, scheme)


def marks_spans(counts: Counter[str]) -> bool:
    """Whether nearly all tags but O are a letter and a type, and there is an O."""
    typed = sum(count for tag, count in counts.items() if mark(tag)[1])
    other = sum(counts.values()) - typed - counts["O"] - counts[UNKNOWN]
    return typed > 0 and counts["O"] > 0 and other <= 0.01 * typed


def mark(tag: str) -> Mark:
    """(B, PER) of B-PER or B_PER."""
    return (tag[0], tag[2:]) if tag[1:2] in ("-", "_") and tag[0] in MARKS else (tag, "")


def scheme_of(rows: Sequence[Sequence[Mark]]) -> str:
    letters = {letter for row in rows for letter, kind in row if kind}
    if letters & (ENDS | ALONE):
        return "IOBES"
    begins = (
        now[0] == "B" and now[1] != before[1]
        for row in rows
        for before, now in pairwise([OUTSIDE, *row])
    )
    return "IOB2" if any(begins) else "IOB1"


def broken(row: Sequence[Mark], scheme: str) -> Iterator[int]:
    """The places of tags that cannot stand after the tag before, or before the one after."""
    if scheme == "IOB1":  # there, an I may begin a span anywhere
        return
    for n, (before, now) in enumerate(pairwise([OUTSIDE, *row, OUTSIDE])):
        if UNKNOWN in (before[0], now[0]):
            continue
        inside = now[0] in {"I"} | ENDS
        open_ = before[0] in ("B", "I") and bool(before[1])
        if inside and not (open_ and before[1] == now[1]):
            yield n
        elif scheme == "IOBES" and open_ and not inside:
            yield n - 1  # a span that nothing ends


def _finding(
    part: Part, rows: Sequence[Sequence[Mark]], hit: list[tuple[int, int]], scheme: str
) -> Finding:
    n, word = hit[0]
    tags = part.sides[-1].values[n]
    before = tags[word - 1] if word else "the start"
    what = f"{tags[word]} after {before}, which {scheme} does not allow"
    if scheme == "IOBES" and rows[n][word][0] not in {"I"} | ENDS:
        what = f"{tags[word]} begins a span that nothing ends, which {scheme} does not allow"
    total = sum(bool(kind) for row in rows for _, kind in row)
    which = "" if part.whole else "the first "
    share = counted(len(hit), total, "tags of spans", which)
    shown = " ".join(tags[max(0, word - 2) : word + 3])
    return finding(
        "labels.spans", part.word_place(n, word), f"{what}: {share} of {part.key}", shown
    )
