"""Texts to be read both ways: documents on lines, or between empty lines."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from regard.starting import Asked, Draft, Key, Section, language_model, measures, table
from regard.starting.sizing import Budget, held_out

PIECES = 8000
"""Tokens of a vocabulary."""
SMALL = 1_000_000
"""Characters below which it has fewer."""
PIECE = 4.2
"""Characters of a piece of a word, about."""
BUDGET = Budget(tokens=4e7, least=2, most=40, batch=4096)


def fits(asked: Asked) -> float:
    """A plain text may be for this, but is rather for a language model: it has to be asked for."""
    return 0.1 * language_model.fits(asked)


def look(asked: Asked, base: Path) -> Draft:
    """What is hidden is found again, piece by piece."""
    return draft(asked, base, "masked_language_model", _tokenizer, PIECE)


def draft(
    asked: Asked,
    base: Path,
    task: str,
    tokenizer: Callable[[int], Sequence[Key]],
    characters: float,
) -> Draft:
    """A recipe for a task that reads whole documents: its tokenizer for so many characters of text,
    and how many of them a token has, about."""
    files = table.parts(asked.files)
    found = language_model.read(files["train"], asked.columns)
    paragraphs = _paragraphs(found.lines)
    sizes = measures.lengths([*map(len, found.lines)], "characters")
    total, speech = found.characters, measures.language(found.lines)
    kind = "paragraph" if paragraphs else "line"
    known = Counter(word for line in found.lines for word in line.split())
    guessed = 100 * known.most_common(1)[0][1] / sum(known.values()) if known else 0.0
    facts = {
        "file": str(found.sample.path), "characters": total, "lines": found.sample.count,
        "sampled": not found.sample.whole, "language": speech, "documents": kind,
        "lengths": sizes.as_dict(), "bom": found.sample.bom, "crlf": found.sample.crlf,
    }  # fmt: skip
    documents = "paragraphs" if paragraphs else "texts, one a line"
    return Draft(
        title=f"{total:,} characters of {documents}",
        facts=facts,
        seen=[
            *found.said,
            f"  {total:,} characters{f', {speech}' if speech else ''}",
            f"  lines: {sizes}",
        ],
        sections=[
            Section("", (Key("task", task),)),
            Section("data", tuple(_data(files, base, found))),
            *held_out(files, "documents, by their text"),
            Section("windows", (Key("documents", kind, "what is read by itself"),)),
            Section("tokenizer", tuple(tokenizer(total))),
            *BUDGET.sections(total / characters),
        ],
        reference=[f"accuracy {guessed:.1f} % by the most frequent word alone"],
        scores={"frequent": guessed},
    )


def _paragraphs(lines: Sequence[str]) -> bool:
    """Whether empty lines part documents of several lines."""
    empty = sum(not line.strip() for line in lines)
    return 0.01 * len(lines) < empty < 0.45 * len(lines)


def _data(files: dict[str, list[Path]], base: Path, found: language_model.Text) -> list[Key]:
    keys = [Key(part, table.named(names, base)) for part, names in files.items()]
    return [*keys, *found.keys, *table.unread(found.sample.broken)]


def _tokenizer(total: int) -> list[Key]:
    """Few pieces where there is little text to learn them from."""
    if total >= SMALL:
        return [Key("kind", "bpe"), Key("vocabulary", PIECES)]
    return [Key("kind", "bpe"), Key("vocabulary", 2000, "few, as the text is short")]
