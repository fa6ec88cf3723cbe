"""What examples are made of: one file for each modality, with all that is known of it.

A task says which fields it joins; a file of an example has a value for each of them. Stores,
doctor, viewer and verbs ask fields, never the task, what such a value is.

    value ── keep, kept ──→ a line of text, while a run is prepared
      │
      └─ encode ──→ row: arrays of one example, stored ── collate ──→ arrays of a batch

The main array of a field is called by the field's name, others NAME_something, in rows and in
batches alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from numpy.typing import NDArray

from regard.checks.findings import Finding, Kind
from regard.checks.sides import Part, Where
from regard.data.batching import Draw, Lengths
from regard.data.labelled import Labelled, texts
from regard.data.readers import Policy, Report
from regard.data.sound import Played
from regard.data.store import Column, Store
from regard.data.tables import Name
from regard.data.writer import ROWS, joined
from regard.errors import RecipeError

__all__ = ["SEPARATOR", "Array", "Draw", "Example", "Field", "Flat", "Places", "Row"]

Array = NDArray[Any]
Row = Mapping[str, Any]
"""The arrays of one example, by name; a list of numbers may stand for one."""
Flat = tuple[Array, Lengths]
"""The arrays of many examples as one, and how long each is."""
Places = Callable[[int], str]
"""Where the value of a number stands, for messages."""
SEPARATOR = "\x1f"
"""Stands between the words or labels of a value that is kept as a line: no text has it."""


class Example(NamedTuple):
    """A value for each field, and where they stand."""

    files: tuple[Path, ...]
    """One, or one for each field."""
    line: int
    values: tuple[Any, ...]

    def where(self, side: int = 0) -> Where:
        """The file and the line of a value."""
        return self.files[min(side, len(self.files) - 1)], self.line

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"{self.files[0]}:{self.line}"


class Field(ABC):
    """All that a modality knows: the class `Field` of each file is a subclass of this one.

    `fit` and `load` give the field that has learnt from data; what stands before the line below
    needs no such field."""

    name: str
    """Of its arrays, and in messages."""
    findings: ClassVar[Mapping[str, Kind]] = {}
    """Kinds of findings of its own: those of the package are in checks/findings.py."""
    readable: ClassVar[bool] = False
    """Whether a recipe may choose it for what a task reads; such a field is made by `of`."""
    column: ClassVar[str] = "text"
    """What the column of a table is called that holds its values, where a recipe says nothing."""
    on_disk: ClassVar[bool] = False
    """Whether a value is the path of a file: a picture, a sound."""
    distinctive: ClassVar[bool] = True
    """Whether examples with the same value are likely the same example: not so of labels."""

    @property
    def mixed(self) -> bool:
        """Whether a batch to learn from mixes its examples: what is predicted must be mixed in the
        same way."""
        return False

    @property
    def between_ends(self) -> bool:
        """Whether a model reads its values between START and END."""
        return False

    @classmethod
    def of(cls, name: str, config: Any, task: Any) -> "Field":
        """The field of a section of a recipe, which `config` is, for a task whose Config is `task`;
        only `readable` fields are made this way."""
        raise RecipeError(f"{name}.kind: this field is nothing that a task can choose to read")

    def in_column(self, name: str) -> "Field":
        """The same field, whose values are in the column of this name where a recipe says so."""
        return self

    @abstractmethod
    def parse(self, text: str) -> Any:
        """The value that a user, or a cell of a table, gives; ValueError says what is wrong."""

    def from_python(self, value: Any, name: str) -> str:
        """What a program gives in place of a text that `parse` takes; messages call it so."""
        return value  # type: ignore[no-any-return]

    def cell(self, text: str, table: Path) -> Any:
        """The value of a cell of a table that is in the data: what a run cannot learn from is a
        ValueError here, so that it is reported by its line."""
        return self.parse(text)

    def labelled(
        self,
        paths: Sequence[Path],
        columns: tuple[Name, ...],
        policy: Policy,
        report: Report,
        *,
        separator: str = "",
        **layout: Any,
    ) -> Iterator[Labelled]:
        """Cells and labels of files of the data; see `data.labelled.texts`."""
        return texts(
            paths, columns or ("label", self.column), policy, report, separator=separator, **layout
        )

    @abstractmethod
    def show(self, value: Any) -> str:
        """A value as a person reads it, in the form that `parse` takes."""

    def keep(self, value: Any) -> str:
        """A value in one line of text."""
        return self.show(value)

    def kept(self, line: str) -> Any:
        """The value of such a line."""
        return self.parse(line)

    def content(self, value: Any) -> str:
        """By what examples are held out: equal ones are never in two parts."""
        return self.keep(value).replace(SEPARATOR, " ")

    @property
    def size_names(self) -> Sequence[str] | Mapping[str, int] | None:
        """The words of `size`, so that a recipe whose input asks for another is refused before any
        data is read; with their numbers, where the recipe alone decides them; None of a field that
        cannot say."""
        return None

    def check(self, parts: Sequence[Part], base: Path | None = None) -> Iterator[Finding]:
        """What is wrong with its values in the parts of the data (the doctor asks); `base` is the
        folder of the run whose model is trained on."""
        return iter(())

    def covers(self, parts: Sequence[Part]) -> Iterator[Finding]:
        """Whether what was learnt fits the values in the parts of the data."""
        return iter(())

    def at_least(self, values: Sequence[Any]) -> list[int]:
        """Positions that each value has; before anything is learnt, those that it surely has."""
        return [0] * len(values)

    def fit(self, values: Iterable[Any]) -> "Field":
        """The field with all that it learns from the values of the training part."""
        return self

    def load(self, folder: Path) -> "Field":
        """The field with what a run keeps of it."""
        return self

    def share(self, other: Any) -> "Field":
        """The field with what another one has learnt for both."""
        return self

    # What has learnt from data:

    def save(self, folder: Path) -> None:
        """Keep what was learnt in the folder of a run."""
        return

    @property
    @abstractmethod
    def size(self) -> Mapping[str, int]:
        """What a model must know of it, in the modality's own words: tokens, variables, …; a
        field that is predicted says how many `outputs` there are."""

    @property
    def vocabulary(self) -> str:
        """A hash of what its numbers stand for, if they stand for anything: weights that another
        run has learnt fit only where it is the same."""
        return ""

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, Column]:
        """What the arrays of a row are like."""

    def verify(self, store: Store, longest: int) -> None:
        """Refuse stored rows that it cannot have written: a run is read as if it were forged."""
        return

    @abstractmethod
    def encode(self, values: Sequence[Any]) -> list[Row]:
        """The arrays of each value."""

    def accept(self, values: Sequence[Any], place: Places, part: str, by: str) -> None:
        """Refuse, with its place, a value that a part cannot have; `by` is whose data it learnt
        from, this run's or another's."""
        return

    def suffices(self, store: Store, part: str, by: str) -> None:
        """Refuse a part of which nothing can be learnt or scored."""
        return

    @property
    def together(self) -> int:
        """How many values are encoded together: fewer where a row is large."""
        return ROWS

    def encode_flat(self, values: Sequence[Any]) -> dict[str, Flat]:
        """The arrays of all values, one after the other, for many values at once."""
        return joined(self.encode(values), self.columns)

    def sizes(self, flat: Mapping[str, Flat]) -> Lengths | None:
        """Positions that count for the longest that is allowed; None of a field without any."""
        return flat[self.name][1]

    def cut(self, row: Row, most: int) -> Row:
        """Its arrays with at most so many positions; the row has those of all fields, the inputs'
        cut already."""
        return {name: row[name] for name in self.columns}

    def length(self, row: Row) -> int:
        """Positions of one row, as batches count them."""
        return len(row[self.name])

    def lengths(self, store: Store) -> Lengths | None:
        """Positions of each stored row as a model reads it; None of a field that has none."""
        return store.lengths(self.name)

    @abstractmethod
    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        """The arrays of a batch: (B, …), masks True where something is real."""

    def mix(
        self, own: Mapping[str, Array], others: Mapping[str, Array], ids: Sequence[int], draw: Draw
    ) -> dict[str, Array]:
        """What becomes of the arrays of a batch, or is added to them, where a field mixes each
        example with another one."""
        return {}

    def targets(self, arrays: Mapping[str, Any]) -> int:
        """How many targets of the loss the arrays of a batch have, where it is predicted."""
        return 0

    def pieces(self, row: Row) -> list[str]:
        """What a row is made of, for a person."""
        return [str(n) for n in range(len(row[self.name]))]

    def positions(self, row: Row) -> list[str]:
        """What stands at each position that a model reads (the viewer asks)."""
        return self.pieces(row)

    def groups(self, row: Row) -> list[tuple[int, int]]:
        """Which positions belong together, such as those of a word: from, up to."""
        return [(n, n + 1) for n in range(len(self.positions(row)))]

    def as_png(self, row: Row) -> bytes:
        """A row as a picture, PNG, where it is one (the viewer asks)."""
        return b""

    def played(self, row: Row) -> Played | None:
        """A row as a sound, where it is one (the viewer asks)."""
        return None

    def status(self, row: Row, longest: int, *, strict: bool = False) -> str:
        """How a row could be read: ok, cut, or unknown, if nothing of it is known; `strict`: if
        anything of it is not."""
        return "cut" if self.length(row) > longest else "ok"
