"""The names of labels, and how often each was seen in training."""

import difflib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from regard.errors import UserError

FILE = "labels.json"


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
                "data.train: to tell labels apart there must be two at least, "
                f"but there is {next(iter(counts), 'none')!r} alone"
            )
        names = tuple(sorted(counts))
        return cls(names, tuple(counts[name] for name in names), texts)

    @classmethod
    def load(cls, folder: Path) -> "Labels":
        try:
            table = json.loads((folder / FILE).read_text(encoding="utf-8"))
            return cls(tuple(table["names"]), tuple(table["counts"]), table["texts"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{folder / FILE}: not a list of labels: {error}") from None

    def save(self, folder: Path) -> None:
        table = {"names": self.names, "counts": self.counts, "texts": self.texts}
        text = json.dumps(table, ensure_ascii=False)
        (folder / FILE).write_text(text, encoding="utf-8", newline="\n")

    def __len__(self) -> int:
        return len(self.names)

    def number(self, name: str, place: str, hint: str = "") -> int:
        """The number of a label; one that training never saw is refused."""
        try:
            return self.names.index(name)
        except ValueError:
            near = difflib.get_close_matches(name, self.names, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise UserError(
                f"{place}: the label {name!r} was never seen in training{meant}{hint}"
            ) from None
