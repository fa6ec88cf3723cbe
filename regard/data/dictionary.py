"""A dictionary that pairs of sentences teach, without any network: IBM model 1.

Brown et al. 1993, section 4.1: each token y_t of a target comes from one token x_s of its source,
or from x₀, which stands for none, all places being equally likely,

    p(y | x) = Π_t 1/(S + 1) Σ_s t(y_t | x_s),

and t is found by expectation and maximisation. It knows nothing of order and nothing of our
models: a second opinion on what is whose translation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Symbols = Sequence[int] | NDArray[np.integer]
MOST = 12_000_000
"""Pairs of tokens that are learnt from at most; it takes some bytes for each."""


@dataclass(frozen=True)
class Dictionary:
    """t(y | x) of the pairs (x, y) that have been seen together; x = 0 is none."""

    pairs: NDArray[np.int64]
    """x · size + y, sorted."""
    chances: NDArray[np.float64]
    size: int

    @classmethod
    def learn(
        cls, sources: Sequence[Symbols], targets: Sequence[Symbols], rounds: int = 5
    ) -> "Dictionary":
        """From sentences in numbers, so many rounds of expectation and maximisation."""
        size = 1 + max(int(max(row)) for row in (*sources, *targets) if len(row))
        found, places, seen = [], 0, 0
        for source, target in zip(sources, targets, strict=True):
            keys = _keys(source, target, size)  # (T, S + 1)
            slots = np.repeat(np.arange(places, places + len(target)), keys.shape[1])
            found.append((keys.ravel(), slots))
            places, seen = places + len(target), seen + keys.size
            if seen > MOST:
                break
        every = np.concatenate([keys for keys, _ in found])
        slot = np.concatenate([slots for _, slots in found])
        pairs, which = np.unique(every, return_inverse=True)
        words = pairs // size
        chances = np.ones(len(pairs))
        for _ in range(rounds):
            weight = chances[which]
            expected = np.bincount(which, weight / np.bincount(slot, weight)[slot], len(pairs))
            chances = expected / np.bincount(words, expected)[words]
        return cls(pairs, chances, size)

    def entries(self, most: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Each token of a source, and what it is translated by, the likeliest first."""
        words, targets = self.pairs // self.size, self.pairs % self.size
        order = np.lexsort((-self.chances, words))
        keys, starts = np.unique(words, return_index=True)  # the order leaves words where they are
        for x, (start, end) in zip(keys.tolist(), pairwise([*starts, len(words)]), strict=True):
            if x:
                yield x - 1, targets[order[start:end][:most]]

    def links(
        self, source: Symbols, target: Symbols
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """For each token of the target, which of the source it comes from most probably, −1 for
        none, and how probably."""
        keys = _keys(source, target, self.size)
        place = np.searchsorted(self.pairs, keys).clip(max=len(self.pairs) - 1)
        chances = np.where(self.pairs[place] == keys, self.chances[place], 1e-12)
        best = chances.argmax(1)
        share = chances[np.arange(len(best)), best] / chances.sum(1)
        return best - 1, share


def _keys(source: Symbols, target: Symbols, size: int) -> NDArray[Any]:
    """A number for each pair (x_s, y_t): (T, S + 1), the first column for x₀."""
    x = np.concatenate([[0], np.asarray(source, np.int64) + 1])
    return x * size + np.asarray(target, np.int64)[:, None]
