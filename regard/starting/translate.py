"""Pairs of texts: two files whose lines belong together, or two columns of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.dialogues import SIDES
from regard.data.readers import count
from regard.errors import RecipeError, UserError
from regard.starting import Asked, Draft, Key, Section, described, measures, table
from regard.starting.sample import take
from regard.starting.sizing import Budget, held_out, up
from regard.starting.table import Column, Table

SOURCES = "source src input question wrong misspelling"
"""Names of columns."""
SHORT = 2.0
"""Words of a text on average, below which characters are learnt."""
MANY = 100_000
"""Pairs from which on a model is made larger."""
LARGE = [
    Section("model", (Key("dim", 256),)),
    Section("train.optimizer", (Key("learning_rate", 0.003),)),
]
USUAL, LONGEST = 256, 1024
"""Tokens of a text: without being asked, and at most."""
BUDGET = Budget(tokens=20e6, least=5, most=80, batch=4096)
PIECE = 4.5
"""Characters of a piece of a word, about."""


@dataclass(frozen=True)
class Pairs:
    """Both sides, as far as they were looked at."""

    source: Sequence[str]
    target: Sequence[str]
    count: int
    share: float
    keys: Sequence[Key]
    said: Sequence[str]
    facts: dict[str, Any]
    broken: int


def fits(asked: Asked) -> float:
    """Sure of two plain files with as many lines, or of a table with two columns of texts."""
    plain = table.parts(asked.files)["train"]
    try:
        if len(plain) == 2:
            return 0.9 if count(plain[0]) == count(plain[1]) else 0.1
        source, target = choose(table.read(plain[0]), asked.columns)
    except UserError:
        return 0.0
    if {source.name, target.name} == {*SIDES} or source.few or target.few:
        return 0.1  # prompts and answers are a language model's
    kinds = (described.SOUND, described.PICTURE)
    if any(described.named(column, kind) for column in (source, target) for kind in kinds):
        return 0.1
    return 0.8


def choose(found: Table, given: Sequence[str] = ()) -> tuple[Column, Column]:
    """The columns of sources and of targets."""
    if given:
        if len(given) != 2:
            raise RecipeError(f"--columns: source's and target's are wanted, not {len(given)}")
        source, target = map(found.column, given)
        return source, target
    columns = list(found.columns)
    prose = columns if len(columns) == 2 else [c for c in columns if c.prose and not c.few]
    if len(prose) != 2:
        names = ",".join(column.name or str(column.number) for column in columns)
        raise UserError(
            f"{found.path}: which columns are source and target? Say by --columns SOURCE,TARGET; "
            f"there are {names}"
        )
    first, second = prose
    return (second, first) if second.name.lower() in SOURCES.split() else (first, second)


def look(asked: Asked, base: Path) -> Draft:
    """Texts and what becomes of them."""
    files = table.parts(asked.files)
    for part, names in files.items():
        if len(names) > 2:
            raise RecipeError(
                f"new: {', '.join(map(str, names))}: one table, or a file of sources and one of "
                f"targets, is wanted for each part; {part} has {len(names)}"
            )
    seen = _two(files["train"]) if len(files["train"]) == 2 else _one(files["train"][0], asked)
    spelt = all(_words(side) < SHORT for side in (seen.source, seen.target))
    unit = "characters" if spelt else "words"
    sizes = [measures.lengths(_sizes(side, unit), unit) for side in (seen.source, seen.target)]
    speech = [measures.language(side) for side in (seen.source, seen.target)]
    again = measures.repeated(seen.source)
    same = sum(a.strip() == b.strip() for a, b in zip(seen.source, seen.target, strict=True))
    copied = same / max(1, len(seen.source))
    said = [*seen.said]
    for name, size, which in zip(("sources", "targets"), sizes, speech, strict=True):
        said.append(f"  {name}: {size}{f', {which}' if which else ''}")
    if again:
        said.append(
            f"  {again:,} sources stand there more than once: all their pairs stay in one part"
        )
    facts = seen.facts | {
        "pairs": seen.count,
        "lengths": [size.as_dict() for size in sizes],
        "languages": speech,
        "repeated_sources": again,
        "copied": same,
    }
    return Draft(
        title=f"{seen.count:,} pairs of texts" + (f", {' → '.join(speech)}" if all(speech) else ""),
        facts=facts,
        seen=said,
        sections=_sections(seen, files, base, spelt, sizes),
        reference=[
            "unknown before it is trained (every language pair and subject differs)",
            f"{copied:.1%} right by copying the source",
        ],
        scores={"copied": copied},
    )


def _two(paths: Sequence[Path]) -> Pairs:
    """A plain file for each side."""
    counts = [count(path) for path in paths]
    if counts[0] != counts[1]:
        each = ", ".join(f"{path} has {n:,}" for path, n in zip(paths, counts, strict=True))
        raise UserError(f"files that belong together have unequal numbers of lines: {each}")
    source, target = map(take, paths)
    both = min(len(source.lines), len(target.lines))
    said = [f"{s.path}: {counts[0]:,} lines, {table.encoding(s)}" for s in (source, target)]
    if both < counts[0]:
        said.append(f"  only the first {both:,} lines were looked at")
    facts = {
        "files": [str(path) for path in paths],
        "lines": counts[0],
        "sampled": both < counts[0],
    }
    return Pairs(
        source.lines[:both], target.lines[:both], counts[0], both / counts[0], (), said, facts,
        source.broken + target.broken,
    )  # fmt: skip


def _one(path: Path, asked: Asked) -> Pairs:
    """A column for each side."""
    found = table.read(path)
    source, target = choose(found, asked.columns)
    said = [*found.said(), f"  source: {source.called}, target: {target.called}"]
    facts = found.facts() | {
        "source": source.name or source.number,
        "target": target.name or target.number,
    }
    keys = found.keys((source, target), ("source", "target"))
    broken = found.sample.broken + found.uneven
    return Pairs(
        source.cells, target.cells, found.estimated, found.sample.share, keys, said, facts, broken
    )


def _words(texts: Sequence[str]) -> float:
    return sum(len(text.split()) for text in texts) / max(1, len(texts))


def _sizes(texts: Sequence[str], unit: str) -> list[int]:
    return [len(text) if unit == "characters" else len(text.split()) for text in texts]


def _sections(
    seen: Pairs,
    files: dict[str, list[Path]],
    base: Path,
    spelt: bool,
    sizes: Sequence[measures.Lengths],
) -> list[Section]:
    data = [Key(part, table.named(names, base)) for part, names in files.items()]
    data += seen.keys
    data += table.unread(seen.broken)
    longest = max(size.longest for size in sizes)
    if (most := longest if spelt else 3 * longest) > USUAL:
        data.append(Key("max_length", min(LONGEST, up(most, 64)), "tokens of the longest texts"))
    letters = max(sum(map(len, side)) / seen.share for side in (seen.source, seen.target))
    return [
        Section("", (Key("task", "translate"),)),
        Section("data", tuple(data)),
        *held_out(files, "pairs of one source stay together", 0.05 if seen.count > 4000 else 0.1),
        Section("tokenizer", _tokenizer(seen, spelt)),
        *(LARGE if seen.count > MANY else []),
        *BUDGET.sections(letters if spelt else letters / PIECE),
    ]


def _tokenizer(seen: Pairs, spelt: bool) -> tuple[Key, ...]:
    """Characters of words, or pieces: more of them for more text."""
    if spelt:
        return (Key("kind", "character", "texts are words rather than sentences"),)
    words = sum(len(text.split()) for side in (seen.source, seen.target) for text in side)
    size = max(500, min(8000, up(words / seen.share / 100, 500)))
    return Key("kind", "bpe"), Key("vocabulary", size, f"{words / seen.share:,.0f} words in all")
