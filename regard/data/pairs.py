"""Pairs of texts: which way they are learnt, and the targets that may be written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data import files
from regard.data.readers import Finding, Report, sound, suffix
from regard.data.tables import TABLES
from regard.data.tokenizers import Tokenizer
from regard.errors import RecipeError, UserError

SIDES = ("source", "target")
CHOICES = "choices.txt"
"""In a run's folder: the texts that may be written, if not any may."""
GIVEN = Path("choices")
"""What stands for a file's name where texts are given without one."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Which way the pairs are learnt."""

    both_directions: bool = False
    """Also from target to source. Which way is meant, the model sees by the source's language: a
    beginning for one that has little text to learn from (`regard train … --from`), or an end."""


def check_files(data: files.Config) -> None:
    for part in files.PARTS:
        names = data.names(part)
        tables = [name for name in names if suffix(Path(name)) in TABLES]
        odd = len(names) % 2 if not tables else len(tables) != len(names)
        if len(names) > 1 and odd:
            raise RecipeError(
                f"data.{part}: wanted: tables (TSV, CSV, JSONL), or one plain text file "
                f"for each of {' and '.join(SIDES)}; there are {', '.join(names)}"
            )
    data.sources(width(data.train))


def width(names: Sequence[str]) -> int:
    """How many files a source has: a table, or a plain file for each side."""
    return 1 if len(names) == 1 or suffix(Path(names[0])) in TABLES else 2


def sources(paths: Sequence[Path]) -> list[tuple[Path, ...]]:
    """The files of each source: a table, or a plain file for each side."""
    if any(suffix(path) in TABLES for path in paths) or len(paths) < 2 or len(paths) % 2:
        return [(path,) for path in paths]
    return [(paths[n], paths[n + 1]) for n in range(0, len(paths), 2)]


def listed(
    source: Path | Sequence[str], by: Tokenizer, longest: int, report: Report
) -> dict[str, list[int]]:
    """Texts, or those of a file, one to a line, and the tokens of each. What a model
    cannot write is reported and left out."""
    path = source if isinstance(source, Path) else GIVEN
    given = [line for _, line in sound(source)] if isinstance(source, Path) else source
    texts = [line.strip() for line in given]
    found: dict[str, list[int]] = {}
    for number, (text, symbols) in enumerate(zip(texts, by.encode(texts), strict=True), 1):
        if by.unknown in symbols:
            report.add(Finding(path, number, "tokens that no training text has", text[:60]))
        elif len(symbols) > longest:
            what = f"more than {longest} tokens (data.max_length)"
            report.add(Finding(path, number, what, text[:60]))
        elif text:
            found[text] = symbols
    if not found:
        raise UserError(f"{path}: there is no text that could be written")
    return found


def write_choices(folder: Path, allowed: Iterable[str]) -> None:
    """Keep what may be written."""
    text = "".join(f"{text}\n" for text in allowed)
    (folder / CHOICES).write_text(text, encoding="utf-8", newline="\n")


def report_missing(
    examples: Iterable[Any],
    allowed: Mapping[str, list[int]],
    by: Tokenizer,
    answers: Callable[[str], list[str]],
    report: Report,
) -> None:
    """Report which pairs have no target that may be written."""
    known = set(map(tuple, allowed.values()))
    for example in examples:
        target = example.values[1]
        if known.isdisjoint(map(tuple, by.encode(answers(target)))):
            path, line = example.where(1)
            report.add(Finding(path, line, "targets that output.choices lacks", target[:60]))
