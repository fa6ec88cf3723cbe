"""What verbs share: kinds of options, lines in and out."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from tyro.conf import arg

from regard import interop
from regard.console import streams
from regard.errors import RecipeError
from regard.recipe import checked

if TYPE_CHECKING:
    from regard.front import Predictor

INTERRUPTED = 130
"""The exit code."""
Value = TypeVar("Value")
Maybe = Annotated[Value | None, arg(help_behavior_hint="")]
"""What may be left out; its help says what happens then."""
Override = Annotated[tuple[str, ...], arg(metavar="[KEY=VALUE ...]", help_behavior_hint="")]
From = Annotated[Path | None, arg(name="from", help_behavior_hint="")]
Device = Annotated[str, arg(metavar="NAME", help="cpu, cuda, cuda:1, mps or auto")]
Checkpoint = Annotated[
    str, arg(metavar="NAME", help="final, best, last, or the number of an update")
]
Flag = Annotated[bool, arg(help_behavior_hint="")]
Folder = Annotated[Path, arg(help="The run's folder.")]
MINE = 'A folder with parts of your own: DIR/encoders/mine.py is kind = "mine".'
Parts = Annotated[Path | None, arg(help=MINE, help_behavior_hint="")]
Part = Literal["train", "validation", "test"]
Data = Annotated[tuple[Path, ...], arg(help_behavior_hint="")]
Search = Literal["beam", "ctc", "greedy", "sample"]
Engine = Annotated[
    interop.Engine,
    arg(help="What searches: auto takes CTranslate2 where it does the same as torch."),
]
Quantization = interop.Quantization


def given(**options: Any) -> dict[str, Any]:
    """The options that the user gave."""
    return {name: value for name, value in options.items() if value is not None}


def check_data(data: Sequence[Path], part: str) -> None:
    """Refuse files for another part than the test's."""
    if data and part != "test":
        raise RecipeError("data: these files stand for the test part: leave --part out")


def add_parts(folder: Path | None) -> None:
    """Look for parts in a folder that the user names; a run never says where its parts are."""
    from regard.recipe import parts

    if folder is not None:
        parts.add_folder(folder)


def load(run: Path, **options: Any) -> "Predictor":
    """Open a run, in a process that is ours alone."""
    from regard import front

    own_process()
    return front.load(run, **options)


def own_process() -> None:
    """Settings for a process that is ours alone: it keeps freed memory, and has a thread for each
    core that it may use."""
    from regard.layers.allocator import keep_pages
    from regard.train.device import bound_threads

    keep_pages()
    bound_threads()


def inputs(task: Any, file: Path | None) -> Iterator[str]:
    """The lines of a file, or all of it."""
    return iter([whole_file(file)]) if task.reads_files else lines(file)


def whole_file(file: Path | None) -> str:
    """All of a file, or of standard input, as one text."""
    from regard.data.files import FileText

    return FileText("\n".join(lines(file, strict=True)), str(file or "standard input"))


def lines(file: Path | None, *, strict: bool = False) -> Iterator[str]:
    """Lines of a file or of standard input; only a newline ends a line. None is ever left out.

    One that is no text is taken as empty, or refused where all lines are one input (`strict`).
    """
    from regard.data.readers import opened
    from regard.errors import UserError

    source: AbstractContextManager[Any] = opened(file) if file else nullcontext(standard_input())
    with source as stream:
        for number, raw in enumerate(stream, 1):
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")  # some editors mark UTF-8 so
            try:
                yield raw.removesuffix(b"\n").removesuffix(b"\r").decode()
            except UnicodeDecodeError:
                where = f"{file or streams.INPUT}:{number}"
                if strict:
                    raise UserError(f"{where}: not UTF-8") from None
                streams.warn(f"{where}: not UTF-8: taken as empty")
                yield ""


def standard_input() -> Iterator[bytes]:
    """Its lines; what goes wrong names it."""
    try:
        yield from sys.stdin.buffer
    except OSError as error:
        error.filename = streams.INPUT
        raise


def one_line(task: Any, text: str) -> str:
    """An output as text: a line for each line that was read. Where all of a file was one input,
    its output may have lines of its own."""
    return text if task.reads_files else re.sub(r"\r\n?|\n", " ", text)


def say(value: Any) -> None:
    """A line of text, or of JSON, on standard output."""
    print(value if isinstance(value, str) else checked.written(value), flush=True)


def unfinished_key(found: Any) -> dict[str, Any]:
    """What JSON says of a run that is not at its end: {"unfinished": {"update": 400, …}}."""
    return {} if found is None else {"unfinished": found.as_dict()}
