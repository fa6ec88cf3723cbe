"""Every key that a recipe for a task may have, as the Configs themselves have it."""

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

from regard.model import Config as Model
from regard.recipe.config import room_of
from regard.recipe.model_section import SEVERAL, sections_of
from regard.recipe.parts import ROOMS, Training, kinds, module
from regard.train.job import Config as Train


class Key(NamedTuple):
    """A dotted key, the type of its value, and the kinds of parts that have it."""

    name: str
    hint: Any
    kinds: dict[str, str]

    @property
    def base(self) -> Any:
        """The type without its limits."""
        return typing.get_args(self.hint)[0] if self.limits else self.hint

    @property
    def limits(self) -> tuple[Any, ...]:
        annotated = typing.get_origin(self.hint) is typing.Annotated
        return typing.get_args(self.hint)[1:] if annotated else ()


def keys(task: str) -> Iterator[Key]:
    defining = module("tasks", task)
    yield Key("seed", int, {})
    yield from _walk(defining.Config, "", {})
    for key in _walk(Model, "model.", {}):
        if key.name.removeprefix("model.") not in {*ROOMS, *SEVERAL}:
            yield key
    for part, room, _ in sections_of(defining.PARTS):
        yield from _kinds(room, f"model.{part}")
        yield from _walk(Training, f"model.{part}.", {})
    yield from _walk(Train, "train.", {})


def _walk(config: type, prefix: str, chosen: dict[str, str]) -> Iterator[Key]:
    hints = typing.get_type_hints(config, include_extras=True)
    for field in dataclasses.fields(config):
        name, hint = f"{prefix}{field.name}", hints[field.name]
        if dataclasses.is_dataclass(hint):
            yield from _walk(typing.cast(type, hint), f"{name}.", chosen)
        elif room := room_of(hint):
            if not room.taken:  # what another run has is not for a recipe to say
                yield from _kinds(room.name, name)
        else:
            yield Key(name, hint, chosen)


def _kinds(room: str, section: str) -> Iterator[Key]:
    yield Key(f"{section}.kind", str, {})
    for kind in kinds(room):
        yield from _walk(module(room, kind).Config, f"{section}.", {f"{section}.kind": kind})
