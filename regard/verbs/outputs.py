"""What `predict` writes: the lines of one source."""

import csv
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from regard.console import streams
from regard.errors import RecipeError
from regard.recipe import checked
from regard.verbs.common import one_line
from regard.verbs.sources import Source

if TYPE_CHECKING:
    from regard.data.extended import Table
    from regard.front import Predictor

Header = Literal["auto", "yes", "no"]


@dataclass(frozen=True, kw_only=True)
class How:
    """What is asked of every source."""

    options: Mapping[str, Any]
    """Those of `Predictor.predictions`."""
    detailed: bool = False
    """Whether every line is a JSON object."""
    column: str | None = None
    delimiter: str = "auto"
    header: Header = "auto"
    mark: Mapping[str, Any] = field(default_factory=dict)
    """What every object says of the run."""


def lines(predictor: "Predictor", source: Source, how: How) -> Iterator[bytes]:
    """Each with its newline. What could not be read of an input is reported."""
    if not source.is_table or predictor.task.reads_files:
        found = _of_inputs(predictor, source, how)
        return (f"{line}\n".encode("utf-8", "backslashreplace") for line in found)
    return _of_rows(predictor, source, how)


def _of_rows(predictor: "Predictor", source: Source, how: How) -> Iterator[bytes]:
    """The rows of a table, with a column more."""
    from regard import tabular
    from regard.data.extended import encoded

    asked: Any = {"columns": [] if how.column is None else [how.column], "inputs": True}
    asked |= {"delimiter": how.delimiter, "header": how.header}
    given: Any = {"details": how.detailed, "tell": streams.warn, "mark": how.mark, **how.options}
    with table(predictor, source, **asked) as opened:
        yield from map(encoded, tabular.predict(predictor, opened, **given))


def _of_inputs(predictor: "Predictor", source: Source, how: How) -> Iterator[str]:
    """What is said of each line, or of each file."""
    refuse_layout(source, column=how.column, delimiter=how.delimiter, header=how.header)
    task, split = predictor.task, bool(how.options.get("split"))
    found = predictor.stream(source.inputs(task), details=how.detailed, **how.options)
    for number, prediction in enumerate(found, 1):
        source.warn(number, prediction.status, prediction.problem)
        if how.detailed and task.reads_files:
            for step in _steps(prediction.text):
                yield checked.written({**step, **how.mark})
        elif how.detailed:
            yield checked.written({**prediction.as_dict(), **how.mark})
        else:
            said = one_line(task, prediction.tagged() if split else prediction.text)
            named = prediction.source if source.is_folder else []
            yield "\t".join([*named, said])


def table(
    predictor: "Predictor", source: Source, *, header: Header, **how: Any
) -> "AbstractContextManager[Table]":
    """The table that a source holds, of which the model's columns are read."""
    from regard import tabular

    headed = None if header == "auto" else header == "yes"
    return source.table(tabular.request(predictor, header=headed, **how))


def _steps(text: str) -> Iterator[dict[str, Any]]:
    """The rows of a forecast, which is CSV: times, and numbers by name."""
    from regard.data.delimiters import is_number, of_series

    lines = text.splitlines()
    for row in csv.DictReader(lines, delimiter=of_series("auto", ".csv", lines)):
        points = {name: cell.replace(",", ".") for name, cell in row.items()}
        yield {name: float(c) if is_number(c) else row[name] for name, c in points.items()}


def refuse_layout(source: Source, **given: Any) -> None:
    """Options for tables are for tables."""
    for name, value in given.items():
        if value not in (None, (), "auto"):
            raise RecipeError(
                f"{name}: {source.name} is no table; if it holds one: --input-format csv (or tsv, "
                "jsonl)"
            )
