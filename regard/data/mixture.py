"""Several sources mixed: how often each is drawn, whatever its size.

Of sources with n₁ … n_k examples, source i gives a fraction p_i of every epoch,

    p_i ∝ w_i              by weights
    p_i ∝ n_i^(1/T)        by a temperature T ≥ 1: 1 as they are, ∞ all alike

An epoch has N = Σ n_i examples, q_i ≈ p_i · N of them of source i: the next ones of an endless row
of orders, each a permutation of its examples. So a source that is drawn less is still learnt from
to its end, in the course of epochs, and none is repeated before all others of its source. The
order of an epoch is a pure function of (seed, epoch).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.store import Column, Store, Writer
from regard.errors import UserError

NAME = "sources"
"""The store of how many rows each source has."""
KEY = 0x50C3
"""Sets these draws apart from others of the same seed."""


@dataclass(frozen=True)
class Mixture:
    """How much of an epoch is of which source; rows of a store are sorted by source."""

    sizes: tuple[int, ...]
    """n: the rows of each."""
    shares: tuple[float, ...]
    """p: they need not add up to 1."""

    @property
    def quotas(self) -> list[int]:
        """q: Σ q = N, each as near to p · N as can be (largest remainders)."""
        total, whole = sum(self.sizes), sum(self.shares)
        exact = [share / whole * total for share in self.shares]
        found = [int(each) for each in exact]
        nearest = sorted(range(len(exact)), key=lambda n: (found[n] - exact[n], n))
        for n in nearest[: total - sum(found)]:
            found[n] += 1
        return found

    def order(self, seed: int, epoch: int) -> NDArray[np.int64]:
        """(N,): the rows of an epoch, source by source; some of them several times."""
        first, found = 0, []
        for number, (size, quota) in enumerate(zip(self.sizes, self.quotas, strict=True)):
            begin = epoch * quota
            passes = range(begin // size, -(-(begin + quota) // size)) if quota else range(0)
            rows = [self._pass(seed, number, each) for each in passes]
            skipped = begin % size
            joined = np.concatenate([np.empty(0, np.int64), *rows])
            found.append(first + joined[skipped : skipped + quota])
            first += size
        return np.concatenate(found)

    def _pass(self, seed: int, source: int, number: int) -> NDArray[np.int64]:
        """All examples of a source, in the order of one pass over it."""
        random = np.random.Generator(np.random.PCG64([seed, KEY, source, number]))
        return random.permutation(self.sizes[source])


def shares(sizes: Sequence[int], weights: Sequence[float], temperature: float) -> tuple[float, ...]:
    """p, by weights or by a temperature."""
    if weights:
        return tuple(weights)
    return tuple((size / sum(sizes)) ** (1 / temperature) for size in sizes)


def keep(folder: Path, sizes: Sequence[int]) -> None:
    """Write down how many rows each source has."""
    with Writer(folder, NAME, {"rows": Column("i8")}) as writer:
        if not writer.complete:
            writer.add([{"rows": np.array(sizes, np.int64)}][writer.done :])


def load(folder: Path, rows: int, weights: Sequence[float], temperature: float) -> Mixture:
    """That of a store with so many rows."""
    found = Store(folder, NAME)
    sizes = found[0]["rows"].tolist() if len(found) == 1 else []
    fits = min(sizes, default=0) > 0 and sum(sizes) == rows
    if not fits or (weights and len(weights) != len(sizes)):
        raise UserError(
            f"the stored data cannot be read: {folder / NAME} does not say of which source its "
            "rows are. Start a new run from the recipe"
        )
    return Mixture(tuple(sizes), shares(sizes, weights, temperature))
