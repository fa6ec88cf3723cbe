"""How long to train, and how large a batch is: what a task's own defaults cannot know.

They suit data of a usual size. Of less data, batches are smaller, so that an epoch has enough
updates, and there are more epochs; of more data, fewer.
"""

from collections.abc import Collection
from dataclasses import dataclass

from regard.starting import Key, Section

BATCHES = 40
"""Of an epoch, at least, as far as batches can be smaller."""
SMALLEST = 256
"""Tokens of a batch."""


@dataclass(frozen=True)
class Budget:
    """What suits a task: tokens in all epochs together, epochs, tokens of a batch."""

    tokens: float
    least: int
    most: int
    batch: int

    def epochs(self, tokens: float) -> int:
        """How often to go through so many tokens."""
        return max(self.least, min(self.most, round(self.tokens / max(1.0, tokens))))

    def of_batch(self, tokens: float) -> int:
        size = self.batch
        while size > SMALLEST and size * BATCHES > tokens:
            size //= 2
        return size

    def sections(self, tokens: float) -> list[Section]:
        """The sections `batch`, if it is not the usual one, and `train`."""
        size = self.of_batch(tokens)
        small = [Section("batch", (Key("tokens", size, "small, for many updates of few data"),))]
        epochs = Key("epochs", self.epochs(tokens), "times through the data")
        return [*(small if size < self.batch else []), Section("train", (epochs,))]


def up(number: float, to: int) -> int:
    """The next multiple."""
    return -(-int(number) // to) * to


def held_out(files: Collection[str], why: str, share: float = 0.1, *more: Key) -> list[Section]:
    """Shares of the training files for the parts that have none."""
    keys = [Key(part, share) for part in ("validation", "test") if part not in files]
    return [Section("held_out", (*keys, *more), why)] if keys else []
