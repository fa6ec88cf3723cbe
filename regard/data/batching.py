"""Batches of a given number of tokens, of sentences of like length.

The plan of an epoch is a pure function of (lengths, seed, epoch): to resume at a position is
arithmetic, nothing is replayed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard import types
from regard.data.mixture import Mixture
from regard.errors import UserError
from regard.recipe.values import Rows, RowsOrZero
from regard.types import ALL, Batch, Position

Result = TypeVar("Result")
Lengths = NDArray[np.int64]
"""(N, sides): how many tokens each side of each example has."""


@dataclass(frozen=True)
class Draw:
    """By what a batch may draw masks or noise: all that it draws is a function of this."""

    seed: int = 0
    epoch: int = 0
    index: int = 0
    """The number of the batch in its epoch."""
    learning: bool = False
    """Whether a model learns from the batch: pictures and sounds are varied then alone."""
    others: tuple[int, ...] = ()
    """For each example, the one that follows it in the whole batch, the first one after the last:
    what it may be mixed with, whatever part of the batch is made."""

    def random(self, example: int) -> np.random.Generator:
        """For the example of this number, in whatever part of the batch it is."""
        return np.random.Generator(np.random.PCG64([self.seed, self.epoch, self.index, example]))

    def uniform(self, examples: Sequence[int], count: int) -> NDArray[np.float64]:
        """(N, count): so many numbers from 0 up to 1 for each of the examples, whatever others are
        with them; many times as fast as a generator for each."""
        first = np.asarray(examples, np.uint64)[:, None] * np.uint64(count)
        places = np.add(first, np.arange(count), dtype=np.uint64, casting="unsafe")
        key = np.random.SeedSequence([self.seed, self.epoch, self.index]).generate_state(
            1, np.uint64
        )
        mixed = _mixed(_mixed(places + key) ^ key)
        return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64 (Steele et al. 2014): neighbouring numbers become unlike ones."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


Collate = Callable[[Sequence[int], Draw], Batch]
"""The batch of the examples that have these numbers."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """How large a batch is."""

    tokens: Rows = 4096
    """At most this many positions on either side of a batch, padding included."""
    sentences: RowsOrZero = 0
    """At most this many examples in a batch; 0 for any number."""


def plan(
    lengths: Lengths, config: Config, order: NDArray[np.int64] | None = None
) -> list[NDArray[np.int64]]:
    """Cut the examples, sorted by length, into batches within the budget.

    Sorted by the last side's length, then by the first one's; equal lengths stay in `order`.
    A single example over the budget is a batch of its own.
    """
    order = np.arange(len(lengths)) if order is None else order
    narrow = lengths.astype(np.min_scalar_type(lengths.max(initial=0)), copy=False)
    ranked = order[np.lexsort(narrow[order].T)]  # by counting, if numbers have 2 bytes
    longest = narrow[ranked].max(1)
    most = config.sentences or len(order)
    batches, start = [], 0
    while start < len(ranked):
        first = int(longest[start])
        fitting = min(most, max(1, config.tokens // first)) if first else most
        widest = np.maximum.accumulate(longest[start : start + fitting])
        padded = widest * np.arange(1, len(widest) + 1)
        size = max(1, int(np.searchsorted(padded, config.tokens, "right")))
        batches.append(ranked[start : start + size])
        start += size
    return batches


def by_length(
    lengths: Sequence[Any], size: int, each: Callable[[list[int]], Sequence[Result]]
) -> list[Result]:
    """What `each` gives for the numbers of at most `size` examples of like length, in the order of
    the examples. Lengths are numbers, or tuples of them."""
    found: dict[int, Result] = {}
    for ids in alike(lengths, size):
        found |= zip(ids, each(ids), strict=True)
    return [found[n] for n in range(len(lengths))]


def alike(lengths: Sequence[Any], size: int) -> list[list[int]]:
    """The numbers of at most `size` examples of like length, in lists."""
    order = sorted(range(len(lengths)), key=lambda n: (lengths[n], n))
    return [order[start : start + size] for start in range(0, len(order), size)]


class Batches:
    """The endless stream of training batches, each epoch in an order of its own."""

    def __init__(
        self,
        lengths: Lengths | Callable[[int], Lengths],
        collate: Collate,
        config: Config,
        seed: int,
        mixture: Mixture | None = None,
    ) -> None:
        """`lengths` are those of every epoch, or given for each of them; `mixture` says which
        examples an epoch has, where that is not each of them once."""
        self._lengths, self._collate, self._config, self._seed = lengths, collate, config, seed
        self._mixture = mixture
        self._planned: tuple[int, list[NDArray[np.int64]]] = (-1, [])

    def epoch(self, number: int) -> list[NDArray[np.int64]]:
        """The batches of an epoch, as arrays of examples' numbers."""
        planned = self._planned  # another thread may ask for another epoch meanwhile
        if planned[0] != number:
            planned = self._planned = (number, self._plan(number))
        return planned[1]

    def _plan(self, number: int) -> list[NDArray[np.int64]]:
        random = np.random.Generator(np.random.PCG64([self._seed, number]))
        lengths = self._lengths(number) if callable(self._lengths) else self._lengths
        order = random.permutation(len(lengths))
        if self._mixture is not None:
            order = self._mixture.order(self._seed, number)[order]
        batches = plan(lengths, self._config, order)
        return [batches[n] for n in random.permutation(len(batches))]

    def at(self, position: Position, rows: slice = ALL) -> Batch:
        """The batch at a position, or those of its examples that `rows` selects."""
        batches = self.epoch(position.epoch)
        if position.index >= len(batches):
            raise UserError(f"{position}: the data has {len(batches):,} batches in that epoch")
        whole = batches[position.index]
        others = tuple(np.roll(whole, -1)[rows].tolist())
        draw = Draw(self._seed, position.epoch, position.index, learning=True, others=others)
        return self._collate(whole[rows].tolist(), draw)

    def after(self, position: Position) -> Position:
        """The position that follows."""
        if position.index + 1 < len(self.epoch(position.epoch)):
            return Position(position.epoch, position.index + 1)
        return Position(position.epoch + 1, 0)


def first_epoch(batches: types.Batches) -> Iterator[Position]:
    """The positions of all batches of the first epoch."""
    place = Position()
    while place.epoch == 0:
        yield place
        place = batches.after(place)
