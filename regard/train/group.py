"""The processes that train one model together.

Each rank holds the same weights and takes its own rows of every batch. Whatever decides what the
loop does next (counts of targets, numbers that are not finite, memory that runs out, a signal to
stop) is agreed upon here, so that all ranks do the same and none waits for another in vain. One
process by itself is the group of one: it agrees with itself, and nothing is copied.
"""

from collections.abc import Mapping
from typing import TypeVar

from torch import Tensor

from regard.errors import UserError
from regard.types import ALL, Batch, Batches, Carry, Position

Value = TypeVar("Value")
Number = TypeVar("Number", int, float, Tensor)


class Group:
    """Rank 0 of 1.

    A group of several ranks says what `gather` does; its ranks call the methods in the same order.
    If one of them ends for a reason of its own, the calls of the others must raise.
    """

    rank = 0
    size = 1

    def gather(self, value: Value) -> list[Value]:
        """What each rank gives, in the order of ranks, on all ranks."""
        return [value]

    def any(self, answer: bool) -> bool:
        """Whether the answer of any rank is yes."""
        return any(self.gather(answer))

    def sum(self, values: Mapping[str, Number]) -> dict[str, Number]:
        """Sums over all ranks by name; a rank without a name adds nothing to it."""
        total: dict[str, Number] = {}
        for given in self.gather(values):
            for name, value in given.items():
                total[name] = total[name] + value if name in total else value
        return total

    def rows(self, count: int) -> slice:
        """Which of so many rows are this rank's."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def own(self, carry: Carry) -> Carry:
        """This rank's rows of what a batch hands on to the next."""
        if self.size == 1 or carry is None:
            return carry
        return {name: tensor[self.rows(len(tensor))] for name, tensor in carry.items()}

    def share(self, batches: Batches) -> Batches:
        """This rank's rows of each batch."""
        return batches if self.size == 1 else Share(batches, self)


class Share:
    """The rows of batches that one rank of a group learns from."""

    def __init__(self, batches: Batches, group: Group) -> None:
        self._batches, self._group = batches, group

    def at(self, position: Position, rows: slice = ALL) -> Batch:
        whole = self._batches.at(position)
        if not whole.divisible:
            raise UserError(
                f"{self._group.size} processes cannot share a batch whose examples are compared "
                "with each other (Batch.divisible): train with one process"
            )
        mine = range(len(whole))[self._group.rows(len(whole))][rows]
        if not mine:
            return Batch(tensors={}, ids=(), targets=0, continues=whole.continues)
        # Made anew, it has the padding of its own longest example.
        return self._batches.at(position, slice(mine.start, mine.stop))

    def after(self, position: Position) -> Position:
        return self._batches.after(position)
