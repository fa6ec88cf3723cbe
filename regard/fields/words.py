"""Sentences that are words already, each of which may become several tokens."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.checks.findings import Finding
from regard.checks.sides import Part
from regard.data import tokenizers
from regard.data.spelling import Spelling, flat
from regard.data.store import Column, Store, pad
from regard.data.tokenizers import Tokenizer
from regard.fields import SEPARATOR, Array, Draw, Field as Base, Row, text

Unit = Literal["words", "characters"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """Words have no settings of their own: what a token is, the section `tokenizer` decides."""


@dataclass(frozen=True)
class Field(Base):
    """Words as tokens, each with the place of its first one; also as characters, if wanted."""

    name: str
    config: tokenizers.Config
    unit: Unit = "words"
    """What a line is made of: words between whitespace, or single characters."""
    spelt: bool = False
    """Whether words come with their characters."""
    learnt: Tokenizer | None = None
    spelling: Spelling | None = None

    # One sentence

    def parse(self, line: str) -> tuple[str, ...]:
        return tuple(line.split() if self.unit == "words" else "".join(line.split()))

    def show(self, value: Sequence[str]) -> str:
        """Words between blanks; those inside a word become “_”."""
        between = " " if self.unit == "words" else ""
        return between.join("_".join(word.split()) for word in value)

    def keep(self, value: Sequence[str]) -> str:
        return SEPARATOR.join(value)

    def kept(self, line: str) -> tuple[str, ...]:
        return tuple(line.split(SEPARATOR))

    # All sentences

    def check(self, parts: Sequence[Part], base: Path | None = None) -> Iterator[Finding]:
        return self._text.check(parts, base)

    def covers(self, parts: Sequence[Part]) -> Iterator[Finding]:
        return self._text.covers(parts)

    def at_least(self, values: Sequence[Sequence[str]]) -> list[int]:
        return self._text.at_least([" ".join(value) for value in values])

    @property
    def _text(self) -> text.Field:
        return text.Field(self.name, self.config, learnt=self.learnt)

    def fit(self, values: Iterable[Sequence[str]]) -> "Field":
        sentences = list(values)
        made = Tokenizer.train(self.config, (" ".join(words) for words in sentences))
        if not self.spelt:
            return replace(self, learnt=made)
        spelt = chain.from_iterable(made.words(" ".join(words)) for words in sentences)
        return replace(self, learnt=made, spelling=Spelling.train(spelt))

    def load(self, folder: Path) -> "Field":
        made = Tokenizer.load(folder / f"{self.name}.tokenizer.json", self.config)
        return replace(self, learnt=made, spelling=Spelling.load(folder))

    def save(self, folder: Path) -> None:
        if self.spelling:
            self.spelling.save(folder)
        self.tokenizer.save(folder / f"{self.name}.tokenizer.json")  # last: where it is, all is

    # What has learnt from data

    @property
    def tokenizer(self) -> Tokenizer:
        assert self.learnt is not None
        return self.learnt

    @property
    def size_names(self) -> Sequence[str]:
        return ("tokens", "characters") if self.spelt else ("tokens",)

    @property
    def size(self) -> Mapping[str, int]:
        characters = {"characters": len(self.spelling)} if self.spelling else {}
        return {"tokens": len(self.tokenizer)} | characters

    @property
    def vocabulary(self) -> str:
        return " ".join([self.tokenizer.hash, *([self.spelling.hash] if self.spelling else [])])

    @property
    def columns(self) -> Mapping[str, Column]:
        own = text.columns(self.name, self.tokenizer, self.spelling)
        return own | {f"{self.name}_pieces": Column("u4")}

    def verify(self, store: Store, longest: int) -> None:
        text.verify(self, store, longest)
        name, pieces = self.name, f"{self.name}_pieces"
        store.check(pieces, values=range(1, 1 << 32))
        letters = self.spelling is None or np.array_equal(
            store.lengths(pieces), store.lengths(f"{name}_letters")
        )
        whole = np.array_equal(store.sums(pieces), store.lengths(name))
        text.agree(store, letters and whole and bool((store.lengths(pieces) > 0).all()))

    def encode(self, values: Sequence[Sequence[str]]) -> list[Row]:
        encoded = iter(self.tokenizer.encode([word for words in values for word in words]))
        # A word of two tokens would be two positions, but has one spelling.
        most = None if self.spelling is None else 1
        unknown = [self.tokenizer.unknown]
        found = [flat([next(encoded)[:most] or unknown for _ in words]) for words in values]
        rows: list[Row] = [
            {self.name: tokens, f"{self.name}_pieces": pieces} for tokens, pieces in found
        ]
        if self.spelling is None:
            return rows
        spelt = self.spelling.encode(values)
        return [
            {**row, **text.spelt_row(self.name, row[self.name], each)}
            for row, each in zip(rows, spelt, strict=True)
        ]

    def words(self, row: Row) -> int:
        """How many words a row has."""
        return len(row[f"{self.name}_pieces"])

    def cut(self, row: Row, most: int) -> Row:
        """The first words of a sentence, as many as have so many tokens."""
        return self.windows(row, most)[0]

    def windows(self, row: Row, longest: int) -> list[Row]:
        """Runs of whole words of at most so many tokens; none of a sentence without words.

        A word that has more is one by itself, without its last ones: the first stands for it.
        """
        pieces, borders, total = row[f"{self.name}_pieces"], [0], 0
        for n, size in enumerate(pieces):
            if total and total + size > longest:
                borders.append(n)
                total = 0
            total += int(size)
        borders.append(len(pieces))
        parts = [row] if len(borders) == 2 else [self.part(row, *b) for b in pairwise(borders)]
        return [self._whole(part, longest) for part in parts if self.words(part)]

    def _whole(self, row: Row, longest: int) -> Row:
        if len(row[self.name]) <= longest:
            return row
        cut: Any = {self.name: row[self.name][:longest], f"{self.name}_pieces": [longest]}
        return {**row, **cut}

    def part(self, row: Row, start: int, stop: int) -> Row:
        """Words `start` to `stop`."""
        pieces = row[f"{self.name}_pieces"]
        begin, end = (int(sum(pieces[:place])) for place in (start, stop))
        found = {self.name: row[self.name][begin:end], f"{self.name}_pieces": pieces[start:stop]}
        if self.spelling is None:
            return found
        letters, characters = (row[f"{self.name}_{each}"] for each in ("letters", "characters"))
        first, last = (int(sum(letters[:place])) for place in (start, stop))
        return found | {
            f"{self.name}_letters": letters[start:stop],
            f"{self.name}_characters": characters[first:last],
        }

    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        """Tokens and their mask; the place of each word's first token, with the mask of words."""
        name = self.name
        tokens, mask = pad([np.asarray(row[name]) for row in rows], self.tokenizer.pad)
        pieces = [np.asarray(row[f"{name}_pieces"], np.int64) for row in rows]
        first, word_mask = pad([np.cumsum(each) - each for each in pieces], 0)
        arrays: dict[str, Array] = {
            name: tokens,
            f"{name}_mask": mask,
            f"{name}_first": first,
            f"{name}_word_mask": word_mask,
        }
        if self.spelling is not None:
            arrays |= text.collated_spelling(name, rows, mask.shape, 0)
        return arrays

    def pieces(self, row: Row) -> list[str]:
        return self.tokenizer.pieces([int(token) for token in row[self.name]])

    def groups(self, row: Row) -> list[tuple[int, int]]:
        return list(pairwise(np.cumsum([0, *row[f"{self.name}_pieces"]]).tolist()))

    def status(self, row: Row, longest: int) -> str:
        return self._text.status(row, longest)
