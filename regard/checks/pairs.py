"""Sides that belong together: aligned, in the right order, each in its own language."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import log

import numpy as np

from regard.checks.common import CLEAR, Common
from regard.checks.findings import Finding, Severity, counted, finding
from regard.checks.offsets import RELATED, Lengths, Segment
from regard.checks.sides import Part

ENOUGH = 100
"""Pairs that statistics need."""
SAMPLE = 500
"""Lines of a side that are classified, or learnt from."""
SEPARATE = 0.9
"""Two languages are distinguished if this share of lines is taken for its own side's."""
SWAPPED = 0.7
MIXED = 0.02
COPIES = 0.05
RATIO = 0.005
"""Smaller shares than these are no warning."""
FAR = 6.0
"""Deviations of the logarithm of the ratio of lengths that make a pair odd."""


def check(parts: Sequence[Part]) -> Iterator[Finding]:
    """All that the sides of parallel parts tell about each other."""
    lengths = {
        p.name: Lengths(*(side.lines for side in p.sides)) for p in parts if len(p) >= ENOUGH
    }
    reference = max(
        (each.aligned for name, each in lengths.items() if name != "train"), default=0.0
    )
    common: dict[str, Common] = {
        p.name: Common(*(side.lines for side in p.sides)) for p in parts if len(p) >= ENOUGH
    }
    for part in parts:
        yield from _copies(part)
        if part.name in lengths:
            wrong = list(_aligned(part, lengths[part.name], reference))
            wrong = wrong or list(_named(part, common))
            yield from wrong or _ratio(part)
    yield from _order(parts)


# Alignment


def _aligned(part: Part, lengths: Lengths, reference: float) -> Iterator[Finding]:
    """Lines that are shifted against each other, or have nothing to do with each other."""
    source, target = part.sides
    shifts = lengths.shifts()
    for start, end, offset in shifts[:5]:
        ahead, behind = (source, target) if offset > 0 else (target, source)
        what = (
            f"from about here to line {source.where[end - 1][1]:,} "
            f"({part.counted(end - start)}), line n of the {ahead.name} belongs "
            f"to line n + {abs(offset)} of the {behind.name}"
        )
        yield finding("pairs.shifted", ahead.place(start), what, _shown(part, start))
    if shifts:
        return
    if lengths.r < RELATED:
        if reference > 2 * max(lengths.aligned, 0.1):
            what = (
                f"the lengths of source and target correlate by {lengths.aligned:.2f}, in other "
                f"parts by {reference:.2f}: the lines of {part.key} do not belong together"
            )
            yield finding("pairs.unrelated", part.key, what, _shown(part, 0))
    elif segment := lengths.unrelated():
        yield _unrelated(part, segment, "the lengths of source and target")


def _named(part: Part, common: Mapping[str, Common]) -> Iterator[Finding]:
    """The same by names and numbers that both sides have."""
    which = "the names and numbers of source and target"
    if segment := common[part.name].shuffled():
        yield _unrelated(part, segment, which)
    elif common[part.name].nowhere() and any(each.belongs > CLEAR for each in common.values()):
        what = f"{which} stand on other lines, but not in other parts: the lines of {part.key} do"
        yield finding("pairs.unrelated", part.key, f"{what} not belong together", _shown(part, 0))


def _unrelated(part: Part, segment: Segment, which: str) -> Finding:
    start, end, _ = segment
    source, count = part.sides[0], segment.end - segment.start
    what = (
        f"{which} have nothing to do with each other from about here to line "
        f"{source.where[end - 1][1]:,} ({part.counted(count)}): a side was shuffled or sorted"
    )
    severity: Severity = "error" if 2 * count > len(part) else "warning"
    return finding("pairs.unrelated", source.place(start), what, _shown(part, start), severity)


def _ratio(part: Part) -> Iterator[Finding]:
    """log(|target| / |source|) far from its median, in units of the usual deviation."""
    sizes = [np.array([len(line) for line in side.lines], float) for side in part.sides]
    logs = np.log((sizes[1] + 1) / (sizes[0] + 1))
    centre = float(np.median(logs))
    spread = max(0.1, 1.4826 * float(np.median(np.abs(logs - centre))))
    odd = np.flatnonzero((np.abs(logs - centre) > FAR * spread) & (np.maximum(*sizes) > 20))
    if len(odd) > max(2, RATIO * len(part)):
        what, first = f"odd ratio of lengths: {part.counted(len(odd), 'pairs')}", int(odd[0])
        yield finding("pairs.ratio", part.sides[0].place(first), what, _shown(part, first))


def _copies(part: Part) -> Iterator[Finding]:
    source, target = part.sides
    same = [n for n, line in enumerate(source.lines) if line == target.lines[n]]
    if len(same) > max(2, COPIES * len(part)):
        what = f"the target is the source: {part.counted(len(same), 'pairs')}"
        yield finding("pairs.copies", target.place(same[0]), what, target.lines[same[0]])


def _shown(part: Part, n: int) -> str:
    return " | ".join(side.lines[n][:28] for side in part.sides)


# Languages


class Languages:
    """Two languages by their pairs of letters: log p(line | first) − log p(line | second) > 0."""

    def __init__(self, first: Sequence[str], second: Sequence[str]) -> None:
        a, b = (letters(side) for side in (first, second))
        every = a.keys() | b.keys()
        totals = [sum(c.values()) + len(every) for c in (a, b)]
        self._odds = {p: log((a[p] + 1) / totals[0]) - log((b[p] + 1) / totals[1]) for p in every}

    def first(self, line: str) -> bool:
        """Whether a line is rather in the first language."""
        odds = self._odds
        return sum(odds.get(pair, 0.0) for pair in pairwise(f" {line.lower()} ")) > 0


def letters(lines: Sequence[str]) -> Counter[tuple[str, str]]:
    """How often each pair of neighbouring characters occurs, without case."""
    return Counter(pairwise(" ".join(lines).lower()))


def _order(parts: Sequence[Part]) -> Iterator[Finding]:
    """Parts whose sides stand in the other order, and pairs that do inside of a part."""
    large = [part for part in parts if len(part) >= ENOUGH]
    for reference in large:
        # Of each side every other line is learnt from, and the rest is judged.
        learnt = [side.sample(2 * SAMPLE) for side in reference.sides]
        languages = Languages(*(lines[::2] for lines in learnt))
        own = [languages.first(line) for line in learnt[0][1::2]]
        own += [not languages.first(line) for line in learnt[1][1::2]]
        if sum(own) >= SEPARATE * len(own):
            break
    else:
        return
    backwards = []
    for part in large:
        said = [[languages.first(line) for line in side.sample(SAMPLE)] for side in part.sides]
        pairs = list(zip(*said, strict=True))
        swapped = sum(not source and target for source, target in pairs)
        if swapped > SWAPPED * len(pairs):
            backwards.append(part)
        else:
            yield from _mixed(part, languages, pairs)
    # The fewer are taken to be wrong, of two the smaller.
    others = [part for part in large if part not in backwards]
    sizes = [(len(these), sum(map(len, these))) for these in (backwards, others)]
    if sizes[0] > sizes[1]:
        backwards = others
    for part in backwards:
        rest = " and ".join(each.key for each in large if each not in backwards)
        what = f"{part.key} has the language of the target first, unlike {rest}"
        yield finding("pairs.swapped", part.sides[0].place(0), what, _shown(part, 0))


def _mixed(
    part: Part, languages: Languages, pairs: Sequence[tuple[bool, bool]]
) -> Iterator[Finding]:
    """Pairs with both sides in one language, or the wrong way round."""
    step = -(-len(part) // SAMPLE) or 1
    source, target = part.sides
    odd = [
        n * step
        for n, (left, right) in enumerate(pairs)
        if (left and right) or (right and not left)
        if min(len(source.lines[n * step]), len(target.lines[n * step])) >= 20
    ]
    if len(odd) > max(5, MIXED * len(pairs)):
        first = odd[0]
        what = (
            f"a side is in the other's language: {counted(len(odd), len(pairs), 'pairs')} that "
            f"were tried, of {part.total or len(part):,} of {part.key}"
        )
        yield finding("pairs.mixed", target.place(first), what, _shown(part, first))
