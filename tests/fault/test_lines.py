"""Damaged lines in every format: each is reported by file and line, all the others are used.

A file of each format holds a text for each number; some lines are damaged, in ways that leave no
doubt. What is read must be the numbers that are left, in their order and whole.
"""

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.data import series, vectors
from regard.data.labelled import sentences, texts
from regard.data.readers import Policy, Report, text
from regard.data.tables import parallel
from regard.errors import UserError
from regard.verbs.common import lines as input_lines
from tests.fault.conftest import Amount, Tally

SKIP = Policy(broken="skip")
PER_FILE = 8
"""Fewer than the places that a report keeps for each kind of defect."""

Harm = Callable[[bytes, random.Random], bytes]


# Harm to a line, whatever its format


def inserted(what: bytes) -> Harm:
    def harm(line: bytes, chance: random.Random) -> bytes:
        place = chance.randrange(1, len(line))
        while line[place] & 0xC0 == 0x80:  # not inside of a character
            place -= 1
        return line[:place] + what + line[place:]

    return harm


BYTES = [b"\xff", b"\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\x80"]
CONTROLS = [b"\0", b"\x08", b"\x1b[31m", b"\x0b", b"\x0c", b"\rx", b"\x1f", b"\x01"]
ANYWHERE = [inserted(each) for each in BYTES + CONTROLS]


def replaced(old: bytes, new: bytes, count: int = 1) -> Harm:
    def harm(line: bytes, chance: random.Random) -> bytes:
        assert old in line
        return line.replace(old, new, count)

    return harm


def instead(new: bytes) -> Harm:
    return lambda line, chance: new


def cut(line: bytes, chance: random.Random) -> bytes:
    return line[: chance.randrange(1, len(line))]


JSON = [
    cut, replaced(b'"', b"'"), replaced(b"}", b",}"), replaced(b"{", b""), replaced(b":", b""),
    replaced(b"{", b"[{"), instead(b"[1, 2]"), instead(b'"text"'), instead(b"null"), instead(b"{}"),
    instead(b"[" * 5000), instead(b'{"a":' * 5000),
]  # fmt: skip


# Formats


@dataclass(frozen=True)
class Format:
    """A file, how it says the text of a number, what breaks it, how it is read."""

    file: str
    good: Callable[[int], list[str]]
    """The lines of one text; harm is done to one of them that is not empty."""
    own: list[Harm]
    read: Callable[[Path, Report], Iterable[str]]
    said: Callable[[int], str]
    first: str = ""
    """A first line that is not harmed."""


def plain(n: int) -> str:
    return f"Text {n}, schön und gut"


def columns(path: Path, report: Report) -> Iterable[str]:
    return ("|".join(fields) for _, fields in parallel([path], ("label", "text"), SKIP, report))


def labelled(path: Path, report: Report, **options: str) -> Iterable[str]:
    found = texts([path], ("label", "text"), SKIP, report, **options)
    return ("|".join((*each.labels, each.value)) for each in found)


def tagged(path: Path, report: Report) -> Iterable[str]:
    found = sentences([path], (), SKIP, report, "train")
    return (" ".join(f"{w}/{t}" for w, t in zip(s.value, s.labels, strict=True)) for s in found)


def pair(n: int) -> str:
    return f"l{n}|{plain(n)}"


def words(n: int) -> str:
    return f"Wort{n}/NOUN geht/VERB schön/ADV"


def split(n: int) -> list[tuple[str, str]]:
    first, second, third = (tuple(each.split("/")) for each in words(n).split())
    return [(w[0], w[1]) for w in (first, second, third)]


def conllu(n: int) -> list[str]:
    rows = [f"{i}\t{w}\t_\t{t}" + "\t_" * 6 for i, (w, t) in enumerate(split(n), 1)]
    return [*rows, ""]


def listed(n: int) -> list[str]:
    found = split(n)
    record = {"words": [w for w, _ in found], "tags": [t for _, t in found]}
    return [json.dumps(record, ensure_ascii=False)]


def record(n: int, *, several: bool = False) -> list[str]:
    label = [f"l{n}"] if several else f"l{n}"
    return [json.dumps({"label": label, "text": plain(n)}, ensure_ascii=False)]


TABS = [replaced(b"\t", b""), replaced(b"\t", b"\t\t"), replaced(b"\t", b"\tx\t")]
COMMAS = [
    replaced(b",", b",,"), replaced(b'"', b""), instead(b'l,"never closed'),
    replaced(b'gut"', b"gut"), replaced(b'"', b'x"'), replaced(b'gut"', b'gut"x'),
]  # fmt: skip
ESCAPES = [replaced(b"gut", b"\\u0000"), replaced(b"gut", b"\\ud800"), replaced(b"gut", b"\\u001b")]
RECORD = [replaced(b"text", b"txet"), replaced(b'"label": ', b'"label": {}, "x": ')]
FORMATS = {
    "text": Format(
        "a.txt", lambda n: [plain(n)], [],
        lambda path, report: (line for _, line in text(path, SKIP, report)), plain,
    ),
    "tsv": Format("a.tsv", lambda n: [f"l{n}\t{plain(n)}"], TABS, columns, pair),
    "csv": Format("a.csv", lambda n: [f'l{n},"{plain(n)}"'], COMMAS, columns, pair),
    "jsonl": Format("a.jsonl", record, JSON + ESCAPES + RECORD, columns, pair),
    "labelled tsv": Format("a.tsv", lambda n: [f"l{n}\t{plain(n)}"], TABS, labelled, pair),
    "labelled csv": Format(
        "a.csv", lambda n: [f'l{n},"{plain(n)}"'], COMMAS,
        lambda path, report: labelled(path, report, separator=" "), pair,
    ),
    "labelled jsonl": Format(
        "a.jsonl", lambda n: record(n, several=True), JSON + ESCAPES + RECORD,
        lambda path, report: labelled(path, report, separator=" "), pair,
    ),
    "conllu": Format(
        "a.conllu", conllu, [*TABS, replaced(b"\t", b"7\t")], tagged, words
    ),
    "tagged jsonl": Format(
        "a.jsonl", listed,
        [*JSON, replaced(b'"tags": [', b'"tags": ["X", '), replaced(b'"words"', b'"word"'),
         replaced(b'"geht"', b'""'), replaced(b'"geht"', b'{"a": 1}')],
        tagged, words,
    ),
    "tagged columns": Format(
        "a.txt", lambda n: [*(f"{w}\t{t}" for w, t in split(n)), ""],
        [replaced(b"\t", b""), replaced(b"\t", b"\tx\t")], tagged, words,
        first="Wort/NOUN geht/VERB schön/ADV",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_lines_are_reported_and_the_others_used(
    name: str, tmp_path: Path, amount: Amount, tally: Tally
):
    format = FORMATS[name]
    for number in range(amount(3, 20)):
        chance, path = random.Random(number), tmp_path / f"{number}{format.file}"
        lines: list[bytes] = []
        broken, left = {}, []
        if format.first:
            lines += [row.encode() for row in format.good(0)]
            left.append(format.said(0))
        # Two lines of CSV, one that opens a quote and one that closes it, are one record.
        apart = 2 if format.file == "a.csv" else 1
        hit = set(chance.sample(range(1, 41, apart), PER_FILE))
        for n in range(1, 41):
            rows = [row.encode() for row in format.good(n)]
            if n in hit:
                place = chance.randrange(sum(map(bool, rows)))
                harms = ANYWHERE + format.own
                harm = chance.choice(format.own if format.own and chance.random() < 0.5 else harms)
                rows[place] = harm(rows[place], chance)
                broken[len(lines) + place + 1] = rows[place][:80]
            else:
                left.append(format.said(n))
            lines += rows
        path.write_bytes(b"\n".join(lines) + b"\n")
        report = Report()
        assert list(format.read(path, report)) == left, broken
        found = [each for kept in report.findings.values() for each in kept]
        assert sorted(each.line for each in found) == sorted(broken), broken
        assert {each.path for each in found} == {path}
        assert sum(report.counts.values()) == len(hit)
        told = "\n".join(report.summary())
        assert all(f"{path}:{line}: " in told for line in broken)
        tally("damaged lines: reported by file and line, the others used", len(hit))


def test_pairs_stay_pairs(tmp_path: Path, amount: Amount, tally: Tally):
    """Two files: a line that is damaged in one of them takes its other half along, and no other."""
    for number in range(amount(2, 10)):
        chance = random.Random(number)
        paths = [tmp_path / f"{number}.{side}" for side in ("source", "target")]
        sides = [[f"{side} {n} schön".encode() for n in range(1, 41)] for side in ("s", "t")]
        hit = {n: chance.randrange(2) for n in chance.sample(range(1, 41), PER_FILE)}
        for n, side in hit.items():
            sides[side][n - 1] = chance.choice(ANYWHERE)(sides[side][n - 1], chance)
        for path, lines in zip(paths, sides, strict=True):
            path.write_bytes(b"\n".join(lines))
        report = Report()
        rows = list(parallel(paths, ("source", "target"), SKIP, report))
        whole = [n for n in range(1, 41) if n not in hit]
        assert rows == [(n, (f"s {n} schön", f"t {n} schön")) for n in whole]
        found = [each for kept in report.findings.values() for each in kept]
        assert {(each.path, each.line) for each in found} == {(paths[s], n) for n, s in hit.items()}
        tally("damaged lines: reported by file and line, the others used", len(hit))


def test_fasta(tmp_path: Path, amount: Amount, tally: Tally):
    """Sequences and their labels; headers are harmed, too."""
    for number in range(amount(2, 10)):
        chance = random.Random(number)
        paths = [tmp_path / f"{number}.{name}.fasta" for name in ("residues", "labels")]
        hit = {n: (chance.randrange(2), chance.randrange(2)) for n in chance.sample(range(40), 8)}
        for side, (path, letters) in enumerate(zip(paths, ("ACDEF", "HHEEC"), strict=True)):
            rows = [row for n in range(40) for row in (f">name{n} x=y", letters)]
            lines = [row.encode() for row in rows]
            for n, (which, part) in hit.items():
                if which == side:
                    place = 2 * n + part
                    lines[place] = chance.choice(ANYWHERE)(lines[place], chance)
            path.write_bytes(b"\n".join(lines) + b"\n")
        report = Report()
        found = list(sentences(paths, (), SKIP, report, "train"))
        assert [each.line for each in found] == [2 * n + 1 for n in range(40) if n not in hit]
        assert all("".join(each.value) == "ACDEF" for each in found)
        places = {(paths[side], 2 * n + part + 1) for n, (side, part) in hit.items()}
        told = {(each.path, each.line) for kept in report.findings.values() for each in kept}
        assert places <= told
        tally("damaged lines: reported by file and line, the others used", len(hit))


# Readers that go by order: the first damaged line is refused


NUMBERS = [
    replaced(b",", b""), replaced(b",", b",,"), replaced(b",", b",x"), replaced(b",", b',"'),
    replaced(b",", b",1_0"), replaced(b",", b",inf"), replaced(b"2020", b"20-20"),
    lambda line, chance: line[: line.index(b",")],
]  # fmt: skip


def test_series(tmp_path: Path, amount: Amount, tally: Tally):
    for number in range(amount(20, 150)):
        chance = random.Random(number)
        rows = [f"2020-01-{n:02d},{n}.5,{n}.25" for n in range(1, 29)]
        lines = [b"date,a,b", *(row.encode() for row in rows)]
        place = chance.randrange(1, len(lines))
        lines[place] = chance.choice(ANYWHERE + NUMBERS * 2)(lines[place], chance)
        path = tmp_path / f"{number}.csv"
        path.write_bytes(b"\n".join(lines) + b"\n")
        config = series.Config(folder=str(tmp_path), file=path.name, time="date")
        with pytest.raises(UserError) as refused:
            series.read(config)
        assert f"{path}:{place + 1}: " in str(refused.value), lines[place]
        tally("damaged lines where order counts: refused by file and line", 1)


def test_vectors(tmp_path: Path, amount: Amount, tally: Tally):
    own = [replaced(b" 0.5", b" x", 1), replaced(b" 0.5", b""), replaced(b" 0.5", b" nan")]
    for number in range(amount(20, 100)):
        chance = random.Random(number)
        lines = [f"wort{n} 0.5 0.25 {n}".encode() for n in range(1, 29)]
        place = chance.randrange(1, len(lines))
        lines[place] = chance.choice(ANYWHERE + own * 3)(lines[place], chance)
        path = tmp_path / f"{number}.vec"
        path.write_bytes(b"\n".join(lines) + b"\n")
        with pytest.raises(UserError) as refused:
            vectors.read(path, {f"wort{n}" for n in range(1, 29)}, 3)
        assert f"{path}:{place + 1}: " in str(refused.value), lines[place]
        tally("damaged lines where order counts: refused by file and line", 1)


def test_what_is_to_be_predicted(tmp_path: Path, amount: Amount, tally: Tally, capsys):
    """One line comes out for each that goes in: a damaged one is told, and taken as empty."""
    for number in range(amount(2, 10)):
        chance, path = random.Random(number), tmp_path / f"{number}.txt"
        lines = [plain(n).encode() for n in range(1, 41)]
        hit = chance.sample(range(40), PER_FILE)
        for place in hit:
            lines[place] = inserted(chance.choice(BYTES))(lines[place], chance)
        path.write_bytes(b"\n".join(lines) + b"\n")
        expected = ["" if n - 1 in hit else plain(n) for n in range(1, 41)]
        assert list(input_lines(path)) == expected
        told = capsys.readouterr().err.splitlines()
        assert told == [
            f"regard: {path}:{place + 1}: not UTF-8: taken as empty" for place in sorted(hit)
        ]
        tally("damaged lines: reported by file and line, the others used", len(hit))
