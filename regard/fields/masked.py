"""Text of which some tokens are hidden and to be found again (Devlin et al. 2019, section 3.1).

[CLS] x₁ … x_n [SEP] is read, with some x_t replaced, and these x_t are predicted. Which ones, and
by what they are replaced, is drawn for each example by the seed, the epoch and its number.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from regard.data.wrap import ENDS
from regard.errors import RecipeError
from regard.fields import Array, Draw, Row, framed
from regard.fields.framed import Places
from regard.recipe.values import Fraction, Range, Share

GOES_ON = "##"
"""Before what does not begin a word, in WordPiece."""
HALF = 0.5
"""Of a text of which rows are hidden."""
BYTE = re.compile(r"(<[0-9A-F]{2}>)+.*|.*(<[0-9A-F]{2}>)+")
"""A piece that is a part of a character."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Which tokens are to be predicted, and what is read in their place."""

    fraction: Fraction = 0.15
    """Of the tokens of each text; at least one of them."""
    masked: Annotated[float, Range(0, 1)] = 0.8
    """The fraction of these that [MASK] is read for."""
    random: Annotated[float, Range(0, 1)] = 0.1
    """The fraction of these that any other token is read for; the rest are read as they are."""
    whole_words: bool = False
    """Whether a word is chosen with all of its tokens or not at all."""
    spans: Annotated[float, Range(0, 1)] = 0.0
    """The fraction of the texts of which half is hidden in long rows instead, while the model
    learns. What stood in such a row is not found by the words beside it, but by what the whole text
    is about."""
    span: Annotated[int, Range(1, 1000)] = 20
    """Tokens of such a row."""
    subsample: Share = 0.0
    """Of a row, a token of frequency f is predicted with probability √(t / f), where t is this
    number; the others are hidden alone. 0: all are predicted. For a vocabulary of words."""

    def __post_init__(self) -> None:
        if self.masked + self.random > 1:
            raise RecipeError("masked: with random it must not be above 1")


@dataclass(frozen=True)
class Field(framed.Field):
    """Texts as tokens, framed. In a batch NAME (B, S) is what is read, NAME_out (B, S) what stands
    there, NAME_masked (B, S) which of it is predicted."""

    masking: Config = field(default_factory=Config)

    @cached_property
    def ordinary(self) -> NDArray[np.bool_]:
        """(V): whether a token stands for text."""
        found = np.ones(len(self.tokenizer), bool)
        found[sorted(self.tokenizer.special)] = False
        return found

    @cached_property
    def _others(self) -> Places:
        """What may be read in the place of a token."""
        return np.flatnonzero(self.ordinary)

    @cached_property
    def begins(self) -> NDArray[np.bool_]:
        """(V): whether a token begins a word."""
        by = self.tokenizer
        pieces = by.pieces(range(len(by)))
        if self.config.kind == "word":
            return np.ones(len(by), bool)
        if any(piece.startswith(GOES_ON) for piece in pieces):
            return np.array([not piece.startswith(GOES_ON) for piece in pieces])
        return np.array([not (piece[:1].isalnum() or BYTE.fullmatch(piece)) for piece in pieces])

    @cached_property
    def _blank(self) -> NDArray[np.bool_]:
        """(V): whether a token is nothing but the whitespace before a word."""
        pieces = self.tokenizer.pieces(range(len(self.tokenizer)))
        return np.array([piece == "▁" for piece in pieces])

    @cached_property
    def ends(self) -> NDArray[np.bool_]:
        """(V): whether a token ends a sentence."""
        pieces = self.tokenizer.pieces(range(len(self.tokenizer)))
        return np.array([piece[-1:] in ENDS for piece in pieces])

    @cached_property
    def _kept(self) -> NDArray[np.float64]:
        """(V): how probably a token of a hidden row is predicted. Words stand in the order of their
        frequency, f(r) = 1 / (r ln(V + 1)) by Zipf's law for rank r."""
        if not self.masking.subsample:
            return np.ones(len(self.tokenizer))
        words = self.ordinary.sum()
        rank = np.maximum(np.cumsum(self.ordinary), 1)
        chance: NDArray[np.float64] = np.sqrt(self.masking.subsample * rank * np.log(words + 1))
        return chance.clip(max=1.0)

    def drawn(self, tokens: Array, random: np.random.Generator) -> tuple[Places, Places]:
        """Which places of a text are hidden, and the tokens that are read there."""
        places = np.flatnonzero(self.ordinary[tokens])
        if not len(places):
            return places, places
        count = max(1, round(self.masking.fraction * len(places)))
        if self.masking.whole_words:
            chosen = self._words(tokens, places, count, random)
        else:
            chosen = np.sort(random.permutation(places)[:count])
        return chosen, self._read(tokens[chosen], random)

    def _read(self, hidden: Array, random: np.random.Generator) -> Places:
        """What is read in the place of tokens that are hidden."""
        said = hidden.astype(np.int64)
        chance = random.random(len(said))
        masked, others = self.masking.masked, self.masking.masked + self.masking.random
        some = self._others[random.integers(len(self._others), size=len(said))]
        said = np.where(chance < others, some, said)
        return np.where(chance < masked, self.mask, said)

    def _words(
        self, tokens: Array, places: Places, count: int, random: np.random.Generator
    ) -> Places:
        """The places of words that have about so many tokens together, one word at least."""
        first = self.begins[tokens[places]]
        first[1:] &= ~self._blank[tokens[places][:-1]]
        first[1:] |= np.diff(places) > 1
        first[0] = True
        word = np.cumsum(first) - 1
        order = random.permutation(int(word[-1]) + 1)
        sizes = np.cumsum(np.bincount(word)[order])
        most = max(count, int(sizes[0]))
        return places[np.isin(word, order[sizes <= most])]

    def drawn_rows(
        self, tokens: Array, random: np.random.Generator
    ) -> tuple[Places, Places, Places]:
        """Which places of a text are hidden in rows, the tokens that are read there, and which of
        the places are predicted: one at least."""
        places = np.flatnonzero(self.ordinary[tokens])
        if not len(places):
            return places, places, places
        span = min(self.masking.span, max(1, round(HALF * len(places))))
        row = (np.arange(len(places)) + random.integers(span)) // span
        rows = int(row[-1]) + 1
        chosen = places[np.isin(row, random.permutation(rows)[: max(1, round(HALF * rows))])]
        kept = self._kept[tokens[chosen]]
        predicted = random.random(len(chosen)) < kept
        if not predicted.any():
            predicted[kept.argmax()] = True
        return chosen, self._read(tokens[chosen], random), chosen[predicted]

    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        found = self.framed_arrays(rows)
        whole = found[self.name]
        read, masked = whole.copy(), np.zeros(whole.shape, bool)
        for line, (row, number) in enumerate(zip(rows, ids, strict=True)):
            tokens, random = np.asarray(row[self.name]), draw.random(int(number))
            places, said = self.drawn(tokens, random)
            predicted = places
            if draw.learning and random.random() < self.masking.spans:
                places, said, predicted = self.drawn_rows(tokens, random)
            read[line, places + 1] = said
            masked[line, predicted + 1] = True
        return found | {
            self.name: read,
            f"{self.name}_out": whole,
            f"{self.name}_masked": masked,
        }

    def targets(self, arrays: Mapping[str, Any]) -> int:
        return int(arrays[f"{self.name}_masked"].sum())

    def hidden(self, row: Row, random: np.random.Generator) -> tuple[Row, list[int]]:
        """A text with blanks in the place of some tokens, and these."""
        tokens = np.array(row[self.name], np.int64)
        places, _ = self.drawn(tokens, random)
        true = tokens[places].tolist()
        tokens[places] = self.mask
        return {self.name: tokens.tolist()}, true
