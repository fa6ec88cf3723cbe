"""A first recipe from files that nobody has described: what is seen in them, and what fits it.

A file here for each task, by the task's name: its `look` takes the files that a user names and
gives a `Draft`. What it cannot tell it does not claim, and says which option would say it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, NamedTuple, Protocol, runtime_checkable

from regard.errors import RecipeError


class Key(NamedTuple):
    """A line of a recipe."""

    name: str
    value: Any
    why: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a recipe; that without a name stands at the top."""

    name: str
    keys: tuple[Key, ...]
    why: str = ""


@dataclass(frozen=True)
class Asked:
    """What the user says beside the names of files."""

    files: tuple[Path, ...]
    columns: tuple[str, ...] = ()
    """Names or numbers, in the order of the recipe's key."""


@dataclass(frozen=True)
class Draft:
    """What was seen, and the recipe that it asks for."""

    title: str
    """In a line: what is learnt from what."""
    facts: Mapping[str, Any]
    """All that was seen, for a program."""
    seen: Sequence[str]
    """The same for a person, a line each."""
    sections: Sequence[Section]
    reference: Sequence[str] = ()
    """What score to expect: what costs nothing comes so far."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """The same by name."""


@runtime_checkable
class Look(Protocol):
    """What each file here has."""

    def fits(self, asked: Asked) -> float:
        """How sure it is that the files are for this task, from 0 to 1; nothing is refused."""
        ...

    def look(self, asked: Asked, base: Path) -> Draft:
        """What is seen, and a recipe for a file in the folder `base`."""
        ...


def tasks() -> list[str]:
    """The tasks that a recipe can be written for."""
    return sorted(each.name for each in iter_modules(__path__) if _looks(each.name))


def _looks(name: str) -> bool:
    return isinstance(import_module(f"{__name__}.{name}"), Look)


def of(task: str) -> Look:
    """The file of a task."""
    if task not in tasks():
        raise RecipeError(f"new: there is no task {task!r}; there are {', '.join(tasks())}")
    found: Look = import_module(f"{__name__}.{task}")
    return found


def likeliest(asked: Asked) -> str:
    """The task that files are for, where that is plain."""
    sure = {name: of(name).fits(asked) for name in tasks()}
    ranked = sorted(sure, key=lambda name: -sure[name])
    first, second = ranked[:2]
    if sure[first] < 0.5 or sure[first] < 1.5 * sure[second]:
        shown = ", ".join(map(str, asked.files))
        possible = " | ".join([name for name in ranked if sure[name]] or ranked)
        raise RecipeError(f"new: {shown}: this may be for several tasks; say which: {possible}")
    return first


def written(draft: Draft, head: Sequence[str]) -> str:
    """The recipe, with comments; `head` stands above it."""
    return "".join(
        f"{line}\n" for line in (*(f"# {line}".rstrip() for line in head), *_body(draft))
    )


def shortened(draft: Draft, share: float) -> Draft:
    """The same with fewer epochs, one at least."""

    def key(each: Key) -> Key:
        if each.name != "epochs":
            return each
        fewer = max(1, int(share * each.value))
        return Key("epochs", fewer, f"{each.value} would take longer than an hour")

    sections = [replace(s, keys=tuple(map(key, s.keys))) for s in draft.sections]
    return replace(draft, sections=sections)


def _body(draft: Draft) -> Iterator[str]:
    for section in draft.sections:
        if section.name:
            yield ""
            yield f"[{section.name}]" + _comment(section.why)
        for key in section.keys:
            yield f"{key.name} = {literal(key.value)}" + _comment(key.why)


def _comment(why: str) -> str:
    return f"  # {why}" if why else ""


def literal(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return _quoted(str(value))


def _quoted(text: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
    made = "".join(
        escapes.get(c, c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}") for c in text
    )
    return f'"{made}"'
