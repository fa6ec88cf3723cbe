"""Words with tags: CoNLL of any number of columns, CoNLL-U, or lists in JSONL."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.console.shell import quoted
from regard.data import fasta
from regard.data.cells import is_number
from regard.data.labelled import CONLLU
from regard.data.readers import suffix
from regard.errors import RecipeError, UserError
from regard.starting import Asked, Draft, Key, Section, measures, table
from regard.starting.sample import Sample, first_of
from regard.starting.sizing import Budget, held_out, up

EVEN = 0.9
"""The least share of lines with the same number of columns."""
LONG = 1000
"""Words of a sentence, which nobody says: the file has no empty lines between sentences."""
USUAL = 256
"""Words of a sentence that are read without being asked."""
MANY = 60
"""Tags that are too many for a random field."""
BUDGET = Budget(tokens=4e6, least=8, most=40, batch=1024)
WRAP = 40
"""Words after which such a text is cut, at the next end of a sentence."""


@dataclass(frozen=True)
class Tagged:
    """Sentences, as far as they were looked at."""

    sample: Sample
    sentences: list[list[tuple[str, str]]]
    width: int
    """Columns; 0 of JSONL."""
    columns: Sequence[str]
    """As the recipe names them; nothing where its defaults are right."""

    @property
    def pairs(self) -> Iterator[tuple[str, str]]:
        return (pair for sentence in self.sentences for pair in sentence)


def fits(asked: Asked) -> float:
    """Sure of CoNLL-U, and where empty lines part runs of lines with few values at their ends."""
    file = asked.files[0]
    if suffix(file) in (".conllu", ".conll", ".iob", ".bio"):
        return 0.95
    try:
        found = _read([file], asked.columns)
    except UserError:
        return 0.0
    pairs = list(found.pairs)
    tags = {tag for _, tag in pairs}
    spaced = len(found.sentences) > 1
    alike = found.width == 0 or (found.width > 1 and spaced)
    return 0.9 if alike and len(pairs) > 2 * len(tags) and len(tags) < 500 else 0.1


def look(asked: Asked, base: Path) -> Draft:
    """A tag for each word."""
    files = table.parts(asked.files)
    found = _read(files["train"], asked.columns)
    counts = Counter(tag for _, tag in found.pairs)
    sizes = measures.lengths([*map(len, found.sentences)], "words")
    spans = _spans(counts)
    sample = found.sample
    total = round(len(found.sentences) / sample.share)
    about = "" if sample.whole else "about "
    form = f"of words in {found.width} columns" if found.width else "in JSONL"
    said = [
        f"{sample.path}: {about}{total:,} sentences {form}, {table.encoding(sample)}",
        f"  {len(counts)} tags{spans}: {_listed(counts)}",
        f"  sentences: {sizes}",
    ]
    if not sample.whole:
        said.append(f"  only the first {len(found.sentences):,} sentences were looked at")
    if sizes.longest > LONG:
        said.append("  no empty lines part sentences: texts are cut after the next full stop")
    again = measures.repeated(" ".join(word for word, _ in each) for each in found.sentences)
    if again:
        said.append(
            f"  {again:,} sentences stand there more than once: equal ones stay in one part"
        )
    scores = _references(found, counts)
    facts = {
        "file": str(sample.path), "sentences": total, "sampled": not sample.whole,
        "columns": found.width, "tags": dict(counts.most_common(100)), "spans": bool(spans),
        "lengths": sizes.as_dict(), "repeated": again, "bom": sample.bom, "crlf": sample.crlf,
    }  # fmt: skip
    return Draft(
        title=f"{total:,} sentences, {len(counts)} tags{spans}",
        facts=facts,
        seen=said,
        sections=_sections(found, files, base, counts, sizes),
        reference=[
            f"accuracy {scores['word']:.1%} by taking the tag that a word has most often",
            f"accuracy {scores['majority']:.1%} by always taking the most frequent tag",
        ],
        scores=scores,
    )


def _listed(counts: Counter[str]) -> str:
    most = [f"{tag} {count:,}" for tag, count in counts.most_common(8)]
    return ", ".join(most) + (", …" if len(counts) > len(most) else "")


def _spans(counts: Counter[str]) -> str:
    """Whether tags begin and continue names: B-PER, I-PER, O."""
    begins = [tag for tag in counts if tag[:2] in ("B-", "I-", "E-", "S-", "L-", "U-")]
    return " of spans" if begins and len(begins) + 1 >= len(counts) else ""


def _read(paths: Sequence[Path], given: Sequence[str]) -> Tagged:
    """The sentences of the first file."""
    path = paths[0]
    if suffix(path) in fasta.SUFFIXES:
        raise UserError(f"{path}: for FASTA see the recipe protein-structure: regard keys tag")
    sample = first_of(paths)
    if suffix(path) == ".jsonl" or sample.lines[0].lstrip().startswith("{"):
        return _json(sample, given)
    rows = [[*_cells(lines)] for lines in _paragraphs(sample.lines)]
    widths = Counter(len(row) for rows_ in rows for row in rows_)
    width, alike = widths.most_common(1)[0] if widths else (0, 0)
    if _slashes(sample.lines[:100]):
        raise UserError(f"{path}: tags stand behind slashes. {_convert(path)}")
    if width < 2 or alike < EVEN * widths.total():
        raise UserError(f"{path}: no words with tags: a word and its tag are wanted on each line")
    word, tag, columns = _places(path, width, given, rows)
    sentences = [[(row[word], row[tag]) for row in rows_ if len(row) == width] for rows_ in rows]
    return Tagged(sample, [each for each in sentences if each], width, columns)


def _slashes(lines: Sequence[str]) -> bool:
    """Whether words stand there as dog/NOUN."""
    words = [word for line in lines for word in line.split()]
    return sum("/" in word[1:-1] for word in words) > EVEN * len(words)


def _convert(path: Path) -> str:
    """The command that puts each word on a line, its tag behind a tab."""
    cut = r'{for (i=1; i<=NF; i++) {n=match($i, "/[^/]*$"); '
    cut += r'print substr($i, 1, n-1) "\t" substr($i, n+1)}; print ""}'
    return f"Convert it: awk '{cut}' {quoted(path)} > {quoted(path.with_suffix('.conll'))}"


def _paragraphs(lines: Sequence[str]) -> Iterator[list[str]]:
    found: list[str] = []
    for line in (*lines, ""):
        if line.strip():
            found.append(line)
        elif found:
            yield found
            found = []


def _cells(lines: Sequence[str]) -> Iterator[list[str]]:
    for line in lines:
        cells = line.split("\t") if "\t" in line else line.split()
        comment = line.startswith(("#", "-DOCSTART-")) and len(cells) != 2
        wide = len(cells) == len(CONLLU) and not cells[0].isdigit()
        if not (comment or line.startswith("-DOCSTART-") or wide):
            yield cells


def _places(
    path: Path, width: int, given: Sequence[str], rows: Sequence[Sequence[list[str]]]
) -> tuple[int, int, Sequence[str]]:
    """Where word and tag stand, from 0, and how a recipe says so."""
    if suffix(path) == ".conllu" and width != len(CONLLU):
        raise UserError(f"{path}: CoNLL-U has {len(CONLLU)} columns, not {width}: call it .conll")
    if suffix(path) == ".conllu" and {*given} <= {*CONLLU}:
        word, tag = (*("form", "upos")[: 2 - len(given)], *given)[:2]
        return CONLLU.index(word), CONLLU.index(tag), given
    if given:
        try:
            places = [int(each) for each in given]
        except ValueError:
            raise RecipeError(
                f"--columns: {','.join(given)}: numbers are wanted, from 1, -1 for the last"
            ) from None
        places = [1, *places] if len(places) == 1 else places
        if len(places) != 2 or not all(0 < abs(place) <= width for place in places):
            raise RecipeError(f"--columns: WORD,TAG are wanted, from 1 to {width}")
        of_word, of_tag = places
        return of_word - (of_word > 0), of_tag - (of_tag > 0), given
    first = [row[0] for rows_ in rows[:50] for row in rows_ if len(row) == width]
    if width == len(CONLLU) and all(map(str.isdigit, first)):
        return 1, 3, ("2", "4")
    if width > 2 and all(map(str.isdigit, first)):
        return 1, width - 1, ("2", "-1")
    return 0, width - 1, ()


def _json(sample: Sample, given: Sequence[str]) -> Tagged:
    """Lists of words and of tags."""
    names = tuple(given) or ("words", "tags")
    records = [
        {key: value for key, value in each.items() if isinstance(value, list)}
        for each in table.objects(sample)
    ]
    lists = Counter(key for each in records for key in each)
    if not given and not set(names) <= lists.keys():
        words = next((key for key in ("tokens", "words", "text", "sentence") if key in lists), "")
        tags = next(
            (k for k in ("ner_tags", "pos_tags", "upos", "labels", "tags") if k in lists), ""
        )
        names = (words, tags)
    if not all(name in lists for name in names):
        known = ",".join(lists) or "none"
        raise UserError(f"{sample.path}: which keys? Say by --columns WORDS,TAGS; lists: {known}")
    found = []
    for each in records:
        words_, tags_ = (each.get(name, []) for name in names)
        if len(words_) == len(tags_) and words_:
            found.append([(str(w), str(t)) for w, t in zip(words_, tags_, strict=True)])
    return Tagged(sample, found, 0, () if names == ("words", "tags") else names)


def _references(found: Tagged, counts: Counter[str]) -> dict[str, float]:
    """The tag that a word has most often, counted in four fifths of the sentences."""
    by_word: dict[str, Counter[str]] = defaultdict(Counter)
    tried: list[tuple[str, str]] = []
    for sentence in found.sentences:
        if len(found.sentences) >= 10 and measures.drawn(" ".join(word for word, _ in sentence)):
            tried += sentence
        else:
            for word, tag in sentence:
                by_word[word][tag] += 1
    usual = counts.most_common(1)[0][0]
    best = {word: tags.most_common(1)[0][0] for word, tags in by_word.items()}
    tried = tried or list(found.pairs)
    right = sum(best.get(word, usual) == tag for word, tag in tried)
    return {"word": right / len(tried), "majority": counts[usual] / sum(counts.values())}


def _sections(
    found: Tagged,
    files: dict[str, list[Path]],
    base: Path,
    counts: Counter[str],
    sizes: measures.Lengths,
) -> list[Section]:
    data = [Key(part, table.named(names, base)) for part, names in files.items()]
    if found.columns:
        which = "word, tag" if len(found.columns) > 1 else "tag"
        data.append(Key("columns", [_column(each) for each in found.columns], which))
    if sizes.longest > LONG:
        data.append(Key("wrap", WRAP, "words; longer ones are cut after the next full stop"))
    elif sizes.longest > USUAL:
        data += [Key("max_length", up(sizes.longest, 64), "words of the longest sentence")]
    data += table.unread(found.sample.broken)
    numbers = all(map(is_number, counts)) and len(counts) > 20
    head = [Section("model.head", (Key("crf", False, "for many tags it takes long"),))]
    real = [Section("labels", (Key("kind", "real", "tags are numbers"),)), *head]
    return [
        Section("", (Key("task", "tag"),)),
        Section("data", tuple(data)),
        *held_out(files, "equal sentences stay together"),
        *(real if numbers else head if len(counts) > MANY else []),
        *BUDGET.sections(sizes.total / found.sample.share),
    ]


def _column(name: str) -> str | int:
    """A number, or a key of JSONL."""
    return int(name) if name.lstrip("-").isdecimal() else name
