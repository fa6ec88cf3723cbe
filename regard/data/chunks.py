"""A text in chunks whose tokens do not depend on what stands around them.

Most of any text is made of the same few chunks, so that each needs to be cut into tokens only once,
and a table knows it from then on: several times as fast as to cut every line. A chunk is

    for subwords that keep to whitespace      a blank, and what stands before the next one
    for subwords that keep to words           blanks, and what stands before the next ones
    for whole words                           what stands between blanks

Why no token crosses their borders: in the first, a blank begins a piece wherever it stands. In the
second, a piece takes a blank only as its first character, or whitespace alone; so none that has
begun goes on into the blanks before the next chunk, unless it is whitespace: what begins or ends
with whitespace other than blanks is none of these chunks. In the third, no word holds a blank.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

MOST = 1 << 17
"""Chunks that a table knows; a full one is begun anew."""
LONGEST = 60
"""Characters of one that it knows: longer ones are hardly seen again."""
LINES = 2048
"""Whose chunks are counted together."""
TOGETHER = 500
"""How often a chunk stands in one line of what a tokenizer is trained on."""
REPEATED = 1 << 25
"""How many chunks are repeated at most: a library that counts them again takes 1 µs for each."""
RUNS = re.compile(" +[^ ]+| +")


class Cut(NamedTuple):
    """How a line is cut into chunks."""

    prefix: str
    """What stands before each of them."""
    chunks: Callable[[str], list[str]]
    """Those of a line, each without its prefix."""
    alone: Callable[[str], bool]
    """Whether the tokens of such a chunk do not depend on what stands around it."""


def _at_blanks(line: str) -> list[str]:
    return line.split(" ")


def _at_runs(line: str) -> list[str]:
    """As at blanks, but several belong to what follows them."""
    if "  " in line or line[:1] == " " or line[-1:] == " ":
        return [chunk[1:] for chunk in RUNS.findall(" " + line)]
    return line.split(" ")


def _always(chunk: str) -> bool:
    return True


def _bounded(chunk: str) -> bool:
    """Whether neither end is whitespace but for the blanks that it begins with."""
    inner = chunk.lstrip(" ")
    return not inner or not (inner[0].isspace() or inner[-1].isspace())


BLANKS = Cut(" ", _at_blanks, _always)
RUNS_OF_BLANKS = Cut(" ", _at_runs, _bounded)
WORDS = Cut("", _at_blanks, _always)


def cut_of(kind: str, split: str) -> Cut | None:
    """How the lines of a tokenizer of this kind are cut; None where they are not."""
    match kind:
        case "bpe" | "unigram":
            return RUNS_OF_BLANKS if split == "words" else BLANKS
        case "word":
            return WORDS
    return None


class Encoder:
    """Cuts lines into tokens, by chunks where that can be done."""

    def __init__(
        self, cut: Cut | None, library: Callable[[Sequence[str]], list[list[int]]], size: int
    ) -> None:
        """`library` cuts whole texts, or chunks with their prefix, into tokens below `size`."""
        self._cut, self._library = cut, library
        self.kind = np.dtype("<u2" if size <= 1 << 16 else "<u4")
        self._known: dict[str, bytes] = {}

    def __call__(self, lines: Sequence[str]) -> list[bytes]:
        """The tokens of each line, as the bytes of numbers of the type `kind`."""
        if self._cut is None:
            return self._cut_whole(lines)
        known, chunks = self._known, self._cut.chunks  # another thread may begin a new one
        found, late = [], []
        for number, line in enumerate(lines):
            try:
                found.append(b"".join(map(known.__getitem__, chunks(line))) if line else b"")
            except KeyError:
                found.append(b"")
                late.append(number)
        if late:
            self._learn(known, [lines[number] for number in late])
            rest = []
            for number in late:
                row = [known.get(chunk) for chunk in chunks(lines[number])]
                if None in row:
                    rest.append(number)
                else:
                    found[number] = b"".join(row)  # type: ignore[arg-type]
            whole = self._cut_whole([lines[number] for number in rest])
            for number, tokens in zip(rest, whole, strict=True):
                found[number] = tokens
            if len(known) > MOST:
                self._known = {}
        return found

    def _learn(self, known: dict[str, bytes], lines: Iterable[str]) -> None:
        """What chunks of these lines are in tokens, where that is not known yet."""
        assert self._cut is not None
        seen = dict.fromkeys(chunk for line in lines for chunk in self._cut.chunks(line))
        short = (chunk for chunk in seen if len(chunk) <= LONGEST and chunk not in known)
        new = [chunk for chunk in short if self._cut.alone(chunk)]
        tokens = self._numbers(self._library([self._cut.prefix + chunk for chunk in new]))
        known.update(zip(new, tokens, strict=True))

    def _cut_whole(self, lines: Sequence[str]) -> list[bytes]:
        prefix = self._cut.prefix if self._cut else ""
        return self._numbers(self._library([prefix + line if line else "" for line in lines]))

    def _numbers(self, rows: Iterable[list[int]]) -> list[bytes]:
        return [np.array(row, self.kind).tobytes() for row in rows]


def counted(cut: Cut, lines: Iterable[str]) -> Counter[str]:
    """How often each chunk stands in these lines; one that is not made of chunks counts itself."""
    counts: Counter[str] = Counter()
    stream = iter(lines)
    while block := list(islice(stream, LINES)):
        chunks = " ".join(block).split(" ")  # those of all lines, if no blank follows another
        different = {*chunks}
        if "" in different or not all(map(cut.alone, different.difference(counts))):
            chunks = [chunk for line in block for chunk in _parts(cut, line)]
        counts.update(chunks)
    return counts


def _parts(cut: Cut, line: str) -> list[str]:
    parts = cut.chunks(line)
    return parts if all(map(cut.alone, parts)) else [line]


def repeated(counts: Counter[str], pieces: Callable[[str], list[str]]) -> Iterator[str]:
    """Lines that hold the pieces of each chunk as often as it was counted, between blanks; of very
    many chunks, in proportion to that, and at least once."""
    total = max(REPEATED, counts.total())
    for chunk, seen in counts.items():
        text = " ".join([*pieces(chunk), ""])
        count = max(1, seen * REPEATED // total)
        for first in range(0, count, TOGETHER):
            yield text * min(TOGETHER, count - first)
