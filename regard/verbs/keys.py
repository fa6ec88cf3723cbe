"""Every key of a recipe, with its type, default and meaning, as the Configs themselves tell it."""

import ast
import dataclasses
import inspect
import textwrap
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

from regard.recipe import defaults
from regard.recipe.config import describe, flat, room_of
from regard.recipe.model_section import SEVERAL, sections_of
from regard.recipe.parts import ROOMS, Training, kinds, module
from regard.recipe.typed import training_keys

INTRODUCTION = """\
# Recipes

A recipe is a TOML file. `task` says what is learnt; the sections of the task, the model and the
trainer follow. Any key can be changed on the command line: `regard train x.toml train.updates=100`.
Where a section has a `kind`, the kind decides which other keys it has. `regard keys TASK` prints
what follows here. Defaults that suit a task and the kind of its model stand in a table at its head,
and come before the default of the key itself.

Paths in a recipe are relative to the file that it is in, those on the command line to the working
folder. A run's `recipe.toml` has every default and every `auto` written out.
"""


class Key(NamedTuple):
    """One key."""

    name: str
    wanted: str
    default: str
    help: str


class Section(NamedTuple):
    """The keys that stand under one header; `kind` where they depend on it."""

    header: str
    kind: str
    help: str
    keys: list[Key]

    def needs(self, before: str, quote: str) -> str:
        """Of which kind the section is, or that around it; nothing where it does not matter."""
        if not self.kind:
            return ""
        around = self.header.rpartition(".")[0]
        where = "" if self.keys[0].name == "kind" else f" in {quote}[{around}]{quote}"
        return f'{before}kind = "{self.kind}"{where}'


def sections(task: str) -> Iterator[Section]:
    """All sections that a recipe for `task` may have."""
    from regard.model import Config as Model
    from regard.train.job import Config as Train

    defining = module("tasks", task)
    top = [
        Key("task", "a text", "", "Which task: " + ", ".join(kinds("tasks"))),
        Key("seed", "an integer ≥ 0", "1", "Another seed, another order, other weights."),
    ]
    yield Section("", "", "", top)
    yield from _walk(defining.Config, "")
    yield from _walk(Model, "model", leave_out={*ROOMS, *SEVERAL})
    for key, room, default in sections_of(defining.PARTS):
        yield from _kinds(room, f"model.{key}", default)
    yield from _walk(Train, "train")


def _walk(config: type, header: str, leave_out: set[str] | None = None) -> Iterator[Section]:
    """The section of a Config, then those of the Configs inside it."""
    hints = typing.get_type_hints(config, include_extras=True)
    help_of = attribute_docstrings(config)
    inner: list[tuple[str, Any]] = []
    own: list[Key] = []
    for field in dataclasses.fields(config):
        hint = hints[field.name]
        if field.name in (leave_out or ()):
            continue
        if dataclasses.is_dataclass(hint) or room_of(hint):
            inner.append((f"{header}.{field.name}".lstrip("."), hint))
            continue
        default = "" if field.default is dataclasses.MISSING else _shown(field.default)
        own.append(Key(field.name, describe(hint), default, help_of.get(field.name, "")))
    if own:
        yield Section(header, "", inspect.getdoc(config) or "", own)
    for name, hint in inner:
        if room := room_of(hint):
            yield from _kinds(room.name, name, room.default)
        else:
            yield from _walk(hint, name)


def _kinds(room: str, header: str, default: str) -> Iterator[Section]:
    """One section for each kind of part, the default first; then those inside of it."""
    for kind in sorted(kinds(room), key=lambda kind: (kind != default, kind)):
        if room == "fields" and not module(room, kind).Field.readable:
            continue  # what a model predicts, or reads in one task alone
        config = module(room, kind).Config
        found = list(_walk(config, header))
        text = inspect.getdoc(config) or ""
        first = Key("kind", "a text", f'"{default}"', f"This section describes {kind}.")
        own = [key for section in found if section.header == header for key in section.keys]
        if room in ROOMS.values():
            [common] = _walk(Training, header)
            own += [key for key in common.keys if key.name in training_keys(config)]
        yield Section(header, kind, text, [first, *own])
        inner = (section for section in found if section.header != header)
        yield from (section._replace(kind=section.kind or kind) for section in inner)


def attribute_docstrings(config: type) -> dict[str, str]:
    """The text below each field of a dataclass, base classes included."""
    found: dict[str, str] = {}
    for cls in reversed(config.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                found[field.target.id] = inspect.cleandoc(str(text.value.value))
    return found


def as_text(found: Iterator[Section]) -> str:
    """For a terminal."""
    lines: list[str] = []
    for section in found:
        if section.header:
            lines += ["", f"[{section.header}]{section.needs('    ', '')}"]
        for key in section.keys:
            default = f", default {key.default}" if key.default else ""
            lines += [f"  {key.name:<14} {key.help}", f"  {'':<14} ({key.wanted}{default})"]
    return "\n".join(lines).strip("\n")


def as_markdown(task: str) -> str:
    """For docs/recipes.md."""
    lines = [f'## task = "{task}"', "", *_defaults(module("tasks", task))]
    for section in sections(task):
        if section.header:
            lines += [f"### `[{section.header}]`{section.needs(', ', '`')}", ""]
        if section.help:
            lines += [section.help.split("\n\n")[0].replace("\n", " "), ""]
        lines += ["| key | wanted | default | meaning |", "|---|---|---|---|"]
        for key in section.keys:
            meaning = key.help.replace("\n", " ").replace("|", "\\|")
            lines.append(f"| `{key.name}` | {key.wanted} | {_code(key.default)} | {meaning} |")
        lines.append("")
    return "\n".join(lines)


def _defaults(task: ModuleType) -> list[str]:
    """A table of the defaults that a task has by the kind of its model."""
    tables = {kind: flat(table) for kind, table in defaults.of(task).items()}
    if not tables:
        return []
    part, names = defaults.main_part(task), dict.fromkeys(k for t in tables.values() for k in t)
    heads = [f'`{part}.kind = "{kind}"`' for kind in list(tables)[1:]]
    lines = [f"| default of | any | {' | '.join(heads)} |", "|---" * (len(tables) + 1) + "|"]
    for name in names:
        cells = (_code(_shown(table[name])) if name in table else "" for table in tables.values())
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return [*lines, ""]


def _code(text: str) -> str:
    return f"`{text}`" if text else "–"


def _shown(default: Any) -> str:
    match default:
        case bool():
            return str(default).lower()
        case tuple():
            return "[" + ", ".join(_shown(each) for each in default) + "]"
        case str():
            return f'"{default}"'
        case float():
            return f"{default:g}"
    return str(default)


def document() -> str:
    """docs/recipes.md."""
    return "\n".join([INTRODUCTION, *(as_markdown(task) for task in kinds("tasks"))])


if __name__ == "__main__":
    print(document(), end="")
