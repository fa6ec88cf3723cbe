"""Running text, or a text on each line; or prompts with answers."""

import bz2
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.readers import suffix
from regard.errors import RecipeError, UserError
from regard.starting import Asked, Draft, Key, Section, dialogues, measures, table
from regard.starting.sample import Sample, first_of, take
from regard.starting.sizing import Budget, held_out, up
from regard.starting.table import Table

SMALL = 4_000_000
"""Characters up to which a model reads character by character."""
WRAP = 1000
"""Characters after which long lines are cut."""
LENGTH = 64
"""Tokens of a stream in one batch."""
LONGEST = 1024
"""Tokens of a line that is a text of its own, at most."""
PIECES = (Key("kind", "bpe"), Key("vocabulary", 8000))
BUDGET = Budget(tokens=6e6, least=3, most=40, batch=2048)
PIECE = 4.5
"""Characters of a piece of a word, about."""


@dataclass(frozen=True)
class Text:
    """Lines, as far as they were looked at."""

    sample: Sample
    lines: Sequence[str]
    keys: Sequence[Key]
    said: Sequence[str]
    line: bool
    """Whether every line is a text of its own."""

    @property
    def characters(self) -> int:
        return round(sum(len(line) + 1 for line in self.lines) / self.sample.share)


def fits(asked: Asked) -> float:
    """A plain text that is no table, or dialogues."""
    try:
        sample = take(asked.files[0])
    except UserError:
        return 0.0
    if dialogues.are_there(asked):
        return 0.95
    plain = suffix(sample.path) in (".txt", ".text", ".md", "")
    return 0.6 if plain and table.attempt(sample) is None else 0.1


def look(asked: Asked, base: Path) -> Draft:
    """What is said, character by character or piece by piece."""
    files = table.parts(asked.files)
    if answered := dialogues.find(files["train"], asked.columns):
        return dialogues.draft(answered, files, base)
    found = read(files["train"], asked.columns)
    sizes = measures.lengths([*map(len, found.lines)], "characters")
    total, speech = found.characters, measures.language(found.lines)
    known = Counter(letter for line in found.lines for letter in line)
    scores = references(found.lines, known)
    said = [
        *found.said,
        f"  {total:,} characters, {len(known):,} of them unlike{f', {speech}' if speech else ''}",
        f"  lines: {sizes}",
    ]
    wrapped = not found.line and sizes.longest > max(10 * WRAP, 0.02 * total)
    if wrapped:
        said.append(
            f"  a line of {sizes.longest:,} characters is cut at blanks: its end is held out"
        )
    facts = {
        "file": str(found.sample.path), "characters": total, "lines": found.sample.count,
        "sampled": not found.sample.whole, "distinct": len(known), "language": speech,
        "lengths": sizes.as_dict(), "bom": found.sample.bom, "crlf": found.sample.crlf,
    }  # fmt: skip
    return Draft(
        title=f"{total:,} characters of {'texts, one a line' if found.line else 'running text'}",
        facts=facts,
        seen=said,
        sections=_sections(found, files, base, sizes, total, wrapped),
        reference=[
            f"{scores['bz2']:.2f} bits per character by bzip2, which learns while it reads",
            f"{scores['unigram']:.2f} bits per character by counting characters",
        ],
        scores=scores,
    )


def read(paths: Sequence[Path], given: Sequence[str]) -> Text:
    """The lines of plain files, or one column of tables."""
    path, sample = paths[0], first_of(paths)
    if suffix(path) in (".tsv", ".csv", ".jsonl") or given:
        found = table.attempt(sample)
        if found is None:
            raise UserError(f"{path}: it is no table")
        return _column(found, given)
    about = "" if sample.whole else "about "
    name = f"{path} and {len(paths) - 1} more" if len(paths) > 1 else path
    said = [f"{name}: {about}{sample.count:,} lines, {table.encoding(sample)}"]
    if not sample.whole:
        said.append(f"  only the first {len(sample.lines):,} lines were looked at")
    return Text(sample, sample.lines, (), said, _list(sample.lines))


def _list(lines: Sequence[str]) -> bool:
    """Whether lines are names or the like: short, none of them empty, nearly all unlike."""
    full = [line for line in lines if line.strip()]
    short = sum(map(len, full)) < 30 * len(full)
    return len(full) >= 0.99 * len(lines) and short and len({*full}) > 0.9 * len(full) > 20


def _column(found: Table, given: Sequence[str]) -> Text:
    if len(given) > 1:
        raise RecipeError(f"--columns: a text has 1 column, not {len(given)}")
    prose = sorted((c for c in found.columns if c.prose), key=lambda column: -column.characters)
    if not prose and not given:
        raise UserError(f"{found.path}: no column has texts")
    chosen = found.column(given[0]) if given else prose[0]
    said = [*found.said(), f"  texts: {chosen.called}"]
    return Text(found.sample, chosen.cells, found.keys((chosen,), ("text",)), said, True)


def references(lines: Sequence[str], known: Counter[str]) -> dict[str, float]:
    """Bits per character: −Σ p log₂ p, and of a packed copy."""
    total = sum(known.values())
    entropy = -sum(n / total * math.log2(n / total) for n in known.values())
    text = "\n".join(lines)
    return {"unigram": entropy, "bz2": 8 * len(bz2.compress(text.encode())) / max(1, len(text))}


def _sections(
    found: Text,
    files: dict[str, list[Path]],
    base: Path,
    sizes: measures.Lengths,
    total: int,
    wrapped: bool,
) -> list[Section]:
    data = [Key(part, table.named(names, base)) for part, names in files.items()]
    data += found.keys
    if wrapped:
        data.append(Key("wrap", WRAP, "characters; longer lines are cut at the next blank"))
    if found.line:
        data += [Key("max_length", min(LONGEST, up(sizes.longest, 16))), Key("on_too_long", "cut")]
    data += table.unread(found.sample.broken)
    small = total <= SMALL
    tokens = total if small else total / PIECE
    kind = "line" if found.line else "stream"
    why = "every line is a text of its own" if found.line else "one running text"
    return [
        Section("", (Key("task", "language_model"), Key("unit", kind, why))),
        Section("data", tuple(data)),
        *held_out(files, "the end of the text"),
        Section("tokenizer", (Key("kind", "character"),) if small else PIECES),
        *(BUDGET.sections(tokens) if found.line else _stream(tokens)),
    ]


def _stream(tokens: float) -> list[Section]:
    """Fewer streams side by side, where the text is short."""
    *_, train = BUDGET.sections(tokens)
    streams = BUDGET.of_batch(tokens) // LENGTH
    few = Section("stream", (Key("streams", streams, "few, as the text is short"),))
    return [*([few] if streams < BUDGET.batch // LENGTH else []), train]
