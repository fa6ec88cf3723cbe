"""Two passages after each other: the second goes on where the first ends, or is of another document
(Devlin et al. 2019, section 3.1, task 2)."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.passages import Documents
from regard.data.store import Array
from regard.recipe.values import Range, Weight

NEXT, OTHER = 0, 1
"""What is true of the second passage."""
NAMES = ("next", "other")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Whether windows are pairs, of which a model is to say if they belong together."""

    next_sentence: bool = False
    """Whether a window is [CLS] a [SEP] b [SEP], and model.heads.next says if b follows a."""
    random: Annotated[float, Range(0, 1)] = 0.5
    """The fraction of windows in which b is of another document."""
    weight: Weight = 1.0
    """Of this term of the loss, beside that of the hidden tokens."""


class Pair(NamedTuple):
    """Tokens with the border token between the passages, the passage of each, and what is true."""

    tokens: Array
    segments: Array
    label: int


class Pairs:
    """Windows of documents in two parts."""

    def __init__(
        self,
        documents: Documents,
        ends: NDArray[np.bool_],
        begins: NDArray[np.bool_],
        end: int,
        random: float,
    ) -> None:
        """`ends` and `begins` say of each token whether it ends a sentence and begins a word."""
        self._documents, self._end, self._random = documents, end, random
        self._ends, self._begins = ends, begins
        self._full = np.flatnonzero(documents.lengths)
        """The numbers of documents that have any text."""

    def cut(self, first: int, end: int, random: np.random.Generator) -> Pair:
        """The window at places [first, end) in two, after a sentence or else before a word. One of
        a single token, or in a data set of a single document, is followed by what follows it."""
        whole = self._documents.read(first, end)
        place = self._border(whole, random)
        one, other, label = whole[:place], whole[place:], NEXT
        if random.random() < self._random and len(self._full) > 1:
            other, label = self._elsewhere(first, max(1, len(other)), random), OTHER
        between = np.full(1, self._end, whole.dtype)
        segments = np.repeat([0, 1], [len(one) + 1, len(other)])
        return Pair(np.concatenate([one, between, other]), segments, label)

    def _border(self, tokens: Array, random: np.random.Generator) -> int:
        """Where the second passage begins."""
        inner = self._begins[tokens[1:]]
        after = np.flatnonzero(self._ends[tokens[:-1]] & inner) + 1
        places = after if len(after) else np.flatnonzero(inner) + 1
        return int(random.choice(places)) if len(places) else len(tokens) // 2

    def _elsewhere(self, first: int, length: int, random: np.random.Generator) -> Array:
        """So many tokens of another document, or fewer."""
        own = int(np.searchsorted(self._full, self._documents.number(first)))
        drawn = int(random.integers(len(self._full) - 1))
        number = int(self._full[drawn + (drawn >= own)])
        start, size = self._documents.start(number), int(self._documents.lengths[number])
        place = start + int(random.integers(max(1, size - length + 1)))
        return self._documents.read(place, min(place + length, start + size))
