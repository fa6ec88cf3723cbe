"""What a recipe has where it says nothing: settings that suit its task and the kind of its model.

They stand in a file beside the task's own, tasks/classify.toml beside tasks/classify.py:

    [all.train]             for every recipe of the task
    [character.model]       where the tokenizer is of this kind
    [dialogue.search]       where the task's `unit` is this one
    [image.model]           where what is read is of this kind of field
    [rnn.train.optimizer]   where the encoder is of this kind (the decoder, where there is none)
    [rnn-character.batch]   where both are
    [rnn-image.train]       where the encoder and the field are of these kinds
    [finetune.train]        where the model begins with the weights of a run (model.weights)
    [rnn-finetune.train]    where it does, and is of this kind
    [fits]                  the values of other keys that a default needs

The later ones cover the earlier. Which kind the encoder is by default, [all.model.encoder] says, or
that of the tokenizer's kind, or else the task's PARTS.

A recipe that changes the kind of its encoder gets the rate, sizes and batches of that kind with it.
A default is left out where the recipe gives such a key another value ([fits] of tasks/tag.toml). A
key without a default here has that of its Config.
"""

import copy
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.errors import RecipeError
from regard.recipe import toml

Table = dict[str, Any]

FITS: dict[str, dict[str, list[Any]]] = {
    "train.epochs": {"train.updates": [], "train.tokens": []},
    "train.updates": {"train.tokens": []},
    "train.average": {"train.keep": []},
    "train.patience": {"train.validate_every": []},
}
"""[fits] of every task: with these defaults no value of the other keys goes."""
ANY_KIND = ("optimizer", "schedule")
"""Sections whose keys mean the same for every kind."""
FINETUNE = "finetune"
"""Tables for models that begin with the weights of a run."""
MOST = 10**9
"""Updates, where epochs alone are to end a training."""


def with_parts(table: Table) -> Table:
    """A recipe's table; one that names a data set alone has the files of the set's parts."""
    from regard.data.files import check_set
    from regard.data.sets import known

    data, name = table.get("data"), _name(table, "data.set")
    if not name or not isinstance(data, dict) or {"train", "validation", "test"} & data.keys():
        return table
    try:
        check_set(name, "")
    except RecipeError as error:
        raise RecipeError(f"data.{error}") from None
    return {**table, "data": {**data, **known()[name].parts}}


def under(table: Table, task: ModuleType) -> Table:
    """A recipe's table with the defaults of its task laid under it."""
    if not of(task):
        return table
    laid = _laid(table, task)
    _lay(laid, table)
    return laid


def value(table: Table, task: ModuleType, key: str) -> Any:
    """The default of a key for a recipe's table; None where it is that of its Config."""
    return _get(_laid(table, task), key)


def _laid(table: Table, task: ModuleType) -> Table:
    """The defaults that suit a recipe's table."""
    tables = of(task)
    kinds = {part: {"kind": kind} for part, kind in task.PARTS.items() if isinstance(kind, str)}
    laid: Table = {"model": kinds}
    cuts, reads = _name(table, "tokenizer.kind"), _name(table, "source.kind")
    for name in ("all", cuts, _name(table, "unit"), reads):
        _lay(laid, copy.deepcopy(tables.get(name, {})))
    if main := main_part(task):
        kind = _name(table, f"model.{main}.kind") or _name(laid, f"model.{main}.kind")
        _lay(laid, {"model": {main: {"kind": kind}}})
        tuned = [FINETUNE, f"{kind}-{FINETUNE}"] if _name(table, "model.weights") else []
        for name in (kind, f"{kind}-{cuts}", f"{kind}-{reads}", *tuned):
            _lay(laid, copy.deepcopy(tables.get(name, {})))
    for key, needs in (FITS | _file(task).get("fits", {})).items():
        if any(_get(table, other) not in (None, *values) for other, values in needs.items()):
            section, _, name = key.rpartition(".")
            (_get(laid, section) or {}).pop(name, None)
    if _get(table, "train.epochs") is not None:
        laid.setdefault("train", {})["updates"] = MOST
    return laid


def of(task: ModuleType) -> Table:
    """The defaults of a task: for all its recipes, then by the kind of what does the work."""
    return {kind: table for kind, table in _file(task).items() if kind != "fits"}


def _file(task: ModuleType) -> Table:
    return _read(Path(str(task.__file__)).with_suffix(".toml"))


@cache
def _read(path: Path) -> Table:
    try:
        return toml.parse(toml.read(path)) if path.is_file() else {}
    except ValueError as error:
        raise RecipeError(f"{path}: {error}") from None


def main_part(task: ModuleType) -> str:
    """The part whose kind decides the defaults."""
    return next((part for part in ("encoder", "decoder") if part in task.PARTS), "")


def _get(table: Any, key: str) -> Any:
    """What stands in a table at a dotted key; the table itself at none."""
    for name in key.split(".") if key else ():
        table = table.get(name) if isinstance(table, dict) else None
    return table


def _name(table: Table, key: str) -> str:
    """The same of a name; what is none is refused later, with its place."""
    found = _get(table, key)
    return found if isinstance(found, str) else ""


def _lay(below: Table, above: Table) -> None:
    """Put one table on another. A section of another kind covers all that was there, unless its
    keys are the same for every kind."""
    for key, value in above.items():
        there = below.get(key)
        if isinstance(there, dict) and isinstance(value, dict) and _one_kind(key, there, value):
            _lay(there, value)
        else:
            below[key] = value


def _one_kind(section: str, below: Table, above: Table) -> bool:
    kinds = [each["kind"] for each in (below, above) if "kind" in each]
    return section in ANY_KIND or len(kinds) < 2 or kinds[0] == kinds[1]
