"""Every key of a recipe, with its type, default and meaning, as the Configs themselves tell it."""

import ast
import dataclasses
import difflib
import inspect
import re
import shutil
import textwrap
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple, get_args, get_type_hints

from regard.errors import RecipeError
from regard.recipe import defaults, upgrade
from regard.recipe.config import describe, flat, room_of
from regard.recipe.model_section import SEVERAL, sections_of
from regard.recipe.parts import ROOMS, Training, kinds, module
from regard.recipe.typed import training_keys

INTRODUCTION = """\
# Recipes

A recipe is a TOML file. `task` says what is learnt; the sections of the task, the model and the
trainer follow. Any key can be changed on the command line: `regard train x.toml train.updates=100`.
Where a section has a `kind`, the kind decides which other keys it has. `regard keys TASK` prints
what follows here; `regard keys warmup` searches names and meanings, `regard keys tag dropout` those
of one task. Defaults that suit a task and the kind of its model stand in a table at its head,
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
    keys: Sequence[Key]
    inside: bool = False
    """Whether it is the section around this one that is of that kind."""
    tasks: tuple[str, ...] = ()
    """Those that have it, where not all do: of a search alone."""

    def needs(self, before: str, quote: str) -> str:
        """Of which kind the section is, or that around it; nothing where it does not matter."""
        if not self.kind:
            return ""
        around = self.header.rpartition(".")[0]
        where = f" in {quote}[{around}]{quote}" if self.inside else ""
        return f'{before}kind = "{self.kind}"{where}'


def sections(task: str) -> Iterator[Section]:
    """All sections that a recipe for `task` may have."""
    from regard.model import Config as Model, TowerConfig
    from regard.train.job import Config as Train

    defining = module("tasks", task)
    top = [
        Key("task", "a string", "", "Which task: " + ", ".join(kinds("tasks"))),
        Key("seed", "an integer ≥ 0", "1", "Another seed, another order, other weights."),
    ]
    yield Section("", "", "", top)
    yield from _walk(defining.Config, "")
    yield from _walk(Model, "model", leave_out={*ROOMS, *SEVERAL})
    for tower in defining.PARTS.get("towers", {}):
        yield from _walk(TowerConfig, f"model.towers.{tower}", leave_out={*ROOMS})
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
        if isinstance(hint, types.UnionType):  # a section that may be there
            hint = next(filter(dataclasses.is_dataclass, hint.__args__), hint)
        room = room_of(hint)
        if room is not None and room.taken:  # nobody writes it
            own.append(Key(field.name, "a section", "the run's", help_of.get(field.name, "")))
            continue
        if dataclasses.is_dataclass(hint) or room:
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
    """One section for each kind of part, the default first; then those inside of it, and at last
    those that a part of any kind may have."""
    common, *anywhere = _walk(Training, header)
    for kind in sorted(kinds(room), key=lambda kind: (kind != default, kind)):
        if room == "fields" and not module(room, kind).Field.readable:
            continue  # what a model predicts, or reads in one task alone
        config = module(room, kind).Config
        found = list(_walk(config, header))
        text = inspect.getdoc(config) or ""
        first = Key("kind", "a string", f'"{default}"', f"{kind}: {_about(room, kind)}")
        own = [key for section in found if section.header == header for key in section.keys]
        if room in ROOMS.values():
            own += [key for key in common.keys if key.name in training_keys(config)]
        yield Section(header, kind, text, [first, *own])
        inner = (section for section in found if section.header != header)
        yield from (s if s.kind else s._replace(kind=kind, inside=True) for s in inner)
    if room in ROOMS.values():
        yield from anywhere


def _about(room: str, kind: str) -> str:
    """What a kind is: the first paragraph of its file, or what its Config says."""
    part = module(room, kind)
    text = inspect.getdoc(part) or inspect.getdoc(part.Config) or "a part of your own."
    first = re.sub(
        rf"^(An? )?{kind}: ", "", " ".join(text.partition("\n\n")[0].split()), flags=re.I
    )
    return (
        first if first[:2].strip().isupper() and first[1] != " " else first[0].lower() + first[1:]
    )


@cache
def attribute_docstrings(config: type) -> Mapping[str, str]:
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
    return MappingProxyType(found)


def of_task(task: str) -> Iterator[Section]:
    """The sections of a task, with the defaults that it has by the kind of its model."""
    defining = module("tasks", task)
    tables = {kind: flat(table) for kind, table in defaults.of(defining).items()}
    everywhere, main = tables.pop("all", {}), f"model.{defaults.main_part(defining)}"
    for section in sections(task):
        keys = []
        for key in section.keys:
            name = f"{section.header}.{key.name}".lstrip(".")
            by_kind = {kind: table[name] for kind, table in tables.items() if name in table}
            any_kind = _shown(everywhere[name]) if name in everywhere else key.default
            if section.header == main and section.kind and key.name != "kind":
                usual = everywhere.get(f"{main}.kind") == section.kind
                default = any_kind if usual else key.default
                by_kind = {k: v for k, v in by_kind.items() if section.kind in k.split("-")}
                if section.kind in by_kind:
                    default = _shown(by_kind.pop(section.kind))
            else:
                default = any_kind
            others = ", ".join(f"{kind}: {_shown(value)}" for kind, value in by_kind.items())
            default = f"{default} ({others})" if others else default
            keys.append(key._replace(default=default))
        yield section._replace(keys=keys)


def search(words: Sequence[str], tasks: Sequence[str]) -> tuple[list[Section], bool]:
    """The keys of some tasks that have all words in their names, or else in their meanings, and
    whether it is the names. What several tasks share comes once."""
    for match in (_named, _means):
        found: dict[tuple[Section, Key], list[str]] = {}
        for task in tasks:
            for section in of_task(task):
                bare = section._replace(help="", keys=())
                for key in section.keys:
                    if all(match(_plain(word), section.header, key) for word in words):
                        found.setdefault((bare, key), []).append(task)
        made: dict[Section, list[Key]] = {}
        for (bare, key), having in found.items():
            some = () if len(having) == len(tasks) else tuple(having)
            made.setdefault(bare._replace(tasks=some), []).append(key)
        if made:
            return [bare._replace(keys=tuple(keys)) for bare, keys in made.items()], match is _named
    return [], False


def _named(word: str, header: str, key: Key) -> bool:
    """Whether a key, or its section, has a word in its name, here or in other toolkits."""
    name = f"{header}.{key.name}".lstrip(".")
    elsewhere = upgrade.ELSEWHERE.get(name, "").split()
    return word in _plain(name) or word in map(_plain, elsewhere)


def _means(word: str, header: str, key: Key) -> bool:
    """The same, or in its meaning, where a word begins so."""
    return _named(word, header, key) or bool(re.search(rf"\b{re.escape(word)}", _plain(key.help)))


def _plain(text: str) -> str:
    """Warm-up, warm_up and warmup are one word."""
    return text.casefold().replace("_", "").replace("-", "")


def asked(words: Sequence[str]) -> list[Section]:
    """What `regard keys` shows: all keys of a task, or those of one or all tasks that have the
    words."""
    tasks = kinds("tasks")
    task, rest = (words[0], words[1:]) if words and words[0] in tasks else ("", words)
    if not rest:
        return list(of_task(task or "translate"))
    found, named = search(rest, [task] if task else tasks)
    close = difflib.get_close_matches(rest[0], tasks, 1, 0.8)
    if found and (named or not close):
        return found
    known = {key.name for each in tasks for section in sections(each) for key in section.keys}
    near = close or difflib.get_close_matches(rest[0], sorted(known), 1)
    hint = f"did you mean {near[0]!r}?" if near else f"the tasks are {', '.join(tasks)}"
    what = f"no key{f' of {task}' if task else ''} has {' and '.join(map(repr, rest))}"
    raise RecipeError(f"keys: {what} in its name or meaning; {hint}")


def as_text(found: Iterable[Section], width: int = 0) -> str:
    """For a terminal, whose width is taken if none is given."""
    width = width or min(shutil.get_terminal_size((100, 24)).columns, 120)
    lines: list[str] = []
    for section in found:
        if section.header:
            tasks = f"    ({', '.join(section.tasks)})" if section.tasks else ""
            lines += ["", f"[{section.header}]{section.needs('    ', '')}{tasks}"]
        for key in section.keys:
            default = f", default {key.default}" if key.default else ""
            name = f"  {key.name:<14} "
            text = " ".join(key.help.split())
            for each in (text, f"({key.wanted}{default})"):
                lines += _indented(each, name, width)
                name = " " * 17
    return "\n".join(lines).strip("\n")


def _indented(text: str, first: str, width: int) -> list[str]:
    """A text behind the name of its key; further lines begin where the text does. Words are kept
    whole."""
    return textwrap.wrap(
        text, max(width, 40), initial_indent=first, subsequent_indent=" " * 17,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


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
    """A table of the defaults that a task has by the kinds of its model and tokenizer."""
    tables = {kind: flat(table) for kind, table in defaults.of(task).items()}
    if not tables:
        return []
    part, names = defaults.main_part(task), dict.fromkeys(k for t in tables.values() for k in t)
    known, units = kinds(f"{part}s"), get_args(get_type_hints(task.Config).get("unit"))

    def where(kind: str) -> str:
        if kind == defaults.FINETUNE:
            return "model.weights"
        if kind in units:
            return f'unit = "{kind}"'
        section = part if kind in known else "source" if kind in kinds("fields") else "tokenizer"
        return f'{section}.kind = "{kind}"'

    heads = [", ".join(f"`{where(kind)}`" for kind in name.split("-")) for name in list(tables)[1:]]
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
