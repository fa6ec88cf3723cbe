"""What verbs read: a text, a file or standard input; lines, or a table."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from regard.console import streams
from regard.console.shell import quoted
from regard.errors import RecipeError, UserError
from regard.verbs import common

if TYPE_CHECKING:
    from regard.data.extended import Request, Table

Format = Literal["auto", "text", "tsv", "csv", "jsonl", "conll"]
KNOWN = re.compile(r"\.(txt|tsv|csv|jsonl?|ndjson|conllu?|bio|fasta|gz)$", re.IGNORECASE)
"""How names of files end, also such as have blanks in them."""
NAME = re.compile(r"\S+\.[A-Za-z]\w{1,5}")
"""What is rather the name of a file than a text."""
LOOKED = 1 << 16
"""Bytes of a file that are looked at."""
LIST = ".txt"
"""How the names of files end that name other files, a line each."""
LONGEST = 4096
"""No path has more bytes."""


@dataclass(frozen=True)
class Source:
    """Where inputs come from."""

    path: Path | None = None
    text: str | None = None
    """Given as it is, instead of a file."""
    format: Format = "text"
    hint: str = ""
    """What to do if it is no path."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return "the text" if self.text is not None else str(self.path or streams.INPUT)

    @property
    def is_folder(self) -> bool:
        return self.path is not None and self.path.is_dir()

    @property
    def is_table(self) -> bool:
        return self.format != "text"

    @property
    def interactive(self) -> bool:
        """Whether a person types the inputs."""
        return self.path is None and self.text is None and sys.stdin.isatty()

    def inputs(self, task: Any) -> Iterator[str]:
        """Its lines, or all of it, as the task reads it; where inputs are files, the file itself,
        those of a folder, or those that a list (.txt) names."""
        from regard.data import media, readers

        reads = next(iter(task.fields.values()))
        if self.path is not None and reads.on_disk and readers.suffix(self.path) != LIST:
            inside = media.files(self.path) if self.path.is_dir() else [self.path]
            return (str(each) for each in inside)
        if self.path is not None:
            try:
                readers.check(self.path)
            except UserError as error:
                raise UserError(f"{error}{self.hint}") from None
            if reads.on_disk:
                return (media.located(line, self.path) for line in common.inputs(task, self.path))
        if self.text is None:
            lines = common.inputs(task, self.path)
            return lines if self.path or task.reads_files else self._without_tabs(lines)
        if task.reads_files:
            raise UserError(f"{self.text}: no such file")
        return iter(self.text.split("\n"))

    def _without_tabs(self, lines: Iterator[str]) -> Iterator[str]:
        """The same lines; the first that has a tab is pointed out."""
        warned = False
        for number, line in enumerate(lines, 1):
            if "\t" in line and not warned:
                warned = True
                what = "the line has a tab, and is read as one text"
                streams.warn(f"{self.name}:{number}: {what}; for a table: - --input-format tsv")
            yield line

    @contextmanager
    def table(self, request: "Request") -> "Iterator[Table]":
        """The table that it holds."""
        from regard import tabular
        from regard.data import readers

        assert self.format != "auto"
        source: Any = nullcontext(common.standard_input())
        if self.path is not None:
            source = readers.opened(self.path)
        with source as lines:
            yield tabular.opened(lines, self.name, self.format, request)

    def warn(self, number: int, status: str, problem: str | None = None) -> None:
        """Say what could not be read of an input."""
        from regard.decoding.prediction import WARNED

        if problem:
            streams.warn(problem)
        elif status in WARNED:
            streams.warn(f"{self.name}:{number}: {WARNED[status]}")


def sources(
    given: Sequence[str | None], format: Format, run: Path, verb: Literal["predict", "score"]
) -> list[Source]:
    """Files that are there, - or nothing for standard input, texts otherwise. A name that looks
    like that of a missing file is refused, before a model is loaded."""
    return [_source(each, format, run, verb) for each in given]


def _source(given: str | None, format: Format, run: Path, verb: str) -> Source:
    from regard.data import extended, media, readers
    from regard.recipe.parts import with_parts

    if given is None or given == "-":
        return Source(format="text" if format == "auto" else format)
    if not given:  # as a path, it would be this folder
        return Source(text="")
    path = Path(given)
    piped = f"; if it is a text: echo {quoted(given)} | {with_parts(verb, run)}"
    if is_there(path) and path.is_dir():
        return Source(path, hint=piped)
    if format == "auto" and ((is_there(path) and media.is_media(path)) or media.is_inside(given)):
        return Source(path, hint=piped)  # of which a run of texts says that it is none
    if is_there(path) or _looks_like_a_file(given):
        try:
            readers.check(path)
        except UserError as error:
            raise UserError(f"{error}{piped}") from None
        if format == "auto":
            format = extended.SUFFIXES.get(readers.suffix(path)) or _found(path)
        return Source(path, format=format)
    if format not in ("auto", "text"):
        raise RecipeError(f"input_format: {given!r} is no file, so it cannot be {format}")
    return Source(text=given)


def _found(path: Path) -> Format:
    """What a file is whose name does not say it: as many tabs in all of its first lines make a
    table."""
    from regard.data import readers

    if not path.is_file():  # what comes through a pipe is read once
        return "text"
    with readers.opened(path) as stream:
        start = stream.read(LOOKED)
    lines = start.split(b"\n")[: -1 if len(start) == LOOKED else None]
    tabs = {line.count(b"\t") for line in lines if line.strip()}
    return "tsv" if len(tabs) == 1 and tabs != {0} else "text"


def is_there(path: Path) -> bool:
    """Whether it is a path at all, and of something."""
    try:
        return path.exists()
    except (OSError, ValueError):  # longer than any name, or with a NUL
        return False


def _looks_like_a_file(text: str) -> bool:
    if len(text.encode("utf-8", "replace")) > LONGEST or "\n" in text or "\0" in text:
        return False
    inside = "/" in text and not re.search(r"\s", text) and is_there(Path(text).parent)
    return bool(KNOWN.search(text) or NAME.fullmatch(text)) or inside


def put(data: bytes) -> None:
    """A line, byte for byte, on standard output."""
    if (buffer := getattr(sys.stdout, "buffer", None)) is None:
        print(data.decode("utf-8", "surrogateescape"), end="", flush=True)
        return
    buffer.write(data)
    buffer.flush()
