"""`regard new` on files of odd shape: what it sees, and recipes that the doctor passes and that
train."""

import json
import math
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import cli, starting
from regard.doctor import cost
from regard.recipe import config
from regard.recipe.parts import kinds
from regard.starting import sample
from tests.odd_files import FILES, SIZE

pytestmark = pytest.mark.usefixtures("task_defaults")
SMALL = {
    "classify": [],
    "translate": ["model.dim=8", "model.encoder.layers=1", "model.decoder.layers=1",
                  "model.encoder.feedforward=8", "model.decoder.feedforward=8",
                  "evaluation.lines=2"],
    "tag": ["model.dim=8", "model.encoder.hidden=4"],
    "language_model": ["model.dim=8"],
    "masked_language_model": ["model.dim=8", "model.encoder.layers=1"],
    "forecast": [],
}  # fmt: skip
SEEN: dict[str, dict[str, Any]] = {
    "semicolons": {"delimiter": "semicolon", "header": True, "bom": True, "label": "label",
                   "text": "text", "rows": SIZE},
    "quoted": {"delimiter": "comma", "header": True, "rows": SIZE, "label": "label"},
    "label_last": {"delimiter": "tab", "header": False, "label": 2, "text": 1},
    "label_first": {"delimiter": "tab", "header": False, "label": 1, "text": 2},
    "three_columns": {"delimiter": "tab", "source": 1, "target": 2, "pairs": SIZE},
    "tabs_in_txt": {"delimiter": "tab", "source": 1, "target": 2},
    "parallel": {"lines": SIZE, "pairs": SIZE},
    "jsonl": {"delimiter": None, "label": "stars", "text": "body"},
    "conll": {"columns": 4, "sentences": SIZE, "spans": True},
    "word_and_tag": {"columns": 2, "sentences": 1, "spans": False},
    "series": {"delimiter": "semicolon", "time": "Datum", "variables": ["Temperatur", "Last"],
               "step": "1 day", "season": 7, "crlf": True},
    "packed": {"delimiter": "comma", "label": "label", "text": "text", "rows": SIZE},
    "one_line": {"lines": 1},
    "crlf": {"lines": SIZE, "crlf": True},
    "chinese": {"language": "Chinese or Japanese script", "label": 2, "text": 1},
}  # fmt: skip


WARNED = {name: {"text.case"} for name in ("three_columns", "tabs_in_txt", "parallel")}
"""What the doctor warns of: the English side has no capitals, the German one has."""


def new(capsys: pytest.CaptureFixture[str], *words: str | Path) -> dict[str, Any]:
    capsys.readouterr()
    cli.main(["new", *map(str, words), "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", FILES)
def test_a_recipe_for_odd_files_trains(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task, make = FILES[name]
    files = make(tmp_path)
    found = new(capsys, task, *files, "--to", "mine.toml", "--quick")
    assert found["task"] == task
    for key, value in SEEN[name].items():
        assert found["seen"][key] == value, key
    small = ["train.updates=2", "train.threads=1", *SMALL[task]]
    examined = regard.doctor("mine.toml", *small)
    assert [str(each) for each in examined if each.severity == "error"] == []
    warned = {each.code for each in examined if each.severity == "warning"}
    assert warned == WARNED.get(name, set())
    kept = regard.train("mine.toml", *small, to=tmp_path / "run")
    assert kept.progress.update == 2


def test_every_task_has_a_first_recipe():
    assert starting.tasks() == sorted(kinds("tasks"))


@pytest.mark.parametrize("name", sorted(FILES.keys() - {"word_and_tag"}))
def test_the_task_is_guessed_where_it_is_plain(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task, make = FILES[name]
    assert new(capsys, *make(tmp_path), "--quick")["task"] == task


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """What is said of words that are no good; nothing is written then."""
    capsys.readouterr()
    with pytest.raises(SystemExit):
        cli.main(["new", *map(str, words), "--quick"])
    assert not [*Path().glob("*.toml")]
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1, said
    return said[0]


def test_what_cannot_be_told_is_asked(tmp_path, capsys, monkeypatch):
    """A word and its tag on a line may be a text and its label as well."""
    monkeypatch.chdir(tmp_path)
    said = refused(capsys, *FILES["word_and_tag"][1](tmp_path))
    assert "several tasks; say which: classify | " in said
    assert "tag" in said and "caption" not in said and "transcribe" not in said
    rows = "".join(f"{'ab'[n % 2]},{'xyz'[n % 3]},{n} is the number of a text\n" for n in range(90))
    Path("two.csv").write_text(f"size,shape,words\n{rows}")
    assert "“size” or “shape” may. Say by --columns LABEL,TEXT" in refused(
        capsys, "classify", "two.csv"
    )
    found = new(capsys, "classify", "two.csv", "--columns", "shape,3", "--quick")
    assert (found["seen"]["label"], found["seen"]["text"]) == ("shape", "words")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["classify"], "new: which files?"),
        (
            ["clasify", "a.csv"],
            "new: there is no task 'clasify'; there are bidirectional_language_model, caption, ",
        ),
        (["classify", "nowhere.csv"], "no such file"),
        (["classify", "latin.csv"], "iconv -f WINDOWS-1252 -t UTF-8 latin.csv > latin-utf8.csv"),
        (["classify", "wide.csv"], "iconv -f UTF-16 -t UTF-8 wide.csv > wide-utf8.csv"),
        (["classify", "a.csv", "b.csv"], "each part wants one file"),
        (["classify", "a.csv", "--columns", "x,text"], "has no column 'x'; it has label, text"),
        (["translate", "s", "t"], "unequal numbers of lines: s has 2, t has 1"),
        (["forecast", "a.csv"], "no column has numbers"),
        (["tag", "a.csv"], "no words with tags"),
        (["classify", "s"], "no table"),
        (["classify", "empty"], "empty is empty"),
    ],
)
def test_what_is_refused(tmp_path, capsys, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    table = "label,text\n" + "".join(f"{'ab'[n % 2]},{'so ' * n}schön\n" for n in range(1, 30))
    for name in ("a.csv", "b.csv"):
        Path(name).write_text(table, encoding="utf-8")
    Path("latin.csv").write_text(table, encoding="latin-1")
    Path("wide.csv").write_text(table, encoding="utf-16")
    Path("s").write_text("one\ntwo\n")
    Path("t").write_text("eins\n")
    Path("empty").write_text("")
    assert said in refused(capsys, *words)


def test_a_recipe_is_not_written_over(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [file] = FILES["packed"][1](tmp_path)
    (tmp_path / "packed.toml").write_text("mine")
    with pytest.raises(SystemExit):
        new(capsys, "classify", file, "--quick")
    assert "packed.toml is there already" in capsys.readouterr().err
    assert (tmp_path / "packed.toml").read_text() == "mine"
    new(capsys, "classify", file, "--quick", "--force")
    assert 'task = "classify"' in (tmp_path / "packed.toml").read_text()


def test_files_are_parts_by_their_names(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [file] = FILES["label_first"][1](tmp_path)
    for name in ("my-train.tsv", "my_dev.tsv", "test.tsv"):
        (tmp_path / name).write_bytes(file.read_bytes())
    new(capsys, "classify", "test.tsv", "my_dev.tsv", "my-train.tsv", "--quick")
    loaded = config.load(tmp_path / "test.toml").task
    assert (loaded.data.train, loaded.data.validation) == (("my-train.tsv",), ("my_dev.tsv",))
    assert (loaded.data.test, bool(loaded.held_out)) == (("test.tsv",), False)


def test_a_test_file_without_labels_is_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{n},{'ab'[n % 2]},text {n} is here\n" for n in range(60))
    Path("train.csv").write_text(f"id,label,text\n{rows}")
    Path("test.csv").write_text("id,text\n" + rows.replace("a,", "").replace("b,", ""))
    cli.main(["new", "classify", "train.csv", "test.csv", "--quick"])
    assert "test.csv: no “label”: it is not used" in capsys.readouterr().out
    loaded = config.load(tmp_path / "train.toml").task
    assert (loaded.data.test, loaded.held_out.test) == ((), 0.1)


def test_several_files_are_one_text(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("one.txt", "two.txt"):
        Path(name).write_text("A line of the text, and no other.\n" * 50)
    seen = new(capsys, "language_model", "one.txt", "two.txt", "--quick")["seen"]
    assert (seen["characters"], seen["lines"], seen["sampled"]) == (3400, 100, True)


def test_columns_of_conllu_go_by_name(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "1\ta\ta\tDET\tDT" + "\t_" * 5 + "\n2\tdog\tdog\tNOUN\tNN" + "\t_" * 5 + "\n\n"
    Path("a.conllu").write_text("# text = a dog\n" + rows * 20)
    found = new(capsys, "tag", "a.conllu", "--columns", "xpos", "--quick")
    assert found["seen"]["tags"] == {"DT": 20, "NN": 20}
    assert config.load(tmp_path / "a.toml").task.data.columns == ("xpos",)


def test_of_a_large_file_the_beginning_is_looked_at(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [file] = FILES["label_first"][1](tmp_path)
    monkeypatch.setattr(sample, "BYTES", file.stat().st_size // 4)
    monkeypatch.setattr(sample, "BLOCK", 64)
    seen = new(capsys, "classify", file, "--quick")["seen"]
    assert seen["sampled"] and seen["rows"] == pytest.approx(SIZE, rel=0.1)


def test_what_a_person_reads(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cli.main(["new", "classify", str(FILES["label_first"][1](tmp_path)[0]), "--quick"])
    said = capsys.readouterr().out
    assert "240 rows of 2 columns, tab between, UTF-8" in said
    assert "labels in column 1: “pos” 130, “neg” 110" in said
    assert "to beat: accuracy 54.2% by always taking the most frequent label" in said
    assert "written: first.toml\nnext:    regard doctor first.toml\n" in said
    lines = Path("first.toml").read_text().splitlines()
    assert len([line for line in lines if line and line[0] not in "#["]) <= 10


def test_the_doctor_passes_a_recipe_and_its_cost_is_given(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = new(capsys, "forecast", *FILES["series"][1](tmp_path))
    assert found["findings"] == []
    assert found["cost"].keys() == {"cost.time", "cost.memory"}
    assert config.load(tmp_path / "wetter.toml").task.data.decimal == ","


@pytest.mark.parametrize(("wall", "processor", "epochs"), [(5e3, 0.01, 40), (5e3, 5e3, 1)])
def test_epochs_are_cut_by_the_work_and_not_by_other_programs(
    tmp_path, capsys, monkeypatch, wall, processor, epochs
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cost, "_step", lambda job, place: cost.Taken(wall, processor))
    new(capsys, "language_model", *FILES["crlf"][1](tmp_path))
    assert config.load(tmp_path / "windows.toml").train.epochs == epochs


def test_of_several_columns_of_labels_none_is_taken(tmp_path, capsys, monkeypatch):
    """Of JSONL as of a table with a header."""
    monkeypatch.chdir(tmp_path)
    rows = (
        {"way": "ab"[n % 2], "queue": "xyz"[n % 3], "words": f"{n} is the number of a text"}
        for n in range(90)
    )
    Path("mail.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert "“way” or “queue” may. Say by --columns LABEL,TEXT" in refused(
        capsys, "classify", "mail.jsonl"
    )


def people(lines: int) -> str:
    """Of ten rows one has no label, and one says that there is none."""
    labels = ["", "n/a", *"MFMFMFMF"]
    names = [f"{'Al' if n % 2 else 'An'} number{n}" for n in range(lines)]
    return "id,title,name,sex,state\n" + "".join(
        f"{n},,{name},{labels[n % 10]},ok\n" for n, name in enumerate(names)
    )


def test_rows_without_a_label_are_counted(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text(people(200))
    cli.main(["new", "classify", "people.csv", "--columns", "sex,name", "--quick"])
    said = capsys.readouterr().out
    assert "  2 title: empty\n" in said and "  5 state: always “ok”\n" in said
    assert "  4 sex: 3 values, such as “n/a”; empty in 20 rows\n" in said
    assert "labels in “sex”: “M” 80, “F” 80, “n/a” 20\n" in said
    assert "  20 rows have no label: they are left out\n" in said
    assert "“n/a” counts as a label: make it empty if it stands for none" in said
    assert "to beat: accuracy 44.4% by always" in said


def test_texts_without_blanks_are_counted_by_characters(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = new(capsys, "classify", *FILES["chinese"][1](tmp_path), "--quick", "--force")
    assert found["seen"]["lengths"]["unit"] == "characters"
    assert found["reference"]["naive_bayes"] == 1.0
    cli.main(["new", "classify", str(tmp_path / "chinese.csv"), "--quick", "--force"])
    assert "accuracy 100.0% by counting characters (naive Bayes)" in capsys.readouterr().out


def test_a_date_is_no_text(tmp_path, capsys, monkeypatch):
    """A column whose values come again is no text that somebody wrote."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{name},May {n} 2000,{n}.5" for name in ("AB", "CD", "EF") for n in range(1, 31)]
    Path("stocks.csv").write_text("symbol,date,price\n" + "\n".join(rows) + "\n")
    assert "several tasks; say which" in refused(capsys, "stocks.csv")


def test_series_one_below_the_other_are_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{1900 + n}-01-01,{name},{n}" for name in ("coal", "wind") for n in range(60)]
    Path("power.csv").write_text("year,source,power\n" + "\n".join(rows) + "\n")
    said = refused(capsys, "forecast", "power.csv")
    assert "“year” has every time once for each of the 2 values of “source”" in said


def test_tags_behind_slashes_are_refused_with_the_command_that_converts_them(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("brown.txt").write_text("the/DET dog/NOUN and/or/CONJ\na/DET cat/NOUN\n" * 20)
    command = refused(capsys, "tag", "brown.txt").partition("Convert it: ")[2]
    subprocess.run(["sh", "-c", command], check=True)
    assert (
        Path("brown.conll")
        .read_text()
        .startswith("the\tDET\ndog\tNOUN\nand/or\tCONJ\n\na\tDET\ncat\tNOUN\n\n")
    )
    assert new(capsys, "tag", "brown.conll", "--quick")["seen"]["sentences"] == 40


def test_small_errors_to_beat_have_digits(tmp_path, capsys, monkeypatch):
    """A wave that comes again nearly as it was, by the hour."""
    monkeypatch.chdir(tmp_path)
    start = datetime(2024, 1, 1)
    rows = [f"{start + timedelta(hours=n)},{math.sin(n * math.pi / 12) + n / 1e6:.6f}"
            for n in range(500)]  # fmt: skip
    Path("wave.csv").write_text("time,value\n" + "\n".join(rows) + "\n")
    cli.main(["new", "forecast", "wave.csv", "--quick"])
    said = capsys.readouterr().out
    assert "what was 24 steps ago comes again" in said
    assert "to beat: mse 1.1" in said and "e-09 (standardised, 24 steps ahead)" in said
