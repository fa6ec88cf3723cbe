"""Scripts by which a shell completes verbs, options, recipes and runs, from the verbs' own
signatures. All that they need stands in them: a Tab starts no Python."""

import re
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.recipe import config
from regard.recipe.parts import kinds

RUNS = {"run", "runs", "resume", "start_from", "baseline", "compare"}
"""Parameters that are runs."""


class Argument(NamedTuple):
    """An option of a verb, or what stands in its first places."""

    verb: str
    option: str
    """--part; empty for what stands in a place."""
    kind: Literal["run", "recipe", "file", "words", "flag", "other"]
    words: tuple[str, ...]
    help: str


def script(shell: str, verbs: Mapping[str, Callable[..., None]]) -> str:
    """What a shell has to run."""
    found = [argument for verb in verbs.values() for argument in _arguments(verb)]
    abouts = {n: cleandoc(v.__doc__ or "").partition("\n")[0] for n, v in verbs.items()}
    return _fish(found, abouts) if shell == "fish" else _bash(found, list(abouts), shell)


def _arguments(verb: Callable[..., None]) -> Iterator[Argument]:
    """What follows a verb on the command line."""
    name, helps = verb.__name__, _helps(verb)
    yield Argument(name, "--help", "flag", (), "Show its page.")
    for parameter in signature(verb).parameters.values():
        if parameter.name == "overrides":
            continue
        plain, literal = _type(parameter.annotation)
        if is_dataclass(plain):  # each of its fields is an option
            yield from _fields(name, plain)
            continue
        in_place = parameter.kind is Parameter.POSITIONAL_OR_KEYWORD
        renamed = _renamed(parameter.annotation) or parameter.name
        option = "" if in_place else f"--{renamed.replace('_', '-')}"
        kind, words = "other", literal
        if literal:
            kind = "words"
        elif parameter.name in RUNS or (parameter.name == "folder" and name == "runs"):
            kind = "run"
        elif parameter.name == "recipe":
            kind, words = "recipe", tuple(config.shipped())
        elif name == "keys" and in_place:
            kind, words = "words", tuple(kinds("tasks"))
        elif plain is bool:
            kind = "flag"
        elif plain is Path:
            kind = "file"
        help_ = helps.get(parameter.name, "")
        yield Argument(name, option, typing.cast(Any, kind), words, help_)


def _fields(verb: str, settings: Any) -> Iterator[Argument]:
    """The options that a verb has from a class of settings."""
    for field, hint in typing.get_type_hints(settings, include_extras=True).items():
        plain, literal = _type(hint)
        kinds_of = {bool: "flag", Path: "file"}
        kind = "words" if literal else kinds_of.get(plain, "other")
        option = f"--{field.replace('_', '-')}"
        yield Argument(verb, option, typing.cast(Any, kind), literal, "")


def _type(hint: Any) -> tuple[Any, tuple[str, ...]]:
    """The type inside of annotations, unions and tuples, and the words that it allows."""
    if typing.get_origin(hint) is Literal:
        return str, typing.get_args(hint)
    inner = [each for each in typing.get_args(hint) if each not in (type(None), ...)]
    return _type(inner[0]) if inner else (hint, ())


def _renamed(hint: Any) -> str | None:
    """The name that an option has instead of its parameter's."""
    names = (getattr(each, "name", None) for each in getattr(hint, "__metadata__", ()))
    return next((name for name in names if name), None)


def _helps(verb: Callable[..., None]) -> dict[str, str]:
    """What a verb's page says of its parameters: the first sentence of each."""
    text = cleandoc(verb.__doc__ or "").partition("\nArgs:\n")[2]
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", text, re.M)
    return {name: re.split(r"(?<=[.;:]) ", " ".join(help_.split()))[0] for name, help_ in found}


def _bash(found: list[Argument], verbs: list[str], shell: str) -> str:
    """For bash, and for zsh, which can take it."""
    values, places = [], []
    for verb in verbs:
        own = [each for each in found if each.verb == verb]
        for each in own:
            if each.option and each.kind not in ("flag", "other"):
                values.append(f"    '{verb} {each.option}') {_wanted(each)} ;;")
            elif each.option and each.kind == "other":
                values.append(f"    '{verb} {each.option}') return ;;")
        options = " ".join(each.option for each in own if each.option)
        place = next((each for each in own if not each.option), None)
        places.append(f"    {verb}) flags='{options}' {_wanted(place) if place else ''} ;;")
    return BASH.format(
        start=ZSH if shell == "zsh" else "",
        verbs=" ".join(verbs),
        values="\n".join(values),
        places="\n".join(line.replace("  ;;", " ;;") for line in places),
    )


def _wanted(each: Argument) -> str:
    kind = "" if each.kind in ("words", "other") else f"kind={each.kind}"
    words = f"allowed='{' '.join(each.words)}'" if each.words else ""
    return " ".join(part for part in (kind, words) if part)


ZSH = """\
autoload -Uz compinit bashcompinit
(( $+functions[compdef] )) || compinit
bashcompinit
"""
# `words` and `options` are names of zsh itself.
BASH = """\
# Made by `regard completion`.
{start}_regard() {{
  local word=${{COMP_WORDS[COMP_CWORD]}}
  local before=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}}
  local kind= allowed= flags= IFS=$'\\n'
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    allowed='{verbs} --help --version'
    COMPREPLY=($(compgen -W "${{allowed// /$'\\n'}}" -- "$word"))
    return
  fi
  case "$verb $before" in
{values}
  esac
  if [ -z "$kind$allowed" ]; then
    case "$verb" in
{places}
    esac
    case "$word" in
    -*) kind= allowed="$flags" ;;
    esac
  fi
  COMPREPLY=($(compgen -W "${{allowed// /$'\\n'}}" -- "$word"))
  case "$kind" in
  recipe) COMPREPLY+=($(compgen -f -X '!*.toml' -- "$word") $(compgen -d -- "$word")) ;;
  file) COMPREPLY+=($(compgen -f -- "$word")) ;;
  run)
    COMPREPLY+=($(compgen -d -- "$word"))
    case "$word" in
    */*) ;;
    *) COMPREPLY+=($(compgen -d -- "runs/$word")) ;;
    esac
    ;;
  esac
}}
complete -o filenames -F _regard regard
"""


def _fish(found: list[Argument], abouts: Mapping[str, str]) -> str:
    lines = ["# Made by `regard completion`.", "complete -c regard -f"]
    first = "complete -c regard -n __fish_use_subcommand"
    lines += [f"{first} -l help", f"{first} -l version"]
    lines += [f"{first} -a {verb} -d {_quoted(about)}" for verb, about in abouts.items()]
    runs = "(for each in runs/*/; echo $each; end; __fish_complete_directories)"
    for each in found:
        values = {
            "run": f"-a {_quoted(runs)}",
            "recipe": f"-a {_quoted(' '.join((*each.words, '(__fish_complete_suffix .toml)')))}",
            "words": f"-a {_quoted(' '.join(each.words))}",
            "file": "-F",
        }.get(each.kind, "")
        takes = (
            {"flag": "", "file": "-r", "other": "-x"}.get(each.kind, "-x") if each.option else ""
        )
        option = f"-l {each.option.removeprefix('--')}" if each.option else ""
        about = f"-d {_quoted(each.help)}" if each.help else ""
        words = (option, takes, values, about)
        if any((option, values)):
            seen = _quoted(f"__fish_seen_subcommand_from {each.verb}")
            lines.append(" ".join(w for w in ("complete -c regard -n", seen, *words) if w))
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
