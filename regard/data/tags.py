"""Tags in numbers: names by their places, real values as they are, in units of their spread."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from regard.data.cells import is_number
from regard.data.labels import FILE, TRAINING, Labels
from regard.data.store import Array, pad
from regard.errors import UserError
from regard.recipe import checked

UNKNOWN = "_"
"""The tag of a word whose tag is not known."""
Kind = Literal["tags", "real"]
Rows = Sequence[Sequence[int] | Array]


@dataclass(frozen=True)
class Names:
    """Names are stored from 1 on; 0 is one that is not known."""

    labels: Labels

    @property
    def outputs(self) -> int:
        """How many numbers a model says for each word."""
        return len(self.labels)

    @property
    def hash(self) -> str:
        """Of the names in their order."""
        return self.labels.hash

    @property
    def size(self) -> int:
        """More than any number that is stored."""
        return len(self.labels) + 1

    def save(self, folder: Path) -> None:
        self.labels.save(folder)

    def knows(self, tag: str) -> bool:
        """Whether a tag is one to be learnt or scored."""
        return tag in self.labels.names

    def stored(
        self, tags: Sequence[str], place: str, unseen: str = "never", by: str = TRAINING
    ) -> list[int]:
        """A whole number for each tag. One that was never seen `by` what they are from is refused,
        with its place, or under the rule "wrong" not known."""
        hint = "; labels.unseen = 'wrong' counts it as wrong" if unseen == "refuse" else ""
        known = {name: n for n, name in enumerate(self.labels.names, 1)} | {UNKNOWN: 0}
        for tag in tags:
            if tag not in known and unseen != "wrong":
                self.labels.number(tag, place, hint, by)
        return [known.get(tag, 0) for tag in tags]

    def targets(self, rows: Rows) -> Tensor:
        """(B, W) out of stored rows; below 0 where a tag is not known."""
        return torch.from_numpy(pad([np.asarray(row) for row in rows], 0)[0] - 1)

    def texts(self, values: Iterable[float]) -> list[str]:
        """What a model says, as text."""
        return [self.labels.names[int(value)] if value >= 0 else UNKNOWN for value in values]


@dataclass(frozen=True)
class Numbers:
    """y becomes (y − mean) / deviation with those of training, stored as the bits of a float32."""

    mean: float
    deviation: float
    outputs: ClassVar[int] = 1
    hash: ClassVar[str] = ""
    """Numbers have no names that could differ."""
    size: ClassVar[int] = 1 << 32

    def save(self, folder: Path) -> None:
        table = {"mean": self.mean, "deviation": self.deviation}
        (folder / FILE).write_text(json.dumps(table), encoding="utf-8", newline="\n")

    def knows(self, tag: str) -> bool:
        return tag != UNKNOWN

    def stored(
        self, tags: Sequence[str], place: str, unseen: str = "never", by: str = TRAINING
    ) -> Any:
        for tag in tags:
            if tag != UNKNOWN and not is_number(tag):
                raise UserError(f"{place}: the tag {tag!r} is not a number")
        values = [math.nan if tag == UNKNOWN else float(tag) for tag in tags]
        return ((np.array(values) - self.mean) / self.deviation).astype("<f4").view("<u4")

    def targets(self, rows: Rows) -> Tensor:
        """(B, W) out of stored rows; NaN where a value is not known."""
        bits, mask = pad([np.asarray(row) for row in rows], 0)
        values = bits.astype("<u4").view("<f4").astype(np.float32)
        return torch.from_numpy(np.where(mask, values, np.float32(np.nan)))

    def texts(self, values: Iterable[float]) -> list[str]:
        return [f"{self.mean + self.deviation * value:.6g}" for value in values]


Scale = Names | Numbers


def count(kind: Kind, tags: Sequence[str]) -> Scale:
    """The scale of the tags to learn."""
    known = [tag for tag in tags if tag != UNKNOWN]
    if kind == "tags":
        return Names(Labels.count(known, len(known)))
    values = np.array([float(tag) for tag in known])
    if not len(values) or values.std() == 0:
        raise UserError("data.train: the numbers to learn are all the same, or there are none")
    return Numbers(float(values.mean()), float(values.std()))


def load(kind: Kind, folder: Path) -> Scale:
    """The scale that a run's folder holds."""
    if kind == "tags":
        return Names(Labels.load(folder))
    try:
        table = checked.keys(checked.read(folder / FILE), "it", {"mean", "deviation"})
        deviation = checked.number(table["deviation"], "deviation", above=0.0)
        return Numbers(checked.number(table["mean"], "mean"), deviation)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder / FILE}: no mean and deviation: {error}") from None
