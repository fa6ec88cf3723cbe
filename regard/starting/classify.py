"""Texts with labels: which column is which, and a model for so many texts."""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from regard.data.cells import MISSING
from regard.errors import RecipeError, UserError
from regard.starting import Asked, Draft, Key, Section, measures, pictures, sounds, table
from regard.starting.sizing import Budget, held_out, up
from regard.starting.table import Column, Table, shown

LABELS = """label labels class category sentiment tag intent topic rating stars polarity target y
lang language genre type emotion"""
TEXTS = "text texts sentence review comment body content message tweet document"
"""Names of columns."""
LONGEST, USUAL = 3, 20
"""The longest n-gram, and bits of their vectors' numbers, as the task has them."""
PIECES = 1.6
"""Pieces of a word, about."""
RARE = 0.1
"""Where a larger share of words stands there once, words are cut into pieces."""
BUDGET = Budget(tokens=40e6, least=5, most=25, batch=16384)


def fits(asked: Asked) -> float:
    """Sure where a column has few values and another has texts."""
    if sounds.is_folder(asked) or pictures.is_folder(asked):
        return 0.9
    try:
        found = table.read(asked.files[0])
        label, text = choose(found, asked.columns)
    except UserError:
        return 0.0
    named = label.name.lower() in LABELS.split() or text.name.lower() in TEXTS.split()
    if text.few and not named:  # a date or a place rather than what somebody wrote
        return 0.3
    longer = text.words > 2 * label.words or text.characters > 4 * label.characters
    return 0.9 if named else 0.6 if longer else 0.3


def choose(found: Table, given: Sequence[str] = ()) -> tuple[Column, Column]:
    """The columns of labels and of texts."""
    if given:
        if len(given) != 2:
            raise RecipeError(f"--columns: the label's and the text's are wanted, not {len(given)}")
        label, text = map(found.column, given)
        return label, text
    text = _text(found)
    rest = [column for column in found.columns if column is not text and column.few]
    by_name = [column for column in rest if column.name.lower() in LABELS.split()]
    if not by_name and len(rest) != 1:
        # Labels are words or codes; a date or an amount has more values than any.
        rest = sorted(rest, key=lambda column: (column.words > 3, len(column.counts)))
        if len(rest) < 1 or (len(rest) > 1 and rest[0].name):
            raise UserError(_unsure(found, rest))
    return (by_name or rest)[0], text


def _text(found: Table) -> Column:
    """The column that is called so, or that of the longest texts."""
    prose = [column for column in found.columns if column.prose and not column.numeric > 0.5]
    if not prose or len(found.columns) < 2:
        raise UserError(f"{found.path}: no column has texts, with another one that has labels")
    named = [column for column in prose if column.name.lower() in TEXTS.split()]
    return (named or sorted(prose, key=lambda column: -column.characters))[0]


def _unsure(found: Table, rest: Sequence[Column]) -> str:
    which = " or ".join(column.called for column in rest) or "no column"
    names = ",".join(column.name or str(column.number) for column in found.columns)
    return (
        f"{found.path}: which column has the labels? {which} may. Say by --columns LABEL,TEXT; "
        f"there are {names}"
    )


def look(asked: Asked, base: Path) -> Draft:
    """Texts with one label each; or, of a folder, pictures or sounds."""
    if sounds.is_folder(asked):
        return sounds.look(asked, base)
    if pictures.is_folder(asked):
        return pictures.look(asked, base)
    files = table.parts(asked.files)
    for part, names in files.items():
        if len(names) > 1:
            raise RecipeError(
                f"new: {', '.join(map(str, names))}: each part wants one file, called by it "
                f"(train, validation, test); {part} has {len(names)}"
            )
    found = table.read(files["train"][0])
    label, text = choose(found, asked.columns)
    files, unlike = table.with_columns(files, (label, text))
    counts = label.counts
    spaced = measures.blanks(text.cells[:1000]) > 0.03 or text.words > 3
    sizes = _sizes(text.cells, spaced)
    facts = found.facts() | {
        "label": label.name or label.number,
        "text": text.name or text.number,
        "labels": dict(counts.most_common(50)),
        "lengths": sizes.as_dict(),
        "language": (speech := measures.language(text.cells)),
        "repeated": (again := measures.repeated(text.cells)),
    }
    seen = [
        *found.said(),
        f"  labels in {label.called}: {_listed(counts)}",
        f"  texts in {text.called}: {sizes}{f', {speech}' if speech else ''}",
    ]
    seen += [*_without(label), *unlike]
    if again:
        seen.append(f"  {again:,} texts stand there more than once: equal ones stay in one part")
    scores = _references(text.cells, label.cells, spaced)
    return Draft(
        title=f"{found.estimated:,} texts with {len(counts)} labels",
        facts=facts,
        seen=seen,
        sections=_sections(found, label, text, files, base, sizes, spaced),
        reference=_said(scores, "words" if spaced else "characters"),
        scores=scores,
    )


def _listed(counts: Counter[str]) -> str:
    most = [f"{shown(name, 24)} {count:,}" for name, count in counts.most_common(8)]
    more = f", … {len(counts)} in all" if len(counts) > len(most) else ""
    return ", ".join(most) + more


def _sizes(texts: Sequence[str], spaced: bool) -> measures.Lengths:
    """In words, if blanks part them."""
    if spaced:
        return measures.lengths([len(text.split()) for text in texts], "words")
    return measures.lengths([*map(len, texts)], "characters")


def _without(label: Column) -> list[str]:
    """Rows whose label is not there, or says so."""
    said = [f"  {label.empty:,} rows have no label: they are left out"] if label.empty else []
    absent = [name for name in label.counts if name.lower() in MISSING]
    for name in absent:
        said.append(f"  {shown(name)} counts as a label: make it empty if it stands for none")
    return said


def _references(texts: Sequence[str], labels: Sequence[str], spaced: bool) -> dict[str, float]:
    """Of the rows that have a label."""
    rows = [(text, label.strip()) for text, label in zip(texts, labels, strict=True)]
    texts, labels = zip(*(row for row in rows if row[1]), strict=True)
    scores = {"majority": measures.majority(labels)}
    units = measures.words if spaced else measures.neighbours
    if (by_words := measures.naive_bayes(texts, labels, units)) is not None:
        scores["naive_bayes"] = by_words
    return scores


def _said(scores: dict[str, float], unit: str) -> list[str]:
    said = [f"accuracy {scores['majority']:.1%} by always taking the most frequent label"]
    if "naive_bayes" in scores:
        said.append(f"accuracy {scores['naive_bayes']:.1%} by counting {unit} (naive Bayes)")
    return said


def _sections(
    found: Table,
    label: Column,
    text: Column,
    files: dict[str, list[Path]],
    base: Path,
    sizes: measures.Lengths,
    spaced: bool,
) -> list[Section]:
    """About ten lines: what the defaults do not know."""
    data: list[Key] = [Key(part, table.named(names, base)) for part, names in files.items()]
    data += found.keys((label, text), ("label", "text"))
    data += table.unread(found.sample.broken + found.uneven)
    tokens = sizes.total / found.sample.share
    tokenizer = _tokenizer(text, spaced)
    tokens *= PIECES if tokenizer and spaced else 1
    why = "as large a share of each label; equal texts stay together"
    return [
        Section("", (Key("task", "classify"),)),
        Section("data", tuple(data)),
        *held_out(files, why, 0.1, Key("stratified", True)),
        *tokenizer,
        *_input(tokens),
        *BUDGET.sections(tokens),
    ]


def _input(tokens: float) -> list[Section]:
    """As many vectors as there may be n-grams, where that is less than the usual number."""
    bits = max(12, math.ceil(math.log2(LONGEST * max(1.0, tokens))))
    few = Key("bits", bits, f"2^{bits} vectors of words and of two or three in a row are enough")
    return [Section("model.input", (few,))] if bits < USUAL else []


def _tokenizer(text: Column, spaced: bool) -> list[Section]:
    """Whole words, if most of them come again; pieces of them otherwise."""
    if not spaced:
        why = "words are not parted by blanks"
        return [Section("tokenizer", (Key("kind", "character", why), Key("split", "words")))]
    known, once = measures.vocabulary(text.cells)
    if once <= RARE:
        return []
    pieces = (
        Key("kind", "bpe", f"{once:.0%} of the words stand there once: pieces of words"),
        Key("split", "words"),
        Key("vocabulary", max(1000, min(8000, up(known, 500)))),
    )
    return [Section("tokenizer", pieces)]
