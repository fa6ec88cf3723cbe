"""Lines that do not belong together, found by what both sides have: names and numbers.

Tokens that both sides have somewhere stand, where a pair is one, on both of its lines. Let a line
of the source with such tokens be a hit if the target has one of them. With p the share of hits
where lines belong together and q that of lines paired at random, a line speaks for the second by

    log q/p of a hit,    log (1 − q)/(1 − p) of a miss

and the segment of greatest sum is where a side was shuffled, if its target has the tokens of its
source all the same, on other lines: a text in which the sides have less in common is no fault.
"""

import re
from collections import Counter
from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from regard.checks.offsets import BLOCK, LEAST, SURE, Segment, largest

TOKEN = re.compile(r"\d+|[^\W\d_]+")
OFTEN = 0.1
"""A token of a larger share of lines does not tell them apart."""
KNOWN = 30
"""Lines with tokens of both sides that are needed."""
FAR = (37, 101, 211)
"""Offsets at which lines are paired at random."""
CLEAR = 0.3
"""The least difference of p and q."""
CAP = 4.0
"""The most that one line can say, in nats."""
Tokens = dict[int, frozenset[str]]


class Common:
    """What both sides have in common, line by line."""

    def __init__(self, source: Sequence[str], target: Sequence[str]) -> None:
        self.count = len(source)
        self.source, self.target = _shared(source, target)
        self.hits = self._hits(0)
        """1 for a hit, 0 for a miss, NaN for a line that has no token of both sides."""

    def _hits(self, offset: int) -> NDArray[np.float64]:
        found = np.full(self.count, np.nan)
        for n, tokens in self.source.items():
            other = (n + offset) % self.count
            found[n] = not tokens.isdisjoint(self.target.get(other, frozenset()))
        return found

    @property
    def known(self) -> NDArray[np.int64]:
        """Lines that have a token of both sides."""
        return np.flatnonzero(~np.isnan(self.hits))

    @property
    def by_chance(self) -> float:
        """q."""
        return float(np.mean([np.nanmean(self._hits(far)) for far in FAR]))

    @property
    def belongs(self) -> float:
        """How much more often lines are hits than by chance; 0 where hardly any could be."""
        if len(self.known) < KNOWN:
            return 0.0
        return float(np.nanmean(self.hits)) - self.by_chance

    def nowhere(self) -> bool:
        """Whether no line belongs to its own, though both sides have the same tokens."""
        everything = Segment(0, self.count, 0.0)
        enough = len(self.known) >= KNOWN and self._elsewhere(everything) > 0.5
        return enough and self.belongs < CLEAR / 3

    def shuffled(self) -> Segment | None:
        """The lines that do not belong together, if that cannot be chance."""
        known = self.known
        if len(known) < KNOWN or self.count < 2 * BLOCK:
            return None
        q = self.by_chance
        blocks = np.array_split(self.hits[known], max(4, len(known) // BLOCK))
        p = float(np.quantile([block.mean() for block in blocks], 0.75))
        p, q = min(p, 0.99), max(q, 0.01)
        if p - q < CLEAR:
            return None
        gains = np.where(self.hits == 1, log(q / p), log((1 - q) / (1 - p)))
        gains = np.where(np.isnan(self.hits), 0.0, np.clip(gains, -CAP, CAP))
        segment = _without_edges(largest(gains), self.hits)
        inside = self.hits[segment.start : segment.end]
        long = segment.end - segment.start >= 2 * LEAST and segment.gain > SURE
        if not long or np.nanmean(inside) > q + (p - q) / 3:
            return None
        return segment if self._elsewhere(segment) > (p + q) / 2 else None

    def _elsewhere(self, segment: Segment) -> float:
        """The share of the source's tokens that the target of these lines has, on any of them."""
        counts = [
            Counter(
                token
                for n in range(segment.start, segment.end)
                for token in side.get(n, frozenset[str]())
            )
            for side in (self.source, self.target)
        ]
        return (counts[0] & counts[1]).total() / max(1, counts[0].total())


def _without_edges(segment: Segment, hits: NDArray[np.float64]) -> Segment:
    """From the first miss to the last: lines that say nothing do not count."""
    inside = np.flatnonzero(hits[segment.start : segment.end] == 0)
    if not len(inside):
        return segment
    start = segment.start + int(inside[0])
    return Segment(start, segment.start + int(inside[-1]) + 1, segment.gain)


def _shared(source: Sequence[str], target: Sequence[str]) -> list[Tokens]:
    """The tokens of each line that the other side has somewhere, but for frequent ones; numbers
    without the zeros before them."""
    sides = [
        [frozenset(each.lstrip("0") or "0" for each in TOKEN.findall(line)) for line in side]
        for side in (source, target)
    ]
    counts = [Counter(token for tokens in side for token in tokens) for side in sides]
    most = max(2, OFTEN * len(source))
    both = {t for t in counts[0].keys() & counts[1].keys() if max(c[t] for c in counts) <= most}
    kept = [{n: tokens & both for n, tokens in enumerate(side)} for side in sides]
    return [{n: tokens for n, tokens in side.items() if tokens} for side in kept]
