"""Parts of the data as the checks see them: the values of each field, and where they stand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.checks.findings import Finding, Severity, counted, finding
from regard.data.files import Part as Name

Where = tuple[Path, int]
"""A file and a line of it."""


@dataclass(frozen=True)
class Side:
    """The values of one field in a part, in order."""

    name: str
    values: list[Any]
    where: list[Where]
    show: Callable[[Any], str] = str

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def lines(self) -> list[str]:
        """Each value as a person reads it."""
        return [self.show(value) for value in self.values]

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
    """Whether all of it was read."""

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
        said = f"{what}: {counted(len(hit), len(self))} of {self.key}"
        return finding(code, side.place(hit[0]), said, example or side.lines[hit[0]], severity)


def training(parts: Sequence[Part]) -> Part | None:
    """The part to learn from, if it is among them."""
    return next((part for part in parts if part.name == "train"), None)
