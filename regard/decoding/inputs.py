"""What users and tables give, as the values and rows of a field."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.files import called
from regard.data.media import CUT, FILES
from regard.data.readers import Finding, Policy, Report, excerpt
from regard.errors import UserError
from regard.fields import Field, Row
from regard.inputs import Names
from regard.model import Model
from regard.types import Batch


def parsed(field: Field, texts: Sequence[str], numbers: Sequence[int] | None = None) -> list[Any]:
    """The values that a user gives, each called by its number, from 0, where it is none."""
    found = []
    for n, text in zip(numbers or range(len(texts)), texts, strict=True):
        try:
            found.append(field.parse(text))
        except ValueError as error:
            raise UserError(
                f"{called(text, f'input {n + 1}')}: {error}: “{excerpt(text)}”"
            ) from None
    return found


def readable(
    field: Field, inputs: Sequence[str], numbers: Sequence[int], first: int = 0
) -> tuple[dict[int, Row], dict[int, str]]:
    """The rows of the inputs that have these numbers; and of files that cannot be read, which spoil
    no others, what is wrong with them."""
    if not field.on_disk:
        values = parsed(field, [inputs[n] for n in numbers], [first + n for n in numbers])
        return dict(zip(numbers, field.encode(values), strict=True)), {}
    rows, problems = {}, {}
    for n in numbers:
        try:
            [rows[n]] = field.encode([field.parse(inputs[n])])
        except ValueError as error:
            problems[n] = f"{inputs[n]}: {error}"
        except UserError as error:
            problems[n] = str(error)
    return rows, problems


def read_positions(
    model: Model, field: Field, row: Row, batch: Batch
) -> tuple[list[str], list[tuple[int, int]]]:
    """What stands at each position that an encoder reads, and which belong together."""
    reads: Any = model.input
    if not isinstance(reads, Names):
        return field.positions(row), field.groups(row)
    names = reads.names(batch)
    return names, [(n, n + 1) for n in range(len(names))]


def parsed_cell(
    field: Field, cell: str, path: Path, line: int, policy: Policy, report: Report
) -> Any | None:
    """The value of a cell of a table; None, with a report, of one that is none and is left out."""
    try:
        return field.cell(cell, path)
    except ValueError as error:
        shown = excerpt(cell)
        if field.on_disk:
            shown, report.most = excerpt(cell, width=CUT), FILES
        found = Finding(path, line, str(error), shown)
        if policy.broken == "refuse":
            raise UserError(str(found)) from None
        report.add(found)
        report.used -= 1  # the reader of the table has counted it
        return None
