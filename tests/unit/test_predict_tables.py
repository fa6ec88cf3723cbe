"""`regard predict` and `score` on what people have: a text, a file, a pipe, a table."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pytest import CaptureFixture, MonkeyPatch

import regard
from regard import cli, tabular
from regard.data.extended import encoded
from regard.errors import UserError
from tests import small_runs

LABELS = {*small_runs.LABELS}


class Said(NamedTuple):
    code: int
    out: str
    err: list[str]

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Call = Callable[..., Said]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small runs, by the names of their tasks."""
    folder = tmp_path_factory.mktemp("tables")
    families = ("classifier", "tagger", "causal", "transformer", "forecaster")
    for family in families:
        small_runs.make(family, folder / small_runs.FAMILIES[family][0])
    return folder


@pytest.fixture
def call(runs: Path, tmp_path: Path, capsys: CaptureFixture[str], monkeypatch: MonkeyPatch) -> Call:
    """`call("predict", "classify", …)`: the command on the run of a task, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(verb: str, task: str, *words: object, data: bytes = b"") -> Said:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        capsys.readouterr()
        code: Any = 0
        try:
            cli.main([verb, str(runs / task), *map(str, words)])
        except SystemExit as stop:
            code = stop.code
        out, err = capsys.readouterr()
        return Said(code or 0, out, [line.removeprefix("regard: ") for line in err.splitlines()])

    return run


# Where inputs come from


def test_a_text_a_file_and_a_pipe_say_the_same(call: Call):
    Path("in.txt").write_text("a dog runs\n")
    found = call("predict", "classify", "a dog runs")
    assert found.out.strip() in LABELS and not found.err
    assert call("predict", "classify", "in.txt") == found
    assert call("predict", "classify", "-", data=b"a dog runs\n") == found
    assert call("predict", "classify", data=b"a dog runs") == found
    two = call("predict", "classify", "a dog runs\na man sits")
    assert two.out.splitlines()[0] == found.out.strip() and len(two.out.splitlines()) == 2


@pytest.mark.parametrize("name", ["reviews.csv", "my reviews.txt", "./reviews", "a.b.tsv.gz"])
def test_a_missing_file_is_no_text(name: str, call: Call, monkeypatch: MonkeyPatch):
    Path("review.csv").touch()
    monkeypatch.setattr("regard.front.load", None)  # nothing is loaded for it
    found = call("predict", "classify", name)
    assert found.code == 1 and not found.out
    assert f"{Path(name)}: no such file" in found.err[0]
    assert "; if it is a text: echo " in found.err[0]
    assert ("did you mean review.csv?" in found.err[0]) == (Path(name).stem == "reviews")


@pytest.mark.parametrize("text", ["recieve", "and/or", "e.g.", "He left. Why?", "x" * 5000, "a\0"])
def test_a_text_is_no_missing_file(text: str, call: Call):
    assert call("predict", "classify", text).out.strip() in LABELS


def test_folders_and_tables_that_are_none_are_refused(call: Call):
    Path("folder").mkdir()
    [said] = call("predict", "classify", "folder").err
    assert said.startswith("folder is a folder without files; if it is a text: echo folder | ")
    found = call("predict", "classify", "a dog", "--column", "text")
    assert found.code == 2 and found.err[0].startswith("column: the text is no table; ")
    found = call("predict", "classify", "a dog", "--input-format", "csv")
    assert found.code == 2 and "'a dog' is no file" in found.err[0]


# Columns kept, one added


def test_a_table_keeps_its_columns(call: Call):
    texts = ["a dog runs", "two dogs, play", "a man sits"]
    Path("lines.txt").write_text("\n".join(texts))
    labels = call("predict", "classify", "lines.txt").out.splitlines()
    rows = [f'{n};"{text}";x' for n, text in enumerate(texts)]
    Path("in.csv").write_text("\n".join(["id;text;label", *rows]))
    found = call("predict", "classify", "in.csv")
    assert not found.err
    head, *body = found.out.split("\n")
    assert head == "id;text;label;predicted_label"
    assert body == [f"{row};{label}" for row, label in zip(rows, labels, strict=True)]
    same = call("predict", "classify", "in.csv", "--column", "2", "--header", "yes")
    assert same.out == found.out
    piped = ("-", "--input-format", "csv", "--column", "text")
    assert call("predict", "classify", *piped, data=Path("in.csv").read_bytes()).out == found.out


def test_tabs_make_a_table_whatever_the_name(call: Call, tmp_path: Path):
    (tmp_path / "a.tsv").write_text("1\tgood\n2\tbad\n")
    (tmp_path / "a.txt").write_text("1\tgood\n2\tbad\n")
    (tmp_path / "b.txt").write_text("1\tgood\nbad\n")  # not in all lines: texts
    table = call("predict", "classify", "a.tsv", "--column", 2)
    assert table.code == 0 and table.out.startswith("1\tgood\t")
    assert call("predict", "classify", "a.txt", "--column", 2).out == table.out
    assert "\t" not in call("predict", "classify", "b.txt").out
    piped = call("predict", "classify", data=b"good\n1\tgood\n2\tbad\n")
    assert len(piped.out.splitlines()) == 3
    assert [line for line in piped.err if "tab" in line] == [
        "standard input:2: the line has a tab, and is read as one text; for a table: "
        "- --input-format tsv"
    ]


def test_objects_get_the_label_and_with_json_all_that_is_known(call: Call):
    Path("in.jsonl").write_text('{"id": 7, "text": "a dog runs"}\n')
    [plain] = call("predict", "classify", "in.jsonl").objects
    assert list(plain) == ["id", "text", "label"] and plain["label"] in LABELS
    [full] = call("predict", "classify", "in.jsonl", "--json").objects
    assert plain.items() <= full.items()
    assert full["probabilities"].keys() == LABELS and full["status"] == "ok"
    Path("in.csv").write_text("id,text\n7,a dog runs\n")
    [object_] = call("predict", "classify", "in.csv", "--json").objects
    assert object_ == full | {"id": "7"}


def test_rows_of_which_nothing_can_be_said_stay(runs: Path, tmp_path: Path):
    path = tmp_path / "in.tsv"
    path.write_bytes(b"id\ttext\n1\ta dog\n2\n3\t\xff\n4\t\n5\ta man\n")
    told: list[str] = []
    found = tabular.predict_file(regard.load(runs / "classify"), path, tell=told.append)
    lines = [encoded(line) for line in found]
    assert [line.count(b"\t") for line in lines] == [2] * 6
    assert [line.endswith(b"\t\n") for line in lines] == [False, False, True, True, True, False]
    assert lines[3] == b"3\t\xff\t\n"
    assert told == [f"{path}:3: 1 columns instead of 2", f"{path}:4: not UTF-8"]


def test_names_are_those_of_the_task(call: Call):
    Path("in.csv").write_text("id,text\n1,a dog\n2,a man\n")
    for task, name in {"translate": "translation", "language_model": "continuation"}.items():
        found = call("predict", task, "in.csv", "--length", 2)
        assert found.out.splitlines()[0] == f"id,text,{name}"
        assert len(found.out.splitlines()) == 3


def test_options_that_do_not_fit_are_refused_before_anything_is_written(call: Call):
    Path("in.csv").write_text("text\na dog\n")
    for words in (("--prefix", "x"), ("--split",), ("--beams", "3"), ("--column", "words")):
        found = call("predict", "classify", "in.csv", *words)
        assert found.code in (1, 2) and found.out == "", words
        assert len(found.err) == 1


def test_many_rows_in_few_chunks(call: Call, monkeypatch: MonkeyPatch):
    monkeypatch.setattr(tabular, "CHUNK", 3)
    Path("in.tsv").write_text("".join(f"{n}\ta dog {n}\n" for n in range(10)))
    found = call("predict", "classify", "in.tsv")
    assert [line.split("\t")[0] for line in found.out.splitlines()] == [*map(str, range(10))]


def test_python_has_the_same(call: Call, runs: Path):
    Path("in.csv").write_text("id,text\n1,a dog\n")
    said = call("predict", "classify", "in.csv").out
    model = regard.load(runs / "classify")
    assert "".join(tabular.predict_file(model, "in.csv", column="text")) == said
    with pytest.raises(UserError, match="not a table"):
        list(tabular.predict_file(model, "in.txt"))


# Tagging


TEXT = "moved  to Paris, on 3.5 — don't!"


def test_words_are_split_where_asked(call: Call):
    [found] = call("predict", "tag", TEXT, "--split", "--json").objects
    words = ["moved", "to", "Paris", ",", "on", "3", ".", "5", "—", "don't", "!"]
    assert found["source"] == words
    assert [TEXT[start:end] for start, end in found["offsets"]] == words
    assert len(found["tokens"]) == len(words)
    [whole] = call("predict", "tag", TEXT, "--json").objects
    assert whole["source"] == TEXT.split()
    assert [TEXT[start:end] for start, end in whole["offsets"]] == TEXT.split()
    line = call("predict", "tag", TEXT, "--split").out.strip()
    assert line == " ".join(map("/".join, zip(words, found["tokens"], strict=True)))


def test_tables_of_texts_to_be_tagged(call: Call):
    Path("in.jsonl").write_text(json.dumps({"text": "a dog, runs"}) + "\n")
    [found] = call("predict", "tag", "in.jsonl", "--split").objects
    assert found["words"] == ["a", "dog", ",", "runs"] and len(found["tags"]) == 4
    assert found["offsets"] == [[0, 1], [2, 5], [5, 6], [7, 11]]
    Path("in.csv").write_text('id,text\n1,"a dog, runs"\n')
    head, row = call("predict", "tag", "in.csv", "--split").out.splitlines()
    assert head == "id,text,words,tags"
    assert row.startswith('1,"a dog, runs","a dog , runs",')
    Path("in.jsonl").write_text(json.dumps({"words": ["a", "dog"]}) + "\n")
    [found] = call("predict", "tag", "in.jsonl").objects
    assert len(found["tags"]) == 2


def test_a_word_a_line_gets_its_tag_beside_it(call: Call):
    text = "# a comment\r\na\tDET\r\ndog\tN\r\n\r\nruns\tV"
    Path("in.conll").write_bytes(text.encode())
    tags = call("predict", "tag", "a dog\nruns").out.split()
    found = call("predict", "tag", "in.conll")
    assert found.out == (
        f"# a comment\r\na\tDET\t{tags[0]}\r\ndog\tN\t{tags[1]}\r\n\r\nruns\tV\t{tags[2]}"
    )
    row = ["1-2", "1", "2"]
    lines = ["\t".join([n, f"w{n}", *"________"]) for n in row]
    Path("in.conllu").write_text("\n".join(lines) + "\n")
    first, *rest = call("predict", "tag", "in.conllu").out.splitlines()
    assert first == lines[0] and all(line.count("\t") == 10 for line in rest)
    Path("in.bio").write_text("a B-X\ndog\n")
    found = call("predict", "tag", "in.bio", "--column", "2")
    assert found.err == ["in.bio:1: 1 columns, and none is column 2"]
    assert found.out == "a B-X _\ndog\t_\n"
    assert "for runs that tag" in call("predict", "classify", "in.conll").err[0]
    assert "come apart already" in call("predict", "tag", "in.conll", "--split").err[0]


def test_entities_are_spans_of_the_text():
    from regard.decoding.tagging import entities

    places = [(0, 4), (5, 10), (10, 11), (12, 17)]
    tags = ["B-PER", "I-PER", "O", "B-LOC"]
    assert entities("Anna Smith, Paris", places, tags, ["O", "B-PER", "I-PER", "B-LOC"]) == [
        {"label": "PER", "start": 0, "end": 10, "text": "Anna Smith"},
        {"label": "LOC", "start": 12, "end": 17, "text": "Paris"},
    ]
    assert entities("Anna Smith, Paris", places, ["N"] * 4, ["N", "V"]) == []


# Scores


def test_scores_are_columns(call: Call):
    Path("in.csv").write_text("id,source,target\n1,a dog,two dogs\n2,a man,a dog\n")
    found = call("score", "translate", "in.csv")
    head, *rows = found.out.splitlines()
    assert head == "id,source,target,log_prob,perplexity"
    Path("s.txt").write_text("a dog\na man\n")
    Path("t.txt").write_text("two dogs\na dog\n")
    plain = call("score", "translate", "s.txt", "t.txt")
    assert [row.split(",")[3:] for row in rows] == [r.split("\t") for r in plain.out.splitlines()]
    assert found.err == plain.err
    swapped = call("score", "translate", "in.csv", "--columns", "target", "source")
    assert swapped.out != found.out
    one = call("score", "translate", "a dog", "two dogs")
    assert one.out == plain.out.splitlines(keepends=True)[0]


def test_a_row_that_cannot_be_scored_stays(call: Call):
    rows = [{"words": ["a", "dog"], "tags": ["good", "bad"]}, {"words": ["a"], "tags": ["a", "b"]}]
    Path("in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = call("score", "tag", "in.jsonl")
    first, second = found.objects
    assert first["log_prob"] < 0 < first["perplexity"]
    assert second == rows[1] | {"log_prob": None, "perplexity": None}
    assert found.err[0] == "in.jsonl:2: 1 words, but 2 tags"


# Series


def test_a_forecast_reads_a_file_and_nothing_else(call: Call):
    Path("series.csv").write_text(small_runs.SERIES)
    found = call("predict", "forecast", "series.csv")
    head, *rows = found.out.splitlines()
    names = head.split(",")
    assert names == [
        "step",
        *(f"{x}{end}" for x in ("<b>x</b>", "y") for end in ("", ".low", ".high")),
    ]
    steps = call("predict", "forecast", "series.csv", "--json").objects
    assert len(rows) == len(steps) == 4
    assert [[step[name] for name in names] for step in steps] == [
        [float(cell) for cell in row.split(",")] for row in rows
    ]
    assert call("predict", "forecast", "some text").err == ["some text: no such file"]
