"""Labels of a whole example: one, or any number of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from regard.checks import labels as checks
from regard.checks.findings import Finding
from regard.checks.sides import Part
from regard.data.labels import BASE, Labels
from regard.data.store import Column, Store
from regard.errors import RecipeError, UserError
from regard.fields import SEPARATOR, Array, Draw, Field as Base, Places, Row
from regard.fields.text import agree, token_column

HINT = "; labels.unseen = 'wrong' counts it as wrong"


@dataclass(frozen=True, kw_only=True)
class Config:
    """What labels are like."""

    kind: Literal["one", "several"] = "one"
    """Each text has one label, or any number of them, none included."""
    separator: str = ","
    """What stands between several labels of a text; in JSONL they are a list."""
    weights: Literal["none", "balanced"] = "none"
    """Whether rare labels count more in training: so much that all labels count the same."""
    unseen: Literal["refuse", "wrong"] = "refuse"
    """What to do with a label that training never saw: refuse it with its file and line, or count
    every prediction for its text as wrong (and leave it out of likelihoods)."""

    @property
    def between(self) -> str:
        """What stands between the labels of a text; nothing where it has one."""
        return self.separator if self.kind == "several" else ""

    def __post_init__(self) -> None:
        if self.kind == "several" and not self.separator:
            raise RecipeError("separator: several labels need one")


class Named(Base):
    """Names, or numbers, that stand at no positions of their own: labels, and tags."""

    config: Any
    whole: ClassVar[bool]
    """Whether they are those of whole examples."""
    distinctive = False

    def keep(self, value: Sequence[str]) -> str:
        return SEPARATOR.join(value)

    def kept(self, line: str) -> tuple[str, ...]:
        return tuple(filter(None, line.split(SEPARATOR)))

    def check(self, parts: Sequence[Part], base: Path | None = None) -> Iterator[Finding]:
        """Balance, spelling, contradictions, names that training never saw."""
        known = Labels.load(base).names if base else ()
        unseen = self.config.unseen
        yield from checks.check(parts, unseen=unseen, single=self.whole, known=known)

    def sizes(self, flat: Any) -> None:
        return None

    def lengths(self, store: Store) -> None:
        return None


@dataclass(frozen=True)
class Field(Named):
    """Labels by their places among the names, stored from 1 on: 0 is one that nobody saw."""

    name: str
    config: Config
    learnt: Labels | None = None
    whole = True
    size_names = ("outputs",)

    @property
    def several(self) -> bool:
        return self.config.kind == "several"

    # One example's

    def parse(self, text: str) -> tuple[str, ...]:
        if not self.several:
            return (text.strip(),)
        found = (name.strip() for name in text.split(self.config.separator))
        return tuple(dict.fromkeys(filter(None, found)))

    def show(self, value: Sequence[str]) -> str:
        return self.config.separator.join(value)

    # Those of all

    def fit(self, values: Iterable[Sequence[str]]) -> "Field":
        rows = list(values)
        return replace(self, learnt=Labels.count((n for row in rows for n in row), len(rows)))

    def load(self, folder: Path) -> "Field":
        return replace(self, learnt=Labels.load(folder))

    def save(self, folder: Path) -> None:
        self.labels.save(folder)

    # What has learnt from data

    @property
    def labels(self) -> Labels:
        assert self.learnt is not None
        return self.learnt

    @property
    def size(self) -> Mapping[str, int]:
        return {"outputs": len(self.labels)}

    @property
    def vocabulary(self) -> str:
        return self.labels.hash

    @property
    def columns(self) -> Mapping[str, Column]:
        return {self.name: token_column(len(self.labels) + 1)}

    def verify(self, store: Store, longest: int) -> None:
        # One that nobody saw is none to learn: it can be in other parts alone.
        least = int(Path(store.name).name == "train" and not self.several)
        store.check(self.name, values=range(least, len(self.labels) + 1))
        agree(store, self.several or bool((store.lengths(self.name) == 1).all()))

    def numbers(self, names: Sequence[str], place: str) -> list[int]:
        """The numbers of labels, from 0; of one that was never seen −1, if the rule is "wrong"."""
        if self.config.unseen == "wrong":
            known = self.labels.names
            return [known.index(name) if name in known else -1 for name in names]
        return [self.labels.number(name, place, HINT) for name in names]

    def numbers_of(self, text: str, place: str) -> list[int]:
        """The numbers of labels that a user gives; one that was never seen is refused."""
        return [self.labels.number(name, place) for name in self.parse(text)]

    def accept(self, values: Sequence[Sequence[str]], place: Places, part: str, by: str) -> None:
        """A label that is not among those of a given run cannot be learnt, whatever the rule is."""
        known, rule = {*self.labels.names}, self.config.unseen
        for n, value in enumerate(values):
            for name in value:
                if name not in known and (part == "train" or rule == "refuse"):
                    hint = "" if part == "train" else HINT
                    self.labels.number(name, place(n), hint, by)

    def suffices(self, store: Store, part: str, by: str) -> None:
        if all(0 in row for row in store.read(self.name, range(len(store)))):
            who = "the run that is trained on" if by == BASE else "training"
            raise UserError(f"data.{part}: {who} saw the labels of none of its texts")

    def encode(self, values: Sequence[Sequence[str]]) -> list[Row]:
        """Labels that are known; `numbers` knows what to do with others."""
        known = {name: n for n, name in enumerate(self.labels.names, 1)}
        return [{self.name: [known.get(name, 0) for name in value]} for value in values]

    def mix(
        self, own: Mapping[str, Array], others: Mapping[str, Array], ids: Sequence[int], draw: Draw
    ) -> dict[str, Array]:
        """NAME_other (B): the labels of the others."""
        return {f"{self.name}_other": others[self.name]}

    def targets(self, arrays: Mapping[str, Any]) -> int:
        return len(arrays[self.name])

    def truth(self, row: Row) -> list[int]:
        """The numbers of a row's labels, from 0; −1 for one that training never saw."""
        return [int(number) - 1 for number in row[self.name]]

    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        """Numbers (B), or for several truth values (B, C)."""
        if not self.several:
            return {self.name: np.array([self.truth(row)[0] for row in rows], np.int64)}
        found = np.zeros((len(rows), len(self.labels) + 1), bool)
        for line, row in zip(found, rows, strict=True):
            line[np.asarray(row[self.name], np.int64)] = True
        return {self.name: found[:, 1:]}
