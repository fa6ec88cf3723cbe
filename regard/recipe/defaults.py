"""What a recipe has where it says nothing: settings that suit its task and the kind of its model.

They stand in a file beside the task's own, tasks/classify.toml beside tasks/classify.py:

    [all.train]             for every recipe of the task
    [rnn.train.optimizer]   where the encoder is of this kind (the decoder, where there is none)

Which kind that is by default, [all.model.encoder] says, or else the task's PARTS.

A recipe that changes the kind of its encoder gets the rate, sizes and batches of that kind with it.
A key without a default here has that of its Config.
"""

import copy
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

Table = dict[str, Any]

RIVALS: dict[str, dict[str, str]] = {
    "train.epochs": {"train.updates": "", "train.tokens": ""},
    "train.updates": {"train.tokens": ""},
    "train.average": {"train.keep": ""},
    "train.patience": {"train.validate_every": ""},
    "characters": {"model.input.kind": "words", "tokenizer.kind": "word"},
    "model.input": {"tokenizer.kind": "word"},
    "model.head.crf": {"labels.kind": "tags"},
    "train.metric": {"labels.kind": "tags one several"},
}
"""Keys whose default goes where the recipe names another key that decides the same, unless with
one of the values that stand behind it here."""
MOST = 10**9
"""Updates, where epochs alone are to end a training."""


def with_parts(table: Table) -> Table:
    """A recipe's table; one that names a data set alone has the files of the set's parts."""
    from regard.data.sets import known

    data = table.get("data")
    if not isinstance(data, dict) or {"train", "validation", "test"} & data.keys():
        return table
    parts = {name: each.parts for name, each in known().items()}.get(str(data.get("set")), {})
    return {**table, "data": {**data, **parts}}


def under(table: Table, task: ModuleType) -> Table:
    """A recipe's table with the defaults of its task laid under it."""
    tables = of(task)
    if not tables:
        return table
    laid: Table = copy.deepcopy(tables.get("all", {}))
    kind = f"model.{main_part(task)}.kind"
    of_kind = _get(table, kind) or _get(laid, kind) or task.PARTS.get(main_part(task))
    _lay(laid, copy.deepcopy(tables.get(str(of_kind), {})))
    for key, others in RIVALS.items():
        if any(_get(table, other) not in (None, *same.split()) for other, same in others.items()):
            section, _, name = key.rpartition(".")
            if key != "model.input" or _get(laid, "model.input.kind") == "words":
                (_get(laid, section) or {}).pop(name, None)
    if _get(table, "train.epochs") is not None:
        laid["train"]["updates"] = MOST
    _lay(laid, table)
    return laid


def of(task: ModuleType) -> Table:
    """The defaults of a task: for all its recipes, then by the kind of what does the work."""
    return _read(Path(str(task.__file__)).with_suffix(".toml"))


@cache
def _read(path: Path) -> Table:
    found: Table = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def main_part(task: ModuleType) -> str:
    """The part whose kind decides the defaults."""
    return next((part for part in ("encoder", "decoder") if part in task.PARTS), "")


def _get(table: Any, key: str) -> Any:
    """What stands in a table at a dotted key; the table itself at none."""
    for name in key.split(".") if key else ():
        table = table.get(name) if isinstance(table, dict) else None
    return table


def _lay(below: Table, above: Table) -> None:
    """Put one table on another. A section of another kind covers all that was there."""
    for key, value in above.items():
        there = below.get(key)
        if isinstance(there, dict) and isinstance(value, dict) and _of_one_kind(there, value):
            _lay(there, value)
        else:
            below[key] = value


def _of_one_kind(below: Table, above: Table) -> bool:
    kinds = [each["kind"] for each in (below, above) if "kind" in each]
    return len(kinds) < 2 or kinds[0] == kinds[1]
