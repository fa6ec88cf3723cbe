"""Tables become frozen dataclasses, closed and typed. What does not fit is refused with its key,
the place where it stands and the nearest right spelling.
"""

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.errors import RecipeError
from regard.recipe import toml, upgrade
from regard.recipe.parts import ROOMS, Part, Training, choice
from regard.recipe.values import Items, Range, shown

Table = dict[str, Any]


@dataclass(frozen=True)
class Room:
    """Marks a field that holds a part: `Annotated[Part, Room("search", "beam")]`."""

    name: str
    default: str
    taken: bool = False
    """Whether the part is another run's, and written into the recipe with what comes from it."""


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
        """A RecipeError that begins with its key gets the place where the key stands."""
        try:
            yield
        except RecipeError as error:
            key = str(error).split(":", 1)[0]
            raise type(error)(f"{self.of(key)}: {toml.sentence(str(error))}") from None


def part(room: Room, table: Any, key: str, place: Place) -> Part:
    """A section whose `kind` decides what its other keys are."""
    given = dict(typed(dict, table, key, place))
    kind = typed(str, given.pop("kind", room.default), f"{key}.kind", place)
    try:
        config = choice(room.name, kind).Config
    except RecipeError as error:
        raise RecipeError(f"{place.of(f'{key}.kind')}: {key}.kind: {error}") from None
    if room.name not in ROOMS.values() or room.taken:
        return Part(kind, section(config, given, key, place, {"kind"}))
    common = training_keys(config)
    how = {name: given.pop(name) for name in common & given.keys()}
    made = section(config, given, key, place, {"kind"} | common)
    return Part(kind, made, section(Training, how, key, place))


def training_keys(config: type) -> set[str]:
    """Keys that a part of a model has whatever its kind, unless its kind has one of that name."""
    own, common = ({f.name for f in dataclasses.fields(c)} for c in (config, Training))
    return common - own


def section(
    cls: type, table: Any, prefix: str, place: Place, also: frozenset[str] | set[str] = frozenset()
) -> Any:
    """An instance of the dataclass `cls`; `also` are keys that were dealt with before."""
    typed(dict, table, prefix, place)
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    values: Table = {}
    for key, value in table.items():
        full = f"{prefix}.{key}" if prefix else key
        if key not in fields:
            raise unknown(full, str(key), set(fields) | also, place)
        values[key] = typed(hints[key], value, full, place)
    for key, field in fields.items():
        if key not in values:
            full = f"{prefix}.{key}" if prefix else key
            if dataclasses.is_dataclass(hints[key]) or room_of(hints[key]):
                values[key] = typed(hints[key], {}, full, place)
            elif field.default is field.default_factory is dataclasses.MISSING:
                raise RecipeError(
                    f"{place.of(prefix)}: {full}: missing; wanted: {describe(hints[key])}"
                )
    try:
        return cls(**values)
    except RecipeError as error:
        text = toml.sentence(f"{prefix}.{error}")
        raise RecipeError(f"{place.of(text.split(':', 1)[0])}: {text}") from None


def typed(hint: Any, value: Any, key: str, place: Place, limits: Any = None) -> Any:
    """`value` if it is of the type `hint`, else a RecipeError that names the key, and the `limits`
    that a value of this type has here."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if room := room_of(hint):
        return part(room, value, key, place)
    if origin is typing.Annotated:
        value = typed(arguments[0], value, key, place, hint)
        for limit in arguments[1:]:
            if isinstance(limit, Range) and value not in limit:
                raise RecipeError(f"{place.of(key)}: {key}: {shown(value)} must be {limit}")
            if isinstance(limit, Items) and len(value) > limit.most:
                raise RecipeError(f"{place.of(key)}: {key}: {len(value):,} items; wanted: {limit}")
        return value
    if dataclasses.is_dataclass(hint):
        return section(typing.cast(type, hint), value, key, place)
    if origin in (typing.Union, types.UnionType):
        present = [a for a in arguments if a is not type(None)]
        chosen = next((a for a in present if type(value) is a), present[0])
        if len(present) > 1 and type(value) is not chosen:
            raise _wrong(hint, value, key, place)
        return typed(chosen, value, key, place)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _wrong(hint, value, key, place)
        return tuple(typed(arguments[0], v, f"{key}[{n}]", place) for n, v in enumerate(value))
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
        return " or ".join(describe(a) for a in arguments if a is not type(None))
    names = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}
    return names.get(hint, "a path" if hint is Path else "a section of its own")


def unknown(full: str, key: str, known: set[str], place: Place) -> RecipeError:
    near = difflib.get_close_matches(key, sorted(known), 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(known))}"
    hint = upgrade.hint(full) or hint
    return RecipeError(f"{place.of(full)}: {toml.named(full)}: no such key; {hint}")
