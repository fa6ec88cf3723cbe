"""Where one of two sides runs ahead of the other, without a dictionary.

Long lines have long translations. With x_i, y_j the standardised logarithms of the lengths of line
i of the source and line j of the target, and r their correlation over pairs, the logarithm of how
much likelier (x, y) is for a pair than for two lines that have nothing to do with each other is

    l(x, y) = −½ log(1 − r²) − (r²x² − 2rxy + r²y²) / (2 (1 − r²))

Rare words that both sides have, such as names and numbers, count as well. If from line a to line b
target i + d fits source i better than target i does, then the sum over these lines of

    l(x_i, y_{i+d}) − l(x_i, y_i)

is large, and it is largest for the true a and b: the segment of greatest sum tells them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Words = dict[int, frozenset[str]]
NONE: frozenset[str] = frozenset()
BLOCK = 200
"""Lines over which a correlation is taken."""
REACH = 300
"""The farthest that a line may be from its partner."""
NEAR = 3
"""Offsets that are always tried."""
CAP = 4.0
"""The most that one line can say for or against, in nats: a single odd pair proves nothing."""
SURE = 60.0
"""Nats that are enough for a verdict: far more than chance gives in millions of lines."""
LEAST = 20
"""Fewer lines than this are not judged."""
RARE = 0.02
"""A word of a larger share of lines does not tell lines apart."""
WEIGHT = 2.0
"""Nats for a rare word that both sides have."""
VARIED = 0.2
"""Lengths whose deviations have a smaller product than this, of 1 for all lines, tell nothing."""
RELATED = 0.3
"""A lower correlation of lengths is none to build on."""


class Segment(NamedTuple):
    """Lines from `start` to before `end`, and how much speaks for them."""

    start: int
    end: int
    gain: float


class Shift(NamedTuple):
    """From line `start` to before `end` (from 0), target i + offset belongs to source i."""

    start: int
    end: int
    offset: int


class Lengths:
    """The lengths of two sides, and how they go together."""

    def __init__(self, source: Sequence[str], target: Sequence[str]) -> None:
        self.source, self.target = source, target
        self.x, self.y = (_standard(side) for side in (source, target))
        self.offsets, correlations = _blocks(self.x, self.y)
        self.r = min(0.95, max(0.0, float(np.median(correlations))))
        """At the best offset of each block: a shift does not lower it."""

    @property
    def aligned(self) -> float:
        """The correlation of lengths, line by line."""
        return float(np.mean(self.x * self.y))

    def shifts(self) -> list[Shift]:
        """Where one side runs ahead of the other, in order."""
        near = {d for d in range(-NEAR, NEAR + 1) if d}
        common = Counter(d for d in self.offsets if d)
        tried = near | {d for d, count in common.most_common(8) if count > 1}
        if self.r < RELATED:
            return []
        words = _rare(self.source, self.target)
        best: list[tuple[Segment, int]] = []
        for offset in sorted(tried, key=abs):
            segment = largest(self._advantage(offset, *words))
            if segment.gain > SURE and self._moved(segment, offset):
                best.append((segment, offset))
        return _apart(best)

    def unrelated(self) -> Segment | None:
        """The lines whose lengths fit each other least, if that cannot be chance."""
        if self.r < RELATED:
            return None
        segment = largest(np.clip(-self._likelihood(self.y), -CAP, CAP / 2))
        sure = segment.gain > SURE and self._correlation(segment, 0) < self.r / 3
        return segment if sure and segment.end - segment.start >= 2 * LEAST else None

    def _moved(self, segment: Segment, offset: int) -> bool:
        """Whether the segment is long enough, and its lengths go with those at the offset alone."""
        least = LEAST if abs(offset) <= NEAR else BLOCK
        here, there = (self._correlation(segment, d) for d in (0, offset))
        return segment.end - segment.start >= least and here < self.r / 2 < there

    def _correlation(self, segment: Segment, offset: int) -> float:
        """Of x_i and y_{i+d} inside a segment, by its own means; NaN where they hardly vary."""
        first, last = max(segment.start, -offset), min(segment.end, len(self.y) - offset)
        x, y = self.x[first:last], self.y[first + offset : last + offset]
        x, y = x - x.mean(), y - y.mean()
        spread = float(x.std() * y.std())
        return float((x * y).mean()) / spread if spread > VARIED else np.nan

    def _likelihood(self, y: Array) -> Array:
        """l(x_i, y_i)."""
        x, r = self.x, self.r
        square = (r * r * x * x - 2 * r * x * y + r * r * y * y) / (2 * (1 - r * r))
        found: Array = -0.5 * np.log(1 - r * r) - square
        return found

    def _advantage(self, offset: int, source: Words, target: Words) -> Array:
        """l(x_i, y_{i+d}) − l(x_i, y_i), and the same for words; 0 where there is no y_{i+d}."""
        count = len(self.x)
        first, last = max(0, -offset), min(count, count - offset)
        if first >= last:
            return np.zeros(count)
        other = self.y.copy()
        other[first:last] = self.y[first + offset : last + offset]
        gain = self._likelihood(other) - self._likelihood(self.y)
        for i, mine in source.items():
            theirs = target.get(i + offset, NONE) if first <= i < last else NONE
            gain[i] += WEIGHT * (len(mine & theirs) - len(mine & target.get(i, NONE)))
        return np.clip(gain, -CAP, CAP)


def _rare(source: Sequence[str], target: Sequence[str]) -> list[Words]:
    """The rare words of each line that the other side has somewhere; lines without any left out."""
    sides = [[frozenset(line.split()) for line in side] for side in (source, target)]
    counts = [Counter(word for words in side for word in words) for side in sides]
    most = max(2, RARE * len(source))
    both = {w for w in counts[0].keys() & counts[1].keys() if max(c[w] for c in counts) <= most}
    kept = [{n: words & both for n, words in enumerate(side)} for side in sides]
    return [{n: words for n, words in side.items() if words} for side in kept]


def largest(gains: Array) -> Segment:
    """The segment of greatest sum: the highest rise of the running sum."""
    sums = np.concatenate([[0.0], np.cumsum(gains)])
    rise = sums - np.minimum.accumulate(sums)
    end = int(rise.argmax())
    return Segment(int(sums[: end + 1].argmin()), end, float(rise[end]))


def _standard(side: Sequence[str]) -> Array:
    """log(1 + length), standardised; the few that are very far out are brought nearer."""
    logs = np.log1p(np.array([len(line) for line in side], float))
    centred = logs - np.median(logs)
    spread = float(centred.std())
    return np.clip(centred / spread, -3, 3) if spread > 1e-9 else np.zeros(len(logs))


def _blocks(x: Array, y: Array) -> tuple[list[int], list[float]]:
    """For each block of lines, the offset under which its lengths fit best, and how well."""
    offsets, correlations = [], []
    for start in range(0, max(1, len(x) - BLOCK + 1), BLOCK):
        mine = x[start : start + BLOCK]
        low = max(0, start - REACH)
        theirs = y[low : start + len(mine) + REACH]
        mean = np.correlate(theirs, mine, "valid") / len(mine)
        best = int(mean.argmax())
        offsets.append(low + best - start)
        correlations.append(float(mean[best]))
    return offsets, correlations


def _apart(found: list[tuple[Segment, int]]) -> list[Shift]:
    """The best of the segments that overlap, in the order of the lines."""
    chosen: list[tuple[Segment, int]] = []
    for segment, offset in sorted(found, key=lambda each: -each[0].gain):
        if all(segment.end <= s.start or segment.start >= s.end for s, _ in chosen):
            chosen.append((segment, offset))
    return sorted(Shift(s.start, s.end, offset) for s, offset in chosen)
