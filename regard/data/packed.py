"""Rows that are read more than once, kept in little memory: their text, and nothing around it.

A list of rows takes several times what their text does: an object for each field, for each row, for
each number. Here the fields of many rows are one text for each column.
"""

from array import array
from collections.abc import Iterable, Iterator
from itertools import islice

from regard.data.readers import Row

ROWS = 2048
"""That are kept together."""


class Packed:
    """Rows as `readers.parallel` gives them, of which no field holds a line break."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._count = 0
        self._blocks: list[tuple["array[int]", list[str]]] = []
        stream = iter(rows)
        while block := list(islice(stream, ROWS)):
            numbers = array("q", [number for number, _ in block])
            columns = zip(*(fields for _, fields in block), strict=True)
            self._blocks.append((numbers, ["\n".join(column) for column in columns]))
            self._count += len(block)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        for numbers, columns in self._blocks:
            yield from zip(numbers, self._fields(columns), strict=True)

    def _fields(self, columns: list[str]) -> Iterator[tuple[str, ...]]:
        return zip(*(column.split("\n") for column in columns), strict=True)

    def blocks(self) -> Iterator[tuple[list[int], list[list[str]]]]:
        """Numbers and columns of many rows at a time: the quickest way through all of them."""
        for numbers, columns in self._blocks:
            yield numbers.tolist(), [column.split("\n") for column in columns]

    def texts(self) -> Iterator[str]:
        """The fields of all rows, row by row."""
        for _, columns in self._blocks:
            for fields in self._fields(columns):
                yield from fields
