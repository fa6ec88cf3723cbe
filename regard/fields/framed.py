"""Text that is read between START and END and whose own tokens are predicted, each by others.

A document of several lines is one text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.store import pad
from regard.fields import Array, Draw, Field as Base, Row, text

MASK, SEP = "[MASK]", "[SEP]"
"""How a user writes a place to be filled, and the border of two segments."""
MARKS = re.compile(r"(\[MASK\]|\[SEP\])")
Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Config(text.Config):
    """Such texts have no settings of their own."""


@dataclass(frozen=True)
class Field(text.Field):
    """Texts as tokens, framed; also as characters, if wanted."""

    role: text.Role = "framed"
    special = ("mask",)
    readable = False

    def encode(self, values: Sequence[str]) -> list[Row]:
        """The tokens of all lines of each text."""
        lines = [value.split("\n") for value in values]
        encoded = iter(self.tokenizer.encode([line for some in lines for line in some]))
        rows: list[Row] = [{self.name: [t for _ in some for t in next(encoded)]} for some in lines]
        words = ([w for line in some for w in self.tokenizer.words(line)] for some in lines)
        return self.with_letters(rows, words)

    def encode_flat(self, values: Sequence[str]) -> dict[str, Any]:
        if not any("\n" in value for value in values):
            return super().encode_flat(values)
        return Base.encode_flat(self, values)

    @property
    def size_names(self) -> Sequence[str]:
        return (*super().size_names, "outputs")

    @property
    def size(self) -> Mapping[str, int]:
        return {**super().size, "outputs": len(self.tokenizer)}

    @property
    def mask(self) -> int:
        """The token that stands for one to be found."""
        return self.tokenizer.named["mask"]

    def collate(self, rows: Sequence[Row], ids: Sequence[int], draw: Draw) -> dict[str, Array]:
        return self.framed_arrays(rows)

    def framed_arrays(self, rows: Sequence[Row]) -> dict[str, Array]:
        """Texts as they are, with nothing hidden."""
        found = text.arrays(self.name, [row[self.name] for row in rows], "framed", self.tokenizer)
        if any(f"{self.name}_second" in row for row in rows):
            segments = [np.asarray(row.get(f"{self.name}_second", ()), np.int64) for row in rows]
            found[f"{self.name}_segments"] = self._segments(segments, found[self.name].shape)
        return found | self.collated_letters(rows, found[self.name].shape, 1)

    def _segments(self, rows: Sequence[Places], shape: tuple[int, ...]) -> Array:
        """Which segment each position is of: a row has one number for each token of its text; the
        end is of the last one's."""
        table, _ = pad([np.concatenate([row[:1] * 0, row, row[-1:]]) for row in rows], 0)
        found = np.zeros(shape, np.int64)
        found[:, : table.shape[1]] = table
        return found

    def targets(self, arrays: Mapping[str, Any]) -> int:
        """From each of the n + 2 tokens the next one, or from the other end the one before."""
        mask = arrays[f"{self.name}_mask"]
        return int(mask.sum()) - len(mask)

    # What a user writes

    def blanks(self, line: str) -> Row:
        """The tokens of a text with places to be filled, and the segment of each token."""
        by, tokens, words = self.tokenizer, list[int](), list[str]()
        segments, segment = list[int](), 0
        if by.imported:  # it finds special tokens in a text itself
            marks = {MASK: by.spelling_of(self.mask), SEP: by.spelling_of(by.end)}
            tokens = by.encode([MARKS.sub(lambda found: marks[found[0]], line)])[0]
            ends = np.cumsum([0, *(token == by.end for token in tokens[:-1])])
            return {self.name: tokens, f"{self.name}_second": ends[: len(tokens)].tolist()}
        cut = ["", *(part for part in MARKS.split(line) if part), ""]
        for before, part, after in zip(cut, cut[1:], cut[2:], strict=False):
            if part == MASK:
                new = [self.mask]
            elif part == SEP:
                new = [by.end]
            else:
                # A token takes the whitespace before it, so that before a blank goes.
                goes = after == SEP or (after == MASK and (by.spaced or by.imported))
                text = part.rstrip() if goes else part
                goes_on = before == MASK
                new = by.encode_on(text) if goes_on else by.encode([text.lstrip()])[0]
            tokens += new
            words += [""] if part in (MASK, SEP) else by.words(part) if self.spelt else []
            segments += [segment] * len(new)
            segment += part == SEP
        return self.with_letters([{self.name: tokens, f"{self.name}_second": segments}], [words])[0]

    def without(self, row: Row, place: int) -> Row:
        """The text with a blank in the place of a token."""
        before, after = self.part(row, 0, place), self.part(row, place + 1, len(row[self.name]))
        blank: dict[str, list[int]] = {self.name: [self.mask], f"{self.name}_letters": [0]}
        return {name: [*before[name], *blank.get(name, []), *after[name]] for name in before}

    def filled(self, row: Row, said: Sequence[int]) -> str:
        """The text of a row whose blanks are filled, or shown as such where nothing is said."""
        by, words = self.tokenizer, iter(said)
        parts: list[list[int]] = [[]]
        for token in map(int, row[self.name]):
            if token == by.end:
                parts.append([])
            else:
                parts[-1].append(next(words, token) if token == self.mask else token)
        return f" {SEP} ".join(map(self._shown, parts))

    def _shown(self, tokens: Sequence[int]) -> str:
        """A text, in which a blank stands between blanks."""
        runs = [list(run) for _, run in groupby(tokens, lambda token: token == self.mask)]
        shown = [
            " ".join([MASK] * len(run)) if run[0] == self.mask else self.tokenizer.decode(run)
            for run in runs
        ]
        between = " " if self.tokenizer.spaced or self.config.kind == "word" else ""
        return between.join(shown)

    def cut(self, row: Row, most: int) -> Row:
        return self.part(row, 0, most)

    def part(self, row: Row, start: int, stop: int) -> Row:
        """The tokens from `start` up to `stop`."""
        own = (self.name, f"{self.name}_second")
        found = {name: row[name][start:stop] for name in own if name in row}
        return {**found, **self.letters_of(row, start, stop)}
