"""Tables of text and of HTML: how results look on a terminal and in a notebook."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

STYLE = "text-align:left;padding:0.15em 0.8em;vertical-align:top"


class Block(NamedTuple):
    """A table with its title, and lines below it."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    notes: Sequence[str] = ()


class Shown:
    """What prints as a table, and is one of HTML in a notebook."""

    def blocks(self) -> list[Block]:
        """What is shown."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n\n".join(as_text(block) for block in self.blocks())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "\n".join(as_html(block) for block in self.blocks())


def as_text(block: Block) -> str:
    """Columns as wide as their cells; a cell is one line."""
    table = [[" ".join(cell.split()) for cell in row] for row in (block.header, *block.rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (table if any(block.header) else table[1:])
    ]
    return "\n".join([*([block.title] if block.title else []), *lines, *block.notes])


def as_html(block: Block) -> str:
    """The same; whatever comes from data is text, never HTML."""
    title = (
        f"<caption style='text-align:left'>{escape(block.title)}</caption>" if block.title else ""
    )
    head = "".join(f"<th style='{STYLE}'>{escape(cell)}</th>" for cell in block.header)
    rows = (
        "".join(f"<td style='{STYLE}'>{escape(cell)}</td>" for cell in row) for row in block.rows
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    headed = f"<thead><tr>{head}</tr></thead>" if any(block.header) else ""
    notes = "".join(f"<div>{escape(note)}</div>" for note in block.notes)
    return f"<table>{title}{headed}<tbody>{body}</tbody></table>{notes}"
