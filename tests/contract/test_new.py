"""`regard new` on files of odd shape: what it sees, and recipes that the doctor passes and that
train."""

import json
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
    assert "several tasks; say which: classify | forecast" in refused(
        capsys, *FILES["word_and_tag"][1](tmp_path)
    )
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
        (["clasify", "a.csv"], "new: there is no task 'clasify'; there are classify, "),
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


@pytest.mark.parametrize(("wall", "processor", "epochs"), [(50.0, 0.01, 40), (50.0, 50.0, 1)])
def test_epochs_are_cut_by_the_work_and_not_by_other_programs(
    tmp_path, capsys, monkeypatch, wall, processor, epochs
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cost, "_step", lambda job, place: cost.Taken(wall, processor))
    new(capsys, "language_model", *FILES["crlf"][1](tmp_path))
    assert config.load(tmp_path / "windows.toml").train.epochs == epochs
