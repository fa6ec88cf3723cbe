"""Documents of any length in windows of a given one, cut elsewhere in each epoch.

All documents stand in a row, document i with its L_i tokens and then its end, so that place
c_i = Σ_{j<i} (L_j + 1) is its first token. A window is a stretch of places [first, end).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from regard.data.store import Array, Flat
from regard.recipe.values import Length

EDGES = 2
"""Tokens around a window: [CLS] before it and [SEP] after it."""
Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Config:
    """What is read at once."""

    length: Length = 128
    """Tokens of a window, those at its ends included; a longer document is read in several."""
    documents: Literal["line", "paragraph", "file"] = "line"
    """What a document is: a line, all lines up to an empty one, or a file."""
    crosses: bool = False
    """Whether windows go on into the next document, its beginning marked by [SEP], so that all are
    full; otherwise each window is of one document alone."""

    @property
    def room(self) -> int:
        """Tokens of a text in a window."""
        return max(1, self.length - EDGES)


def windows(
    lengths: Int[Numbers, " N"],
    room: int,
    crosses: bool,
    random: np.random.Generator | None = None,
) -> tuple[Int[Numbers, " W"], Int[Numbers, " W"]]:
    """(first, end) of windows of at most `room` places that hold every token once.

    A document of L tokens becomes k = ⌈L / room⌉ windows; by how much the first is shorter than
    room, at most k · room − L, is drawn, or half of that. Windows that cross documents begin at a
    place below `room` that is drawn.
    """
    begins = np.cumsum(lengths + 1) - (lengths + 1)
    if crosses:
        total = int((lengths + 1).sum())
        begin = int(random.integers(room)) if random else 0
        borders = np.unique(np.clip(np.arange(begin - room, total + room, room), 0, total))
        return borders[:-1], borders[1:]
    counts = -(-lengths // room)
    slack = np.maximum(counts * room - lengths, 0)
    drawn = random.integers(slack + 1) if random else slack // 2
    which = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Borders in a document: 0, room − drawn, 2 room − drawn, …; one that fits is a window.
    shift = np.where(counts > 1, drawn, 0)[which]
    first = np.maximum(number * room - shift, 0)
    end = np.minimum((number + 1) * room - shift, lengths[which])
    return begins[which] + first, begins[which] + end


class Windows:
    """The windows of all documents, cut anew in each epoch, as a function of the seed and it."""

    def __init__(self, lengths: Numbers, room: int, crosses: bool, seed: int, edges: int) -> None:
        self._lengths, self._room, self._crosses = lengths, room, crosses
        self._seed, self._edges = seed, edges
        self._known: dict[int, tuple[Numbers, Numbers]] = {}

    def of(self, epoch: int) -> tuple[Numbers, Numbers]:
        """(first, end) of each."""
        known = self._known.get(epoch)
        if known is None:
            random = np.random.Generator(np.random.PCG64([self._seed, epoch, self._room]))
            known = windows(self._lengths, self._room, self._crosses, random)
            # Another thread may still ask for the epoch before.
            self._known = {n: w for n, w in self._known.items() if n == epoch - 1} | {epoch: known}
        return known

    def sizes(self, epoch: int) -> Int[Numbers, "W 1"]:
        """Tokens of each, with those around it."""
        first, end = self.of(epoch)
        return (end - first + self._edges)[:, None]


class Documents:
    """The tokens of stored documents, by places."""

    def __init__(self, flat: Flat, end: int) -> None:
        """`end` is the token that ends a document, where a window goes on into the next."""
        self._flat, self._end = flat, end
        starts = np.asarray(flat.starts, np.int64)
        self.lengths: Numbers = np.diff(starts)
        self._places = starts + np.arange(len(starts))

    def number(self, place: int) -> int:
        """The document that a place is of."""
        return int(np.searchsorted(self._places, place, "right")) - 1

    def start(self, number: int) -> int:
        """The first place of a document."""
        return int(self._places[number])

    def read(self, first: int, end: int) -> Array:
        """The tokens at places [first, end)."""
        number = self.number(first)
        pieces = [] if first < end else [self._flat[:0]]
        while first < end:
            last = int(self._places[number + 1]) - 1
            pieces.append(self._flat[first - number : min(end, last) - number])
            if end > last:
                pieces.append(np.full(1, self._end, pieces[-1].dtype))
            first, number = last + 1, number + 1
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


class Letters:
    """The characters of the words of stored documents, by the same places."""

    def __init__(self, letters: Flat, characters: Flat) -> None:
        """How many characters each word has, and all of these."""
        self._letters, self._characters = Documents(letters, 0), characters

    def read(self, first: int, end: int) -> tuple[Array, Array]:
        """How many characters the words at places [first, end) have, and these; an end has none."""
        number = self._letters.number(first)
        before = self._letters.read(self._letters.start(number), first)
        begin = int(self._characters.starts[number]) + int(before.sum())
        letters = self._letters.read(first, end)
        return letters, self._characters[begin : begin + int(letters.sum())]
