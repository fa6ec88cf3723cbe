"""Runs that earlier versions stopped half way: they load, score and go on.

`transformer` and `lstm` are of the first format of manifests; all have the keys of their time.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.errors import RecipeError
from regard.recipe import config
from regard.recipe.parts import kinds
from regard.runs import Run
from regard.train import checkpoint, manifest
from tests.fault import tiny

GOLDEN = Path(__file__).parent / "golden"


FIRST = tiny.KINDS
"""Those of the first format."""


@pytest.fixture(params=sorted(path.name for path in GOLDEN.iterdir()))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the folder: run/, its data/, and expected.json."""
    return Path(shutil.copytree(GOLDEN / request.param, tmp_path / request.param))


def expected(old: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((old / "expected.json").read_text())
    return table


def test_every_task_has_one_and_each_has_keys_of_its_time(old: Path):
    later = {"masked_language_model", "bidirectional_language_model", "transcribe"}
    later |= {"caption", "contrast"}  # of no earlier version
    known = {*kinds("tasks")} - later
    assert {Run(path / "run").recipe.kind for path in GOLDEN.iterdir()} == known
    text = (old / "run" / "recipe.toml").read_text(encoding="utf-8")
    assert "save = 3" in text and "save_every" not in text
    with pytest.raises(RecipeError, match="no such key; it is called"):
        config.load(old / "run" / "recipe.toml")
    assert Run(old / "run").recipe.train.save_every == 3


def test_it_is_of_its_format_and_whole(old: Path):
    found = checkpoint.checkpoints(old / "run" / "checkpoints")
    assert [c.update for c in found] == [3, 4, 6]
    for each in found:
        written = json.loads((each.folder / manifest.NAME).read_text())["format"]
        assert written == (1 if old.name in FIRST else 2)
        assert each.manifest()["format"] == manifest.FORMAT
        assert each.fault(resumable=True) is None
    assert bool(found[-1].carry()) == (old.name == "lstm")


def test_it_scores_as_it_did(old: Path):
    model = regard.load(old / "run")
    scores = model.score(*model.task.references("test"))
    # Another processor may round otherwise.
    assert [s["log_prob"] for s in scores] == pytest.approx(expected(old)["log_probs"], rel=1e-4)


def test_it_goes_on_to_the_end_that_it_would_have_had(old: Path):
    warnings: list[Any] = []
    regard.train(resume=old / "run", callback=warnings.append)
    assert not [each for each in warnings if each["kind"] == "warning"]
    keys = ("kind", "update", "tokens", "nll")
    figures = [r for r in Run(old / "run").records() if r["kind"] in ("train", "validation")]
    records = [{key: record[key] for key in keys} for record in figures]
    assert len(records) == len(expected(old)["losses"])
    for record, before in zip(records, expected(old)["losses"], strict=True):
        assert record == before | {"nll": pytest.approx(before["nll"], rel=1e-3)}
    last = Run(old / "run").find("last")
    assert json.loads((last.folder / manifest.NAME).read_text())["format"] == manifest.FORMAT


@pytest.mark.parametrize("old", FIRST, indirect=True)
def test_a_format_to_come_is_refused_by_name(old: Path):
    path = checkpoint.checkpoints(old / "run" / "checkpoints")[-1].folder / manifest.NAME
    path.write_text(path.read_text().replace('"format": 1', '"format": 99'))
    found, [fault] = checkpoint.newest(old / "run" / "checkpoints")
    assert found is not None and found.update == 4
    assert "format 99, but this version of regard reads 1 to 2" in fault
