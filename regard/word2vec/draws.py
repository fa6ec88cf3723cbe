"""What is drawn: which words stay, which stand for those that were not seen, and by which state.

Probabilities are parts of 2³², which a draw of 32 bits is compared with.
"""

import numpy as np
from numpy.typing import NDArray

WHOLE = 2.0**32
POWER = 0.75
"""Of the counts that negatives are drawn by (Mikolov et al. 2013b, section 2.2)."""
MASK = (1 << 64) - 1


def keep(counts: NDArray[np.int64], threshold: float) -> NDArray[np.float64]:
    """(V,) The chance of each word to stay: √(t/f) + t/f, at most 1, for its frequency f = count /
    Σ counts and the threshold t; 1 for all where t = 0.

    That is what the program word2vec does; the paper (section 2.3) has √(t/f).
    """
    if not threshold:
        return np.ones(len(counts))
    part = threshold * counts.sum() / counts
    found: NDArray[np.float64] = np.minimum(1.0, np.sqrt(part) + part)
    return found


def parts(chances: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Chances as parts of 2³²: 1 is all of them."""
    return np.rint(chances * WHOLE).astype(np.uint64)


def alias(weights: NDArray[np.float64]) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
    """(threshold, other) of Walker's alias table (1977): n columns, drawn alike, of two words each.

    With q = n · weights / Σ weights, column i gives i with probability threshold[i] / 2³² and
    other[i] otherwise: what a word has below 1 is filled up by one that has more.
    """
    size = len(weights)
    q = weights * (size / weights.sum())
    other = np.arange(size, dtype=np.int32)
    small, large = [*np.flatnonzero(q < 1)], [*np.flatnonzero(q >= 1)]
    while small and large:
        low, high = small.pop(), large[-1]
        other[low] = high
        q[high] -= 1 - q[low]
        if q[high] < 1:
            small.append(large.pop())
    for rest in (*small, *large):  # 1 but for rounding
        q[rest], other[rest] = 1.0, rest
    return np.minimum(np.rint(q * WHOLE), WHOLE - 1).astype(np.uint32), other


def state(seed: int, epoch: int, piece: int) -> np.uint64:
    """Where the generator of a piece of text begins: a function of these three (splitmix64)."""
    mixed = 0
    for number in (seed, epoch, piece):
        mixed = (mixed ^ number) + 0x9E3779B97F4A7C15 & MASK
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & MASK
        mixed ^= mixed >> 31
    return np.uint64(mixed or 1)  # xorshift never leaves 0
