"""Texts and words in numbers: as tokens, and where a token is a whole word as characters, too."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data import tokenizers
from regard.data.store import Array, Store, pad
from regard.data.tokenizers import PAD, UNKNOWN, Tokenizer
from regard.errors import UserError
from regard.types import Sizes

LONGEST = 24
"""Characters that are read of a word: of a longer one, the first and the last twelve."""
RARE = 2
"""A character of fewer words is unknown, so that there is something to learn of those."""
SINGLE = tokenizers.Config(kind="character", min_frequency=RARE)


class EncodedText(NamedTuple):
    """A text in numbers, as it is stored."""

    symbols: Sequence[int] | Array
    pieces: Sequence[int] | Array
    """How many of the tokens each word has; nothing for a text that is not cut into words."""
    characters: Sequence[int] | Array
    """Those of all words, one word after the other."""
    letters: Sequence[int] | Array
    """How many characters each word has."""

    def part(self, start: int, stop: int) -> "EncodedText":
        """Words `start` to `stop`, or tokens where there are no words."""
        begin, end = start, stop
        if len(self.pieces):
            begin, end = (int(sum(self.pieces[:place])) for place in (start, stop))
        first, last = (int(sum(self.letters[:place])) for place in (start, stop))
        return EncodedText(
            self.symbols[begin:end],
            self.pieces[start:stop],
            self.characters[first:last],
            self.letters[start:stop],
        )

    def windows(self, longest: int) -> list["EncodedText"]:
        """Runs of whole words of at most so many tokens.

        A word that has more is one by itself, without its last ones: the first stands for it.
        """
        borders, total = [0], 0
        for n, size in enumerate(self.pieces):
            if total and total + size > longest:
                borders.append(n)
                total = 0
            total += int(size)
        borders.append(len(self.pieces))
        parts = [self] if len(borders) == 2 else [self.part(*pair) for pair in pairwise(borders)]
        return [
            part
            if len(part.symbols) <= longest
            else part._replace(symbols=part.symbols[:longest], pieces=[longest])
            for part in parts
        ]


class Lexicon:
    """The tokens of a vocabulary, and the characters that its words are made of."""

    def __init__(self, symbols: Tokenizer, characters: Tokenizer | None) -> None:
        self.symbols, self.characters = symbols, characters

    @classmethod
    def train(cls, config: tokenizers.Config, lines: Sequence[str], *, spelling: bool) -> "Lexicon":
        """With `spelling`, tokens are whole words, and have characters, too."""
        symbols = Tokenizer.train(config, lines)
        if not spelling:
            return cls(symbols, None)
        words = dict.fromkeys(chain.from_iterable(map(symbols.words, lines)))
        return cls(symbols, Tokenizer.train(SINGLE, words))

    @classmethod
    def load(cls, folder: Path, config: tokenizers.Config | None = None) -> "Lexicon":
        characters = folder / "characters.tokenizer.json"
        return cls(
            Tokenizer.load(folder / "source.tokenizer.json", config),
            Tokenizer.load(characters, SINGLE) if characters.is_file() else None,
        )

    def save(self, folder: Path) -> None:
        self.symbols.save(folder / "source.tokenizer.json")
        if self.characters:
            self.characters.save(folder / "characters.tokenizer.json")

    def texts(self, lines: Sequence[str]) -> list[EncodedText]:
        """Texts that the tokenizer cuts."""
        encoded = self.symbols.encode(lines)
        if self.characters is None:
            return [EncodedText(symbols, (), (), ()) for symbols in encoded]
        words = [self.symbols.words(line) for line in lines]
        spelt = self._spelt(words)
        pairs = zip(encoded, spelt, strict=True)
        return [EncodedText(symbols, (), *_flat(each)) for symbols, each in pairs]

    def sentences(self, sentences: Sequence[Sequence[str]]) -> list[EncodedText]:
        """Texts that are words already."""
        flat = iter(self.symbols.encode([word for words in sentences for word in words]))
        # A word of two tokens would be two positions, but has one spelling.
        most = None if self.characters is None else 1
        pieces = [[next(flat)[:most] or [UNKNOWN] for _ in words] for words in sentences]
        if self.characters is None:
            return [EncodedText(*_flat(each), (), ()) for each in pieces]
        pairs = zip(pieces, self._spelt(sentences), strict=True)
        return [EncodedText(*_flat(each), *_flat(spelt)) for each, spelt in pairs]

    def _spelt(self, sentences: Sequence[Sequence[str]]) -> Iterator[list[list[int]]]:
        """Characters of each word of each sentence."""
        assert self.characters is not None
        different = list(dict.fromkeys(word for words in sentences for word in words))
        known = dict(zip(different, self.characters.encode([*map(_cut, different)]), strict=True))
        return ([known[word] for word in words] for words in sentences)

    def ranges(self) -> dict[str, range]:
        """The numbers that the stores of coded texts may hold."""
        letters = len(self.characters) if self.characters else UNKNOWN + 1
        return {
            "symbols": range(UNKNOWN, len(self.symbols)),
            "pieces": range(1, 1 << 32),
            "characters": range(UNKNOWN, letters),
            "letters": range(LONGEST + 1),
        }

    def sizes(self, writes: str, outputs: int, known: str = "") -> Sizes:
        """Of a model that reads this and predicts so many outputs of another field, which are known
        by a hash of their names."""
        source = {"tokens": len(self.symbols)}
        if self.characters is not None:
            source["characters"] = len(self.characters)
        fields = {"source": source, writes: {"outputs": outputs}}
        hashes = [self.symbols.hash, self.characters.hash if self.characters else ""]
        vocabularies = {"source": " ".join(hashes), writes: known}
        return Sizes(fields, reads="source", writes=writes, vocabularies=vocabularies)


def _cut(word: str) -> str:
    half = LONGEST // 2
    return word if len(word) <= LONGEST else word[:half] + word[-half:]


def _flat(rows: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """One after the other, and the length of each."""
    return [each for row in rows for each in row], [len(row) for row in rows]


class LabelledStore:
    """The coded texts of a part, with their labels, in the stores of a folder."""

    def __init__(
        self,
        folder: Path,
        part: str,
        lexicon: Lexicon | None = None,
        labels: range = range(1 << 32),
        each: Literal["text", "word", "any"] = "any",
        longest: int = sys.maxsize,
    ) -> None:
        """Refused are tokens that the lexicon lacks, any but these labels, longer texts than these
        and stores that do not fit; `each` is what has one label, if anything has."""
        known = lexicon.ranges() if lexicon else {}
        names = {name: known.get(name, range(1 << 32)) for name in EncodedText._fields}
        most = {"symbols": longest}
        self._stores = [
            Store(folder, f"{part}.{name}", symbols, most.get(name, sys.maxsize))
            for name, symbols in names.items()
        ]
        self._labels = Store(folder, f"{part}.labels", labels)
        self.lengths = self._stores[0].lengths
        if not self._fits(each):
            raise UserError(
                f"the stored data cannot be read: the files {folder / part}.* are not of the same "
                "texts. Start a new run from the recipe"
            )

    def _fits(self, each: str) -> bool:
        """Whether all stores are of the same texts, and each word or text has its label."""
        symbols, pieces, characters, letters = self._stores
        if any(len(store) != len(self) for store in self._stores):
            return False
        words = (pieces if len(pieces.tokens) else symbols).lengths
        counts = {"text": np.ones_like(words), "word": pieces.lengths}.get(each)
        whole = not len(pieces.tokens) or np.array_equal(pieces.sums(), symbols.lengths)
        spelt = not len(letters.tokens) or np.array_equal(letters.lengths, words)
        return (
            whole
            and spelt
            and np.array_equal(letters.sums(), characters.lengths)
            and (counts is None or np.array_equal(self._labels.lengths, counts))
            and (each != "word" or bool((pieces.lengths > 0).all()))
        )

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, number: int) -> EncodedText:
        return EncodedText(*(store[number] for store in self._stores))

    def finite(self) -> bool:
        """Whether labels that are the bits of numbers are finite, or NaN where one is not known."""
        pieces = self._labels.tokens.pieces()
        return not any(np.isinf(piece.astype("<u4").view("<f4")).any() for piece in pieces)

    def labels(self, number: int) -> Array:
        return self._labels[number]

    @staticmethod
    def write(
        folder: Path, part: str, size: int, rows: Iterable[tuple[EncodedText, Sequence[int]]]
    ) -> None:
        """`size` is more than any number in the rows."""
        names = [f"{part}.{name}" for name in (*EncodedText._fields, "labels")]
        columns: Iterator[Any] = ((*coded, labels) for coded, labels in rows)
        Store.write(folder, names, size, columns)


def collate(
    rows: Sequence[EncodedText], *, start: Sequence[int] = (), end: Sequence[int] = ()
) -> dict[str, Tensor]:
    """source and its mask; source_first, the first symbol of each word, with the mask of words; and
    source_characters (B, S, C), 0 where a word has ended, none at `start` and `end`."""
    source, mask = pad([np.asarray(row.symbols) for row in rows], PAD, start=start, end=end)
    arrays = {"source": source, "source_mask": mask}
    if any(len(row.pieces) for row in rows):
        pieces = [np.asarray(row.pieces, np.int64) for row in rows]
        begins = [np.cumsum(each) - each for each in pieces]
        arrays["source_first"], arrays["source_word_mask"] = pad(begins, 0)
    if any(len(row.letters) for row in rows):
        letters = pad([np.asarray(row.letters) for row in rows], 0, start=[0] * len(start))[0]
        wide = np.zeros(mask.shape, np.int64)
        wide[:, : letters.shape[1]] = letters
        inside = np.arange(wide.max()) < wide[..., None]  # (B, S, C)
        arrays["source_characters"] = np.zeros(inside.shape, np.int64)
        arrays["source_characters"][inside] = np.concatenate(
            [np.asarray(r.characters) for r in rows]
        )
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
