"""Text that a tokenizer cuts: read by an encoder, or written by a decoder."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.checks import coverage, text as checks
from regard.checks.findings import Finding
from regard.checks.sides import Part
from regard.data import spelling, tokenizers
from regard.data.batching import Lengths
from regard.data.spelling import Spelling
from regard.data.store import Column, Store, pad
from regard.data.tokenizers import Tokenizer
from regard.errors import UserError
from regard.fields import Array, Draw, Field as Base, Flat, Row

Role = Literal["read", "framed", "written", "ended"]
"""How it comes into a batch: x₁ … x_n END, or START x₁ … x_n END, to be read; or to be written, as
START y₁ … y_n that is read and y₁ … y_n END that is said; `ended` ones are stored with END."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Text has no settings of its own: what a token is, the section `tokenizer` decides."""


@dataclass(frozen=True)
class Field(Base):
    """Texts as tokens; where a token is a whole word also as characters, if they are wanted."""

    name: str
    config: tokenizers.Config
    role: Role = "read"
    spelt: bool = False
    """Whether words come with their characters."""
    running: bool = False
    """Whether texts follow each other, so that END of another stands before each."""
    learnt: Tokenizer | None = None
    spelling: Spelling | None = None

    readable = True

    @classmethod
    def of(cls, name: str, config: Config, task: Any) -> "Field":
        """The input of a task that labels texts."""
        return cls(name, task.tokenizer, "framed", task.characters)

    # One text

    def parse(self, text: str) -> str:
        return text

    def show(self, value: str) -> str:
        return value

    @property
    def size_names(self) -> Sequence[str]:
        if self.role in ("written", "ended"):
            return ("tokens", "outputs")
        return ("tokens", "characters") if self.spelt else ("tokens",)

    # All texts

    def check(self, parts: Sequence[Part], base: Path | None = None) -> Iterator[Finding]:
        """Characters, scripts, markup, and what one part has in another form than training."""
        for part in parts:
            yield from checks.check(part)
        yield from checks.markup(parts)
        yield from checks.compare(parts, lowercase=self.config.lowercase)

    def covers(self, parts: Sequence[Part]) -> Iterator[Finding]:
        """Whether the tokenizer fits the data."""
        return coverage.check(parts, self.tokenizer, self.config.kind)

    def at_least(self, values: Sequence[str]) -> list[int]:
        """Tokens that texts have; before the tokenizer is trained, those that they surely have."""
        if self.learnt is not None:
            return [len(row) for row in self.learnt.encode(values)]
        if self.config.kind in ("character", "bytes"):
            return [len(line) for line in values]
        return [len(line.split()) for line in values]

    def fit(self, values: Iterable[str]) -> "Field":
        if not self.spelt:
            return self.having(Tokenizer.train(self.config, values))
        texts = list(values)
        made = Tokenizer.train(self.config, texts)
        spelt = Spelling.train(chain.from_iterable(map(made.words, texts)))
        return self.having(made, spelt)

    def having(self, tokenizer: Tokenizer, spelling: Spelling | None = None) -> "Field":
        """The same field with what another has learnt."""
        return replace(self, learnt=tokenizer, spelling=spelling)

    def share(self, other: Any) -> "Field":
        return self.having(other.tokenizer)

    @property
    def file(self) -> str:
        return f"{self.name}.tokenizer.json"

    def load(self, folder: Path) -> "Field":
        made = Tokenizer.load(folder / self.file, self.config)
        return self.having(made, Spelling.load(folder) if self.role != "written" else None)

    def save(self, folder: Path) -> None:
        if self.spelling:
            self.spelling.save(folder)
        self.tokenizer.save(folder / self.file)  # last: where it is, all is

    # What has learnt from data

    @property
    def tokenizer(self) -> Tokenizer:
        assert self.learnt is not None
        return self.learnt

    @property
    def size(self) -> Mapping[str, int]:
        tokens = len(self.tokenizer)
        if self.role in ("written", "ended"):
            return {"tokens": tokens, "outputs": tokens}
        return {"tokens": tokens} | ({"characters": len(self.spelling)} if self.spelling else {})

    @property
    def vocabulary(self) -> str:
        return " ".join([self.tokenizer.hash, *([self.spelling.hash] if self.spelling else [])])

    @property
    def columns(self) -> Mapping[str, Column]:
        return columns(self.name, self.tokenizer, self.spelling)

    def length(self, row: Row) -> int:
        return len(row[self.name]) - (self.role == "ended")

    def verify(self, store: Store, longest: int) -> None:
        if self.role == "ended":
            by = self.tokenizer
            most = sys.maxsize if self.running else longest + 1
            ends = range(by.end, len(by))  # END is a token of its own here
            return store.check(self.name, values=ends, longest=most, end=by.end)
        verify(self, store, longest)
        if self.spelling is not None:
            words = store.lengths(f"{self.name}_letters")
            agree(store, np.array_equal(words, store.lengths(self.name)))

    def encode(self, values: Sequence[str]) -> list[Row]:
        encoded = self.tokenizer.encode(values)
        if self.role == "ended":
            return [{self.name: [*tokens, self.tokenizer.end]} for tokens in encoded]
        if self.spelling is None:
            return [{self.name: tokens} for tokens in encoded]
        spelt = self.spelling.encode([self.tokenizer.words(text) for text in values])
        return [
            spelt_row(self.name, tokens, each) for tokens, each in zip(encoded, spelt, strict=True)
        ]

    def encode_flat(self, values: Sequence[str]) -> dict[str, Flat]:
        if self.role == "ended" or self.spelling is not None:
            return super().encode_flat(values)
        return {self.name: self.tokenizer.encode_flat(values)}

    def sizes(self, flat: Mapping[str, Flat]) -> Lengths:
        return flat[self.name][1] - (self.role == "ended")

    @property
    def edges(self) -> int:
        """Tokens that stand around a text where it is read."""
        return {"framed": 2, "read": 1, "written": 1, "ended": 0}[self.role]

    def lengths(self, store: Store) -> Lengths:
        return store.lengths(self.name) + self.edges

    def cut(self, row: Row, most: int) -> Row:
        """The first tokens of a text; what is ended stays so."""
        if self.role == "ended":
            whole = len(row[self.name]) <= most + 1
            return {
                self.name: row[self.name] if whole else [*row[self.name][:most], row[self.name][-1]]
            }
        found = {self.name: row[self.name][:most]}
        if self.spelling is None:
            return found
        letters = row[f"{self.name}_letters"][:most]
        characters = row[f"{self.name}_characters"][: int(sum(letters))]
        return found | {f"{self.name}_characters": characters, f"{self.name}_letters": letters}

    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        found = arrays(self.name, [row[self.name] for row in rows], self.role, self.tokenizer)
        if self.running:
            found[f"{self.name}_in"][:, 0] = self.before
        if self.spelling is not None:
            shape, before = found[self.name].shape, int(self.role == "framed")
            found |= collated_spelling(self.name, rows, shape, before)
        return found

    def targets(self, arrays: Mapping[str, Any]) -> int:
        predicted = self.role in ("written", "ended")
        return int(arrays[f"{self.name}_mask"].sum()) if predicted else 0

    @property
    def before(self) -> int:
        """What is read before the first token that is to be said."""
        return self.tokenizer.end if self.running else self.tokenizer.start

    def pieces(self, row: Row) -> list[str]:
        return self.tokenizer.pieces([int(token) for token in row[self.name]])

    def positions(self, row: Row) -> list[str]:
        return self.tokenizer.pieces(self.framed(row))

    def framed(self, row: Row) -> list[int]:
        """The tokens of a text as it is read."""
        by = self.tokenizer
        start = [by.start] if self.role == "framed" else []
        return [*start, *(int(token) for token in row[self.name]), by.end]

    def groups(self, row: Row) -> list[tuple[int, int]]:
        return self.tokenizer.groups(self.framed(row))

    def status(self, row: Row, longest: int) -> str:
        if all(token == self.tokenizer.unknown for token in row[self.name]):
            return "unknown"
        return "cut" if len(row[self.name]) > longest else "ok"


def arrays(
    name: str, rows: Sequence[Any], role: Role, by: Tokenizer | type[Tokenizer] = Tokenizer
) -> dict[str, Array]:
    """The tokens of texts as a batch has them, by their role."""
    tokens = [np.asarray(row, np.int64) for row in rows]
    if role in ("read", "framed"):
        start = [by.start] if role == "framed" else []
        found, mask = pad(tokens, by.pad, start=start, end=[by.end])
        return {name: found, f"{name}_mask": mask}
    if role == "written":
        read, mask = pad(tokens, by.pad, start=[by.start])
        said, _ = pad(tokens, by.pad, end=[by.end])
    else:
        said, mask = pad(tokens, by.pad)
        read = np.roll(said, 1, axis=1)
        read[:, 0] = by.start
    return {f"{name}_in": read, f"{name}_out": said, f"{name}_mask": mask}


def columns(name: str, by: Tokenizer, letters: Spelling | None) -> dict[str, Column]:
    """The arrays of a text that is read as tokens and, where words are spelt, as characters."""
    found = {name: token_column(len(by))}
    if letters is not None:
        found |= {
            f"{name}_characters": token_column(len(letters)),
            f"{name}_letters": Column("u2"),
        }
    return found


def token_column(size: int) -> Column:
    """Integers as wide as a vocabulary of this size needs."""
    return Column("u2" if size <= 1 << 16 else "u4")


def spelt_row(name: str, tokens: Any, spelt: spelling.Spelt) -> Row:
    return {name: tokens, f"{name}_characters": spelt[0], f"{name}_letters": spelt[1]}


def collated_spelling(
    name: str, rows: Sequence[Row], shape: tuple[int, ...], before: int
) -> dict[str, Array]:
    """characters (B, S, C) of a batch."""
    characters, letters = (
        [row[f"{name}_{each}"] for row in rows] for each in ("characters", "letters")
    )
    found = spelling.table(characters, letters, (shape[0], shape[1]), before)
    return {f"{name}_characters": found}


def verify(field: Any, store: Store, longest: int) -> None:
    """Tokens that the vocabulary has, and characters that are as many as the words say."""
    name, letters = field.name, field.spelling
    store.check(name, values=field.tokenizer.read, longest=longest)
    if letters is not None:
        store.check(f"{name}_characters", values=letters.characters.read)
        store.check(f"{name}_letters", values=range(spelling.LONGEST + 1))
        sums = store.sums(f"{name}_letters")
        agree(store, np.array_equal(sums, store.lengths(f"{name}_characters")))


def agree(store: Store, fits: bool) -> None:
    """Refuse columns that are not of the same texts."""
    if not fits:
        raise UserError(
            f"the stored data cannot be read: the columns of {store.name} are not of the same "
            "texts. Start a new run from the recipe"
        )
