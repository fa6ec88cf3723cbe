"""A recipe (TOML) becomes frozen dataclasses; overrides come from the command line as key=value.

    task = "translate"          → tasks/translate.py: its Config's fields are further sections
    [model.encoder]
    kind = "transformer"        → encoders/transformer.py: its Config's fields are the keys here

Closed and typed: an unknown key, a wrong type, a value out of range is refused with the key, the
place where it stands and the nearest right spelling.
"""

import copy
import dataclasses
import difflib
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from regard.errors import RecipeError
from regard.recipe import defaults, inherited, model_section, paths, toml, upgrade
from regard.recipe.parts import Part, kinds, module, resume
from regard.recipe.typed import Place, Room, Table, describe, room_of, section, typed, unknown
from regard.recipe.values import Range, shown

__all__ = ["Place", "Recipe", "Room", "describe", "dump", "flat", "load", "recipe", "room_of"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that decides a run."""

    kind: str
    """The task's name."""
    seed: int
    task: Any
    """Config of the task: data, tokenizer, batch, search."""
    model: Any
    """Config of the model and its parts."""
    train: Any
    """Config of the trainer."""
    place: Place = dataclasses.field(default=Place(), compare=False, repr=False)
    """Where it was read, for messages."""


def load(path: Path, overrides: Iterable[str] = (), *, of_run: bool = False) -> Recipe:
    """Read a recipe file and change it by `overrides`, each `dotted.key=value`. That of a run may
    have keys of an earlier version."""
    table, place = _read(path, overrides)
    if of_run:
        with place.located():
            table = upgrade.present(table)
    assert place.path is not None
    return recipe(_changed(table, place.path.parent, place), place, of_run=of_run)


def from_table(table: Mapping[str, Any], overrides: Iterable[str] = ()) -> Recipe:
    """The same for a recipe in memory; its paths are relative to the working folder."""
    place = Place(overrides=tuple(overrides))
    return recipe(_changed(_copied(table), Path.cwd(), place), place)


def written(given: Path | Mapping[str, Any], overrides: Iterable[str] = ()) -> Table:
    """What a recipe says itself, without any default, with these changes in it; its paths begin at
    a root, so that it can stand in any folder. Nothing else of it is checked."""
    if isinstance(given, Mapping):
        return _changed(_copied(given), Path.cwd(), Place(overrides=tuple(overrides)))
    table, place = _read(given, overrides)
    assert place.path is not None
    return _changed(table, place.path.parent, place)


def _read(path: Path, overrides: Iterable[str]) -> tuple[Table, Place]:
    found = find(path)
    text = toml.read(found)
    try:
        return toml.parse(text), Place(found, text, tuple(overrides))
    except ValueError as error:
        raise RecipeError(f"{found}: not TOML: {error}") from None


def _copied(table: Mapping[str, Any]) -> Table:
    try:
        return copy.deepcopy(dict(table))
    except RecursionError:
        raise RecipeError("recipe: it is nested too deeply") from None


def _changed(table: Table, folder: Path, place: Place) -> Table:
    for override in place.overrides:
        _override(table, override)
    with place.located():
        paths.from_recipe(table, folder)
    return table


def find(path: Path) -> Path:
    """The file itself, or the shipped recipe of that name."""
    if path.is_file():
        return path
    name = path.name.removesuffix(".toml")
    for folder in _shipped():
        if len(path.parts) == 1 and (folder / f"{name}.toml").is_file():
            return folder / f"{name}.toml"
    if path.is_dir():
        how = f"to go on with a run: {resume(path)}"
        raise RecipeError(f"{path} is a folder, not a recipe; {how}")
    names = shipped()
    near = difflib.get_close_matches(name, names, 1) or difflib.get_close_matches(
        path.name, [f.name for f in path.parent.glob("*.toml")] if path.parent.is_dir() else [], 1
    )
    hint = f"; did you mean {near[0]!r}?" if near else f"; shipped: {', '.join(names)}"
    raise RecipeError(f"{path}: there is no such recipe{hint}")


def shipped() -> list[str]:
    """The names of the recipes that come with regard."""
    return sorted(file.stem for folder in _shipped() for file in folder.glob("*.toml"))


def _shipped() -> list[Path]:
    here = Path(__file__).parents[1]
    return [here / "recipes", here.parent / "recipes"]


def recipe(table: Table, place: Place = Place(), *, of_run: bool = False) -> Recipe:  # noqa: B008 (frozen)
    """A checked Recipe from a plain table; that of a run has all defaults written out."""
    table = dict(table)
    if "task" not in table:
        for key in difflib.get_close_matches("task", map(str, table), 1):
            raise unknown(key, key, {"task"}, place)
        raise RecipeError(f"{place.of('task')}: task: missing; one of {', '.join(kinds('tasks'))}")
    kind = typed(str, table.pop("task"), "task", place)
    try:
        task = module("tasks", kind)
    except RecipeError as error:
        raise RecipeError(f"{place.of('task')}: task: {error}") from None
    if not of_run:
        with place.located():
            table = defaults.with_parts(table)
            table = inherited.over(table, task)
        table = defaults.under(table, task)
    from regard import model
    from regard.tasks import check_metric
    from regard.train.job import Config as TrainConfig

    sections = {f.name for f in dataclasses.fields(task.Config)}
    known = {"seed", "model", "train"} | sections
    for key in table:
        if key not in known:
            raise unknown(str(key), str(key), known, place)
    seed = typed(typing.Annotated[int, Range(0, 2**31)], table.get("seed", 1), "seed", place)
    result = Recipe(
        kind=kind,
        seed=seed,
        task=section(task.Config, {k: v for k, v in table.items() if k in sections}, "", place),
        model=model_section.read(task, table.get("model", {}), place),
        train=section(TrainConfig, table.get("train", {}), "train", place),
        place=place,
    )
    with place.located():
        check_metric(result)
        task.check(result)
        fields = task.plan(result.task).fields.values()
        model.check(result.model, {field.name: field.size_names for field in fields})
    return result


def dump(resolved: Recipe) -> str:
    """The recipe as TOML, with every default written out."""
    return tomli_w.dumps(_whole(resolved_table(resolved)))


def resolved_table(resolved: Recipe) -> Table:
    """The recipe as a table, with every default; a number that may be any is a float."""
    table: Table = {"task": resolved.kind, "seed": resolved.seed}
    table |= plain(resolved.task)
    absent = {name: {"kind": "none"} for name in module("tasks", resolved.kind).PARTS}
    table["model"] = absent | plain(resolved.model)
    table["train"] = plain(resolved.train)
    return table


def _whole(value: Any) -> Any:
    """Whole numbers without a point: 4000 is read as 4000.0 where any number may stand."""
    match value:
        case dict():
            return {key: _whole(each) for key, each in value.items()}
        case list():
            return [_whole(each) for each in value]
        case float() if value.is_integer():
            return int(value)
    return value


def flat(config: Any, prefix: str = "") -> dict[str, Any]:
    """The values of a Config and of those inside it, by dotted key."""
    table = plain(config) if prefix == "" else config
    values: dict[str, Any] = {}
    for key, value in table.items():
        inner = isinstance(value, dict)
        values |= flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return values


def plain(value: Any) -> Any:
    match value:
        case Part(kind=kind, config=config, training=training):
            return {"kind": kind} | (plain(training) if training else {}) | plain(config)
        case Path():
            return str(value)
        case tuple() | list():
            return [plain(v) for v in value]
        case dict():
            return {k: {"kind": "none"} if v is None else plain(v) for k, v in value.items()}
        case _ if dataclasses.is_dataclass(value):
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            return {name: plain(v) for name, v in fields.items() if v is not None and v != {}}
    return value


def _override(table: Table, override: str) -> None:
    key, equals, text = override.partition("=")
    key = key.strip()
    if not equals or not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", key):
        raise RecipeError(
            f"command line: {shown(override)}: wanted key=value, such as train.updates=100"
        )
    *sections, last = key.split(".")
    inner: Any = table
    for name in sections:
        inner = inner.setdefault(name, {})
        if not isinstance(inner, dict):
            place = f"command line, {toml.named(override)}"
            raise RecipeError(f"{place}: {toml.named(name)} is a value, not a section")
    with Place(overrides=(override,)).located():
        inner[last] = paths.from_here(key, _value(key, text))


def value(text: str) -> Any:
    """A value as it stands on the command line: TOML, or a text without quotes."""
    return _value("value", text)


def _value(key: str, text: str) -> Any:
    """What stands behind `key=` on the command line: TOML, or a text without quotes."""
    try:
        table = toml.parse(f"x = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except ValueError as error:
        raise RecipeError(f"{key}: {error}") from None
    return table["x"] if len(table) == 1 else text  # more lines are no value
