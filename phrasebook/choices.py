"""Counting and drawing: every choice that a sentence needs, as one small algebra.

A choice knows how many ways it can be made, by bucket: with b(w) the bucket of a word w and
w₁ … wₙ the words drawn on the way, `counts[k]` is the number of ways with Σ b(wᵢ) ≡ k modulo
BUCKETS. Alternatives add their counts and independent choices convolve them, so the size of a
corpus, and of each of its parts, is known exactly without writing down a sentence.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha512
from struct import unpack
from typing import Any, Generic, TypeVar

from phrasebook.grammar import BUCKETS, Word, kind

T = TypeVar("T", covariant=True)
Counts = tuple[int, ...]
ONE: Counts = (1,) + (0,) * (BUCKETS - 1)


class Dice:
    """A stream of chance, the same everywhere and for ever: SHA-512 of the seed and a counter."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.blocks = 0
        self.numbers: list[int] = []

    def roll(self, sides: int) -> int:
        """A number from 0 to sides − 1."""
        if not self.numbers:
            digest = sha512(f"{self.seed} {self.blocks}".encode()).digest()
            self.numbers = list(unpack("<16I", digest))
            self.blocks += 1
        return (self.numbers.pop() * sides) >> 32


class Choice(ABC, Generic[T]):
    counts: Counts

    @abstractmethod
    def draw(self, dice: Dice, drawn: list[Word]) -> T:
        """One way, by chance; the words on the way are added to `drawn`."""


class Fixed(Choice[T]):
    """No choice at all."""

    def __init__(self, value: T) -> None:
        self.value = value
        self.counts = ONE

    def draw(self, dice: Dice, drawn: list[Word]) -> T:
        return self.value


class Words(Choice[Word]):
    """One word of a table."""

    def __init__(self, words: Sequence[Word]) -> None:
        self.words = tuple(words)
        by_bucket = Counter(word.bucket for word in self.words)
        self.counts = tuple(by_bucket[k] for k in range(BUCKETS))

    def draw(self, dice: Dice, drawn: list[Word]) -> Word:
        word = self.words[dice.roll(len(self.words))]
        drawn.append(word)
        return word


class OneOf(Choice[T]):
    """One of several choices; the first is drawn `weight` times as often as each other."""

    def __init__(self, options: Sequence[Choice[T]], weight: int = 1) -> None:
        self.urn = (options[0],) * (weight - 1) + tuple(options)
        self.counts = tuple(map(sum, zip(*(option.counts for option in options), strict=True)))

    def draw(self, dice: Dice, drawn: list[Word]) -> T:
        return self.urn[dice.roll(len(self.urn))].draw(dice, drawn)


class Together(Choice[T]):
    """All of several choices, put together; two words of one kind are different words."""

    def __init__(self, build: Callable[..., T], parts: dict[str, Choice[Any]]) -> None:
        self.build = build
        self.fixed = {name: part.value for name, part in parts.items() if isinstance(part, Fixed)}
        self.open = [(name, part) for name, part in parts.items() if name not in self.fixed]
        twins = {name: kind(name) for name, part in self.open if isinstance(part, Words)}
        self.twins = {name: first for name, first in twins.items() if name != first}
        self.counts = ONE
        for name, part in self.open:
            if name in self.twins:
                self.counts = convolve(self.counts, pairs_of(part))
            elif name not in self.twins.values():
                self.counts = convolve(self.counts, part.counts)

    def draw(self, dice: Dice, drawn: list[Word]) -> T:
        made = self.fixed.copy()
        for name, part in self.open:
            node = part.draw(dice, drawn)
            if name in self.twins:
                while node is made[self.twins[name]]:
                    drawn.pop()
                    node = part.draw(dice, drawn)
            made[name] = node
        return self.build(**made)


def convolve(a: Counts, b: Counts) -> Counts:
    """c[k] = Σᵢ a[i] · b[k − i], the indices modulo BUCKETS."""
    return tuple(sum(a[i] * b[k - i] for i in range(BUCKETS)) for k in range(BUCKETS))


def pairs_of(words: Choice[Any]) -> Counts:
    """Two different words of one table: all pairs without those of a word with itself."""
    both = list(convolve(words.counts, words.counts))
    for bucket, count in enumerate(words.counts):
        both[2 * bucket % BUCKETS] -= count
    return tuple(both)
