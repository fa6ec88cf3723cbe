"""Prompts with answers: JSON that has both, or messages, or columns that a user names."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.dialogues import KNOWN, MESSAGES, SIDES, parse, sides_of
from regard.data.readers import suffix
from regard.errors import UserError
from regard.starting import Asked, Draft, Key, Section, measures, table
from regard.starting.sample import Sample, first_of
from regard.starting.sizing import Budget, held_out, up

SMALL = 4_000_000
"""Characters up to which a model reads character by character, where texts are short."""
SHORT = 60
"""Characters of a short dialogue."""
PIECE = 3.5
"""Characters of a piece of a word, about."""
LONGEST, EDGES = 1024, 16
"""Tokens of a dialogue at most, and of what stands around its messages."""
BUDGET = Budget(tokens=6e6, least=3, most=40, batch=4096)


@dataclass(frozen=True)
class Found:
    """Dialogues, as far as they were looked at."""

    sample: Sample
    prompts: Sequence[str]
    answers: Sequence[str]
    keys: Sequence[Key]
    bad: int
    """Lines that are none."""

    @property
    def count(self) -> int:
        return round(len(self.answers) / self.sample.share)


def find(paths: Sequence[Path], given: Sequence[str]) -> Found | None:
    """The dialogues of files, if that is what they have."""
    sample = first_of(paths)
    if suffix(sample.path) in (".jsonl", ".ndjson") or sample.lines[0].lstrip().startswith("{"):
        return _objects(sample, given)
    cells = table.attempt(sample)
    if cells is None:
        return None
    names = [column.name for column in cells.columns]
    if len(given) != len(SIDES) and not {*SIDES} <= {*names}:
        return None
    chosen = [cells.column(each) for each in given or SIDES]
    keys = cells.keys(chosen, SIDES)
    return Found(sample, chosen[0].cells, chosen[1].cells, keys, sample.broken + cells.uneven)


def _objects(sample: Sample, given: Sequence[str]) -> Found | None:
    records = table.objects(sample)
    columns = tuple(given) if given else _columns(records[0]) if records else None
    if columns is None or (
        len(columns) == 1 and given and isinstance(records[0].get(given[0]), str)
    ):
        return None
    rows = [sides_of(columns, record) for record in records]
    pairs = [row for row in rows if not isinstance(row, str) and all(map(str.strip, row))]
    broken = sum(isinstance(row, str) for row in rows) + sum(map(bool, sample.lines)) - len(records)
    if 2 * len(pairs) < len(rows):
        return None
    prompts, answers = zip(*pairs, strict=True)
    keys = [Key("columns", columns)] if columns else []
    return Found(sample, prompts, answers, keys, broken + sample.broken)


def _columns(record: dict[str, object]) -> tuple[str, ...] | None:
    """The columns that a recipe names for objects like this; None if it is no dialogue."""
    if MESSAGES in record or {*SIDES} <= record.keys():
        return ()
    for sides, names in KNOWN.items():
        if {*sides} <= record.keys():
            return tuple(name for name in names if name in record)
    return None


def are_there(asked: Asked) -> bool:
    """Whether the files have dialogues, without being asked."""
    try:
        return find(asked.files[:1], asked.columns) is not None
    except UserError:
        return False


def draft(found: Found, files: dict[str, list[Path]], base: Path) -> Draft:
    """Answers by a Transformer, which sees all of a prompt at once."""
    sample, prompts = found.sample, [parse(prompt) for prompt in found.prompts]
    turns = sum(len(prompt) > 1 for prompt in prompts)
    before = [sum(len(message.content) for message in prompt) for prompt in prompts]
    after = [*map(len, found.answers)]
    whole = [*map(sum, zip(before, after, strict=True))]
    total = round(sum(whole) / sample.share)
    spelt = total <= SMALL and sorted(whole)[len(whole) // 2] <= SHORT
    sizes = [measures.lengths(each, "characters") for each in (before, after)]
    again, usual = measures.repeated(found.prompts), measures.majority(found.answers)
    speech = measures.language(found.answers)
    said = [
        f"{sample.path}: {'' if sample.whole else 'about '}{found.count:,} dialogues, "
        f"{table.encoding(sample)}",
        f"  prompts: {sizes[0]}",
        f"  answers: {sizes[1]}{f', {speech}' if speech else ''}",
    ]
    said += [f"  {turns:,} have a system's message or several turns"] if turns else []
    said += [f"  {again:,} prompts stand there more than once"] if again else []
    facts = {
        "file": str(sample.path), "dialogues": found.count, "sampled": not sample.whole,
        "lengths": [size.as_dict() for size in sizes], "language": speech, "turns": turns,
        "repeated_prompts": again, "bom": sample.bom, "crlf": sample.crlf,
    }  # fmt: skip
    longest = max(whole) if spelt else 2 * max(whole) / PIECE
    return Draft(
        title=f"{found.count:,} prompts with answers",
        facts=facts,
        seen=said,
        sections=_sections(found, files, base, total if spelt else total / PIECE, longest, spelt),
        reference=[f"exact {100 * usual:.1f} by the most frequent answer alone"],
        scores={"frequent": usual},
    )


def _sections(
    found: Found,
    files: dict[str, list[Path]],
    base: Path,
    tokens: float,
    longest: float,
    spelt: bool,
) -> list[Section]:
    data = [Key(part, table.named(names, base)) for part, names in files.items()]
    most = min(LONGEST, up(longest + EDGES, 16))
    data += [*found.keys, Key("max_length", most, "tokens of prompt and answer together")]
    size = max(500, min(8000, up(tokens / 100, 500)))
    pieces = (Key("kind", "bpe"), Key("vocabulary", size))
    return [
        Section("", (Key("task", "language_model"), Key("unit", "dialogue", "answers are learnt"))),
        Section("data", (*data, *table.unread(found.bad))),
        *held_out(files, "by the prompt"),
        Section("tokenizer", (Key("kind", "character"),) if spelt else pieces),
        Section("model.decoder", (Key("kind", "transformer"),)),
        Section("search", (Key("kind", "greedy"),)),
        *BUDGET.sections(tokens),
    ]
