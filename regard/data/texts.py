"""Shares of running text: its end is kept from learning."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from regard.data import files, held_out


@dataclass(frozen=True, kw_only=True)
class HeldOut(held_out.HeldOut):
    """Shares of the training files' end, in characters, for parts that have no files of their own.

    The last share is the test part, the one before it the validation part; a line belongs where
    its first character does.
    """

    def parts(self, examples: Callable[[], Iterable[str]]) -> Iterator[files.Part]:
        total, place = sum(len(line) + 1 for line in examples()), 0
        first, second = (1 - self.validation - self.test) * total, (1 - self.test) * total
        for line in examples():
            yield "train" if place < first else "validation" if place < second else "test"
            place += len(line) + 1
