"""Files of a word a line, a sentence between empty lines (CoNLL), with a column added."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from regard.data.extended import BOM, Request, Row, Table, flaw, parted
from regard.data.labelled import CONLLU
from regard.data.labels import UNKNOWN
from regard.errors import RecipeError, UserError

PASSED = re.compile(r"#|-DOCSTART-")
"""How a line begins that is a comment."""
SEVERAL = re.compile(r"\d+[-.]\d+\t")
"""How one begins in CoNLL-U that stands for several words, or for none."""


class Word(NamedTuple):
    """A line of a sentence."""

    text: str
    ending: str
    cells: Sequence[str] | None
    """None of a line that is no word."""


class Sentences(Table):
    """Each row is a sentence; its words are read, and a cell is added to the line of each."""

    def __init__(self, name: str, lines: Iterator[tuple[int, str]], request: Request) -> None:
        super().__init__(name, lines, request)
        if not request.lists:
            raise UserError(f"{name}: files of a word a line are for runs that tag")
        if request.wanted > 1:
            raise RecipeError(f"score: {name} has a word a line; give a sentence a line, or JSONL")
        usual = [each for each in request.usual if isinstance(each, int) or each.isdecimal()]
        given = [*request.columns, *usual]
        self.column = self._column(given[0]) if given else None

    def _column(self, column: str | int) -> int:
        text = str(column)
        if text in CONLLU:
            return CONLLU.index(text) + 1
        if not text.removeprefix("-").isdecimal() or not int(text):
            raise RecipeError(
                f"column: {text!r}: a number, from 1, or a name of {', '.join(CONLLU)}"
            )
        return int(text)

    @property
    def names(self) -> Sequence[str]:
        return []

    def header(self, added: Sequence[str]) -> str:
        return ""

    def rows(self) -> Iterator[Row]:
        taken: list[tuple[int, str]] = []
        for number, line in self.lines:
            if line.strip().removeprefix(BOM):
                taken.append((number, line))
                continue
            if taken:
                yield self._row(taken)
            taken = []
            yield Row(number, *parted(line))
        if taken:
            yield self._row(taken)

    def _row(self, taken: list[tuple[int, str]]) -> Row:
        found = [self._word(*parted(line.removeprefix(BOM))) for _, line in taken]
        text = "".join(line for _, line in taken)
        comments = all(word.cells is None for word in found)
        return Row(taken[0][0], text, "", None if comments else found)

    def _word(self, text: str, ending: str) -> Word:
        cells = text.split("\t") if "\t" in text else text.split()
        conllu = len(cells) == len(CONLLU)
        passed = PASSED.match(text) or (conllu and SEVERAL.match(text))
        return Word(text, ending, None if passed else cells)

    def read(self, row: Row) -> tuple[Any, ...] | str:
        words = []
        for word in row.values:
            if word.cells is None:
                continue
            width = len(word.cells)
            column = self.column or (2 if width == len(CONLLU) else 1)
            if abs(column) > width:
                return f"{width} columns, and none is column {column}"
            words.append(word.cells[column - (column > 0)])
        if not all(map(str.strip, words)):
            return "a word is empty"
        return flaw(words) or (words,)

    def extended(self, row: Row, cells: Mapping[str, Any]) -> str:
        """A sentence of which nothing is said gets “_”."""
        [said] = cells.values()
        count = sum(word.cells is not None for word in row.values)
        said = said if said and len(said) == count else [UNKNOWN] * count
        tags, lines = iter(said), []
        for word in row.values:
            between = "\t" if "\t" in word.text or len(word.cells or ()) == 1 else " "
            new = "" if word.cells is None else between + next(tags)
            lines.append(word.text + new + word.ending)
        return (BOM if row.text.startswith(BOM) else "") + "".join(lines)

    def as_object(self, row: Row) -> dict[str, Any]:
        read = self.read(row)
        return {"words": None if isinstance(read, str) else read[0]}
