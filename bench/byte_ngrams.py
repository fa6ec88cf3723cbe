"""What counting bytes can do: modified Kneser–Ney models of all orders, for texts of any size.

    p_n(y | h) = (c(h y) − D(c(h y))) / c(h) + γ(h) p_{n−1}(y | h′)
    γ(h) = (D₁ N₁(h) + D₂ N₂(h) + D₃ N₃₊(h)) / c(h)

h are the n − 1 bytes before y, h′ those without the first, N_k(h) how many bytes follow h in k
places, N₃₊ in three or more; p₀ = 1 / 256. In all orders but the highest, c counts the different
bytes that stand before a string, not its places. D comes from the numbers of strings of one to four
(Chen and Goodman 1999, section 3).

A string of n ≤ 8 bytes is a number, so that a model is sorted rows of numbers, and to ask for many
probabilities a few searches in them.
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.files import Part
from regard.data.readers import Report
from regard.recipe.config import load
from regard.tasks import language_model

MOST = 8
"""Bytes of a number of 64 bits."""
RECIPE = "imdb-gpt"
Keys = NDArray[np.uint64]
Counts = NDArray[np.int64]


def strings(text: NDArray[np.uint8], length: int) -> Keys:
    """The string of `length` bytes that ends at each place, as a number; zeros stand before the
    text."""
    found = np.zeros(len(text), np.uint64)
    for back in reversed(range(length)):
        found <<= np.uint64(8)
        found[back:] |= text[: len(text) - back]
    return found


class Level(NamedTuple):
    """All strings of one length, sorted, and how often each counts."""

    keys: Keys
    sums: tuple[Counts, Counts, Counts]
    """How much all that stand before a string count, and how many of them count one, and two."""
    discounts: NDArray[np.float64]
    """D for counts of 0, 1, 2, 3 and more."""

    @classmethod
    def of(cls, keys: Keys, counts: Counts) -> "Level":
        kinds = [int((counts == k).sum()) for k in range(1, 5)]
        discounts = [0.0]
        for k in (1, 2, 3):
            found = 0.0
            if kinds[k - 1]:
                share = kinds[0] / (kinds[0] + 2 * kinds[1])
                found = k - (k + 1) * share * kinds[k] / kinds[k - 1]
            discounts.append(found if 0 < found <= k else k / 2)  # of a text that is too short
        sums = (_sums(counts), _sums(counts == 1), _sums(counts == 2))
        return cls(keys, sums, np.array(discounts))

    def interpolate(self, asked: Keys, lower: NDArray[np.float64]) -> NDArray[np.float64]:
        """p of the last byte of each string, after the bytes before it."""
        place = np.searchsorted(self.keys, asked)
        there = self.keys[np.minimum(place, len(self.keys) - 1)] == asked
        before = asked & ~np.uint64(255)
        first = np.searchsorted(self.keys, before)
        last = np.searchsorted(self.keys, before | np.uint64(255), side="right")
        total, ones, twos = (each[last] - each[first] for each in self.sums)
        more = last - first - ones - twos
        count = np.where(there, self.sums[0][place + there] - self.sums[0][place], 0)
        taken = self.discounts[1] * ones + self.discounts[2] * twos + self.discounts[3] * more
        kept = count - self.discounts[np.minimum(count, 3)]
        known = np.maximum(total, 1)
        return np.where(total > 0, kept / known + taken / known * lower, lower)


def _sums(counts: Any) -> Counts:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def bits(train: bytes, test: bytes, orders: range) -> dict[int, float]:
    """Bits per byte of a text, for models of each order."""
    text = np.frombuffer(train, np.uint8)
    # What was learnt from stands before what is scored.
    asked_text = np.frombuffer(train[-MOST:] + test, np.uint8)
    lower = np.full(len(test), 1 / 256)
    found: dict[int, float] = {}
    keys, counts = np.unique(strings(text, 1), return_counts=True)
    for order in orders:
        asked = strings(asked_text, order)[MOST:]
        chances = Level.of(keys, counts).interpolate(asked, lower)
        found[order] = float(-np.log2(chances).mean())
        if order + 1 not in orders:
            break
        longer, times = np.unique(strings(text, order + 1), return_counts=True)
        mask = np.uint64(256**order - 1)
        kinds = np.unique(longer & mask, return_counts=True)
        lower = Level.of(*kinds).interpolate(asked, lower)
        keys, counts = longer, times
    return found


def byte_ngrams(options: argparse.Namespace) -> dict[str, Any]:
    """Bits per byte on the part that the networks are scored on, for each order."""
    plan = language_model.plan(load(Path(options.recipe or RECIPE)).task)
    parts: list[Part] = ["train", "test"]
    train, test = (
        "".join(each.values[0] + "\n" for each in plan.examples(part, Report())).encode()
        for part in parts
    )
    found = bits(train, test, range(1, (5 if options.quick else MOST) + 1))
    for order, each in found.items():
        print(f"order {order}: {each:.3f} bits per byte")
    return {"bits_per_byte": found, "bytes": len(test), "learnt from": len(train)}
