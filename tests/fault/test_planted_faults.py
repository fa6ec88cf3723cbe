"""Faults planted in labels, tags, texts, pairs and series: found with the right line and count."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from regard.checks.findings import Finding
from regard.doctor import examination
from regard.doctor.examination import quick_check
from regard.recipe import config

WORDS = ["red", "green", "small", "large", "old", "new", "slow", "house", "tree", "river", "stone"]
COUNTRIES = ["Germany", "France", "New Zealand"]
Rows = list[list[str]]
"""Cells of each line of a file."""
Files = dict[str, Rows]


class Planted(NamedTuple):
    """What a fault does to the files, and what the doctor says of it."""

    plant: Callable[[Files], None]
    code: str
    severity: str
    place: str
    """File and line."""
    says: tuple[str, ...]


def sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(7, 14)))


def written(folder: Path, files: Files) -> None:
    for name, rows in files.items():
        text = "".join("\t".join(row) + "\n" for row in rows)
        (folder / name).write_text(text, encoding="utf-8")


def found_in(folder: Path, files: Files, task: str, **sections: Any) -> list[Finding]:
    written(folder, files)
    parts = {name.partition(".")[0]: [name] for name in files}
    data = {"folder": str(folder), **parts, **sections.pop("data", {})}
    return quick_check(config.from_table({"task": task, "data": data, **sections}))


def warned(found: list[Finding]) -> list[str]:
    return [str(each) for each in found if each.severity != "note"]


def judge(found: list[Finding], planted: Planted, folder: Path) -> None:
    those = [each for each in found if each.code == planted.code]
    assert [each.severity for each in those] == [planted.severity], warned(found)
    assert those[0].place == f"{folder}/{planted.place}"
    for part in planted.says:
        assert part in those[0].what
    assert those[0].advice


# Labelled texts: 600 to learn from, 150 in each other part


def texts() -> Files:
    chance = random.Random(1)
    sizes = {"train.tsv": 600, "validation.tsv": 150, "test.tsv": 150}
    return {
        name: [[COUNTRIES[n % 3], sentence(chance)] for n in range(size)]
        for name, size in sizes.items()
    }


def labels(*numbers: int, label: str, file: str = "train.tsv") -> Callable[[Files], None]:
    def plant(files: Files) -> None:
        for number in numbers:
            files[file][number - 1][0] = label

    return plant


def swapped_columns(files: Files) -> None:
    for rows in files.values():
        rows[:] = [row[::-1] for row in rows]


def conflicting(files: Files) -> None:
    """Ten texts that stand twice, the second time with another label."""
    files["train.tsv"] += [["France", row[1]] for row in files["train.tsv"][0:30:3]]


def unusual_header(files: Files) -> None:
    files["train.tsv"].insert(0, ["country", "address"])


def blanks(character: str, step: int, file: str) -> Callable[[Files], None]:
    def plant(files: Files) -> None:
        for row in files[file][step - 1 :: step]:
            row[1] = row[1].replace(" ", character)

    return plant


def leaks(files: Files) -> None:
    """Twelve texts that are learnt, and forty lines that anybody would write."""
    files["train.tsv"] += [["France", "-"]] * 40
    files["test.tsv"] += [["France", "-"]] * 40
    files["test.tsv"] += files["train.tsv"][100:112]


def learnt_by_heart(files: Files) -> None:
    files["test.tsv"] += files["train.tsv"][100:150]


def repeated(files: Files) -> None:
    files["train.tsv"] += files["train.tsv"][:60]


LABELLED = [
    Planted(
        labels(41, 141, label="Germnay"), "labels.spelling", "warning", "train.tsv:41",
        ("'Germnay' (2) may be 'Germany'", "misspelt: 2 of 600 labels of data.train"),
    ),
    Planted(
        labels(50, 53, 56, label="FRANCE"), "labels.spelling", "warning", "train.tsv:50",
        ("'FRANCE' (3)", "3 of 600 labels"),
    ),
    Planted(
        labels(60, label="New  Zealand"), "labels.spelling", "warning", "train.tsv:60",
        ("differ in case, whitespace or punctuation alone", "1 of 600 labels"),
    ),
    Planted(
        labels(63, 66, label="New_Zealand"), "labels.spelling", "warning", "train.tsv:63",
        ("'New_Zealand' (2) and 'New Zealand' (198)", "2 of 600 labels"),
    ),
    Planted(
        labels(7, label="Germny", file="test.tsv"), "labels.unseen", "error", "test.tsv:7",
        ("the label 'Germny' was never seen", "is 'Germany' meant?"),
    ),
    Planted(
        labels(8, 9, label="Peru"), "labels.balance", "warning", "train.tsv:8",
        ("1 of 4 labels have fewer than 5 examples",),
    ),
    Planted(
        swapped_columns, "data.swapped", "error", "train.tsv:1",
        ("text and label seem to be swapped", "600 labels and 3 texts"),
    ),
    Planted(
        conflicting, "labels.conflict", "warning", "train.tsv:601",
        ("'France' here, 'Germany' at", "train.tsv:1:", "10 of 610 lines (1.6 %) of data.train"),
    ),
    Planted(
        unusual_header, "data.header", "warning", "train.tsv:1",
        ("looks like the names of the columns of data.train",),
    ),
    Planted(
        blanks("\u00a0", 5, "train.tsv"), "text.whitespace", "warning", "train.tsv:5",
        ("U+00A0", "120 of 600 lines (20 %) of data.train"),
    ),
    Planted(
        blanks("\u202f", 1, "test.tsv"), "text.whitespace", "warning", "test.tsv:1",
        ("U+202F", "150 of 150 lines (100 %) of data.test"),
    ),
    Planted(
        blanks("\u3000", 4, "validation.tsv"), "text.whitespace", "warning", "validation.tsv:4",
        ("U+3000", "37 of 150 lines (25 %) of data.validation"),
    ),
    Planted(
        leaks, "data.leaked", "warning", "test.tsv:191",
        ("12 of 202 examples (5.9 %) of data.test are in data.train, too, besides 40 short",),
    ),
    Planted(
        learnt_by_heart, "data.leaked", "error", "test.tsv:151",
        ("50 of 200 examples (25 %) of data.test are in data.train, too",),
    ),
    Planted(
        repeated, "data.repeated", "warning", "train.tsv:601",
        ("train.tsv:1 already", "60 of 660 examples (9.1 %) of data.train"),
    ),
]  # fmt: skip


def test_clean_labels_and_texts_have_no_warning(tmp_path):
    assert warned(found_in(tmp_path, texts(), "classify")) == []


@pytest.mark.parametrize("planted", LABELLED, ids=lambda each: each.code)
def test_a_fault_of_labelled_texts(tmp_path, planted):
    files = texts()
    planted.plant(files)
    judge(found_in(tmp_path, files, "classify"), planted, tmp_path)


def test_trivial_leaks_alone_are_no_error(tmp_path):
    """Forty lines “-” of 190 are in training, too, and nothing else is."""
    files = texts()
    for name in ("train.tsv", "test.tsv"):
        files[name] += [["France", "-"]] * 40
    assert "data.leaked" not in {each.code for each in found_in(tmp_path, files, "classify")}


def test_documents_of_several_lines_hide_nothing(tmp_path):
    chance = random.Random(1)
    paragraph = "\n".join(sentence(chance) for _ in range(4))
    for name in ("train.txt", "validation.txt"):
        (tmp_path / name).write_text("\n\n".join([paragraph] * 30) + "\n")
    parts = {name: [f"{name}.txt"] for name in ("train", "validation")}
    table = {"task": "language_model", "stream": {"documents": "paragraph"}}
    found = quick_check(config.from_table({**table, "data": {"folder": str(tmp_path), **parts}}))
    assert found and "text.invisible" not in {each.code for each in found}


def test_a_leak_is_found_beyond_what_is_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(examination, "SHORT", 200)
    files = texts()
    files["test.tsv"] += files["train.tsv"][500:550]
    control = files["train.tsv"][10]
    control[1] = f"{control[1][:3]}\u00ad{control[1][3:]}"
    found = {each.code: each for each in found_in(tmp_path, files, "classify")}
    assert "50 of 200 examples (25 %) of data.test are in data.train" in found["data.leaked"].what
    assert "1 of the first 200 lines (0.5 %) of data.train" in found["text.invisible"].what
    assert "the first 200 of its 600 examples" in found["data.sampled"].what
    assert found["data.counts"].what == "examples: train 600, validation 150, test 200"


def test_a_count_of_bad_lines_is_one_of_the_whole_file(tmp_path):
    """Not of the part of it that is held out."""
    files = {"train.tsv": [["", row[1]] if n % 10 == 4 else row
                           for n, row in enumerate(texts()["train.tsv"])]}  # fmt: skip
    found = found_in(tmp_path, files, "classify", held_out={"validation": 0.1, "test": 0.1})
    [empty] = [each for each in found if each.code == "data.empty"]
    assert empty.place == f"{tmp_path}/train.tsv:5"
    assert "60 of 600 lines (10 %) of data.train" in empty.what


@pytest.mark.parametrize(
    ("held_out", "severity"),
    [({}, "warning"), ({"test": 0.2}, "note"), ({"validation": 0.1, "test": 0.2}, "")],
)
def test_parts_that_are_not_there(tmp_path, held_out, severity):
    files = {"train.tsv": texts()["train.tsv"]}
    found = found_in(tmp_path, files, "classify", **({"held_out": held_out} if held_out else {}))
    assert [e.severity for e in found if e.code == "data.parts"] == ([severity] if severity else [])


# Tagged words: sentences of three lines and an empty one, so that sentence n begins at 4 n + 1


def tagged() -> Files:
    spans = [["Ann\tB-PER", "Lee\tI-PER", "left\tO"], ["in\tO", "Rome\tB-COUNTRY", "now\tO"],
             ["at\tO", "Acme\tB-ORG", "Ltd\tI-ORG"]]  # fmt: skip

    def rows(count: int) -> Rows:
        return [
            line.split("\t") for n in range(count) for line in (*spans[n % 3], "")
        ]  # an empty cell is an empty line

    return {"train.conll": rows(600), "validation.conll": rows(60), "test.conll": rows(60)}


def tag(*changes: tuple[int, str], file: str = "train.conll") -> Callable[[Files], None]:
    def plant(files: Files) -> None:
        for line, name in changes:
            files[file][line - 1][1] = name

    return plant


def unended(files: Files) -> None:
    """IOBES, in which the span of line 1 is not ended, nor that of line 13."""
    ends = {"I-PER": "E-PER", "I-ORG": "E-ORG", "B-COUNTRY": "S-COUNTRY"}
    for rows in files.values():
        for row in rows:
            row[1:] = [ends.get(cell, cell) for cell in row[1:]]
    for line in (2, 14):
        files["train.conll"][line - 1][1] = "O"


TAGGED = [
    Planted(
        tag((10, "O"), (22, "O")), "labels.spans", "warning", "train.conll:11",
        ("I-ORG after O, which IOB2 does not allow", "2 of 998 tags of spans (0.2 %)"),
    ),
    Planted(
        tag((2, "I-ORG")), "labels.spans", "warning", "train.conll:2",
        ("I-ORG after B-PER", "1 of 1,000 tags of spans (0.1 %) of data.train"),
    ),
    Planted(
        tag((9, "I-ORG"), file="test.conll"), "labels.spans", "warning", "test.conll:9",
        ("I-ORG after the start", "1 of 101 tags of spans (0.99 %) of data.test"),
    ),
    Planted(
        unended, "labels.spans", "warning", "train.conll:1",
        ("B-PER begins a span that nothing ends, which IOBES", "2 of 998 tags of spans"),
    ),
    Planted(
        tag((14, "I_PER"), (26, "I_PER")), "labels.spelling", "warning", "train.conll:14",
        ("'I_PER' (2) and 'I-PER' (198) differ in case, whitespace or punctuation alone",),
    ),
    Planted(
        tag((6, "B-COUNRTY")), "labels.spelling", "warning", "train.conll:6",
        ("'B-COUNRTY' (1) may be 'B-COUNTRY' (199), misspelt: 1 of 1,800 labels",),
    ),
]  # fmt: skip


def quiet(found: list[Finding]) -> list[Finding]:
    """Without what so few sentences, said again and again, must give."""
    return [each for each in found if each.code not in ("data.leaked", "data.repeated")]


def test_clean_tags_have_no_warning(tmp_path):
    assert warned(quiet(found_in(tmp_path, tagged(), "tag"))) == []
    older = tagged()  # IOB1: an I begins a span
    for rows in older.values():
        rows[:] = [[cell.replace("B-", "I-") for cell in row] for row in rows]
    assert warned(quiet(found_in(tmp_path, older, "tag"))) == []


@pytest.mark.parametrize("planted", TAGGED, ids=lambda each: each.place)
def test_a_fault_of_tags(tmp_path, planted):
    files = tagged()
    planted.plant(files)
    judge(found_in(tmp_path, files, "tag"), planted, tmp_path)


def test_the_line_of_a_word_in_conllu_is_that_of_the_file(tmp_path):
    """Comments and tokens of several words stand between."""

    def word(number: str, form: str, tag: str) -> list[str]:
        return [number, form, "_", tag, *["_"] * 6]

    first = [["# text"], word("1-2", "aan", "_"), word("1", "a", "O"), word("2", "Ann", "B-PER")]
    rows = [*first, [""]] * 40
    rows[13 * 5 + 3] = word("2", "Ann", "I-PER")
    found = found_in(tmp_path, {"train.conllu": rows}, "tag", data={"columns": ["upos"]})
    [span] = [each for each in found if each.code == "labels.spans"]
    assert span.place == f"{tmp_path}/train.conllu:69"


# Pairs: dates in words and in digits, so that targets are equally long


def dates(count: int, first: str) -> Rows:
    start = datetime.fromisoformat(first)
    days = [start + timedelta(days=37 * n % 9000) for n in range(count)]
    return [[f"{day:%A}, {day.day} {day:%B} {day:%Y}", f"{day:%Y-%m-%d}"] for day in days]


def shuffled(files: Files) -> None:
    """The target, from line 801 on."""
    rows = files["train.tsv"]
    other = [row[1] for row in rows[800:]]
    random.Random(1).shuffle(other)
    for row, target in zip(rows[800:], other, strict=True):
        row[1] = target


def test_a_side_that_is_shuffled_from_a_line_on(tmp_path):
    files = {"train.tsv": dates(1200, "1960-01-01"), "test.tsv": dates(200, "2000-06-01")}
    clean = [each.code for each in found_in(tmp_path, files, "translate")]
    assert "pairs.unrelated" not in clean and "pairs.shifted" not in clean
    shuffled(files)
    found = found_in(tmp_path, files, "translate")
    [unrelated] = [each for each in found if each.code == "pairs.unrelated"]
    line = int(unrelated.place.rpartition(":")[2])
    assert unrelated.place.startswith(f"{tmp_path}/train.tsv:") and 795 <= line <= 805
    assert "the names and numbers of source and target" in unrelated.what
    assert unrelated.severity == "warning"


def test_a_side_that_is_shuffled_from_the_first_line_on(tmp_path):
    """That another part is not says it."""
    files = {"train.tsv": dates(1200, "1960-01-01"), "test.tsv": dates(200, "2000-06-01")}
    targets = [row[1] for row in files["train.tsv"]]
    random.Random(1).shuffle(targets)
    for row, target in zip(files["train.tsv"], targets, strict=True):
        row[1] = target
    found = found_in(tmp_path, files, "translate")
    [unrelated] = [each for each in found if each.code == "pairs.unrelated"]
    assert (unrelated.severity, unrelated.place) == ("error", "data.train")
    assert "stand on other lines" in unrelated.what


def test_sides_with_less_in_common_are_not_shuffled(tmp_path):
    """From line 801 on, months and years are in words on both sides."""
    files = {"train.tsv": dates(1200, "1960-01-01"), "test.tsv": dates(200, "2000-06-01")}
    chance = random.Random(1)
    for row in files["train.tsv"][800:]:
        row[:] = [sentence(chance), sentence(chance).upper()]
    found = found_in(tmp_path, files, "translate")
    assert [each.what for each in found if each.code == "pairs.unrelated"] == []


# Series


def series(folder: Path, header: str, rows: list[str], **data: Any) -> list[Finding]:
    text = "\n".join([header, *rows]) + "\n"
    (folder / "x.csv").write_text(text, encoding="utf-8")
    table = {"folder": str(folder), "file": "x.csv", **data}
    return quick_check(config.from_table({"task": "forecast", "data": table}))


def clock(count: int, first: str, minutes: int, form: str) -> list[str]:
    start = datetime.fromisoformat(first)
    times = [start + timedelta(minutes=minutes * n) for n in range(count)]
    return [f"{format(time, form)},{n * n % 17}" for n, time in enumerate(times)]


WEEK = 7 * 24 * 60


@pytest.mark.parametrize(
    ("form", "minutes"),
    [
        ("%Y-%m-%d %H:%M", 60), ("%Y/%m/%d %H:%M", 60), ("%d.%m.%Y %H:%M", 60),
        ("%Y-%m-%dT%H:%M:%SZ", 15), ("%Y-%m-%d", WEEK), ("%Y/%m/%d", 1440),
    ],
)  # fmt: skip
def test_a_column_of_dates_is_that_of_times(tmp_path, form, minutes):
    found = series(tmp_path, "when,a", clock(400, "2010-01-01", minutes, form))
    assert [each.what for each in found] == ["rows: train 280, validation 40, test 80"]


def test_summer_time_is_neither_a_gap_nor_a_repetition(tmp_path):
    spring = clock(400, "2010-03-10", 60, "%Y-%m-%d %H:%M")
    spring.remove(next(row for row in spring if row.startswith("2010-03-14 02:00")))
    found = series(tmp_path, "when,a", spring)
    assert warned(found) == []
    [gap] = [each for each in found if each.code == "series.gap"]
    assert gap.place == f"{tmp_path}/x.csv:100" and "1 of 399 rows" in gap.what
    autumn = clock(400, "2010-10-25", 30, "%Y-%m-%d %H:%M")
    two = next(n for n, row in enumerate(autumn) if row.startswith("2010-10-31 02:00"))
    autumn[two + 2 : two + 2] = autumn[two : two + 2]
    found = series(tmp_path, "when,a", autumn)
    assert warned(found) == []
    [twice] = [each for each in found if each.code == "series.repeated"]
    assert twice.place == f"{tmp_path}/x.csv:{two + 4}" and "2 of 402 rows" in twice.what


def test_another_hour_that_is_left_out_is_a_gap(tmp_path):
    rows = clock(400, "2010-03-10", 60, "%Y-%m-%d %H:%M")
    rows.remove(next(row for row in rows if row.startswith("2010-03-16 02:00")))
    [gap] = [e for e in series(tmp_path, "when,a", rows) if e.severity == "error"]
    assert (gap.code, gap.place) == ("series.gap", f"{tmp_path}/x.csv:148")


def test_numbers_that_are_dates(tmp_path):
    rows = clock(400, "1958-03-29", WEEK, "%Y%m%d")
    [told] = [e for e in series(tmp_path, "date,a", rows) if e.code == "series.dates"]
    assert (told.severity, told.place) == ("warning", f"{tmp_path}/x.csv:2")
    assert told.example == "19580329" and "“date” looks like times" in told.what
    named = series(tmp_path, "date,a", rows, time="date")
    assert "count as numbers" in next(e.what for e in named if e.code == "series.dates")
    right = series(tmp_path, "date,a", rows, time="date", dates="compact")
    assert warned(right) == []


def test_a_year_is_no_variable(tmp_path):
    rows = [f"{1700 + n},{n * n % 17}" for n in range(300)]
    [told] = [e for e in series(tmp_path, "year,a", rows) if e.code == "series.dates"]
    assert told.place == f"{tmp_path}/x.csv:2" and "300 of 300 rows" in told.what
    assert "series.dates" not in {e.code for e in series(tmp_path, "year,a", rows, time="year")}


def test_days_and_months_that_cannot_be_told_apart(tmp_path):
    rows = clock(300, "2010-01-01", 60, "%d/%m/%Y %H:%M")
    [error] = [e for e in series(tmp_path, "when,a", rows) if e.severity == "error"]
    assert (error.code, error.place) == ("series.time", f"{tmp_path}/x.csv:2")
    assert "300 of 300 rows" in error.what and "data.dates" in error.advice
    assert warned(series(tmp_path, "when,a", rows, dates="day_first")) == []


def test_dates_among_the_variables(tmp_path):
    rows = clock(300, "2010-01-01", 60, "%Y-%m-%d %H:%M")
    [error] = [e for e in series(tmp_path, "when,a", rows, time="") if e.severity == "error"]
    assert (error.code, error.place) == ("series.number", f"{tmp_path}/x.csv:2")
    assert "300 of 300 rows (100 %); it looks like a date: data.time" in error.what
