"""What the benchmarks of labels, tags, bags and word vectors compute beside training."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from bench import bag, labels, tags, word2vec
from regard.data import catalogue
from regard.errors import UserError

ROWS = [f"{'good' if n % 3 else 'bad'}\ttext {n}\n" for n in range(90)]


def test_draws_have_as_many_of_each_label_and_are_functions_of_their_seed():
    found = labels._balanced(ROWS, 20, 1)
    assert [sum(row.startswith(name) for row in found) for name in ("good", "bad")] == [10, 10]
    assert found == labels._balanced(ROWS, 20, 1) != labels._balanced(ROWS, 20, 2)
    assert len({*found}) == 20 and {*found} <= {*ROWS}


def test_intervals_are_of_the_draws_or_of_what_was_tested():
    several = labels.summary([80.0, 82.0, 84.0], 5000)
    assert several["accuracy"] == 82 and several["half"] == pytest.approx(4.303 * 2 / 3**0.5)
    one = labels.summary([90.0], 5000)
    assert one["half"] == pytest.approx(1.96 * (90 * 10 / 5000) ** 0.5)


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """A record of its own, a run to begin from, and trainings that only count."""
    monkeypatch.setattr(labels, "RECORD", tmp_path / "measured.json")
    weights = tmp_path / "base" / "imdb-mlm" / "model" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"one")
    return argparse.Namespace(recorded=True, base=str(tmp_path / "base"), threads=1)


def test_a_record_is_believed_while_recipe_and_beginning_are_the_same(
    options: argparse.Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    trained: list[list[str]] = []

    def accuracy(place: Path, recipe: Path, changes: list[str]) -> tuple[float, float]:
        trained.append(changes)
        return 84.0, 7.4

    monkeypatch.setattr(labels, "accuracy", accuracy)
    files = {"1000-2": tmp_path / "a.tsv", "test": tmp_path / "b.tsv"}

    def score(way: str = "bert") -> float:
        return labels._score(way, 1000, 2, tmp_path / "runs", files, options)

    assert score() == score() == 84.0 and len(trained) == 1
    assert f'model.weights="{(tmp_path / "base" / "imdb-mlm").resolve()}"' in trained[0]
    kept = json.loads(labels.RECORD.read_text())["bert-1000-2"]
    assert kept["accuracy"] == 84.0 and kept["cpu_seconds"] == 7 and len(kept["begun"]) == 64
    weights = tmp_path / "base" / "imdb-mlm" / "model" / "model.safetensors"
    weights.write_bytes(b"another")
    score()
    assert len(trained) == 2, "what it begins with was made anew"
    weights.unlink()
    score()
    assert len(trained) == 2, "what is not there has not changed"
    monkeypatch.setitem(labels.TUNED, "bert", {1000: (9, 0.1)})
    score()
    assert len(trained) == 3, "other settings"


def test_the_main_figures_are_scored_on_the_whole_test(
    options: argparse.Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []

    class Loaded:
        def __init__(self, place: Path, data: Any) -> None:
            asked.append(place.name)
            assert data == [(tmp_path / "test.tsv.gz").resolve()]

        def evaluate(self) -> Any:
            return {"accuracy": argparse.Namespace(value=90.0)}, []

    monkeypatch.setattr("bench.labels.regard.load", Loaded)
    rows = {
        "scratch": {1000: [80.0], 0: [89.0]},
        "bert": {100: [70.0], 1000: [84.0, 85.0, 86.0], 0: [91.0]},
    }
    for _ in range(2):
        table = labels._on_all(rows, tmp_path, tmp_path / "test.tsv.gz", options)
    assert asked == ["scratch-all-1", "bert-1000-1", "bert-1000-2", "bert-1000-3", "bert-all-1"]
    assert {way: [*row] for way, row in table.items()} == {"scratch": [0], "bert": [1000, 0]}
    labels._show(table)


def test_a_run_to_begin_from_must_be_there(tmp_path: Path):
    with pytest.raises(UserError, match="leave elmo out: --only"):
        labels.begun(tmp_path / "imdb-elmo", "elmo")


def test_ways_to_tag_differ_in_what_they_begin_with(tmp_path: Path):
    (tmp_path / "ud-vectors").mkdir()
    options = argparse.Namespace(threads=2, base=str(tmp_path))
    plain = tags._changes("scratch", 3, tmp_path, options)
    assert f'data.train=["{tmp_path / "train-3.conllu"}"]' in plain and "seed=3" in plain
    more = tags._changes("word2vec", 3, tmp_path, options)
    assert more[: len(plain)] == plain and "model.input.frozen_vectors=true" in more
    with pytest.raises(UserError, match="imdb-elmo is not there"):
        tags._changes("elmo", 3, tmp_path, options)


def test_a_bag_and_its_peer_read_the_same_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import gzip

    with gzip.open(tmp_path / "train.tsv.gz", "wt") as file:
        file.write("1\tA good film!\n0\tBad, bad.\n")
    monkeypatch.setattr(bag, "PLACE", tmp_path / "made")
    path, seconds = bag._file(tmp_path, "train")
    lines = {*path.read_text().splitlines()}
    assert lines == {"__label__1 a good film !", "__label__0 bad , bad ."} and seconds >= 0


def test_means_of_rounds_are_shown(capsys: pytest.CaptureFixture[str]):
    rounds = [{"accuracy": a, "cpu_seconds": 18.0, "cpu_seconds_whole": 20.0} for a in (90.0, 91.0)]
    bag._show({"regard": rounds})
    assert capsys.readouterr().out.splitlines()[-1].split() == ["regard", "90.50", "18.0", "20.0"]


def test_scores_of_vectors_have_a_spread_and_a_p(capsys: pytest.CaptureFixture[str]):
    found = word2vec._show({"WordSim-353": {"regard": [60.0, 62.0], "gensim": [61.0, 61.5]}})
    assert 0 < found["WordSim-353"]["p"] <= 1
    assert "61.00 ± 1.41" in capsys.readouterr().out
    assert word2vec._spread([60.0]) == "60.00"


def test_every_draw_is_a_file_and_the_whole_test_stands_beside(tmp_path: Path, monkeypatch: Any):
    import gzip

    (tmp_path / "imdb").mkdir()
    for part in ("train", "test"):
        with gzip.open(tmp_path / "imdb" / f"{part}.tsv.gz", "wt") as file:
            file.write("".join(ROWS))
    monkeypatch.setattr(labels, "TESTED", 10)
    monkeypatch.setattr(labels, "DRAWS", {20: 2, 0: 1})
    monkeypatch.setattr(catalogue, "find", lambda name: tmp_path / name)
    found = labels._files(tmp_path / "drawn", None)
    assert {*found} == {"test", "whole", "0-1", "20-1", "20-2"}
    assert len(found["20-2"].read_text().splitlines()) == 20
