"""`regard new` on files of odd shape: what it sees, and recipes that the doctor passes and that
train."""

import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import cli
from regard.recipe import config
from tests.odd_files import FILES, SIZE

pytestmark = pytest.mark.usefixtures("task_defaults")
SMALL = {
    "classify": ["model.input.bits=8"],
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


@pytest.mark.parametrize("name", FILES)
def test_the_task_is_guessed_where_it_is_plain(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task, make = FILES[name]
    assert new(capsys, *make(tmp_path), "--quick")["task"] == task


def test_the_doctor_passes_a_recipe_and_its_cost_is_given(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = new(capsys, "forecast", *FILES["series"][1](tmp_path))
    assert found["findings"] == []
    assert found["cost"].keys() == {"cost.time", "cost.memory"}
    assert config.load(tmp_path / "wetter.toml").task.data.decimal == ","
