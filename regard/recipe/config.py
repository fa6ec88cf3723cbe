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
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomli_w

from regard.errors import RecipeError
from regard.recipe import toml, upgrade
from regard.recipe.parts import Part, kinds, module, resume
from regard.recipe.values import Items, Range, shown

Table = dict[str, Any]
VECTORS, CHOICES = "model.input.vectors", "output.choices"
"""The paths that stand outside of the section of the data; the second is of a file beside it."""
FILES = ("data.train", "data.validation", "data.test", "data.file", CHOICES)
"""The keys that name files; on the command line they may be here, and not in the data's folder."""
ROOMS = {"input": "inputs", "encoder": "encoders", "decoder": "decoders", "head": "heads"}


@dataclass(frozen=True)
class Room:
    """Marks a field that holds a part: `Annotated[Part, Room("search", "beam")]`."""

    name: str
    default: str


@dataclass(frozen=True)
class Place:
    """Where keys come from, for messages: a file's text, or the command line."""

    path: Path | None = None
    text: str = ""
    overrides: tuple[str, ...] = ()

    def of(self, key: str) -> str:
        """file:line of a dotted key, or the override that set it."""
        key = key.partition("[")[0]
        line, written = toml.line_of(self.text, key)
        for override in reversed(self.overrides):
            name = override.split("=", 1)[0].strip()
            inside = name.startswith(f"{key}.") and not written
            if name == key or key.startswith(f"{name}.") or inside:
                return f"command line, {toml.named(override)}"
        return "recipe" if self.path is None else f"{self.path}:{line}"

    @contextmanager
    def located(self) -> Iterator[None]:
        """A RecipeError that begins with its key is told where the key stands."""
        try:
            yield
        except RecipeError as error:
            key = str(error).split(":", 1)[0]
            raise RecipeError(f"{self.of(key)}: {toml.sentence(str(error))}") from None


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
    found = find(path)
    text = toml.read(found)
    try:
        table = toml.parse(text)
    except ValueError as error:
        raise RecipeError(f"{found}: not TOML: {error}") from None
    place = Place(found, text, tuple(overrides))
    if of_run:
        with place.located():
            table = upgrade.present(table)
    return _changed(table, found.parent, place)


def from_table(table: Mapping[str, Any], overrides: Iterable[str] = ()) -> Recipe:
    """The same for a recipe in memory; its paths are relative to the working folder."""
    try:
        own = copy.deepcopy(dict(table))
    except RecursionError:
        raise RecipeError("recipe: it is nested too deeply") from None
    return _changed(own, Path.cwd(), Place(overrides=tuple(overrides)))


def _changed(table: Table, folder: Path, place: Place) -> Recipe:
    for override in place.overrides:
        _override(table, override)
    with place.located():
        _from_recipe(table, folder)
    return recipe(table, place)


def find(path: Path) -> Path:
    """The file itself, or the shipped recipe of that name."""
    if path.is_file():
        return path
    here = Path(__file__).parents[1]
    shipped = [here / "recipes", here.parent / "recipes"]
    name = path.name.removesuffix(".toml")
    for folder in shipped:
        if len(path.parts) == 1 and (folder / f"{name}.toml").is_file():
            return folder / f"{name}.toml"
    if path.is_dir():
        how = f"to go on with a run: {resume(path)}"
        raise RecipeError(f"{path} is a folder, not a recipe; {how}")
    names = [f.stem for folder in shipped for f in folder.glob("*.toml")]
    near = difflib.get_close_matches(name, names, 1) or difflib.get_close_matches(
        path.name, [f.name for f in path.parent.glob("*.toml")] if path.parent.is_dir() else [], 1
    )
    hint = f"; did you mean {near[0]!r}?" if near else f"; shipped: {', '.join(sorted(names))}"
    raise RecipeError(f"{path}: there is no such recipe{hint}")


def recipe(table: Table, place: Place = Place()) -> Recipe:  # noqa: B008 (frozen)
    """A checked Recipe from a plain table."""
    table = dict(table)
    if "task" not in table:
        for key in difflib.get_close_matches("task", map(str, table), 1):
            raise _unknown(key, key, {"task"}, place)
        raise RecipeError(f"{place.of('task')}: task: missing; one of {', '.join(kinds('tasks'))}")
    kind = _typed(str, table.pop("task"), "task", place)
    try:
        task = module("tasks", kind)
    except RecipeError as error:
        raise RecipeError(f"{place.of('task')}: task: {error}") from None
    from regard import model
    from regard.tasks import check_metric
    from regard.train.job import Config as TrainConfig

    sections = {f.name for f in dataclasses.fields(task.Config)}
    known = {"seed", "model", "train"} | sections
    for key in table:
        if key not in known:
            raise _unknown(str(key), str(key), known, place)
    seed = _typed(typing.Annotated[int, Range(0, 2**31)], table.get("seed", 1), "seed", place)
    result = Recipe(
        kind=kind,
        seed=seed,
        task=_section(task.Config, {k: v for k, v in table.items() if k in sections}, "", place),
        model=_model(model.Config, task.PARTS, table.get("model", {}), place),
        train=_section(TrainConfig, table.get("train", {}), "train", place),
        place=place,
    )
    with place.located():
        check_metric(result)
        task.check(result)
        model.check(result.model)
    return result


def dump(resolved: Recipe) -> str:
    """The recipe as TOML, with every default written out."""
    table: Table = {"task": resolved.kind, "seed": resolved.seed}
    table |= _plain(resolved.task)
    table["model"] = _plain(resolved.model)
    table["train"] = _plain(resolved.train)
    return tomli_w.dumps(table)


def flat(config: Any, prefix: str = "") -> dict[str, Any]:
    """The values of a Config and of those inside it, by dotted key."""
    table = _plain(config) if prefix == "" else config
    values: dict[str, Any] = {}
    for key, value in table.items():
        inner = isinstance(value, dict)
        values |= flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return values


def _plain(value: Any) -> Any:
    match value:
        case Part(kind=kind, config=config):
            return {"kind": kind} | _plain(config)
        case Path():
            return str(value)
        case tuple() | list():
            return [_plain(v) for v in value]
        case _ if dataclasses.is_dataclass(value):
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            return {name: _plain(v) for name, v in fields.items() if v is not None}
    return value


def _model(cls: type, defaults: Mapping[str, str], table: Any, place: Place) -> Any:
    """The model's section: each part's keys are those of its kind."""
    _typed(dict, table, "model", place)
    rest = dict(table)
    made = {
        name: _part(Room(ROOMS[name], default), rest.pop(name, {}), f"model.{name}", place)
        for name, default in defaults.items()
    }
    own = {f.name for f in dataclasses.fields(cls)} - set(ROOMS)
    for key in rest:
        if key not in own:
            raise _unknown(f"model.{key}", str(key), own | set(defaults), place)
    return dataclasses.replace(_section(cls, rest, "model", place), **made)


def _part(room: Room, table: Any, key: str, place: Place) -> Part:
    """A section whose `kind` decides what its other keys are."""
    section = dict(_typed(dict, table, key, place))
    kind = _typed(str, section.pop("kind", room.default), f"{key}.kind", place)
    try:
        config = module(room.name, kind).Config
    except RecipeError as error:
        raise RecipeError(f"{place.of(f'{key}.kind')}: {key}.kind: {error}") from None
    return Part(kind, _section(config, section, key, place, {"kind"}))


def _section(
    cls: type, table: Any, prefix: str, place: Place, also: frozenset[str] | set[str] = frozenset()
) -> Any:
    """An instance of the dataclass `cls`; `also` are keys that were dealt with before."""
    _typed(dict, table, prefix, place)
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    values: Table = {}
    for key, value in table.items():
        full = f"{prefix}.{key}" if prefix else key
        if key not in fields:
            raise _unknown(full, str(key), set(fields) | also, place)
        values[key] = _typed(hints[key], value, full, place)
    for key, field in fields.items():
        if key not in values:
            full = f"{prefix}.{key}" if prefix else key
            if dataclasses.is_dataclass(hints[key]) or room_of(hints[key]):
                values[key] = _typed(hints[key], {}, full, place)
            elif field.default is field.default_factory is dataclasses.MISSING:
                raise RecipeError(
                    f"{place.of(prefix)}: {full}: missing; wanted: {describe(hints[key])}"
                )
    try:
        return cls(**values)
    except RecipeError as error:
        text = toml.sentence(f"{prefix}.{error}")
        raise RecipeError(f"{place.of(text.split(':', 1)[0])}: {text}") from None


def _typed(hint: Any, value: Any, key: str, place: Place, limits: Any = None) -> Any:
    """`value` if it is of the type `hint`, else a RecipeError that names the key, and the `limits`
    that a value of this type has here."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if room := room_of(hint):
        return _part(room, value, key, place)
    if origin is typing.Annotated:
        value = _typed(arguments[0], value, key, place, hint)
        for limit in arguments[1:]:
            if isinstance(limit, Range) and value not in limit:
                raise RecipeError(f"{place.of(key)}: {key}: {shown(value)} must be {limit}")
            if isinstance(limit, Items) and len(value) > limit.most:
                raise RecipeError(f"{place.of(key)}: {key}: {len(value):,} items; wanted: {limit}")
        return value
    if dataclasses.is_dataclass(hint):
        return _section(typing.cast(type, hint), value, key, place)
    if origin in (typing.Union, types.UnionType):
        present = [a for a in arguments if a is not type(None)]
        return _typed(present[0], value, key, place)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _wrong(hint, value, key, place)
        return tuple(_typed(arguments[0], v, f"{key}[{n}]", place) for n, v in enumerate(value))
    if origin is Literal:
        if type(value) in {type(a) for a in arguments} and value in arguments:
            return value
        near = difflib.get_close_matches(shown(value).strip("'"), [str(a) for a in arguments], 1)
        hint_ = f"; did you mean {near[0]!r}?" if near else ""
        choices = ", ".join(map(repr, arguments))
        raise RecipeError(f"{place.of(key)}: {key}: {shown(value)} is not one of {choices}{hint_}")
    return _plainly(hint, value, key, place, limits or hint)


def _plainly(hint: Any, value: Any, key: str, place: Place, limits: Any) -> Any:
    """The same for a type without parts; what comes from Python may be of a type derived from it,
    which TOML could not hold."""
    wanted = (int, float) if hint is float else str if hint is Path else hint
    if not isinstance(wanted, type | tuple):
        raise RecipeError(f"{place.of(key)}: {key}: a recipe cannot hold its type, {hint}")
    if not isinstance(value, wanted) or (isinstance(value, bool) and hint is not bool):
        raise _wrong(limits, value, key, place)
    if isinstance(value, str) and (found := toml.NO_TEXT.search(value)):
        raise RecipeError(
            f"{place.of(key)}: {key}: {shown(value)} has {found[0]!r}, which no text may have"
        )
    try:
        return hint(value) if hint in (int, float, str, Path) else value
    except OverflowError:
        raise _wrong(limits, value, key, place) from None


def room_of(hint: Any) -> Room | None:
    """The room that a field's part comes from, if it holds a part."""
    marks = typing.get_args(hint) if typing.get_origin(hint) is typing.Annotated else ()
    return next((mark for mark in marks if isinstance(mark, Room)), None)


def _wrong(hint: Any, value: Any, key: str, place: Place) -> RecipeError:
    kind = type(value).__name__
    return RecipeError(
        f"{place.of(key)}: {key}: {shown(value)} ({kind}) given, wanted: {describe(hint)}"
    )


def describe(hint: Any) -> str:
    """What a value of this type is, for a person."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        limits = [f" {a}" for a in arguments[1:] if isinstance(a, Range)]
        counts = [f", {a}" for a in arguments[1:] if isinstance(a, Items)]
        return "".join([describe(arguments[0]), *limits, *counts])
    if origin is Literal:
        return "one of " + ", ".join(map(repr, arguments))
    if origin is tuple:
        return "a list, each item " + describe(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return describe(next(a for a in arguments if a is not type(None)))
    names = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}
    return names.get(hint, "a path" if hint is Path else "a section of its own")


def _unknown(full: str, key: str, known: set[str], place: Place) -> RecipeError:
    near = difflib.get_close_matches(key, sorted(known), 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(known))}"
    hint = upgrade.hint(full) or hint
    return RecipeError(f"{place.of(full)}: {toml.named(full)}: no such key; {hint}")


def _override(table: Table, override: str) -> None:
    key, equals, text = override.partition("=")
    key = key.strip()
    if not equals or not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", key):
        raise RecipeError(
            f"command line: {shown(override)}: wanted key=value, such as train.updates=100"
        )
    *sections, last = key.split(".")
    inner: Any = table
    for section in sections:
        inner = inner.setdefault(section, {})
        if not isinstance(inner, dict):
            place = f"command line, {toml.named(override)}"
            raise RecipeError(f"{place}: {toml.named(section)} is a value, not a section")
    with Place(overrides=(override,)).located():
        inner[last] = _from_here(key, _value(key, text))


def _value(key: str, text: str) -> Any:
    """What stands behind `key=` on the command line: TOML, or a text without quotes."""
    try:
        table = toml.parse(f"x = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except ValueError as error:
        raise RecipeError(f"{key}: {error}") from None
    return table["x"] if len(table) == 1 else text  # more lines are no value


def _from_here(key: str, value: Any) -> Any:
    """Paths on the command line are relative to the working folder."""
    if key in ("data.folder", VECTORS) and isinstance(value, str) and value:
        return toml.resolved(key, value, Path())
    if key in FILES and isinstance(value, list):
        return [_from_here(key, each) if isinstance(each, str) else each for each in value]
    if key in FILES and isinstance(value, str) and toml.is_file(value):
        return toml.resolved(key, value, Path())
    return value


def _from_recipe(table: Table, folder: Path) -> None:
    """Paths in a recipe are relative to the folder that it is in."""
    data = table.get("data")
    if isinstance(data, dict) and not data.get("set"):
        named = data.get("folder", "")
        if isinstance(named, str):
            data["folder"] = toml.resolved("data.folder", named, folder)
    *sections, last = VECTORS.split(".")
    for section in sections:
        inner = table.get(section)
        table = inner if isinstance(inner, dict) else {}
    if isinstance(table.get(last), str) and table[last]:
        table[last] = toml.resolved(VECTORS, table[last], folder)
