"""What a recipe takes over from the run that it begins with:

    [model]
    weights = "runs/mlm"

Each part that this run has under the same key begins with its weights; settings of such a part that
the recipe does not say are the run's, and so is the tokenizer. A head that predicts something else
is new, and so is a part with weights = "none". All of it is written into the table, and thereby
into the new run's recipe: nothing is decided again later.

A model that has a decoder alone (GPT) can be read by: its embedding becomes the input, its blocks
become an encoder of kind "decoder", in which no position sees what follows.

    [model.input]
    kind = "pretrained"
    weights = "runs/elmo"

Here the run's input and encoder are what words are read by: their settings are written below the
input's own, and the tokenizer comes along, too.
"""

import copy
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.errors import RecipeError
from regard.recipe.model_section import sections_of
from regard.recipe.parts import NEW, Training, module, no_run, room_of_part
from regard.recipe.values import shown

Table = dict[str, Any]
BODY = ("input", "encoder", "decoder")
OWN = ("data", "held_out")
"""Sections that are never taken over: each recipe has data of its own."""
HOLDING = "pretrained"
"""The kind of an input that reads by another run."""
BEGUN = ("vectors", "naive_bayes", "linear_probe")
"""Keys of a part that say how its weights begin, unless another run gives them."""
FREE = ("joint", "bpe_dropout")
"""Keys of the tokenizer that do not change what its tokens are."""
EDGES = 2
"""Tokens that stand around a text."""


def over(table: Table, task: ModuleType) -> Table:
    """A recipe's table laid over the settings of the run that it begins with, if it names one."""
    model = table.get("model")
    place = model.get("weights") if isinstance(model, dict) else None
    if not isinstance(place, str) or not place:
        return _held(table, task)
    base = _opened(place)
    own = _own(table, "input")
    if own.get("kind") == HOLDING and own.get("weights", place) != place:
        raise RecipeError(f"model.input.weights: model.weights names {place} for all: take one")
    made = copy.deepcopy(table)
    taken = dict(_taken(made, task, base, place))
    if not any(key.rpartition(".")[2] in BODY for key in taken):
        raise RecipeError(f"model.weights: {_nothing(task, base, place)}")
    for key, (settings, weights) in taken.items():
        _lay(made, key, settings, weights)
    _keep_frozen(made, taken)
    _lay_shared(made["model"], base, taken)
    _lay_texts(made, task, base, taken, place)
    _lay_task(made, task, base)
    _shorten(made, task, taken)
    return made


def _held(table: Table, task: ModuleType) -> Table:
    """A recipe's table with the input and the encoder of the run that its input reads by, if it
    does."""
    section = _own(table, "input")
    if section.get("kind") != HOLDING or "input" not in task.PARTS:
        return table
    key, place = "model.input.weights", section.get("weights")
    if not isinstance(place, str) or place in ("", NEW):
        return table  # refused where a run is made of it
    base = _opened(place, key)
    there = base.model.parts()
    theirs = ", ".join(f"{name} ({part.kind})" for name, part in there.items())
    if not {"input", "encoder"} <= there.keys():
        raise RecipeError(f"{key}: {place} has {theirs}: an input and an encoder are wanted")
    if there["input"].kind == HOLDING:
        raise RecipeError(
            f"{key}: {place} has an input of kind {HOLDING!r} itself: begin with all of it by "
            f"model.weights, or name the run that it reads by"
        )
    made = copy.deepcopy(table)
    section = made["model"]["input"]
    settings = {name: _settings(there[name]) for name in ("input", "encoder")}
    known = {"dim": base.model.dim, "scale": base.model.scale, "framed": _framed(base), **settings}
    for name, value in known.items():
        if section.setdefault(name, value) != value:
            raise RecipeError(
                f"model.input.{name}: it is {shown(value)} in {place}: leave the key out"
            )
    taken = {"input": (settings["encoder"], place)}
    _lay_texts(made, task, base, taken, place)
    _shorten(made, task, taken)
    return made


def _framed(base: Any) -> bool:
    """Whether a run reads its texts between START and END."""
    fields = module("tasks", base.kind).plan(base.task).fields
    return bool(next(iter(fields.values())).between_ends)


def _opened(place: str, key: str = "model.weights") -> Any:
    """The recipe of the run to begin with."""
    from regard.recipe import config

    file = Path(place) / "recipe.toml"
    if not file.is_file():
        raise RecipeError(f"{key}: {place} {no_run(file.parent)}")
    try:
        return config.load(file, of_run=True)
    except RecipeError as error:
        raise RecipeError(f"{key}: {error}") from None


def _taken(table: Table, task: ModuleType, base: Any, place: str) -> Iterator[tuple[str, Any]]:
    """The keys of the parts that begin with the run's weights; its settings of them, and the place
    of the weights."""
    there = base.model.parts()
    for key, room in _keys(task, there):
        own = _own(table, key)
        if own.get("weights", "") not in ("", place, f"{place}:decoder"):  # another run's, or none
            continue
        if key in there:
            if room == "heads" and not _predicts_alike(key, there[key].kind, own, task):
                continue
            yield key, (_settings(there[key]), place)
        elif "decoder" in there and "encoder" not in there and "decoder" not in task.PARTS:
            if there["decoder"].kind != "transformer":
                continue
            if key == "input":
                yield key, ({"kind": "tokens"}, f"{place}:decoder")
            elif key == "encoder":
                settings = _settings(there["decoder"]) | {"kind": "decoder"}
                yield key, (settings, f"{place}:decoder")


def _keys(task: ModuleType, there: Table) -> Iterator[tuple[str, str]]:
    """The keys of the task's parts, and their rooms; those with any name have the run's names."""
    for key, room, _ in sections_of(task.PARTS):
        if not key.endswith(".NAME"):
            yield key, room
            continue
        kind = key.removesuffix("NAME")
        yield from ((each, room_of_part(each)) for each in there if each.startswith(kind))


def _own(table: Table, key: str) -> Table:
    """What the recipe says of a part."""
    found: Any = table.get("model")
    for name in key.split("."):
        found = found.get(name, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}


def _predicts_alike(key: str, kind: str, own: Table, task: ModuleType) -> bool:
    """Whether the head of this recipe predicts what that of the run does."""
    usual = {each: kind for each, _, kind in sections_of(task.PARTS)}
    mine = own.get("kind", usual.get(key, usual.get("heads.NAME", kind)))
    try:
        heads = [module("heads", each).Head for each in (kind, mine)]
    except (RecipeError, TypeError):
        return True  # refused later, with its place
    return len({head.predicts for head in heads}) == 1


def _settings(part: Any) -> Table:
    """All keys of a part, but those that say how it was trained, and how it began."""
    from regard.recipe.config import plain

    training = {field.name for field in dataclasses.fields(Training)}
    own = {field.name for field in dataclasses.fields(part.config)}
    found: Table = plain(part)
    return {k: v for k, v in found.items() if k not in training - own and k not in BEGUN}


def _lay(table: Table, key: str, settings: Table, weights: str) -> None:
    """Put the settings of a part under what the recipe says of it."""
    section: Any = table["model"]
    for name in key.split("."):
        section = section.setdefault(name, {})
        if not isinstance(section, dict):
            return  # refused later, with its place
    section["weights"] = weights
    for begun in BEGUN:
        section.pop(begun, None)
    _under(section, settings)


def _under(above: Table, below: Table) -> None:
    """Put one table under another, unless it is of another kind."""
    if above.get("kind", below.get("kind")) != below.get("kind"):
        return
    for key, value in below.items():
        there = above.setdefault(key, value)
        if isinstance(there, dict) and isinstance(value, dict) and there is not value:
            _under(there, value)


def _keep_frozen(table: Table, taken: Table) -> None:
    """Where adapters are trained, other parts that begin with weights keep them."""
    parts = {key: _own(table, key) for key in taken}
    if any("lora" in part for part in parts.values()):
        for part in parts.values():
            if "lora" not in part:
                part.setdefault("frozen", True)


def _lay_shared(model: Table, base: Any, taken: Table) -> None:
    """What all parts share: those that are taken were made for it."""
    model.setdefault("dim", base.model.dim)
    model.setdefault("scale", base.model.scale)
    if "decoder" in taken or "head" in taken:
        model.setdefault("tie", base.model.tie)


def _lay_texts(table: Table, task: ModuleType, base: Any, taken: Table, place: str) -> None:
    """The tokenizer of the run, where a part is taken whose rows belong to tokens."""
    from regard.recipe.config import plain

    known = {f.name for f in dataclasses.fields(task.Config)}
    there: Table = plain(base.task)
    if all(key.endswith("encoder") for key in taken):
        return
    for name in ("tokenizer", "characters"):
        if name not in known or name not in there:
            continue
        if not isinstance(there[name], dict):
            _same(name, table.setdefault(name, there[name]), there[name], place)
            continue
        own = table.setdefault(name, {})
        if not isinstance(own, dict):
            return  # refused later, with its place
        for key, value in there[name].items():
            if key not in FREE or base.kind == task.__name__.rpartition(".")[2]:
                _same(f"{name}.{key}", own.setdefault(key, value), value, place)


def _same(key: str, here: Any, there: Any, place: str) -> None:
    """The tokenizer comes along as it is."""
    if here != there and key.rpartition(".")[2] not in FREE:
        raise RecipeError(
            f"{key}: {shown(here)} here and {shown(there)} in {place}, whose tokenizer comes along "
            "with its weights: leave the key out"
        )


def _lay_task(table: Table, task: ModuleType, base: Any) -> None:
    """All other sections of a run of the same task."""
    from regard.recipe.config import plain

    if base.kind != task.__name__.rpartition(".")[2]:
        return
    for name, value in plain(base.task).items():
        if name not in OWN:
            _under(table, {name: value})


def _shorten(table: Table, task: ModuleType, taken: Table) -> None:
    """Texts that are no longer than the table of positions, where the recipe does not say how long
    they may be."""
    from regard.layers.position import TABLES

    limits = [
        settings["limit"]
        for settings, _ in taken.values()
        if settings.get("position") in TABLES and "limit" in settings
    ]
    data = table.setdefault("data", {})
    if limits and isinstance(data, dict) and "max_length" not in data:
        from regard.recipe import defaults

        usual = defaults.value(table, task, "data.max_length")
        most = min(limits) - EDGES
        if not isinstance(usual, int) or usual > most:
            data["max_length"] = most


def _nothing(task: ModuleType, base: Any, place: str) -> str:
    """Why no part of a run can be taken."""
    who, there = task.__name__.rpartition(".")[2], base.model.parts()
    theirs = ", ".join(f"{key} ({part.kind})" for key, part in there.items())
    mine = ", ".join(key for key, _ in _keys(task, there))
    return f"{place} has {theirs}; the task {who} has {mine}: no weights of the one fit the other"
