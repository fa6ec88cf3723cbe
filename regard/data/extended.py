"""Tables that come out as they came in, with columns added: TSV, CSV, JSONL.

What was there is never written anew: a cell is appended to the characters of its row, a key is put
before the brace that ends its object. So quotes, order, blanks and line ends stay as they are, and
there is a row for each row. Rows are read one after the other, so that a table may be of any size.

A row that cannot be read stays, too, and gets empty cells; `Row.defect` says why.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Literal

from regard.data import delimiters
from regard.errors import UserError

Kind = Literal["text", "tsv", "csv", "jsonl", "conll"]
SUFFIXES: dict[str, Kind] = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    **dict.fromkeys((".conll", ".conllu", ".bio", ".iob", ".iob2"), "conll"),
}
BOM = "\ufeff"
BREAKS = re.compile(r"\r\n?|\n")
Column = str | int
"""A name, or a number, from 1; -1 is the last."""


@dataclass(frozen=True)
class Row:
    """A line, or several that belong together."""

    line: int
    """The number of its first line, from 1."""
    text: str
    """As it stands in the file, without what ends it; bytes that are no UTF-8 are surrogates."""
    ending: str
    """A newline, after a carriage return or not; nothing at the end of some files."""
    values: Any = None
    """Cells, or an object; None of a line that is no row: it stays as it is."""
    defect: str = ""


@dataclass(frozen=True)
class Request:
    """What is asked of a table: which columns are read."""

    columns: Sequence[Column] = ()
    """As the user names them."""
    usual: Sequence[Column] = ("text",)
    """As a model's own data has them: taken where they are there, unless the user names others."""
    own: Sequence[Column] = ()
    """All columns of the model's own data, in their order."""
    header: bool | None = None
    """Whether the first line names the columns; None: as it seems."""
    lists: type | None = None
    """What a value in JSON may be a list of: words (str), or messages (dict)."""
    whole: str = ""
    """A key of JSON that may stand for the usual ones, and has messages."""
    breaks: bool = False
    """Whether line breaks in JSON are kept."""
    delimiter: str = "auto"

    @property
    def wanted(self) -> int:
        return len(self.usual)


class Table(ABC):
    """Rows, of which some columns are read, and to which others are added."""

    def __init__(self, name: str, lines: Iterator[tuple[int, str]], request: Request) -> None:
        self.name, self.request = name, request
        self.start = list(islice(lines, delimiters.LOOKED))
        self.lines = chain(self.start, lines)

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """Of the columns that are there, as far as they have names."""

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """All rows, but not the header."""

    @abstractmethod
    def read(self, row: Row) -> tuple[Any, ...] | str:
        """The cells of a row that are asked for, or what is wrong with them."""

    @abstractmethod
    def extended(self, row: Row, cells: Mapping[str, Any]) -> str:
        """A row with cells added."""

    @abstractmethod
    def header(self, added: Sequence[str]) -> str:
        """The line of names with names added; empty if there is none."""

    def as_object(self, row: Row) -> dict[str, Any]:
        """The cells of a row by name."""
        return dict(row.values)

    def free(self, name: str) -> str:
        """A name for a new column that no other has: label, predicted_label, predicted_label_2."""
        taken = set(self.names)
        tries = chain([name, f"predicted_{name}"], (f"predicted_{name}_{n}" for n in range(2, 999)))
        return next(each for each in tries if each not in taken)

    def _refuse(self, what: str, there: Sequence[str]) -> UserError:
        asked = "--column" if self.request.wanted == 1 else "--columns"
        return UserError(f"{self.name}: {what} It has {', '.join(there)}: say which by {asked}")


def numbered(raw: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Lines of bytes as texts, each with its number."""
    return ((n, line.decode("utf-8", "surrogateescape")) for n, line in enumerate(raw, 1))


def encoded(text: str) -> bytes:
    """The bytes of a row, those that are no UTF-8 as they came."""
    return text.encode("utf-8", "surrogateescape")


def parted(line: str) -> tuple[str, str]:
    """A line without what ends it, and this."""
    text = line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line
    return text, line[len(text) :]


def flaw(texts: Iterable[str]) -> str:
    """Why what is read is no text."""
    return "not UTF-8" if any("\ud800" <= c <= "\udfff" for text in texts for c in text) else ""
