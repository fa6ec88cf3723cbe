"""The names of labels, and how often each was seen in training."""

import difflib
import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.recipe import checked

FILE = "labels.json"
UNKNOWN = "_"
"""The tag of a word whose tag is not known."""
TRAINING = "in training"
BASE = "by the run that is trained on"
"""Where labels come from: this run's own training, or that of another whose model goes on."""


@dataclass(frozen=True)
class Labels:
    """Names in alphabetical order; a label's number is its place among them."""

    names: tuple[str, ...]
    counts: tuple[int, ...]
    texts: int
    """How many texts or words were counted."""

    @classmethod
    def count(cls, labels: Iterable[str], texts: int) -> "Labels":
        counts = Counter(labels)
        if len(counts) < 2:
            raise UserError(
                "data.train: there must be at least two labels, "
                f"but there is {next(iter(counts), 'none')!r} alone"
            )
        names = tuple(sorted(counts))
        return cls(names, tuple(counts[name] for name in names), texts)

    @classmethod
    def load(cls, folder: Path) -> "Labels":
        path = folder / FILE
        try:
            table = checked.keys(checked.read(path), "it", {"names", "counts", "texts"})
            names = [
                checked.text(name, "a name") for name in checked.items(table["names"], "names")
            ]
            counts = checked.items(table["counts"], "counts", len(names))
            found = cls(
                tuple(names),
                tuple(checked.whole(count, "a count", 1) for count in counts),
                checked.whole(table["texts"], "texts", 1),
            )
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: not a list of labels: {error}") from None
        if len(names) < 2 or names != sorted({*names}) or max(found.counts) > found.texts:
            raise UserError(f"{path}: not a list of labels: two at least, each once, in order")
        return found

    def save(self, folder: Path) -> None:
        table = {"names": self.names, "counts": self.counts, "texts": self.texts}
        text = json.dumps(table, ensure_ascii=False)
        (folder / FILE).write_text(text, encoding="utf-8", newline="\n")

    def __len__(self) -> int:
        return len(self.names)

    def weights(self, several: bool) -> NDArray[np.float32]:
        """w_c = N / (C n_c), a mean of 1 over all texts; for several (N − n_c) / n_c, yes : no."""
        counts = np.array(self.counts, np.float32)
        if several:
            return np.asarray(np.maximum(self.texts - counts, 1) / counts, np.float32)
        return np.asarray(counts.sum() / (len(counts) * counts), np.float32)

    @property
    def hash(self) -> str:
        """Of the names in their order."""
        return hashlib.sha256(json.dumps(self.names).encode()).hexdigest()

    def number(self, name: str, place: str, hint: str = "", by: str = TRAINING) -> int:
        """The number of a label; one that was never seen `by` what they are from is refused."""
        try:
            return self.names.index(name)
        except ValueError:
            near = difflib.get_close_matches(name, self.names, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise UserError(
                f"{place}: the label {name!r} was never seen {by}{meant}{hint}"
            ) from None
