"""Texts that have one side: which lines belong to which part, how they are read and measured."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from regard.data import files, held_out
from regard.data.readers import Policy, Report, parallel
from regard.data.store import Array, pad
from regard.data.tokenizers import PAD, UNKNOWN
from regard.types import Batch


@dataclass(frozen=True, kw_only=True)
class HeldOut(held_out.HeldOut):
    """Shares of the training files' end, in characters, for parts that have no files of their own.

    The last share is the test part, the one before it the validation part; a line belongs where
    its first character does.
    """

    def parts(self, examples: Callable[[], Iterable[str]]) -> Iterator[files.Part]:
        total, place = sum(len(line) + 1 for line in examples()), 0
        first, second = (1 - self.validation - self.test) * total, (1 - self.test) * total
        for line in examples():
            yield "train" if place < first else "validation" if place < second else "test"
            place += len(line) + 1


class Line(NamedTuple):
    """A line and where it stands."""

    path: Path
    number: int
    text: str


@dataclass(frozen=True)
class Texts:
    """The lines of all parts. Of running text even empty ones are kept, whatever the policy."""

    data: files.Config
    held_out: HeldOut
    running: bool

    def has(self, part: files.Part) -> bool:
        return part == "train" or self.held_out.has(self.data, part)

    def lines(self, part: files.Part, report: Report) -> Iterator[Line]:
        """The lines of a part: of its own files, or of its share of the training files."""
        if part != "train" and (own := self.data.paths(part)):
            yield from self._lines(own, report)
            return
        paths, (low, high) = self.data.paths("train"), self.held_out.span(part)
        if (low, high) == (0, 1):
            yield from self._lines(paths, report)
            return
        total = sum(len(line.text) + 1 for line in self._lines(paths, Report()))
        place = 0
        for line in self._lines(paths, report):
            if low * total <= place < high * total:
                yield line
            place += len(line.text) + 1

    def _lines(self, paths: Sequence[Path], report: Report) -> Iterator[Line]:
        data = self.data
        policy = Policy(broken=data.on_bad_line, empty="keep") if self.running else data.policy
        for path in paths:
            rows = parallel([path], data.columns or ("text",), policy, report, header=data.header)
            for number, (text,) in rows:
                yield Line(path, number, text)


def spelling(parts: Sequence[str], symbols: Sequence[int]) -> int:
    """Bits to spell what the vocabulary lacks: its UTF-8 bytes, and one more to end it.

    Added to −log₂ p(unknown), they make a whole code for the line; without them a model could
    do well by calling everything unknown. `parts` are its characters or words, each a token.
    """
    pairs = zip(parts, symbols, strict=True)
    return sum(8 * len(part.encode()) + 8 for part, symbol in pairs if symbol == UNKNOWN)


def collate(rows: Sequence[Sequence[int] | Array], before: int, ids: Sequence[int]) -> Batch:
    """Texts, each with its end: the decoder reads `before` y₁ … y_{n−1} and is to say y₁ … y_n."""
    said, mask = pad([np.asarray(row) for row in rows], PAD)
    read = np.roll(said, 1, axis=1)
    read[:, 0] = before
    arrays = {"target_in": read, "target_out": said, "target_mask": mask}
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return Batch(tensors=tensors, ids=tuple(ids), targets=int(mask.sum()))
