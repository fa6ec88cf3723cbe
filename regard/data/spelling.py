"""The characters that words are made of, for inputs that read them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data import tokenizers
from regard.data.tokenizers import Tokenizer

FILE = "characters.tokenizer.json"
LONGEST = 24
"""Characters that are read of a word: of a longer one, the first and the last twelve."""
RARE = 2
"""A character of fewer words is unknown, so that there is something to learn of those."""
SINGLE = tokenizers.Config(kind="character", min_frequency=RARE)
Spelt = tuple[list[int], list[int]]
"""The characters of all words, one word after the other, and how many each has."""


class Spelling:
    """Words as characters."""

    def __init__(self, characters: Tokenizer) -> None:
        self.characters = characters

    @classmethod
    def train(cls, words: Iterable[str]) -> "Spelling":
        """Of different words, in the order in which they come first."""
        return cls(Tokenizer.train(SINGLE, dict.fromkeys(words)))

    @classmethod
    def load(cls, folder: Path) -> "Spelling":
        return cls(Tokenizer.load(folder / FILE, SINGLE))

    def save(self, folder: Path) -> None:
        self.characters.save(folder / FILE)

    @property
    def hash(self) -> str:
        return self.characters.hash

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[Spelt]:
        """The characters of each word of each sentence."""
        different = list(dict.fromkeys(word for words in sentences for word in words))
        known = dict(zip(different, self.characters.encode([*map(_cut, different)]), strict=True))
        return [flat([known[word] for word in words]) for words in sentences]


def _cut(word: str) -> str:
    half = LONGEST // 2
    return word if len(word) <= LONGEST else word[:half] + word[-half:]


def flat(rows: Sequence[Sequence[int]]) -> Spelt:
    """One after the other, and the length of each."""
    return [each for row in rows for each in row], [len(row) for row in rows]


def table(
    characters: Sequence[Any], letters: Sequence[Any], shape: tuple[int, int], before: int
) -> NDArray[np.int64]:
    """(B, S, C), 0 where a word has ended; none at the first `before` places and after the last
    word."""
    wide = np.zeros(shape, np.int64)
    for line, row in zip(wide, letters, strict=True):
        line[before : before + len(row)] = row
    inside = np.arange(wide.max()) < wide[..., None]
    found = np.zeros(inside.shape, np.int64)
    found[inside] = np.concatenate([np.asarray(row) for row in characters])
    return found
