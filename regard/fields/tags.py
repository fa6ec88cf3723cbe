"""A tag for each word of a sentence: a name, or a number."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.checks.findings import Finding
from regard.checks.sides import Part
from regard.data.cells import is_number
from regard.data.labels import BASE, FILE, TRAINING, UNKNOWN, Labels
from regard.data.store import Column, Store, pad
from regard.errors import UserError
from regard.fields import Array, Draw, Places, Row
from regard.fields.labels import HINT, Named
from regard.fields.text import agree, token_column
from regard.recipe import checked

EARLIER = "labels"
"""What earlier versions called the column of tags; there, numbers are kept as their bits."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """What tags are like."""

    kind: Literal["tags", "real"] = "tags"
    """Names, or numbers such as angles."""
    unseen: Literal["refuse", "wrong"] = "refuse"
    """What to do with a tag that training never saw: refuse it with its file and line, or count
    every prediction for its word as wrong (and leave it out of likelihoods and validations)."""


@dataclass(frozen=True)
class Scale:
    """Numbers in units of their spread: y becomes (y − mean) / deviation with those of training."""

    mean: float
    deviation: float

    @classmethod
    def fit(cls, tags: Iterable[str]) -> "Scale":
        values = np.array([float(tag) for tag in tags])
        if not len(values) or values.std() == 0:
            raise UserError("data.train: the numbers to learn are all the same, or there are none")
        return cls(float(values.mean()), float(values.std()))

    @classmethod
    def load(cls, folder: Path) -> "Scale":
        try:
            table = checked.keys(checked.read(folder / FILE), "it", {"mean", "deviation"})
            deviation = checked.number(table["deviation"], "deviation", above=0.0)
            return cls(checked.number(table["mean"], "mean"), deviation)
        except (OSError, ValueError) as error:
            raise UserError(f"{folder / FILE}: no mean and deviation: {error}") from None

    def save(self, folder: Path) -> None:
        table = {"mean": self.mean, "deviation": self.deviation}
        (folder / FILE).write_text(json.dumps(table), encoding="utf-8", newline="\n")


@dataclass(frozen=True)
class Field(Named):
    """Names by their places, stored from 1 on, 0 where a tag is not known; or numbers, scaled, NaN
    where one is not known."""

    name: str
    config: Config
    words: str = "source"
    """The field whose words have the tags."""
    learnt: Labels | Scale | None = None
    whole = False
    size_names = ("outputs",)

    @property
    def real(self) -> bool:
        return self.config.kind == "real"

    # One sentence's

    def parse(self, text: str) -> tuple[str, ...]:
        return tuple(text.split())

    def show(self, value: Sequence[str]) -> str:
        return " ".join(value)

    # Those of all

    def check(self, parts: Sequence[Part], base: Path | None = None) -> Iterator[Finding]:
        return iter(()) if self.real else super().check(parts, base)

    def fit(self, values: Iterable[Sequence[str]]) -> "Field":
        known = [tag for value in values for tag in value if tag != UNKNOWN]
        return replace(
            self, learnt=Scale.fit(known) if self.real else Labels.count(known, len(known))
        )

    def load(self, folder: Path) -> "Field":
        return replace(self, learnt=Scale.load(folder) if self.real else Labels.load(folder))

    def save(self, folder: Path) -> None:
        assert self.learnt is not None
        self.learnt.save(folder)

    # What has learnt from data

    @property
    def names(self) -> tuple[str, ...]:
        return self.learnt.names if isinstance(self.learnt, Labels) else ()

    @property
    def scale(self) -> Scale:
        """That of numbers; names are as they are."""
        return self.learnt if isinstance(self.learnt, Scale) else Scale(0.0, 1.0)

    @property
    def size(self) -> Mapping[str, int]:
        return {"outputs": 1 if self.real else len(self.names)}

    @property
    def vocabulary(self) -> str:
        return self.learnt.hash if isinstance(self.learnt, Labels) else ""

    @property
    def columns(self) -> Mapping[str, Column]:
        return {self.name: Column("f4") if self.real else token_column(len(self.names) + 1)}

    def verify(self, store: Store, longest: int) -> None:
        store.rename({EARLIER: self.name})
        if self.real:
            if self.name in store.columns and store.columns[self.name].dtype == "u4":
                store.view(self.name, "f4")
            store.check(self.name, missing=True)
        else:
            store.check(self.name, values=range(len(self.names) + 1))
        words = store.lengths(f"{self.words}_pieces")
        agree(store, np.array_equal(store.lengths(self.name), words))

    def knows(self, tag: str) -> bool:
        """Whether a tag is one to be learnt or scored."""
        return tag != UNKNOWN if self.real else tag in self.names

    def refuse(
        self, tags: Sequence[str], place: str, rule: str = "never", by: str = TRAINING
    ) -> None:
        """Refuse, with its place, what is no tag: by the rule "wrong" only what is no number."""
        for tag in tags:
            if self.real and tag != UNKNOWN and not is_number(tag):
                raise UserError(f"{place}: the tag {tag!r} is not a number")
            named = isinstance(self.learnt, Labels) and tag not in (UNKNOWN, *self.names)
            if named and rule != "wrong":
                hint = HINT if rule == "refuse" else ""
                self.learnt.number(tag, place, hint, by)  # type: ignore[union-attr]

    def accept(self, values: Sequence[Sequence[str]], place: Places, part: str, by: str) -> None:
        # A tag that is not among those of a given run cannot be learnt.
        rule = "never" if part == "train" else self.config.unseen
        for n, value in enumerate(values):
            self.refuse(value, place(n), rule, by)

    def suffices(self, store: Store, part: str, by: str) -> None:
        rows = store.read(self.name, range(len(store)))
        if not any((~np.isnan(row) if self.real else row > 0).any() for row in rows):
            known = "known to the run that is trained on" if by == BASE else "known"
            raise UserError(f"data.{part}: not one word has a tag that is {known}")

    def encode(self, values: Sequence[Sequence[str]]) -> list[Row]:
        if not self.real:
            known = {name: n for n, name in enumerate(self.names, 1)}
            return [{self.name: [known.get(tag, 0) for tag in value]} for value in values]
        return [{self.name: self._scaled(value)} for value in values]

    def _scaled(self, tags: Sequence[str]) -> Array:
        found = np.array([math.nan if tag == UNKNOWN else float(tag) for tag in tags])
        return ((found - self.scale.mean) / self.scale.deviation).astype(np.float32)

    def cut(self, row: Row, most: int) -> Row:
        """As many as there are words."""
        return {self.name: row[self.name][: len(row[f"{self.words}_pieces"])]}

    def known(self, row: Row) -> int:
        """How many tags of a row are known."""
        return self.targets(self.collate([row], [0], Draw()))

    def numbers(self, rows: Sequence[Row]) -> Array:
        """(B, W): numbers from 0, below it where a tag is not known; values, NaN where not."""
        arrays = [np.asarray(row[self.name]) for row in rows]
        if not self.real:
            return pad(arrays, 0)[0] - 1
        shape = len(arrays), max(map(len, arrays), default=0)
        found = np.full(shape, np.nan, np.float32)
        for line, array in zip(found, arrays, strict=True):
            line[: len(array)] = array
        return found

    def targets(self, arrays: Mapping[str, Any]) -> int:
        """How many tags are known."""
        found = arrays[self.name]
        return int((~np.isnan(found) if self.real else found >= 0).sum())

    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        return {self.name: self.numbers(rows)}

    def texts(self, values: Iterable[float]) -> list[str]:
        """What a model says, as text."""
        if self.real:
            scale = self.scale
            return [f"{scale.mean + scale.deviation * value:.6g}" for value in values]
        return [self.names[int(value)] if value >= 0 else UNKNOWN for value in values]
