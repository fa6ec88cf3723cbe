"""The command line. PyTorch is imported only when a verb needs it."""

import difflib
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from inspect import cleandoc, signature
from itertools import pairwise
from typing import Literal

import tyro

from regard import __version__
from regard.console import streams
from regard.errors import RecipeError, UserError
from regard.verbs import (
    about,
    learning,
    looking,
    planning,
    predicting,
    preparing,
    serving,
    shipping,
    starting,
    sweeping,
    using,
    vectors,
)
from regard.verbs.common import INTERRUPTED, Flag

STYLE = (
    tyro.conf.OmitArgPrefixes,
    tyro.conf.FlagCreatePairsOff,
    tyro.conf.DisallowNone,
    tyro.conf.PositionalMetavarFromFieldName,
)
OVERVIEW = """\
usage: regard VERB …

Sequence models that you can train, look into and ship.

{}

`regard VERB --help` has the options of a verb, with examples; `regard
--version` says which version this is, `regard info` what this machine has."""
CHANGE = re.compile(r"\w+(\.\w+)*=")
"""How a change to a recipe begins."""


def completion(shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]) -> None:
    """A script by which a shell completes verbs, options, recipes and runs (Tab).

    Put the line of your shell where it starts:
      ~/.bashrc                   eval "$(regard completion bash)"
      ~/.zshrc                    eval "$(regard completion zsh)"
      ~/.config/fish/config.fish  regard completion fish | source

    Examples:
      regard completion bash
      regard completion fish > ~/.config/fish/completions/regard.fish

    Args:
        shell: bash, zsh or fish.
    """
    from regard.verbs import completing

    print(completing.script(shell, VERBS), end="")


# A verb's parameters are its options, its docstring is its page, with examples.
VERBS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        starting.new,
        preparing.prepare,
        learning.train,
        learning.gather,
        learning.doctor,
        planning.plan,
        sweeping.sweep,
        using.evaluate,
        using.compare,
        predicting.predict,
        predicting.score,
        serving.serve,
        serving.watch,
        shipping.import_,
        shipping.export,
        looking.inspect,
        looking.data,
        looking.keys,
        vectors.word2vec,
        vectors.neighbours,
        vectors.analogy,
        vectors.similarity,
        about.runs,
        about.info,
        completion,
        learning.demo,
    )
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 wrongly called, 130 interrupted,
    141 the reader of the output has gone away."""
    with streams.standard() as lost:
        code = _ended(list(sys.argv[1:] if arguments is None else arguments))
        try:
            print(end="", flush=True)
        except OSError as error:
            code = code or _failed(error)
        if (why := lost()) and not code:
            code = _failed(why)
    if code:
        sys.exit(code)


def _ended(arguments: list[str]) -> int:
    """The exit code of what is asked for; why it failed, if it did, is said."""
    try:
        _run(arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except UserError as error:
        _say(str(error))
        return 2 if isinstance(error, RecipeError) else 1
    except KeyboardInterrupt as error:
        _say(str(error) or "interrupted")
        return INTERRUPTED
    except OSError as error:
        return _failed(error)
    return 0


def _failed(error: OSError) -> int:
    """A reader of our output (head, less) that has seen enough is no error; all else is."""
    if streams.reader_gone(error):
        return streams.READER_GONE
    _say(streams.reason(error))
    return 1


def _say(text: str) -> None:
    """The last message: nothing is left to be ended if nobody reads it."""
    with suppress(OSError):
        streams.warn(text)


def _run(arguments: list[str]) -> None:
    """Let the verb's own page and parser answer; the overview where there is no verb."""
    name = arguments[0] if arguments else "--help"
    if name in VERBS:
        verb, given = VERBS[name], _in_order(VERBS[name], arguments[1:])
        page = cleandoc(verb.__doc__ or "").partition("\n\nArgs:")[0]
        tyro.cli(verb, prog=f"regard {name}", description=page, args=given, config=STYLE)
    elif name == "--version":
        print(__version__)
    elif name in ("--help", "-h"):
        print(OVERVIEW.format("\n".join(map(_summary, VERBS))))
    else:
        near = difflib.get_close_matches(name, [*VERBS, "--help", "--version"], 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(VERBS)}"
        raise RecipeError(f"there is no {name!r}; {hint}")


def _summary(verb: str) -> str:
    """What a verb does: the first sentence of its page, beside its name."""
    first = cleandoc(VERBS[verb].__doc__ or "").partition("\n\n")[0]
    width, beside = shutil.get_terminal_size().columns, max(map(len, VERBS)) + 4
    lines = textwrap.wrap(" ".join(first.split()), max(width, 60) - beside)
    return f"  {verb}".ljust(beside) + ("\n" + " " * beside).join(lines)


def _in_order(verb: Callable[..., None], arguments: list[str]) -> list[str]:
    """Changes to a recipe last: they may stand anywhere, but the parser wants them side by side."""
    parameters = signature(verb).parameters.values()
    if not any(parameter.name == "overrides" for parameter in parameters):
        return arguments
    flags = [f"--{parameter.name}" for parameter in parameters if parameter.annotation is Flag]
    changes = [
        n
        for n, (before, argument) in enumerate(pairwise(["", *arguments]))
        if CHANGE.match(argument)
        and (not before.startswith("--") or "=" in before or before in flags)
    ]
    rest = [argument for n, argument in enumerate(arguments) if n not in changes]
    return rest + [arguments[n] for n in changes]
