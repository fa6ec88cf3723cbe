"""A run that moves from one kind of machine to another, or asks for what is not there."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import plots
from regard.errors import RecipeError
from regard.layers import native
from regard.runs import Run
from tests.fault import tiny


class Stop(Exception):
    pass


def stop_at(update: int) -> Any:
    def callback(record: dict[str, Any]) -> None:
        if record["kind"] == "train" and record["update"] >= update:
            raise Stop

    return callback


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return tiny.write("transformer", tmp_path)


def begun(recipe: Path, *changes: str) -> Run:
    folder = recipe.parent / "run"
    with pytest.raises(Stop):
        regard.train(recipe, *changes, to=folder, callback=stop_at(5))
    return Run(folder)


def starts(run: Run) -> list[dict[str, Any]]:
    return [record for record in run.records() if record["kind"] == "start"]


def test_what_auto_comes_to_is_recorded_and_not_written_into_the_recipe(recipe, monkeypatch):
    monkeypatch.setattr(native, "bfloat16", lambda: False)
    run = begun(recipe, "train.precision=auto", "train.device=auto", "train.threads=0")
    written = tomllib.loads((run.folder / "recipe.toml").read_text())["train"]
    assert (written["precision"], written["device"], written["threads"]) == ("auto", "auto", 0)
    [start] = starts(run)
    assert start["update"] == 0 and start["precision"] == "float32" and start["threads"] > 0
    assert start["processor"] and start["memory"] > 0
    assert "text" not in start
    regard.train(resume=run.folder)
    assert starts(run) == [start], "the same machine decides the same, and it is on record"


@pytest.mark.parametrize("asked", ["auto", "bfloat16"])
def test_a_run_in_bfloat16_continues_where_there_is_none(recipe, monkeypatch, asked):
    monkeypatch.setattr(native, "bfloat16", lambda: True)
    run = begun(recipe, f"train.precision={asked}")
    monkeypatch.setattr(native, "bfloat16", lambda: False)
    said: list[dict[str, Any]] = []
    regard.train(resume=run.folder, callback=said.append)
    first, second = starts(run)
    assert (first["precision"], second["precision"]) == ("bfloat16", "float32")
    assert "precision is float32 on this machine, and was bfloat16 before" in second["text"]
    assert said[0] == second
    assert run.find("last").progress()["update"] == 12


def test_a_run_of_before_that_names_a_gpu_continues_on_the_processor(recipe, monkeypatch):
    """Runs made earlier have what `auto` came to in their recipe."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    run = Run.create(
        recipe.parent / "run", regard.recipe.config.load(recipe, ["train.device=cuda"])
    )
    monkeypatch.undo()
    monkeypatch.setattr(plots, "curves", lambda records, path: None)
    regard.train(resume=run.folder)
    [start] = starts(run)
    assert start["device"] == "cpu"
    assert "device is cpu on this machine, and was cuda before" in start["text"]


@pytest.mark.parametrize("change", ["train.precision=bfloat16", "train.device=cuda:3"])
def test_nothing_is_made_for_a_new_run_that_asks_for_what_is_not_there(recipe, change, monkeypatch):
    monkeypatch.setattr(native, "bfloat16", lambda: False)
    with pytest.raises(RecipeError, match=rf"command line, {change}: {change.split('=')[0]}: "):
        regard.train(recipe, change, to=recipe.parent / "run")
    assert not (recipe.parent / "run").exists()
    [found] = [f for f in regard.doctor(recipe, change) if f.severity == "error"]
    assert found.code == "recipe.refused" and change.split("=")[0] in str(found)
