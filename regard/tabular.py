"""What a model says of the rows of a table, in columns of their own; see data/extended.py."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.data import extended, media, readers
from regard.data.dialogues import MESSAGES
from regard.data.extended import Column, Request, Row, Table
from regard.data.extended_rows import Objects, opened as opened
from regard.data.extended_sentences import Sentences
from regard.decoding.prediction import WARNED
from regard.errors import RecipeError, UserError
from regard.fields import dialogue, words
from regard.front import CHUNK, Predictor
from regard.recipe import checked
from regard.tasks import Prediction, Tabular

LIKELIHOOD = ("log_prob", "perplexity", "bits_per_character")
NUMBERED = re.compile(r"^(line|input|output) \d+: ")
"""How messages call an input: its row says better where it is."""
HIDDEN = {"text", "source"}
"""Of a prediction: what the row has already, or the first of the new keys."""
Tell = Callable[[str], None]


class Answer(NamedTuple):
    """What is added to a row, by the names of the columns, and what a person should know of it."""

    cells: dict[str, Any]
    note: str = ""


Answers = Callable[[list[tuple[Any, ...]], int], list[Answer]]
"""What is said of rows, by the cells that are read; the first has this number, from 0."""


def request(
    predictor: Predictor, columns: Sequence[Column] = (), *, inputs: bool = False, **how: Any
) -> Request:
    """What is asked of a table: a column for each side of an example, or for the input alone. The
    user's `columns` come first, then those of the run's own data."""
    task, sides = predictor.task, predictor.sides[:1] if inputs else predictor.sides
    own: Mapping[str, Column] = task.table_columns() if isinstance(task, Tabular) else {}
    own = own or {side: side for side in predictor.sides}
    if columns and len(columns) != len(sides):
        raise RecipeError(f"columns: {len(columns)} for {len(sides)}: {', '.join(sides)}")
    usual = tuple(own[side] for side in sides)
    if isinstance(task.fields[sides[0]], words.Field):
        how["lists"] = str
    if isinstance(task.fields[sides[0]], dialogue.Prompt):
        how |= {"lists": dict, "whole": MESSAGES, "breaks": True}
    return Request(columns, usual, tuple(own.values()), **how)


def predict(
    predictor: Predictor,
    table: Table,
    *,
    details: bool = False,
    tell: Tell = lambda text: None,
    prefix: str | None = None,
    mark: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[str]:
    """The lines of a table with what is predicted from each row.

    With `details` every line is a JSON object with all that is known of its prediction, and `mark`.
    What is wrong with a row is reported with its file and line; the row stays. Options: those of
    `Predictor.predictions`.
    """
    task, split = predictor.task, bool(options.get("split"))
    said, value = "prediction", _text
    if isinstance(task, Tabular):
        said, value = task.said, task.said_value
    keys = [said]
    if split and isinstance(table, Sentences):
        raise RecipeError(f"split: the words of {table.name} come apart already")
    if split:
        more = ["offsets", "entities"] if isinstance(table, Objects) else []
        keys = ["words", said, *more]

    def answer(rows: list[tuple[Any, ...]], first: int) -> list[Answer]:
        texts = [_shown(predictor, row, table)[0] for row in rows]
        given: Any = {} if prefix is None else {"prefixes": [prefix] * len(texts)}
        found = predictor.predictions(texts, first=first, details=details, **given, **options)
        return [Answer(cells(each), each.problem or WARNED.get(each.status, "")) for each in found]

    def cells(found: Prediction) -> dict[str, Any]:
        known: dict[str, Any] = {said: value(found), "words": found.source}
        known |= {"offsets": found.offsets, "entities": found.entities}
        if not details:
            nothing = found.status in ("empty", "broken")
            return {key: None if nothing else known[key] for key in keys}
        twice = HIDDEN | ({"tokens"} if known[said] == found.tokens else set())
        more = {key: each for key, each in found.as_dict().items() if key not in twice}
        return {key: known[key] for key in keys} | more | dict(mark or {})

    answer([], 0)  # options that do not fit are refused before anything is written
    size = 1 if options.get("batch") == 1 else CHUNK
    return _extend(table, keys, answer, tell, size, as_objects=details)


def score(
    predictor: Predictor,
    table: Table,
    *,
    details: bool = False,
    tell: Tell = lambda text: None,
    mark: Mapping[str, Any] | None = None,
    each: Callable[[dict[str, Any]], None] = lambda result: None,
) -> Iterator[str]:
    """The lines of a table with log-probability and perplexity of each row's output, as `predict`
    has them. `each` is given every result."""
    keys = [*LIKELIHOOD[:2], *LIKELIHOOD[2:][: len(predictor.sides) == 1]]

    def answer(rows: list[tuple[Any, ...]], first: int) -> list[Answer]:
        sides = [*zip(*(_shown(predictor, row, table) for row in rows), strict=True)]
        found = []
        for result in predictor.score(*map(list, sides)):
            each(result)
            cells = {**result, **(mark or {})} if details else {k: result.get(k) for k in keys}
            found.append(Answer(cells, WARNED.get(result.get("status", "ok"), "")))
        return found

    return _extend(table, keys, answer, tell, CHUNK, as_objects=details)


def _text(prediction: Prediction) -> str:
    return prediction.text


def _shown(predictor: Predictor, row: tuple[Any, ...], table: Table) -> list[str]:
    """The cells of a row as the task reads them: words that come apart already as a text."""
    fields = predictor.task.fields.values()
    return [_text_of(field, cell, table) for cell, field in zip(row, fields, strict=False)]


def _text_of(field: Any, cell: str | list[Any], table: Table) -> str:
    if isinstance(cell, str):
        return media.located(cell, Path(table.name)) if field.on_disk else cell
    if isinstance(field, dialogue.Prompt):
        return json.dumps(cell, ensure_ascii=False)
    shown: str = field.show(cell)
    return shown


def _extend(
    table: Table, keys: Sequence[str], answer: Answers, tell: Tell, size: int, *, as_objects: bool
) -> Iterator[str]:
    """The lines of a table with the columns `keys`, so many rows at a time."""
    names: dict[str, str] = {}

    def named(cells: Mapping[str, Any]) -> dict[str, Any]:
        for key in cells.keys() - names.keys():
            names[key] = table.free(key)
        return {names[key]: each for key, each in cells.items()}

    nothing = dict.fromkeys(keys)
    if not as_objects and (header := table.header([*named(nothing)])):
        yield header
    rows, first = table.rows(), 0
    while chunk := list(islice(rows, size)):
        read = [row.values is not None and (row.defect or table.read(row)) for row in chunk]
        good = [each for each in read if isinstance(each, tuple)]
        found = iter(_each(answer, good, first))
        first += len(good)
        for row, cells in zip(chunk, read, strict=True):
            if cells is False:  # no row
                yield "" if as_objects else row.text + row.ending
                continue
            said = next(found) if isinstance(cells, tuple) else Answer(nothing, str(cells))
            if said.note:
                tell(f"{table.name}:{row.line}: {said.note}")
            yield _line(table, row, named(said.cells or nothing), as_objects)


def _line(table: Table, row: Row, cells: Mapping[str, Any], as_objects: bool) -> str:
    if not as_objects:
        return table.extended(row, cells)
    return checked.written({**table.as_object(row), **cells}) + "\n"


def _each(answer: Answers, rows: list[tuple[Any, ...]], first: int) -> list[Answer]:
    """What is said of rows; one of which nothing can be said does not spoil the others."""
    if not rows:
        return []
    try:
        return answer(rows, first)
    except RecipeError:
        raise
    except UserError as error:
        if len(rows) == 1:
            return [Answer({}, NUMBERED.sub("", str(error)))]
        return [each for n, row in enumerate(rows, first) for each in _each(answer, [row], n)]


def predict_file(
    predictor: Predictor,
    source: str | Path,
    *,
    column: Column | None = None,
    tell: Tell = lambda text: None,
    **options: Any,
) -> Iterator[str]:
    """The lines of a TSV, CSV or JSONL file with a column for what is predicted from each row:

    >>> with open("out.csv", "w", newline="") as file:
    ...     file.writelines(predict_file(regard.load("runs/mine"), "in.csv", column="text"))

    Options: those of `predict`.
    """
    path = Path(source)
    kind = extended.SUFFIXES.get(readers.suffix(path))
    if kind is None or kind == "text":
        raise UserError(f"{path}: not a table: its name must end in .tsv, .csv or .jsonl")
    asked = request(predictor, () if column is None else (column,), inputs=True)
    with readers.opened(path) as stream:
        lines: Any = stream
        table = opened(lines, str(path), kind, asked)
        yield from predict(predictor, table, tell=tell, **options)
