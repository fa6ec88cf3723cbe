"""What counting bytes can do: modified Kneser–Ney models of all orders, for texts of any size.

    p_n(y | h) = (c(h y) − D(c(h y))) / c(h) + γ(h) p_{n−1}(y | h′)
    γ(h) = (D₁ N₁(h) + D₂ N₂(h) + D₃ N₃₊(h)) / c(h)

h are the n − 1 bytes before y, h′ those without the first, N_k(h) how many bytes follow h in k
places, N₃₊ in three or more; p₀ = 1 / 256. In all orders but the highest, c counts the different
bytes that stand before a string, not its places. D comes from the numbers of strings of one to four
(Chen and Goodman 1999, section 3).

A string h y is a number, 256 · (the rank of h among all strings of its length) + y, so that a model
of any order is sorted rows of numbers, and to ask for many probabilities a few searches in them.
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

MOST = 12
"""The highest order."""
RECIPE = "imdb-gpt"
Keys = NDArray[np.int64]
Counts = NDArray[np.int64]


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
        before = asked & ~255
        first = np.searchsorted(self.keys, before)
        last = np.searchsorted(self.keys, before | 255, side="right")
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
    """Bits per byte of a text that follows what was learnt from, for models of each order from 1
    on."""
    text, asked_text = (np.frombuffer(each, np.uint8).astype(np.int64) for each in (train, test))
    lower = np.full(len(test), 1 / 256)
    found: dict[int, float] = {}
    before, asked_before = np.zeros(len(text), np.int64), np.zeros(len(test), np.int64)
    shorter, shorter_asked = before, asked_before
    for order in orders:
        # Of the learnt text, those places alone that have so many bytes before them.
        keys, asked = (
            256 * before + text[len(text) - len(before) :],
            256 * asked_before + asked_text,
        )
        kinds, first, ranks, counts = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        if order > orders[0]:  # how many bytes stand before each string of the order below
            shorter_kinds, bytes_before = np.unique(shorter[1:][first], return_counts=True)
            lower = Level.of(shorter_kinds, bytes_before).interpolate(shorter_asked, lower)
        found[order] = float(-np.log2(Level.of(kinds, counts).interpolate(asked, lower)).mean())
        shorter, shorter_asked = keys, asked
        before, asked_before = _after(kinds, ranks, asked)
    return found


def _after(kinds: Keys, ranks: Counts, asked: Keys) -> tuple[Counts, Counts]:
    """The rank of the string before each place of both texts; one that is new has none, and the
    first place of the learnt text has no such string."""
    place = np.searchsorted(kinds, asked)
    seen = kinds[np.minimum(place, len(kinds) - 1)] == asked
    found = np.where(seen, place, len(kinds) + 1)
    return ranks[:-1], np.concatenate([ranks[-1:], found[:-1]])


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
