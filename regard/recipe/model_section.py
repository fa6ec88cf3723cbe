"""The section `model` of a recipe: which parts there are is the task's to say.

PARTS = {"input": "tokens", "encoder": "rnn", "head": "labels"}      their default kinds
PARTS = {"towers": {"image": {"input": "patches", "encoder": "transformer"}, …}, …}
PARTS = {…, "heads": {"*": "labels"}}        any names: each that of a field to be predicted
ABSENT = ("decoder",)                        parts that a recipe may leave out: kind = "none"
"""

import dataclasses
import difflib
import re
import types
from collections.abc import Iterator, Mapping
from typing import Any

from regard.errors import RecipeError
from regard.recipe import toml
from regard.recipe.parts import ROOMS, Part, kinds, room_of_part
from regard.recipe.typed import Place, Room, part, section, typed, unknown

SEVERAL = ("towers", "heads")
"""Sections whose parts have names of their own."""
TOWER = ("dim", "input", "encoder")
"""The keys of a tower."""


def sections_of(parts: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The keys of all parts, the rooms that these come from, and their default kinds."""
    for name, default in parts.items():
        if name not in SEVERAL:
            yield name, room_of_part(name), default
            continue
        for field, kind in default.items():
            key = f"{name}.{'NAME' if field == '*' else field}"
            each = kind.items() if name == "towers" else [("", kind)]
            for inner, chosen in each:
                full = f"{key}.{inner}".rstrip(".")
                yield full, room_of_part(full), chosen


def read(task: types.ModuleType, table: Any, place: Place) -> Any:
    """The model's section: each part's keys are those of its kind."""
    from regard.model import Config

    typed(dict, table, "model", place)
    rest, made = dict(table), {}
    for name, default in task.PARTS.items():
        given = rest.pop(name, {})
        several = _several if name in SEVERAL else _part_or_none
        made[name] = several(task, default, given, f"model.{name}", place)
    own = {f.name for f in dataclasses.fields(Config)} - {*ROOMS, *SEVERAL}
    for key in rest:
        if key not in own:
            raise unknown(f"model.{key}", str(key), own | set(task.PARTS), place)
    return dataclasses.replace(section(Config, rest, "model", place), **made)


def _several(
    task: types.ModuleType, defaults: Mapping[str, Any], table: Any, key: str, place: Place
) -> dict[str, Any]:
    """Parts that are named by the fields that they read or predict. Those that the task names are
    always there; one that it calls "*" stands for any name."""
    from regard.model import TowerConfig

    given = typed(dict, table, key, place)
    made: dict[str, Any] = {}
    for name in dict.fromkeys([*(each for each in defaults if each != "*"), *given]):
        full = f"{key}.{name}"
        if name not in defaults and "*" not in defaults:
            raise unknown(full, str(name), set(defaults), place)
        if not re.fullmatch(r"[a-z][a-z0-9_]*", str(name)):
            raise RecipeError(f"{place.of(full)}: {toml.named(full)}: not the name of a field")
        default, inside = defaults[name if name in defaults else "*"], given.get(name, {})
        if key.endswith("heads"):
            made[name] = _part_or_none(task, default, inside, full, place)
            continue
        for inner in set(typed(dict, inside, full, place)) - {*TOWER}:
            raise unknown(f"{full}.{inner}", str(inner), {*TOWER}, place)
        own = {key: value for key, value in inside.items() if key == "dim"}
        parts = {
            part: _part_or_none(task, kind, inside.get(part, {}), f"{full}.{part}", place)
            for part, kind in default.items()
        }
        made[name] = dataclasses.replace(section(TowerConfig, own, full, place), **parts)
    return made


def _part_or_none(
    task: types.ModuleType, default: str, table: Any, key: str, place: Place
) -> Part | None:
    """A part of a model; None for the kind "none", where the task can do without."""
    given, name = typed(dict, table, key, place), key.removeprefix("model.")
    room = room_of_part(name)
    if given.get("kind", default) != "none" or "none" in kinds(room):
        return part(Room(room, default), given, key, place)
    if default != "none" and name not in getattr(task, "ABSENT", ()):
        who = task.__name__.rpartition(".")[2]
        raise RecipeError(f"{place.of(f'{key}.kind')}: {key}.kind: the task {who} needs one")
    others = sorted(given.keys() - {"kind"})
    for other in difflib.get_close_matches("kind", others, 1) if "kind" not in given else ():
        raise unknown(f"{key}.{other}", other, {"kind"}, place)
    for other in others:
        full = f"{key}.{other}"
        raise RecipeError(f"{place.of(full)}: {full}: a part of kind 'none' has no keys")
    return None
