"""Runs side by side: same data or nothing, intervals around the score, groups by length."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard import cli
from regard.compare import Comparison, Entry, compare as compared, learning_curves
from regard.errors import RecipeError, UserError
from regard.metrics import Score, statistic
from regard.metrics.lengths import by_length, unit_of
from regard.plots.comparison import comparison
from tests import corpus

SMALL = ("train.updates=12", "train.validate_every=6", "train.save_every=6", "train.log_every=3")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two translators on the same data, and one on another test part."""
    folder = tmp_path_factory.mktemp("compare")
    recipe = corpus.write(folder / "one", test=24)
    other = corpus.write(folder / "two", test=25)
    regard.train(recipe, *SMALL, to=folder / "a")
    regard.train(recipe, *SMALL, "model.dim=8", "seed=4", to=folder / "b")
    regard.train(other, *SMALL, to=folder / "c")
    return [folder / name for name in "abc"]


@pytest.fixture(scope="module")
def found(runs: list[Path]) -> Comparison:
    return compared(runs[:2], samples=50)


def test_each_run_is_scored_as_alone_and_has_intervals(found: Comparison, runs: list[Path]):
    assert (found.quality, found.unit) == ("bleu", "words")
    for entry, folder in zip(found.runs, runs, strict=False):
        alone, _ = regard.load(folder).evaluate("test")
        assert entry.scores.keys() == alone.keys()
        for name, score in entry.scores.items():
            assert score.value == pytest.approx(alone[name].value)
            assert score.low is not None and score.high is not None and score.low <= score.high


def test_size_speed_and_cost_are_those_of_the_runs(found: Comparison, runs: list[Path]):
    for entry, folder in zip(found.runs, runs, strict=False):
        records = [json.loads(line) for line in (folder / "metrics.jsonl").open()]
        train = [record for record in records if record["kind"] == "train"]
        assert (entry.updates, entry.tokens) == (12, train[-1]["tokens"])
        assert entry.fastest == max(record["tokens_per_second"] for record in train)
        assert entry.median is not None and entry.fastest is not None
        assert 0 < entry.median <= entry.fastest
        assert entry.cpu_seconds >= train[-1]["cpu_seconds"]
        assert len(entry.curves["nll"][0]) == 2 and len(entry.curves["training nll"][0]) == 4
    assert found.runs[0].parameters > found.runs[1].parameters > 0


def test_lengths_cover_the_part(found: Comparison):
    groups = by_length([len(text.split()) for text in corpus.sentences(24, 2)])
    assert list(found.runs[0].lengths) == list(groups) == ["1–2", "3", "4", "5"]
    assert found.runs[0].lengths.keys() == found.runs[1].lengths.keys()


def test_the_table_has_a_column_for_each_run(found: Comparison):
    rows = {row[0]: row[1:] for row in found.rows()}
    assert all(len(cells) == 2 for cells in rows.values())
    assert rows["updates"] == ("12", "12")
    assert rows["parameters"][0] == f"{found.runs[0].parameters:,}"
    assert "[" in rows["bleu"][0] and "bleu, 1–2 words" in rows
    last = found.runs[0].curves["nll"][1][-1]
    assert [cells[0] for name, cells in rows.items() if name.startswith("nll at")][-1] == (
        f"{last:.4g}"
    )


def test_the_verb_prints_json_and_draws(runs: list[Path], tmp_path: Path, capsys: Any):
    picture = tmp_path / "compared.svg"
    names = [str(run) for run in runs[:2]]
    cli.main(["compare", *names, "--samples", "20", "--picture", str(picture), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [run["run"] for run in told["runs"]] == names
    assert set(told["runs"][0]["scores"]["bleu"]) >= {"value", "low", "high", "signature"}
    drawn = picture.read_text(encoding="utf-8")
    assert "targets" in drawn and "length of the input in words" in drawn
    cli.main(["compare", *names, "--samples", "20"])
    assert "targets/s, median" in capsys.readouterr().out


def test_runs_on_other_data_are_refused(runs: list[Path]):
    with pytest.raises(UserError, match=r"/a and .*/c have different test parts: source 25 is “”"):
        compared([runs[0], runs[2]])


def test_less_than_two_runs_or_one_run_twice_are_refused(runs: list[Path]):
    with pytest.raises(RecipeError, match="at least two runs"):
        compared(runs[:1])
    with pytest.raises(RecipeError, match="named twice"):
        compared([runs[0], runs[0]])


def language_model(folder: Path, unit: str, kind: str) -> dict[str, Any]:
    return {
        "task": "language_model",
        "unit": unit,
        "data": {"folder": str(folder), "train": ["text.txt"], "test": ["test.txt"]},
        "tokenizer": {"kind": kind},
        "stream": {"streams": 2, "length": 20},
        "model": {"dim": 8, "decoder": {"kind": "rnn", "layers": 1}},
        "train": {"updates": 3, "log_every": 1, "validate_every": 0, "threads": 1},
    }


def test_language_models_of_lines_and_of_running_text(tmp_path: Path):
    """The same text may be read as one or line by line, in characters or in words."""
    (tmp_path / "text.txt").write_text("ab ba\nabba b a\n" * 20)
    (tmp_path / "test.txt").write_text("ab\nba ab a\nabba\n" * 10)
    for unit, kind in (("stream", "character"), ("line", "word")):
        regard.train(language_model(tmp_path, unit, kind), to=tmp_path / unit)
    told = compared([tmp_path / "stream", tmp_path / "line"], samples=50)
    assert told.quality == "bits_per_character"
    running, lines = told.runs
    assert not running.lengths and len(lines.lengths) == 3
    for entry in told.runs:
        alone = regard.load(entry.run).evaluate("test")[0]
        for name, score in entry.scores.items():
            assert score.value == pytest.approx(alone[name].value, rel=1e-4)
    score = lines.scores["bits_per_character"]
    assert score.low is not None and score.high is not None
    assert score.low < score.value < score.high
    # Bits are of the same characters, whatever the tokens; perplexity is of each one's tokens.
    warned = {note.split("|")[0]: "signatures differ" in note for note in told.notes()}
    assert warned == {"bits_per_character": False, "bits_per_byte": False, "perplexity": True}


def test_a_model_with_few_positions_is_not_asked_beyond_them(tmp_path: Path):
    for name in ("text.txt", "test.txt"):
        (tmp_path / name).write_text("ab ba\nabba b a\n" * 40)
    table = language_model(tmp_path, "stream", "character")
    few = {"kind": "transformer", "layers": 1, "heads": 2, "feedforward": 8, "position": "learned"}
    for kind, decoder in {"rnn": table["model"]["decoder"], "few": few | {"limit": 20}}.items():
        model = table["model"] | {"decoder": decoder}
        regard.train(table | {"model": model}, to=tmp_path / kind)
    told = compared([tmp_path / "rnn", tmp_path / "few"], samples=5)
    assert [len(entry.reach) for entry in told.runs] == [100, 20]
    rows = {row[0]: row[1:] for row in told.rows()}
    assert rows["gradient left 30 back"][1] == "" and rows["threads"] == ("1", "1")


@pytest.mark.parametrize(
    ("texts", "unit"),
    [
        (["a dog", "two dogs run"], "words"),
        (["dog", "cat"], "characters"),
        (["d o g", "c a t s"], "symbols"),
    ],
)
def test_what_length_is_counted_in(texts: list[str], unit: str):
    assert unit_of(texts) == unit


def test_a_wrong_name_of_a_picture_is_refused_before_the_work(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("regard.compare.compare", lambda *args, **options: pytest.fail("too late"))
    with pytest.raises(SystemExit) as stopped:
        cli.main(["compare", str(runs[0]), str(runs[1]), "--picture", "it.pdf"])
    assert stopped.value.code == 1 and "must end in .png or .svg" in capsys.readouterr().err


def test_other_tasks_are_refused(runs: list[Path], tmp_path: Path):
    for name in ("text.txt", "test.txt"):
        (tmp_path / name).write_text("ab ba\n" * 20)
    regard.train(language_model(tmp_path, "line", "character"), to=tmp_path / "run")
    with pytest.raises(UserError, match=r"\(translate\) and .*\(language_model\) do different"):
        compared([runs[0], tmp_path / "run"])


def accuracy(value: float) -> Score:
    return Score(name="accuracy", value=value, signature="s", higher_is_better=True)


def test_accuracy_is_one_of_lines_or_of_words():
    said = ["A B", "A A", "B", ""]
    true = ["A B", "A B", "B", "A _"]
    lines = statistic.accuracy(accuracy(50.0), said, true)["accuracy"]
    assert lines.rows.tolist() == [[1, 1], [0, 1], [1, 1], [0, 1]]
    words = statistic.accuracy(accuracy(100 * 4 / 6), said, true)["accuracy"]
    assert words.rows.tolist() == [[2, 2], [1, 2], [1, 1], [0, 1]]
    assert statistic.accuracy(accuracy(99.0), said, true) == {}


def test_statistics_of_some_lines_are_those_of_these_lines():
    said = list("aaab")
    grade = statistic.grader(statistic.accuracy(accuracy(75.0), said, list("aaaa")))
    assert grade(None, None, 10)["accuracy"].value == 75
    alone = grade([3], ["accuracy"], 10)["accuracy"]
    assert (alone.value, alone.low, alone.high) == (0, 0, 0)


def test_groups_have_about_as_many_texts_and_each_length_once():
    lengths = [*range(1, 11), 10, 10]
    groups = by_length(lengths, 3)
    assert {name: [lengths[n] for n in ids] for name, ids in groups.items()} == {
        "1–5": [1, 2, 3, 4, 5],
        "6–9": [6, 7, 8, 9],
        "10": [10, 10, 10],
    }
    assert by_length([4, 4, 4]) == {"4": [0, 1, 2]}


def test_curves_are_over_tokens_and_leave_out_what_is_not_finite():
    records: list[dict[str, Any]] = [
        {"kind": "train", "update": 1, "tokens": 10, "nll": 3.0, "rate": 0.1},
        {"kind": "warning", "text": "!"},
        {"kind": "validation", "update": 2, "tokens": 20, "nll": 2.0, "bleu": math.nan},
        {"kind": "validation", "update": 1, "tokens": 10, "nll": 2.5, "bleu": 1.0},
    ]
    assert learning_curves(records) == {
        "nll": ([10, 20], [2.5, 2.0]),
        "bleu": ([10], [1.0]),
        "training nll": ([10], [3.0]),
    }


def entry(run: str, signature: str) -> Entry:
    score = Score(
        name="BLEU", value=30, signature=signature, higher_is_better=True, low=29, high=32
    )
    return Entry(
        run=run, scores={"bleu": score}, lengths={"1–8": score}, parameters=1, updates=1, tokens=1,
        cpu_seconds=1.0, threads=2, fastest=None, median=None, metric="nll",
        curves={"nll": ([1, 2], [3, 2])},
    )  # fmt: skip


def test_scores_of_other_definitions_are_marked():
    one, two = entry("one", "tok:13a"), entry("two", "tok:none")
    told = Comparison(part="test", quality="bleu", unit="words", runs=(one, two))
    assert all("signatures differ" in note for note in told.notes()) and len(told.notes()) == 2
    same = Comparison(
        part="test", quality="bleu", unit="words", runs=(one, entry("two", "tok:13a"))
    )
    assert same.notes() == ["bleu|tok:13a"]
    near, far = entry("one", "context:64|unit:line"), entry("two", "context:all|unit:line")
    told = Comparison(part="test", quality="bleu", unit="words", runs=(near, far))
    assert told.notes() == ["bleu|context:64|unit:line", "bleu|context:all|unit:line"]
    assert {row[0]: row[1:] for row in same.rows()}["targets/s, best"] == ("", "")


def test_the_picture_has_a_panel_for_each_figure_and_whiskers_for_intervals():
    one, two = entry("one", "x"), entry("two", "x")
    curves = {"nll": {"one": ([1, 2], [3.0, 2.0]), "two": ([1, 4], [3.0, 1.0])}}
    bars = {"bleu, by length": {e.run: e.lengths for e in (one, two)}}
    figure = comparison(["one", "two"], curves, bars)
    assert len(figure.axes) == 2
    panels: list[Any] = list(figure.axes)
    drawn, quality = panels
    assert [list(line.get_ydata()) for line in drawn.lines] == [[3, 2], [3, 1]]
    assert [patch.get_height() for patch in quality.patches] == [30, 30]
    whiskers = [c for c in quality.collections if hasattr(c, "get_segments")]
    ends = np.array([segment for each in whiskers for segment in each.get_segments()])[..., 1]
    assert ends.tolist() == [[29, 32], [29, 32]]
    with pytest.raises(UserError, match="no picture"):
        comparison(["one"], {}, {})


def test_how_far_the_gradient_reaches_is_told_as_a_part_of_where_it_begins():
    norms = [4.0 * 0.5**n for n in range(100)]
    one, two = replace(entry("one", "x"), reach=norms), entry("two", "x")
    told = Comparison(part="test", quality="bleu", unit="words", runs=(one, two))
    rows = {row[0]: row[1:] for row in told.rows()}
    assert rows["gradient left 10 back"] == ("9.8e-04", "")
    assert rows["gradient left 99 back"] == (f"{0.5**99:.1e}", "")
    [panel] = comparison(["one", "two"], {}, {}, {"one": norms}).axes
    [line] = panel.lines
    assert np.array(line.get_ydata()).tolist() == [0.5**n for n in range(100)]
    assert panel.get_yscale() == "log"
