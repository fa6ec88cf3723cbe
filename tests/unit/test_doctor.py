"""The doctor: what he says of each task's data, what training costs, and how he is asked."""

import ast
import json
import random
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import regard
from regard import cli
from regard.checks import (
    coverage,
    examples,
    findings,
    labels,
    misspelt,
    offsets,
    pairs,
    series as numbers,
    text,
    whitespace,
)
from regard.checks.findings import KINDS, Finding
from regard.doctor import cost, examination
from regard.doctor.examination import Refused, quick_check
from regard.errors import RecipeError
from regard.recipe import config
from regard.runs import Run
from regard.train.job import Job
from regard.types import Position
from tests import corpus

ROOMS = [Path(findings.__file__).parents[1] / name for name in ("checks", "doctor", "fields")]
"""Where findings are made."""
DOCS = Path(__file__).resolve().parents[2] / "docs" / "doctor.md"
WORDS = ["red", "green", "small", "large", "old", "new", "slow", "house", "tree", "river", "stone"]


TINY = {"task": "classify", "model": {"dim": 8}, "train": {"threads": 1, "metric": "nll"}}


def codes(found: list[Finding], severity: str = "") -> list[str]:
    return [each.code for each in found if severity in ("", each.severity)]


def sentence(chance: random.Random, least: int = 4) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(least, 12)))


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


# Findings


class Row(NamedTuple):
    """What docs/doctor.md says of a kind of finding."""

    severity: str
    otherwise: str
    meaning: str
    advice: str


def documented() -> dict[str, Row]:
    rows = {}
    for line in DOCS.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            code, severity, meaning, advice = (
                cell.strip() for cell in line.strip("| ").split(" | ")
            )
            usual, _, otherwise = severity.partition("; ")
            rows[code.strip("`")] = Row(usual, otherwise, meaning, advice)
    return rows


def test_the_documentation_has_every_kind_with_its_severity_and_advice():
    rows = documented()
    assert list(rows) == list(KINDS)
    for code, kind in KINDS.items():
        assert (rows[code].severity, rows[code].advice) == (kind.severity, kind.advice or "–")
        assert rows[code].meaning, code


def test_every_finding_that_the_code_makes_is_a_known_kind_and_every_kind_is_made():
    paths = [path for room in ROOMS for path in room.glob("*.py") if path.name != "findings.py"]
    source = "".join(path.read_text(encoding="utf-8") for path in paths)
    assert [code for code in KINDS if f'"{code}"' not in source] == []
    assert all(kind.advice or kind.severity == "note" for kind in KINDS.values())


def test_thresholds_of_the_documentation_are_those_of_the_code():
    def percent(share: float) -> str:
        return f"{100 * share:g} %"

    told = {
        "data.repeated": [percent(examples.REPEATED), f"{examples.LONG} characters"],
        "data.leaked": [
            percent(examples.LEAKED[1]),
            f"more than {examples.EVIDENCE}",
            f"{examples.LONG} characters",
            f"{examples.FREQUENT} times as frequent",
        ],
        "data.swapped": [
            f"each {1 / labels.SWAPPED[0]:g} examples",
            f"each {1 / labels.SWAPPED[1]:g},",
            f"{labels.ENOUGH} examples",
        ],
        "text.whitespace": [percent(whitespace.LINES), percent(whitespace.MIXED)],
        "labels.spelling": [
            f"{misspelt.RARE} times",
            f"{misspelt.CODES[1]} times",
            f"at most {misspelt.CODES[0]}",
            *(f"from {length}" for length in misspelt.LONG),
        ],
        "data.known": [percent(examples.LEAKED[0]), f"{examples.LONG} characters"],
        "data.sampled": [f"{examination.FULL:,}", f"{examination.SHORT:,}"],
        "text.mojibake": [percent(text.OFTEN)],
        "text.markup": [percent(text.OFTEN)],
        "pairs.mixed": [percent(pairs.MIXED)],
        "pairs.copies": [percent(pairs.COPIES)],
        "pairs.ratio": [percent(pairs.RATIO)],
        "labels.balance": [percent(labels.MOST), f"fewer than {labels.FEWEST}"],
        "labels.drift": [f"{labels.DRIFT}"],
        "labels.conflict": [percent(labels.CONFLICT)],
        "series.stuck": [percent(numbers.STUCK)],
        "series.outlier": [f"{numbers.FAR:g} deviations"],
        "series.drift": [f"{numbers.DRIFT:g} deviations"],
        "tokenizer.unknown": [percent(coverage.WORDS), percent(coverage.MANY["character"])],
        "cost.warmup": [f"{examination.SERIOUS} updates"],
    }
    for code, figures in told.items():
        for figure in figures:
            assert figure in documented()[code].meaning, (code, figure)
    assert f"from {percent(examples.LEAKED[0])} on" in documented()["data.leaked"].otherwise


ARGUMENTS = {"finding": 4, "part.lines": 5, "_pairs": 6}
"""Those before the severity, of what makes findings."""


def test_whoever_gives_a_severity_of_his_own_says_when():
    """A finding whose severity varies says so in the table; no other does."""
    varied = {"data.broken", "data.empty", "text.encoding", "text.control"}  # reading: by a rule
    varied |= {"series.missing", "series.repeated", "series.gap"}  # the same
    for path in [path for room in ROOMS for path in room.glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            # finding(code, place, what, example, severity), or of lines of a part:
            # part.lines(code, side, hit, what, example, severity)
            # _pairs(code, here, there, pairs, what, count, severity)
            if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in ARGUMENTS:
                code, most = node.args[0], ARGUMENTS[name]
                own = len(node.args) > most or any(k.arg == "severity" for k in node.keywords)
                if own and isinstance(code, ast.Constant):
                    varied.add(str(code.value))
    assert {code for code, row in documented().items() if row.otherwise} == varied


def test_the_worst_comes_first_and_what_is_alike_is_told_once():
    a = findings.finding("text.mark", "a:1", "here")
    b = findings.finding("text.mark", "b:2", "there")
    c = findings.finding("pairs.swapped", "c:3", "turned")
    [one] = examination.merged([a, b, b])
    assert one.what == "here; also b:2"
    assert examination.ranked([a, c]) == [c, a]


# Offsets


def test_the_segment_of_greatest_sum():
    assert offsets.largest(np.array([-1.0, 2, 3, -1, 4, -9, 5])) == (1, 5, 8.0)
    assert offsets.largest(np.array([-1.0, -2])).gain == 0


def test_lengths_that_say_nothing_give_no_verdict():
    same = ["eight ch"] * 300
    assert offsets.Lengths(same, same).shifts() == []
    chance = random.Random(1)
    one, other = ([sentence(chance) for _ in range(400)] for _ in range(2))
    lengths = offsets.Lengths(one, other)
    assert lengths.r < offsets.RELATED
    assert lengths.shifts() == []


def test_words_that_both_sides_have_tell_a_shift_where_lengths_tell_little():
    """Names stand on both sides; lengths go together only a little."""
    chance = random.Random(1)
    source, target = [], []
    for n in range(600):
        base, noise = chance.randint(3, 9), chance.randint(0, 4)
        source.append(f"N{n} " + "word " * base)
        target.append(f"N{n} " + "wort " * (base + noise))
    target.append(target.pop(300))
    [shift] = offsets.Lengths(source, target).shifts()
    assert (shift.offset, shift.end) == (-1, 600)
    assert abs(shift.start - 300) <= 1


# Labelled texts


def classify(folder: Path, rows: list[tuple[str, str]], test: list[tuple[str, str]], **more: Any):
    """A recipe of labels and texts."""
    for name, part in (("train", rows), ("test", test)):
        write(folder / f"{name}.tsv", [f"{label}\t{text}" for label, text in part])
    table = {
        "task": "classify",
        "data": {"folder": str(folder), "train": ["train.tsv"], "test": ["test.tsv"]},
        **more,
    }
    return config.from_table(table)


def labelled(count: int, seed: int, names: tuple[str, ...] = ("good", "bad")):
    chance = random.Random(seed)
    return [(names[n % len(names)], sentence(chance, 6)) for n in range(count)]


def test_clean_labels_have_no_error_and_no_warning(tmp_path):
    found = quick_check(classify(tmp_path, labelled(300, 1), labelled(200, 2)))
    assert codes(found) == ["data.parts", "data.counts"]


def test_names_of_columns_are_no_example(tmp_path):
    rows = labelled(60, 1)
    found = quick_check(classify(tmp_path, [("label", "text"), *rows], labelled(20, 2)))
    assert [(each.code, each.place) for each in found if each.code == "data.header"] == [
        ("data.header", f"{tmp_path / 'train.tsv'}:1")
    ]
    told = classify(tmp_path, [("label", "text"), *rows], [("label", "text"), *labelled(20, 2)])
    told = replace(told, task=replace(told.task, data=replace(told.task.data, header=True)))
    assert "data.header" not in codes(quick_check(told))
    only = [("good", "text"), *rows]
    assert "data.header" not in codes(quick_check(classify(tmp_path, only, labelled(20, 2))))


@pytest.mark.parametrize(
    ("first", "warned"),
    [("en,de", True), ("Source,Target", True), ("a red house,ein rotes Haus", False)],
)
def test_names_of_columns_are_no_pair(first, warned, tmp_path):
    lines = [f"{word} {n},{word} {n}" for n, word in enumerate(WORDS)]
    path = write(tmp_path / "pairs.csv", [first, *lines])
    recipe = config.from_table({"task": "translate", "data": {"train": [path]}})
    assert ("data.header" in codes(quick_check(recipe))) == warned
    if warned:  # and what is advised helps
        data = {"train": [path], "header": True, "columns": first.split(",")}
        found = quick_check(config.from_table({"task": "translate", "data": data}))
        counts = next(each.what for each in found if each.code == "data.counts")
        assert codes(found, "error") == [] and counts == f"examples: train {len(lines)}"


def test_the_beginning_of_a_sorted_file_says_nothing_of_labels(tmp_path, monkeypatch):
    recipe = classify(tmp_path, sorted(labelled(300, 1)), sorted(labelled(200, 2)))
    monkeypatch.setattr(examination, "SHORT", 100)
    assert set(codes(quick_check(recipe))) == {"data.sampled", "data.counts", "data.parts"}


@pytest.mark.parametrize(
    ("train", "test", "code", "severity"),
    [
        (labelled(300, 1, ("good",)), labelled(200, 2), "labels.single", "error"),
        (labelled(300, 1), labelled(200, 2, ("good", "ugly")), "labels.unseen", "error"),
        (labelled(300, 1, ("good", "bad", "Good")), labelled(200, 2), "labels.spelling", "warning"),
        (
            [*labelled(300, 1), ("odd", "one of its kind")], labelled(200, 2),
            "labels.balance", "warning",
        ),
        (labelled(300, 1), labelled(200, 2, ("good",) * 9 + ("bad",)), "labels.drift", "warning"),
        (
            labelled(300, 1) + [("bad", text) for _, text in labelled(20, 1)], labelled(200, 2),
            "labels.conflict", "warning",
        ),
        (labelled(300, 1) + labelled(100, 2), labelled(100, 2), "data.leaked", "error"),
    ],
)  # fmt: skip
def test_faults_of_labels(tmp_path, train, test, code, severity):
    found = quick_check(classify(tmp_path, train, test))
    assert {each.severity for each in found if each.code == code} == {severity}


def test_what_the_recipe_allows_is_a_warning(tmp_path):
    parts = labelled(300, 1), labelled(200, 2, ("good", "ugly"))
    rule = classify(tmp_path, *parts, labels={"unseen": "wrong"})
    assert "labels.unseen" in codes(quick_check(rule), "warning")
    let = classify(tmp_path, *parts, train={"allow": ["labels.unseen"], "metric": "nll"})
    assert codes(quick_check(let), "error") == []
    assert "labels.unseen" in codes(quick_check(let), "warning")


def test_an_unknown_name_in_allow_is_refused_with_the_nearest(tmp_path):
    recipe = classify(tmp_path, labelled(30, 1), labelled(20, 2), train={"allow": ["data.leeked"]})
    with pytest.raises(RecipeError, match=r"train.allow: .*did you mean 'data.leaked'"):
        quick_check(recipe)


def test_labels_of_a_model_that_is_trained_on_count(tmp_path):
    recipe = classify(tmp_path, labelled(300, 1, ("good",)), labelled(200, 2))
    assert "labels.single" in codes(quick_check(recipe), "error")
    table = config.from_table({**TINY, "data": {"folder": str(tmp_path), "train": ["test.tsv"]}})
    model = {"weights": str(Run.create(tmp_path / "given", table).folder)}
    again = classify(tmp_path, labelled(300, 1, ("good",)), labelled(200, 2), model=model)
    assert codes(quick_check(again), "error") == []
    some = labelled(300, 1, ("good", "ugly"))
    other = classify(tmp_path, some, labelled(200, 2), model=model)
    [unseen] = [each for each in quick_check(other) if each.severity == "error"]
    assert unseen.place == f"{tmp_path}/train.tsv:2"
    assert unseen.what == "the label 'ugly' was never seen by the run that is trained on"
    assert unseen.code == "labels.foreign"


# Tagged words, running text


def test_tags_that_training_lacks(tmp_path):
    def rows(tags: str) -> list[str]:
        return ["a\tDET", f"dog\t{tags}", ""] * 30

    write(tmp_path / "train.txt", rows("NOUN"))
    write(tmp_path / "test.txt", rows("NUON"))
    data = {"folder": str(tmp_path), "train": ["train.txt"], "test": ["test.txt"]}
    found = quick_check(config.from_table({"task": "tag", "data": data}))
    [unseen] = [each for each in found if each.code == "labels.unseen"]
    assert unseen.severity == "error"
    assert unseen.place == f"{tmp_path}/test.txt:2"
    assert "the label 'NUON' was never seen" in unseen.what and "is 'NOUN' meant?" in unseen.what


def test_a_line_without_its_tag_is_named(tmp_path):
    write(tmp_path / "train.txt", ["a\tDET", "dog\tNOUN", "", "a\tDET", "dog", ""])
    data = {"folder": str(tmp_path), "train": ["train.txt"]}
    found = quick_check(config.from_table({"task": "tag", "data": data}))
    [broken] = [each for each in found if each.code == "data.broken"]
    assert (broken.severity, broken.place) == ("error", f"{tmp_path}/train.txt:5")


def running(folder: Path, lines: list[str]) -> config.Recipe:
    write(folder / "text.txt", lines)
    data = {"folder": str(folder), "train": ["text.txt"]}
    return config.from_table({"task": "language_model", "data": data, "held_out": {"test": 0.2}})


def test_running_text_may_have_empty_and_equal_lines(tmp_path):
    chance = random.Random(1)
    lines = [line for _ in range(200) for line in (sentence(chance), "", "The same old story.")]
    assert codes(quick_check(running(tmp_path, lines))) == ["data.parts", "data.counts"]


def test_a_book_whose_end_is_in_another_script(tmp_path):
    chance = random.Random(1)
    lines = [sentence(chance) for _ in range(400)] + ["Двое мужчин стоят у реки"] * 100
    assert "text.script" in codes(quick_check(running(tmp_path, lines)), "error")


# Series


def series(folder: Path, rows: list[str], **data: Any) -> config.Recipe:
    write(folder / "x.csv", ["date,a,b", *rows])
    table = {"folder": str(folder), "file": "x.csv", "time": "date", **data}
    return config.from_table({"task": "forecast", "data": table})


def hours(count: int = 400) -> list[str]:
    return [
        f"2020-01-{1 + n // 24:02d} {n % 24:02d}:00,{np.sin(n / 4):.4f},{n % 7}"
        for n in range(count)
    ]


def test_a_clean_series_has_neither_error_nor_warning(tmp_path):
    found = quick_check(series(tmp_path, hours()))
    assert [each.what for each in found] == ["rows: train 280, validation 40, test 80"]


def test_every_bad_row_of_a_series_is_found_not_the_first_alone(tmp_path):
    rows = hours()
    date = rows[10].partition(",")[0]
    rows[10] = f"{date},abc,1"
    rows[20] = rows[20].replace(",", ",,", 1)
    rows[30] = f"{rows[30].partition(',')[0]},,1"
    rows.insert(50, rows[49])
    del rows[71:74]
    found = {each.code: each for each in quick_check(series(tmp_path, rows))}
    lines = {code: each.place.rpartition(":")[2] for code, each in found.items()}
    assert lines == {
        "series.number": "12", "series.columns": "22", "series.missing": "32",
        "series.repeated": "52", "series.gap": "73",
    }  # fmt: skip
    assert {each.severity for each in found.values()} == {"error"}


def test_times_that_go_back(tmp_path):
    rows = hours()
    rows[5], rows[6] = rows[6], rows[5]
    assert "series.back" in codes(quick_check(series(tmp_path, rows)), "error")


def of(found: list[Finding], code: str) -> Finding:
    [each] = [each for each in found if each.code == code]
    return each


def test_a_series_whose_newest_row_comes_first(tmp_path):
    found = quick_check(series(tmp_path, hours()[::-1]))
    assert codes(found) == ["series.back"]
    back = of(found, "series.back")
    assert (back.severity, back.place) == ("error", f"{tmp_path}/x.csv:3")
    assert "399 of 400 rows" in back.what and "data.order = 'sort'" in back.advice
    sorted_ = quick_check(series(tmp_path, hours()[::-1], order="sort"))
    assert codes(sorted_, "error") == [] and of(sorted_, "series.back").severity == "note"


def test_times_that_stand_still(tmp_path):
    rows = [f"2020-01-01,{n % 5},{n % 7}" for n in range(4)]
    assert codes(quick_check(series(tmp_path, rows)), "error") == ["series.repeated"]


@pytest.mark.parametrize("time", ["noon", "nan", "7", ""])
def test_times_that_are_none(tmp_path, time):
    rows = hours()
    rows[5] = f"{time},1,2"
    found = quick_check(series(tmp_path, rows, gap="fill", order="sort"))
    assert codes(found) == ["series.time"], "nor is there a gap where the row was"
    assert (found[0].severity, found[0].place) == ("error", f"{tmp_path}/x.csv:7")


def test_no_whole_number_of_steps_cannot_be_filled(tmp_path):
    rows = hours()
    rows[5] = rows[5].replace(":00,", ":30,")
    rows[7] = f"{rows[7].partition(',')[0]},abc,1"
    found = quick_check(series(tmp_path, rows, gap="fill"))
    assert sorted(codes(found, "error")) == ["series.gap", "series.number"]
    assert codes(quick_check(series(tmp_path, rows[:7], gap="ignore")), "error") == []


def test_lines_of_values_are_those_of_the_file(tmp_path):
    """Whatever was sorted, left out and filled in before."""
    rows = hours()
    rows[390] = f"{rows[390].partition(',')[0]},1e6,1"
    del rows[20:30]
    rows.insert(15, rows[14])
    keys = {"gap": "fill", "repeated": "first", "order": "sort"}
    found = quick_check(series(tmp_path, ["", *rows[::-1]], **keys))
    line = 3 + rows[::-1].index(next(row for row in rows if "1e6" in row))
    assert of(found, "series.outlier").place == f"{tmp_path}/x.csv:{line}"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda n, a: 3.0, "series.constant"),
        (lambda n, a: 1e6 if n == 390 else a, "series.outlier"),
        (lambda n, a: 0.5 if 100 <= n < 200 else a, "series.stuck"),
        (lambda n, a: a + 100 * (n > 320), "series.drift"),
    ],
)
def test_values_that_look_wrong(tmp_path, change, code):
    rows = [
        f"{row.split(',')[0]},{change(n, float(row.split(',')[1])):.4f},{n % 7}"
        for n, row in enumerate(hours())
    ]
    assert code in codes(quick_check(series(tmp_path, rows)), "warning")


def test_a_model_that_follows_the_level_may_drift(tmp_path):
    rows = [
        f"{row.split(',')[0]},{float(row.split(',')[1]) + 100 * (n > 320):.4f},{n % 7}"
        for n, row in enumerate(hours())
    ]
    recipe = series(tmp_path, rows)
    window = replace(recipe.task.window, normalise="last")
    assert "series.drift" in codes(quick_check(recipe), "warning")
    follows = replace(recipe, task=replace(recipe.task, window=window))
    assert "series.drift" not in codes(quick_check(follows))


# The whole


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return corpus.write(tmp_path_factory.mktemp("doctor"), train=200)


def test_the_full_examination_tells_counts_coverage_and_cost(made, tmp_path):
    found = regard.doctor(made, to=tmp_path / "run")
    assert codes(found, "error") == []
    said = {each.code: each.what for each in found}
    assert said["data.counts"] == "examples: train 200, validation 10, test 10"
    assert "13 tokens: train 1.00 a word, 0.00% unknown" in said["tokenizer.coverage"]
    assert "for 20 updates" in said["cost.time"]
    assert {"cost.memory", "cost.disk"} <= said.keys()
    assert not (tmp_path / "run").exists()


def test_the_quickest_of_several_steps_counts():
    taken = iter([9.0, 0.3, 0.1, 0.2, 0.4, 0.1])  # the first one prepares; 1 s is enough
    assert cost.quickest(lambda: cost.Taken(t := next(taken), t / 2)) == cost.Taken(0.1, 0.05)
    assert next(taken) == 0.1, "that was not measured"


@pytest.mark.parametrize("threads", [1, 2])
def test_other_programs_do_not_lengthen_the_estimate(made, tmp_path, monkeypatch, threads):
    """A step takes 10 ms of work; threads that wait for each other would count as busy."""

    def step(job: Job, place: Position) -> cost.Taken:
        return cost.Taken(0.9, 0.01 * job.config.threads**9)

    monkeypatch.setattr(cost, "_step", step)
    found = regard.doctor(made, f"train.threads={threads}", to=tmp_path / "run")
    [cost_of_time] = [each for each in found if each.code == "cost.time"]
    assert 0.1 < (cost_of_time.value or 0) < 0.4, "20 updates of 10 ms or so, by the batch's size"
    assert "for 20 updates" in cost_of_time.what
    assert cost_of_time.what.endswith("beside the other programs that run at present")


def test_a_model_that_memory_cannot_hold_is_an_error_and_is_never_made(made, monkeypatch):
    monkeypatch.setattr(cost, "_measured", None)
    [error] = [
        each for each in regard.doctor(made, "train.memory=1e-6") if each.severity == "error"
    ]
    assert error.code == "cost.memory"
    assert "may take 1e-06 GB" in error.what


def test_the_disk_must_hold_what_is_kept(made, tmp_path, monkeypatch):
    run = Run.create(tmp_path / "run", config.load(made))
    weights = 4 * cost.parameters(run).all
    stored = sum(f.stat().st_size for f in run.folder.rglob("*") if f.is_file())
    # Of 20 updates every fifth is saved: 4, one better and one that is being written.
    need = 6 * 3 * weights + weights + stored

    class Usage:
        free = need

    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage)
    assert [each.severity for each in cost.disk(run, run.folder)] == ["warning"]
    Usage.free = need - 1
    assert [each.severity for each in cost.disk(run, run.folder)] == ["error"]
    with pytest.raises(Refused, match="regard train --resume"):
        examination.room(run)


def test_a_first_step_that_is_not_finite_is_an_error(made, monkeypatch):
    def refuse(job, progress):
        job.record({"kind": "refused", "update": 1, "ids": []})

    monkeypatch.setattr(cost, "fit", refuse)
    assert codes(regard.doctor(made), "error") == ["cost.loss"]


def test_what_training_would_refuse_is_an_error(made):
    found = regard.doctor(made, "data.max_length=1", "batch.tokens=60", "data.on_too_long=refuse")
    assert codes(found, "error")[0] in ("data.long", "recipe.refused")


def test_a_rate_that_would_rise_to_the_end_is_told(made):
    found = quick_check(config.load(made, ("train.updates=1000", "train.schedule.warmup=4000")))
    [told] = [each for each in found if each.code == "cost.warmup"]
    assert "rises for 4,000 updates, and training has 1,000" in told.what
    for changes in (("train.updates=1000", "train.schedule.warmup=500"), ("train.updates=10",)):
        found = quick_check(config.load(made, changes))
        assert "cost.warmup" not in {each.code for each in found}


def test_a_missing_file_is_a_finding_and_not_an_end(made, tmp_path):
    found = regard.doctor(made, 'data.test=["none.source", "none.target"]')
    assert codes(found, "error") == ["data.unreadable"]
    assert "data.counts" in codes(found)


def test_the_model_of_another_run(tmp_path):
    given = corpus.trained()
    fits = regard.doctor(corpus.write(tmp_path), start_from=given)
    assert codes(fits, "error") == []
    larger = regard.doctor(corpus.write(tmp_path), "model.dim=32", start_from=given)
    [error] = [each for each in larger if each.severity == "error"]
    assert error.code == "checkpoint.model"
    assert "dim is 32 here and 16" in error.what


def test_a_vocabulary_that_knows_nothing_of_the_new_text(tmp_path):
    recipe = corpus.write(tmp_path)
    for part in ("train", "validation", "test"):
        write(
            tmp_path / f"{part}.source",
            [f"xx yy z{n % 5}" for n in range({"train": 80}.get(part, 10))],
        )
    found = regard.doctor(recipe, start_from=corpus.trained())
    assert "tokenizer.unknown" in codes(found, "warning")


def test_a_run_that_can_go_on_and_one_that_cannot(tmp_path):
    folder = shutil.copytree(corpus.trained(), tmp_path / "run")
    assert codes(regard.doctor(resume=folder), "error") == []
    for weights in folder.glob("checkpoints/*/model.safetensors"):
        weights.write_bytes(weights.read_bytes()[:-1])
    assert "checkpoint.damaged" in codes(regard.doctor(resume=folder), "error")


# Before a training


def test_an_error_stops_training_before_anything_is_written(tmp_path):
    recipe = corpus.write(tmp_path / "data", train=200)
    lines = (tmp_path / "data" / "train.target").read_text(encoding="utf-8").split("\n")[:-1]
    write(tmp_path / "data" / "train.target", lines[:50] + lines[51:])
    with pytest.raises(Refused, match=r"unequal numbers of lines") as refusal:
        regard.train(recipe, to=tmp_path / "run")
    assert "[pairs.shifted]" in str(refusal.value)
    assert "train.allow" not in str(refusal.value)  # the reader would refuse it all the same
    assert not (tmp_path / "run").exists()


def test_a_leak_can_be_let_pass(tmp_path):
    recipe = corpus.write(tmp_path / "data", train=200, test=60)
    for side in ("source", "target"):
        lines = (tmp_path / "data" / f"train.{side}").read_text(encoding="utf-8").split("\n")
        write(tmp_path / "data" / f"test.{side}", lines[:60])
    with pytest.raises(Refused, match=r"train.allow=\[\"data.leaked\"\]"):
        regard.train(recipe, to=tmp_path / "run")
    let = ('train.allow=["data.leaked"]', "train.updates=1")
    regard.train(recipe, *let, to=tmp_path / "run")
    kept = json.loads((tmp_path / "run" / "data.json").read_text(encoding="utf-8"))["findings"]
    assert "train.allow lets it pass" in [each["advice"] for each in kept]


def test_warnings_are_told_and_kept_in_the_run(tmp_path):
    recipe = corpus.write(tmp_path / "data", train=200)
    lines = (tmp_path / "data" / "train.target").read_text(encoding="utf-8").split("\n")[:-1]
    lines[7] = f"\ufeff{lines[7]}"
    write(tmp_path / "data" / "train.target", lines)
    told: list[dict[str, Any]] = []
    regard.train(recipe, "train.updates=1", to=tmp_path / "run", callback=told.append)
    kept = json.loads((tmp_path / "run" / "data.json").read_text(encoding="utf-8"))["findings"]
    [mark] = [each for each in kept if each["code"] == "text.mark"]
    assert mark["place"].endswith("train.target:8")
    assert any(r["kind"] == "warning" and "[text.mark]" in r["text"] for r in told)


# The verb


def test_the_verb_prints_findings_and_its_code_says_whether_there_is_an_error(
    made, capsys, monkeypatch
):
    monkeypatch.setattr(sys, "stdin", None)
    cli.main(["doctor", str(made), "train.threads=1"])
    shown = capsys.readouterr().out
    assert "cost.time" in shown
    assert shown.rstrip().splitlines()[-1].startswith("0 errors, ")
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor", str(made), 'data.test=["x", "y"]', "--json"])
    assert stop.value.code == 1
    table = json.loads(capsys.readouterr().out)
    assert table["errors"] == 1
    assert table["findings"][0]["code"] == "data.unreadable"
    assert set(table["findings"][0]) == {
        "severity", "code", "place", "what", "example", "advice",
    }  # fmt: skip


def test_a_recipe_or_a_run(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor"])
    assert stop.value.code == 2
    assert "give either a recipe, or a run to resume" in capsys.readouterr().err
