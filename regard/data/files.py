"""Which files a recipe reads: a data set of the catalogue, or files of the user's own."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from regard.data import catalogue, delimiters
from regard.data.readers import Finding, Policy, Report, excerpt
from regard.errors import MissingData, RecipeError, UserError
from regard.recipe.values import Items, Length, LengthOrZero, Positive, Range, Rows, shown

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Where the text is. One table (TSV, CSV, JSONL, any name), or one plain text file
    for each column."""

    set: str = ""
    """A data set of the catalogue (`regard data list`). A recipe that names no file has those of
    the set's own parts."""
    folder: str = ""
    """A folder that the files are in; by default, the recipe's own."""
    train: tuple[str, ...]
    """Files to learn from."""
    validation: tuple[str, ...] = ()
    """Files to choose by: checkpoints, early stopping."""
    test: tuple[str, ...] = ()
    """Files that `regard evaluate` scores; never looked at in training."""
    columns: tuple[str | int, ...] = ()
    """Which columns are read: names (of a header), keys (JSONL) or numbers, from 1 (-1: the last);
    by default the first ones, or with a header and in JSONL those called as the task calls them."""
    header: bool = False
    """Whether a table starts with the names of its columns."""
    delimiter: str = "auto"
    """What stands between columns: tab, comma, semicolon, pipe or a character; auto: as the suffix
    says, or else what cuts its lines into the same number of columns."""
    wrap: LengthOrZero = 0
    """Cut what is longer: running text at the next space after so many characters, tagged words at
    the next end of a sentence after so many words; 0: never."""
    on_bad_line: Literal["refuse", "skip"] = "refuse"
    """What to do with a line that cannot be read: bad UTF-8, bad JSON, wrong number of columns. In
    evaluation of what writes texts, one that would be skipped counts as empty."""
    on_empty: Literal["refuse", "skip"] = "skip"
    """What to do with a pair that has an empty side."""
    max_length: Length = 256
    """The most tokens of an example."""
    on_too_long: Literal["skip", "cut", "refuse"] = "skip"
    """What to do with an example that has more tokens."""
    weights: Annotated[tuple[Positive, ...], Items(1000)] = ()
    """How much of an epoch is of each source of data.train, in proportion: [3, 1]. A source is a
    table, or as many plain files as there are columns. Not for running text or passages."""
    temperature: Annotated[float, Range(0, 1e6)] = 0.0
    """The same by size: of n examples ∝ n^(1/temperature); 1: as they are, 100: nearly alike; 0:
    every example once in an epoch."""
    streaming: bool = False
    """Read the training files again in every epoch, instead of storing them. What fields learn,
    they learn from 100,000 examples: of several files, from the first ones of each. Not for
    passages and tags."""
    shuffle: Rows = 200_000
    """With data.streaming, so many examples (texts, of running text) are shuffled at once; up to
    three times as many are in memory."""

    def __post_init__(self) -> None:
        check_set(self.set, self.folder)
        if not self.train:
            raise RecipeError("train: names no file")
        if self.weights and self.temperature:
            raise RecipeError("temperature: data.weights say how sources are mixed; give one")
        if self.streaming and self.mixed:
            raise RecipeError(f"{self.mixed}: data.streaming reads files as they stand; give one")
        if 0 < self.temperature < 1:
            raise RecipeError(f"temperature: {self.temperature:g} must be 0, or ≥ 1")
        if self.delimiter != "auto":
            delimiters.character(self.delimiter)

    @property
    def policy(self) -> Policy:
        return Policy(broken=self.on_bad_line, empty=self.on_empty)

    @property
    def layout(self) -> dict[str, Any]:
        """What `tables.parallel` must know of a table, besides its columns."""
        return {"header": self.header, "delimiter": self.delimiter}

    def rule(self, what: str) -> tuple[str, str]:
        """The key for a kind of defect, and what it says to do."""
        if what.startswith("empty "):
            return "data.on_empty", self.on_empty
        return "data.on_bad_line", self.on_bad_line

    def admits(self, tokens: int, path: Path, line: int, text: str, report: Report) -> bool:
        """Whether an example of so many tokens is learnt from. One that is too long is reported; if
        it is admitted all the same, it is to be cut."""
        if tokens <= self.max_length:
            return True
        what = f"more than {self.max_length} tokens (data.max_length)"
        report.add(finding := Finding(path, line, what, excerpt(text)))
        if self.on_too_long == "refuse":
            raise UserError(f"{finding}: data.on_too_long = 'refuse'")
        return self.on_too_long == "cut"

    @property
    def mixed(self) -> str:
        """The key that says how sources are mixed, if one does."""
        return "weights" if self.weights else "temperature" if self.temperature else ""

    def refuse_mixture(self, what: str) -> None:
        """Refuse keys that mix sources, where that is not done."""
        if self.mixed:
            raise RecipeError(f"data.{self.mixed}: {what} is read as it stands; leave the key out")

    def refuse_streaming(self, what: str) -> None:
        if self.streaming:
            raise RecipeError(f"data.streaming: {what} is always stored; leave the key out")

    def sources(self, width: int) -> int:
        """How many sources the training part has, of which each file, or each `width` plain files,
        is one."""
        count = len(self.train) // width
        if self.weights and len(self.weights) != count:
            raise RecipeError(
                f"data.weights: {len(self.weights)} for {count} source{'s' * (count != 1)}"
            )
        if self.mixed and count < 2:
            raise RecipeError(f"data.{self.mixed}: there is one source: there is nothing to mix")
        return count

    def names(self, part: str) -> tuple[str, ...]:
        """The files that the recipe names for a part."""
        return {"train": self.train, "validation": self.validation, "test": self.test}[part]

    def paths(self, part: Part) -> list[Path]:
        """The files of a part; each must be there."""
        return [self.path(name, f"data.{part}") for name in self.names(part)]

    def path(self, name: str, key: str) -> Path:
        """A file that a key of the recipe names; it must be there."""
        return find(self.set, self.folder, name, key)


class FileText(str):
    """All of a file as one text, which messages call by the file's name."""

    name: str

    def __new__(cls, text: str, name: str) -> "FileText":
        made = super().__new__(cls, text)
        made.name = name
        return made


def called(text: str, name: str) -> str:
    """What messages call an input: its file, if it is one, or by another name."""
    return text.name if isinstance(text, FileText) else name


def check_set(name: str, folder: str) -> None:
    """Refuse a data set that is none, and one beside a folder."""
    if name and folder:
        raise RecipeError("folder: give either a data set or a folder, not both")
    if name and name not in catalogue.names():
        near = difflib.get_close_matches(name, catalogue.names(), 1)
        hint = f"did you mean {near[0]!r}?" if near else "`regard data list` has them all"
        raise RecipeError(f"set: there is no data set {name!r}; {hint}")


def find(dataset: str, folder: str, name: str, key: str) -> Path:
    """The file that `key` names, in the data set if there is one, or else in the folder."""
    try:
        base = catalogue.find(dataset) if dataset else Path(folder)
    except UserError as error:
        raise MissingData(f"data.set: {error}") from error
    try:
        path = base / Path(name).expanduser()
        there = path.is_file() or path.is_dir()  # of a folder the reader says what it thinks
    except (RuntimeError, ValueError, OSError) as error:
        raise RecipeError(f"{key}: {shown(name)} is no path: {error}") from None
    if not there:
        names = [f.name for f in path.parent.glob("*")] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, names, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise MissingData(f"{key}: {path}: there is no such file{hint}")
    return path
