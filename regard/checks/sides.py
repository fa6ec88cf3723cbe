"""Parts of the data as the checks see them: the values of each field, and where they stand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.checks.findings import Finding, Severity, counted, finding
from regard.data.files import Part as Name
from regard.data.labelled import line_of_word

Where = tuple[Path, int]
"""A file and a line of it."""


@dataclass(frozen=True)
class Side:
    """The values of one field in a part, in order."""

    name: str
    values: list[Any]
    where: list[Where]
    show: Callable[[Any], str] = str
    only: bool = False
    """Whether it is the only text of its example."""

    @property
    def title(self) -> str:
        """What messages call it."""
        return "text" if self.only else self.name

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def lines(self) -> list[str]:
        """Each value as a person reads it."""
        return [self.show(value) for value in self.values]

    def first(self) -> list[int]:
        """The first example of each value: a file with several texts stands on several lines."""
        found: dict[Any, int] = {}
        for n, value in enumerate(self.values):
            found.setdefault(value, n)
        return [*found.values()]

    def place(self, n: int) -> str:
        path, number = self.where[n]
        return f"{path}:{number}"

    def sample(self, most: int) -> list[str]:
        """At most so many lines, evenly out of all."""
        return self.lines[:: -(-len(self.lines) // most) or 1]


@dataclass(frozen=True)
class Part:
    """A part of the data: its fields side by side, inputs first."""

    name: Name
    sides: tuple[Side, ...]
    whole: bool = True
    """Whether all of it is here, and not its first examples alone."""
    total: int = 0
    """How many examples it has in all; 0 where that is not known."""
    beyond: frozenset[str] = frozenset()
    """Keys of further examples, which are not here, that other parts have, too."""

    def __len__(self) -> int:
        return len(self.sides[0])

    def __getitem__(self, name: str) -> Side:
        return next(side for side in self.sides if side.name == name)

    def only(self, *names: str) -> "Part":
        """The same part with these sides alone."""
        return replace(self, sides=tuple(self[name] for name in names))

    @property
    def key(self) -> str:
        return f"data.{self.name}"

    def counted(self, count: int, what: str = "lines") -> str:
        """“12 of 29,000 lines (0.041 %) of data.train”, or “of the first 30,000 lines”."""
        which = "" if self.whole else "the first "
        return f"{counted(count, len(self), what, which)} of {self.key}"

    def word_place(self, n: int, word: int) -> str:
        """Where a word of an example stands, in a file that has a line for each."""
        path, line = self.sides[-1].where[n]
        words, tags = self.sides[0].values[n], self.sides[-1].values[n]
        tagged = isinstance(words, tuple) and len(words) == len(tags)
        return f"{path}:{line_of_word(path, line, word) if tagged else line}"

    def lines(
        self,
        code: str,
        side: Side,
        hit: Sequence[int],
        what: str,
        example: str = "",
        severity: Severity | None = None,
    ) -> Finding:
        """What is wrong with some lines of a side, of which the first is shown."""
        said = f"{what}: {self.counted(len(hit))}"
        return finding(code, side.place(hit[0]), said, example or side.lines[hit[0]], severity)


def training(parts: Sequence[Part]) -> Part | None:
    """The part to learn from, if it is among them."""
    return next((part for part in parts if part.name == "train"), None)
