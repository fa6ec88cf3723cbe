"""Sentences that are words already, each of which may become several tokens."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from regard.data.batching import Lengths
from regard.data.spelling import flat
from regard.data.store import Column, Store, pad
from regard.data.tokenizer_training import APART, words_of
from regard.errors import RecipeError
from regard.fields import SEPARATOR, Array, Draw, Row
from regard.fields.text import Tokenised, agree

Unit = Literal["words", "characters"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """Words have no settings of their own: what a token is, the section `tokenizer` decides."""


@dataclass(frozen=True)
class Field(Tokenised):
    """Words as tokens, each with the place of its first one; also as characters, if wanted."""

    unit: Unit = "words"
    """What a line is made of: words between whitespace, or single characters."""
    framed: bool = False
    """Whether a sentence is read between START and END."""

    @property
    def between_ends(self) -> bool:
        return self.framed

    # One sentence

    def parse(self, line: str) -> tuple[str, ...]:
        return tuple(line.split() if self.unit == "words" else "".join(line.split()))

    def places(self, line: str, *, split: bool = False) -> list[tuple[int, int]]:
        """Where the words of a line begin and end, in characters. With `split`, punctuation parts
        from words, as by `tokenizer.split`, or else by "punctuation": “Paris, 3.5” is
        Paris , 3 . 5"""
        if split and self.unit == "characters":
            raise RecipeError("split: this run tags characters, which come apart already")
        if split:
            apart = self.config.split if self.config.split in APART else "punctuation"
            return [place for _, place in words_of(apart).pre_tokenize_str(line)]
        word = r"\S+" if self.unit == "words" else r"\S"
        return [found.span() for found in re.finditer(word, line)]

    def show(self, value: Sequence[str]) -> str:
        """Words between blanks; those inside a word become “_”."""
        between = " " if self.unit == "words" else ""
        return between.join("_".join(word.split()) for word in value)

    def keep(self, value: Sequence[str]) -> str:
        return SEPARATOR.join(value)

    def kept(self, line: str) -> tuple[str, ...]:
        return tuple(line.split(SEPARATOR))

    # All sentences

    def at_least(self, values: Sequence[Sequence[str]]) -> list[int]:
        return super().at_least([" ".join(value) for value in values])

    def fit(self, values: Iterable[Sequence[str]]) -> Tokenised:
        return super().fit(" ".join(words) for words in values)

    # What has learnt from data

    @property
    def size_names(self) -> Sequence[str]:
        return (*super().size_names, "start", "end")

    @property
    def size(self) -> Mapping[str, int]:
        """With the tokens that a reader of whole texts wants around a sentence."""
        return {**super().size, "start": self.tokenizer.start, "end": self.tokenizer.end}

    @property
    def columns(self) -> Mapping[str, Column]:
        return {**super().columns, f"{self.name}_pieces": Column("u4")}

    def verify(self, store: Store, longest: int) -> None:
        super().verify(store, longest)
        name, pieces = self.name, f"{self.name}_pieces"
        store.check(pieces, values=range(1, 1 << 32))
        letters = self.spelling is None or np.array_equal(
            store.lengths(pieces), store.lengths(f"{name}_letters")
        )
        whole = np.array_equal(store.sums(pieces), store.lengths(name))
        agree(store, letters and whole and bool((store.lengths(pieces) > 0).all()))

    def encode(self, values: Sequence[Sequence[str]]) -> list[Row]:
        encoded = iter(self.tokenizer.encode([word for words in values for word in words]))
        # A word of two tokens would be two positions, but has one spelling.
        most = None if self.spelling is None else 1
        unknown = [self.tokenizer.unknown]
        found = [flat([next(encoded)[:most] or unknown for _ in words]) for words in values]
        rows: list[Row] = [
            {self.name: tokens, f"{self.name}_pieces": pieces} for tokens, pieces in found
        ]
        return self.with_letters(rows, values)

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
        return {**found, **self.letters_of(row, start, stop)}

    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        """Tokens and their mask; the place of each word's first token, with the mask of words."""
        name = self.name
        by, before = self.tokenizer, int(self.framed)
        ends = {"start": [by.start], "end": [by.end]} if self.framed else {}
        tokens, mask = pad([np.asarray(row[name]) for row in rows], by.pad, **ends)
        pieces = [np.asarray(row[f"{name}_pieces"], np.int64) for row in rows]
        first, word_mask = pad([np.cumsum(each) - each + before for each in pieces], 0)
        return {
            name: tokens,
            f"{name}_mask": mask,
            f"{name}_first": first,
            f"{name}_word_mask": word_mask,
            **self.collated_letters(rows, mask.shape, before),
        }

    def lengths(self, store: Store) -> Lengths:
        return store.lengths(self.name) + 2 * self.framed

    def positions(self, row: Row) -> list[str]:
        by, tokens = self.tokenizer, [int(token) for token in row[self.name]]
        return by.pieces([by.start, *tokens, by.end] if self.framed else tokens)

    def groups(self, row: Row) -> list[tuple[int, int]]:
        """Words; START belongs to the first, END to the last."""
        borders = np.cumsum([0, *row[f"{self.name}_pieces"]]).tolist()
        if self.framed and len(borders) > 1:
            borders = [0, *(border + 1 for border in borders[1:-1]), borders[-1] + 2]
        return list(pairwise(borders))
