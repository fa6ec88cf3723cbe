"""Text that a tokenizer cuts: read by an encoder, or written by a decoder."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from regard.checks import coverage, text as checks, whitespace
from regard.checks.findings import Finding
from regard.checks.sides import Part
from regard.data import spelling, tokenizers, vector_files
from regard.data.batching import Lengths
from regard.data.spelling import Spelling
from regard.data.store import Column, Store, pad
from regard.data.tokenizers import Tokenizer
from regard.errors import UserError
from regard.fields import SEPARATOR, Array, Draw, Field as Base, Flat, Row

Role = Literal["read", "framed", "written", "ended"]
"""How it comes into a batch: x₁ … x_n END, or START x₁ … x_n END, to be read; or to be written, as
START y₁ … y_n that is read and y₁ … y_n END that is said; `ended` ones are stored with END."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Text has no settings of its own: what a token is, the section `tokenizer` decides."""


@dataclass(frozen=True)
class Tokenised(Base):
    """What a tokenizer has cut; where a token is a whole word also as characters, if wanted.

    A row has tokens NAME (S); of words that are spelt also the characters of all, NAME_characters,
    and how many each word has, NAME_letters (S).
    """

    name: str
    config: tokenizers.Config
    _: KW_ONLY
    spelt: bool = False
    """Whether words come with their characters."""
    learnt: Tokenizer | None = None
    spelling: Spelling | None = None
    special: ClassVar[tuple[str, ...]] = ()
    """Names of special tokens that its tokenizer has beside the usual ones."""

    @property
    def size_names(self) -> Sequence[str]:
        return ("tokens", "characters") if self.spelt else ("tokens",)

    def keep(self, value: Any) -> str:
        """A document may have several lines."""
        shown = self.show(value)
        return shown.replace(SEPARATOR, SEPARATOR + "0").replace("\n", SEPARATOR + "1")

    def kept(self, line: str) -> Any:
        return self.parse(line.replace(SEPARATOR + "1", "\n").replace(SEPARATOR + "0", SEPARATOR))

    def check(self, parts: Sequence[Part], base: Path | None = None) -> Iterator[Finding]:
        """Characters, scripts, markup, and what one part has in another form than training."""
        for part in parts:
            yield from checks.check(part)
        yield from checks.markup(parts)
        yield from whitespace.check(parts)
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

    def fit(self, values: Iterable[str]) -> "Tokenised":
        values = chain(values, self._further())
        if not self.spelt:
            return replace(self, learnt=Tokenizer.train(self.config, values, self.special))
        texts = list(values)
        made = Tokenizer.train(self.config, texts, self.special)
        spelt = Spelling.train(chain.from_iterable(map(made.words, texts)))
        return replace(self, learnt=made, spelling=spelt)

    def _further(self) -> Iterator[str]:
        """Words that are known whether the training part has them or not, as often as is needed."""
        if self.config.words_of:
            for word, _ in vector_files.entries(Path(self.config.words_of)):
                yield " ".join([word] * self.config.min_frequency)

    def share(self, other: Any) -> "Tokenised":
        return replace(self, learnt=other.tokenizer)

    @property
    def file(self) -> str:
        return f"{self.name}.tokenizer.json"

    def load(self, folder: Path) -> "Tokenised":
        made = Tokenizer.load(folder / self.file, self.config)
        return replace(self, learnt=made, spelling=Spelling.load(folder) if self.spelt else None)

    def save(self, folder: Path) -> None:
        if self.spelling:
            self.spelling.save(folder)
        self.tokenizer.save(folder / self.file)  # last: where it is, all is

    @property
    def tokenizer(self) -> Tokenizer:
        assert self.learnt is not None
        return self.learnt

    @property
    def size(self) -> Mapping[str, int]:
        characters = {"characters": len(self.spelling)} if self.spelling else {}
        return {"tokens": len(self.tokenizer)} | characters

    @property
    def vocabulary(self) -> str:
        return " ".join([self.tokenizer.hash, *([self.spelling.hash] if self.spelling else [])])

    @property
    def columns(self) -> Mapping[str, Column]:
        found = {self.name: token_column(len(self.tokenizer))}
        if self.spelling is not None:
            found[f"{self.name}_characters"] = token_column(len(self.spelling))
            found[f"{self.name}_letters"] = Column("u2")
        return found

    def verify(self, store: Store, longest: int) -> None:
        """Tokens that the vocabulary has, and characters that are as many as the words say."""
        store.check(self.name, values=self.tokenizer.read, longest=longest)
        if self.spelling is not None:
            characters, letters = f"{self.name}_characters", f"{self.name}_letters"
            store.check(characters, values=self.spelling.characters.read)
            store.check(letters, values=range(spelling.LONGEST + 1))
            agree(store, np.array_equal(store.sums(letters), store.lengths(characters)))

    def with_letters(self, rows: list[Row], words: Iterable[Sequence[str]]) -> list[Row]:
        """Rows with the characters of their words, if these are spelt."""
        if self.spelling is None:
            return rows
        return [
            {**row, f"{self.name}_characters": characters, f"{self.name}_letters": letters}
            for row, (characters, letters) in zip(rows, self.spelling.encode([*words]), strict=True)
        ]

    def letters_of(self, row: Row, start: int, stop: int) -> Row:
        """The characters of the words from `start` up to `stop` of a row, if they are spelt."""
        if self.spelling is None:
            return {}
        letters, characters = (row[f"{self.name}_{each}"] for each in ("letters", "characters"))
        first, last = (int(sum(letters[:place])) for place in (start, stop))
        return {
            f"{self.name}_characters": characters[first:last],
            f"{self.name}_letters": letters[start:stop],
        }

    def collated_letters(
        self, rows: Sequence[Row], shape: tuple[int, ...], before: int
    ) -> dict[str, Array]:
        """characters (B, S, C) of a batch, if words are spelt."""
        if self.spelling is None:
            return {}
        characters, letters = (
            [row[f"{self.name}_{each}"] for row in rows] for each in ("characters", "letters")
        )
        found = spelling.table(characters, letters, (shape[0], shape[1]), before)
        return {f"{self.name}_characters": found}

    def pieces(self, row: Row) -> list[str]:
        return self.tokenizer.pieces([int(token) for token in row[self.name]])

    def status(self, row: Row, longest: int, *, strict: bool = False) -> str:
        unknown = [token == self.tokenizer.unknown for token in row[self.name][:longest]]
        if strict:
            cut = len(row[self.name]) > longest
            return "cut" if cut else "unknown" if any(unknown) else "ok"
        if all(token == self.tokenizer.unknown for token in row[self.name]):
            return "unknown"
        return "cut" if len(row[self.name]) > longest else "ok"


@dataclass(frozen=True)
class Field(Tokenised):
    """Texts as tokens."""

    role: Role = "read"
    running: bool = False
    """Whether texts follow each other, so that END of another stands before each; of any length."""
    readable = True

    @property
    def between_ends(self) -> bool:
        return self.role == "framed"

    @classmethod
    def of(cls, name: str, config: Config, task: Any) -> "Field":
        """The input of a task that labels texts."""
        return cls(name, task.tokenizer, "framed", spelt=task.characters)

    def parse(self, text: str) -> str:
        return text

    def show(self, value: str) -> str:
        return value

    # What has learnt from data

    @property
    def written(self) -> bool:
        """Whether it is predicted."""
        return self.role in ("written", "ended")

    @property
    def size_names(self) -> Sequence[str]:
        return (*super().size_names, *(["outputs"] if self.written else []))

    @property
    def size(self) -> Mapping[str, int]:
        return {**super().size, **({"outputs": len(self.tokenizer)} if self.written else {})}

    def verify(self, store: Store, longest: int) -> None:
        if self.role == "ended":
            by = self.tokenizer
            most = sys.maxsize if self.running else longest + 1
            ends = by.read if by.imported else range(by.end, len(by))  # END is a token here
            return store.check(self.name, values=ends, longest=most, end=by.end)
        super().verify(store, longest)
        if self.spelling is not None:
            words = store.lengths(f"{self.name}_letters")
            agree(store, np.array_equal(words, store.lengths(self.name)))

    def encode(self, values: Sequence[str]) -> list[Row]:
        encoded = self.tokenizer.encode(values)
        if self.role == "ended":
            return [{self.name: [*tokens, self.tokenizer.end]} for tokens in encoded]
        rows: list[Row] = [{self.name: tokens} for tokens in encoded]
        return self.with_letters(rows, map(self.tokenizer.words, values))

    def encode_flat(self, values: Sequence[str]) -> dict[str, Flat]:
        if self.role == "ended" or self.spelling is not None:
            return super().encode_flat(values)
        return {self.name: self.tokenizer.encode_flat(values)}

    def sizes(self, flat: Mapping[str, Flat]) -> Lengths:
        return flat[self.name][1] - (self.role == "ended")

    def lengths(self, store: Store) -> Lengths:
        """With the tokens that stand around a text where it is read."""
        edges = {"framed": 2, "read": 1, "written": 1, "ended": 0}[self.role]
        return store.lengths(self.name) + edges

    def cut(self, row: Row, most: int) -> Row:
        """The first tokens of a text; what is ended stays so."""
        tokens = row[self.name]
        if self.role == "ended":
            return {self.name: tokens if len(tokens) <= most + 1 else [*tokens[:most], tokens[-1]]}
        return {self.name: tokens[:most], **self.letters_of(row, 0, most)}

    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        found = arrays(self.name, [row[self.name] for row in rows], self.role, self.tokenizer)
        if self.running:
            found[f"{self.name}_in"][:, 0] = self.before
        if self.written:
            return found
        return found | self.collated_letters(
            rows, found[self.name].shape, int(self.role == "framed")
        )

    def targets(self, arrays: Mapping[str, Any]) -> int:
        return int(arrays[f"{self.name}_mask"].sum()) if self.written else 0

    def row(self, tokens: Sequence[int]) -> Row:
        """The row of tokens that are all there is."""
        return {self.name: tokens}

    @property
    def before(self) -> int:
        """What is read before the first token that is to be said."""
        by = self.tokenizer
        return by.end if self.running and not by.imported else by.start

    def positions(self, row: Row) -> list[str]:
        return self.tokenizer.pieces(self.framed(row))

    def framed(self, row: Row) -> list[int]:
        """The tokens of a text as it is read."""
        by = self.tokenizer
        start = [by.start] if self.role == "framed" else []
        return [*start, *(int(token) for token in row[self.name]), by.end]

    def groups(self, row: Row) -> list[tuple[int, int]]:
        return self.tokenizer.groups(self.framed(row))


def arrays(
    name: str, rows: Sequence[Any], role: Role, by: Tokenizer | type[Tokenizer] = Tokenizer
) -> dict[str, Array]:
    """The tokens of texts as a batch has them, by their role; special ones have the same numbers in
    all tokenizers, but for imported ones."""
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


def token_column(size: int) -> Column:
    """Integers as wide as a vocabulary of this size needs."""
    return Column("u2" if size <= 1 << 16 else "u4")


def agree(store: Store, fits: bool) -> None:
    """Refuse columns that are not of the same texts."""
    if not fits:
        raise UserError(
            f"the stored data cannot be read: the columns of {store.name} are not of the same "
            "texts. Start a new run from the recipe"
        )
