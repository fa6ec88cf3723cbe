"""Readers of texts with labels and of words with tags.

    texts       label and text: .tsv, .csv, .jsonl, or a plain file for each
    sentences   words and a tag for each:
                .conllu     CoNLL-U; words of several words and empty nodes are left out
                .jsonl      {"words": ["a", "dog"], "tags": ["DET", "NOUN"]}
                .fasta      sequences, their labels, and if there is one a mask: 0 hides a label
                others      columns between tabs or blanks, a sentence between empty lines

A tag that is "_", in JSON also null, is not known: it is neither learnt nor scored. Every defect
is named with its file and line, and dealt with as the policy says; see `readers`.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.data import delimiters, fasta, files
from regard.data.cells import is_number
from regard.data.labels import UNKNOWN
from regard.data.readers import (
    Broken,
    Finding,
    Policy,
    Report,
    Row,
    excerpt,
    forbidden,
    lines,
    suffix,
    usable,
)  # fmt: skip
from regard.data.tables import Name, called, one_line, parallel, records
from regard.errors import RecipeError, UserError

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
SEVERAL = re.compile(r"\d+[-.]\d+\t")
"""Begins a line that is no word: a token of several words (3-4), an empty node (3.1)."""
NOTHING = ("", "")
"""Stands for a row that is broken."""


class Labelled(NamedTuple):
    """A text and its labels, one or any number of them; or words, and a tag for each."""

    path: Path
    line: int
    value: Any
    labels: tuple[str, ...]


# Texts


def texts(
    paths: Sequence[Path],
    columns: tuple[Name, ...],
    policy: Policy,
    report: Report,
    *,
    separator: str = "",
    **layout: Any,
) -> Iterator[Labelled]:
    """Texts, by default from the columns label and text.

    With a separator, a text has any number of labels, none among them: in JSON a list, elsewhere
    what stands between separators. `layout` is what a recipe says of a table.
    """
    columns = columns or ("label", "text")
    names = called(columns)
    if not separator:
        for number, (label, text) in parallel(paths, columns, policy, report, **layout):
            if not label.strip():
                raise UserError(f"{paths[0]}:{number}: empty {names[0]}: “{excerpt(text)}”")
            yield Labelled(paths[0], number, text, (label.strip(),))
        return
    kept = Policy(broken=policy.broken, empty="keep")
    between, broken = separator, Broken()
    if suffix(paths[0]) == ".jsonl":
        between = "\n"
        found = records(paths[0], 2, partial(_labels_and_text, names), broken)
        rows = usable(found, broken, paths, names, kept, report)
    else:
        rows = parallel(paths, columns, kept, report, **layout)
    for number, (field, text) in rows:
        if not text.strip() and policy.empty != "keep":
            if policy.empty == "refuse":
                raise UserError(f"{paths[0]}:{number}: empty {names[1]}")
            continue
        labels = (label.strip() for label in field.split(between))
        yield Labelled(paths[0], number, text, tuple(dict.fromkeys(filter(None, labels))))
    report.counts.pop(f"empty {names[0]}", None)  # seen, but not left out


def _labels_and_text(columns: tuple[str, ...], record: dict[str, Any]) -> tuple[str, str] | str:
    """Labels, one a line of their field, and the text."""
    labels, text = _texts(record.get(columns[0])), record.get(columns[1])
    if labels is None or not isinstance(text, str):
        return f"“{columns[0]}” is no list of texts, or “{columns[1]}” is not text"
    text = one_line(text)
    if defect := next(filter(None, map(forbidden, (*labels, text))), None):
        return defect[0]
    return "\n".join(labels), text


def _texts(value: Any, null: str = "") -> list[str] | None:
    """A list of texts; numbers become texts as they are written, null what it stands for, if it
    stands for anything."""
    if not isinstance(value, list):
        return None
    filled = [null if each is None and null else each for each in value]
    if not all(isinstance(each, str | int | float) for each in filled):
        return None
    return [each if isinstance(each, str) else json.dumps(each) for each in filled]


# Sentences


def sentences(
    paths: Sequence[Path],
    columns: tuple[str, ...],
    policy: Policy,
    report: Report,
    part: files.Part,
    *,
    real: bool = False,
    delimiter: str = "auto",
) -> Iterator[Labelled]:
    """Sentences of all files. `columns` are those of the word and the tag, or of the tag alone.

    Of FASTA files, those that belong to the part, if their headers say so (SET, VALIDATION).
    With `real`, tags are numbers. `delimiter` stands between columns: tabs or blanks by default.
    """
    kind = suffix(paths[0])
    together = kind in fasta.SUFFIXES
    groups = [list(paths)] if together else [[path] for path in paths]
    for group in groups:
        broken: Broken = {}
        if together:
            rows = fasta.rows(group, part, broken, UNKNOWN)
        elif kind == ".jsonl":
            parse_record = partial(_words_and_tags, _columns(columns, ("words", "tags")))
            rows = records(group[0], 2, parse_record, broken)
        else:
            parse = _conllu(columns) if kind == ".conllu" else _table(columns, delimiter)
            rows = _paragraphs(group[0], parse, broken)
        checked = _checked(rows, group[0], broken, real)
        for number, (words, tags) in usable(
            checked, broken, group[:1], ("words", "tags"), policy, report
        ):
            yield Labelled(group[0], number, tuple(words.split("\n")), tuple(tags.split("\n")))


def plain_sentences(path: Path, policy: Policy, report: Report) -> Iterator[tuple[int, str]]:
    """The sentences of a file of CoNLL-U as texts, with their lines: words between blanks."""
    found = sentences([path], ("form", "form"), policy, report, "train")
    return ((each.line, " ".join(each.value)) for each in found)


def _columns(given: tuple[str, ...], usual: tuple[str, str]) -> tuple[str, str]:
    word, tag = ([*usual[: 2 - len(given)], *given])[:2]
    return word, tag


def _checked(rows: Iterator[Row], path: Path, broken: Broken, real: bool) -> Iterator[Row]:
    """Rows whose words are words, and whose tags are numbers where they have to be."""
    for number, (words, tags) in rows:
        if number not in broken and words and (what := _odd(words, tags, real)):
            broken[number] = Finding(path, number, what, excerpt(words.replace("\n", " ")))
            words, tags = NOTHING
        yield number, (words, tags)


def _odd(words: str, tags: str, real: bool) -> str:
    for name, cells in (("word", words.split("\n")), ("tag", tags.split("\n"))):
        if not all(map(str.strip, cells)):
            place = next(n for n, cell in enumerate(cells, 1) if not cell.strip())
            return f"{name} {place} of {len(cells)} is empty"
        if name == "tag" and real:
            for place, cell in enumerate(cells, 1):
                if cell != UNKNOWN and not is_number(cell):
                    return f"tag {place} of {len(cells)} is not a number"
    return ""


def _words_and_tags(columns: tuple[str, str], record: dict[str, Any]) -> tuple[str, str] | str:
    """Words and tags, each one a line of its field."""
    fields = []
    for column, null in zip(columns, ("", UNKNOWN), strict=True):
        field = _texts(record.get(column), null)
        if field is None:
            return f"“{column}” is no list of texts"
        if defect := next(filter(None, map(forbidden, field)), None):
            return defect[0]
        fields.append(field)
    words, tags = fields
    if len(words) != len(tags):
        return f"{len(words)} words, but {len(tags)} tags"
    return "\n".join(words), "\n".join(tags)


Parse = Callable[[str, int], tuple[str, str] | str | None]
"""(line, number of words before it) → word and tag; what is wrong; or None to leave it out."""


def _paragraphs(path: Path, parse: Parse, broken: Broken) -> Iterator[Row]:
    """A sentence for each run of lines that are not empty. A broken line is not an empty one; after
    the last line comes one that ends the last sentence."""
    first, words, tags = 0, list[str](), list[str]()
    finding: Finding | None = None
    for number, line in enumerate(chain(lines(path, broken), [""]), 1):
        if line.strip() or number in broken:
            first = first or number
            if number in broken:
                finding = finding or broken.pop(number)
                continue
            found = parse(line, len(words))
            if isinstance(found, str):
                finding = finding or Finding(path, number, found, excerpt(line))
            elif found:
                words.append(found[0])
                tags.append(found[1])
        elif first:
            if finding:
                broken[first] = finding
                yield first, NOTHING
            elif words:  # not a comment alone
                yield first, ("\n".join(words), "\n".join(tags))
            first, words, tags, finding = 0, [], [], None


def line_of_word(path: Path, first: int, word: int) -> int:
    """The line of a word, counted from 0, of the sentence that begins at line `first`; `first`
    itself where sentences are not one word a line."""
    if suffix(path) in (".jsonl", ".tsv", ".csv", *fasta.SUFFIXES):
        return first
    for number, line in islice(enumerate(lines(path, {}), 1), first - 1, None):
        left_out = suffix(path) == ".conllu" and (line.startswith("#") or SEVERAL.match(line))
        word -= not (left_out or line.startswith("-DOCSTART-"))
        if word < 0:
            return number
    return first


def _conllu(columns: tuple[str, ...]) -> Parse:
    names = _columns(columns, ("form", "upos"))
    for name in names:
        if name not in CONLLU:
            raise RecipeError(
                f"data.columns: CoNLL-U has no column {name!r}; it has {', '.join(CONLLU)}"
            )
    word, tag = map(CONLLU.index, names)

    def parse(line: str, before: int) -> tuple[str, str] | str | None:
        if line.startswith("#"):
            return None
        cells = line.split("\t")
        if len(cells) != len(CONLLU):
            return f"{len(cells)} columns instead of {len(CONLLU)}"
        if SEVERAL.match(line):
            return None
        if cells[0] != str(before + 1):
            return f"the number of the word is not {before + 1}"
        return cells[word], cells[tag]

    return parse


def _table(columns: tuple[str, ...], delimiter: str = "auto") -> Parse:
    try:
        word, tag = (int(each) for each in _columns(columns, ("1", "-1")))
    except ValueError:
        raise RecipeError(
            f"data.columns: {', '.join(columns)}: columns go by number, from 1, or -1 for the last"
        ) from None
    width = 0
    if delimiter != "auto":
        delimiter = delimiters.character(delimiter)

    def parse(line: str, before: int) -> tuple[str, str] | str | None:
        nonlocal width
        if line.startswith("-DOCSTART-"):
            return None
        between = "\t" if delimiter == "auto" and "\t" in line else delimiter
        cells = line.split() if between == "auto" else next(delimiters.cut([line], between), [])
        width = width or len(cells)
        if len(cells) != width:
            return f"{len(cells)} columns instead of {width}"
        if not all(0 < place <= width for place in map(abs, (word, tag))) or width < 2:
            return f"{width} columns: no tag, or not all of {word} and {tag}"
        return cells[word - (word > 0)], cells[tag - (tag > 0)]

    return parse
