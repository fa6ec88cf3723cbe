"""Which part of an update's batches is whose.

An update has A micro-batches (`train.accumulate`), each cut by rows into P pieces. They are shared
out among R ranks, whole pieces to one rank each: in order, where batches stand by themselves, so
that with P = 1 a rank has whole micro-batches; where a batch goes on from the one before (running
text), a rank has the same rows of all of them. Chance is drawn for each piece (`gradient.py`), and
batches are functions of their position: an update is the same, but for rounding, whichever rank has
a piece. P therefore stays what it was when a run goes on with another number of ranks, unless there
are too few pieces for them.
"""

import math
from dataclasses import dataclass

from regard.types import Carry


@dataclass(frozen=True)
class Pieces:
    """The pieces of one rank."""

    rank: int = 0
    ranks: int = 1
    batches: int = 1
    """A, the micro-batches of an update."""
    each: int = 1
    """P, the pieces of a batch."""
    carried: bool = False
    """Whether a batch goes on from the one before."""

    def own(self, batch: int) -> range:
        """The pieces of a batch that are this rank's."""
        if self.carried:
            return range(self.each * self.rank // self.ranks, self._end(self.each))
        units, before = self.batches * self.each, batch * self.each
        first, end = units * self.rank // self.ranks - before, self._end(units) - before
        return range(max(0, first), min(self.each, end))

    def _end(self, count: int) -> int:
        return count * (self.rank + 1) // self.ranks

    def rows(self, count: int, piece: int) -> tuple[int, int]:
        """The first of a piece's rows, of so many, and the first after them."""
        return count * piece // self.each, count * (piece + 1) // self.each

    def share(self, carry: Carry) -> Carry:
        """This rank's rows of what a batch hands on to the next."""
        if self.ranks == 1 or not carry:
            return carry
        own = self.own(0)

        def rows(count: int) -> slice:
            return slice(count * own.start // self.each, count * own.stop // self.each)

        return {name: tensor[rows(len(tensor))] for name, tensor in carry.items()}


def enough(ranks: int, batches: int, *, carried: bool, before: int = 1) -> int:
    """P: as many as before, if that is enough for all ranks; otherwise so many that all have the
    same number of pieces."""
    if before * (1 if carried else batches) >= ranks:
        return before
    return ranks if carried else ranks // math.gcd(ranks, batches)


def spoken(ranks: int, batches: int, each: int, *, carried: bool, before: int) -> str:
    """What a user should know of how batches are shared, in a line; empty if all is as it seems."""
    said = []
    if each != before:
        said.append(
            f"{ranks} processes share {batches} batch{'es' * (batches > 1)} of an update: each is "
            f"cut into {each} parts, which draw dropout for themselves"
        )
    units = each if carried else batches * each
    if units % ranks:
        said.append(f"{units} parts are not a multiple of {ranks} processes: some wait for others")
    return "; ".join(said)
