"""Whatever part or task there is, or will be, can be looked into."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import RecipeError
from regard.inspect import report
from regard.inspect.capture import capture
from regard.inspect.pictures import DRAWN
from regard.inspect.reading import Reading
from regard.inspect.views import read
from regard.model import Model
from regard.recipe.parts import kinds, module
from regard.runs import Run
from regard.tasks import Looks
from tests import small_runs

ROOMS = {"inputs": "input", "encoders": "encoder", "decoders": "decoder", "heads": "head"}
PARTS = [(room, kind) for room in ROOMS for kind in kinds(room)]
SMALL: dict[str, dict[str, Any]] = {
    "transformer": {"layers": 1, "heads": 2, "feedforward": 16},
    "decoder": {"layers": 1, "heads": 2, "feedforward": 16},
    "rnn": {"layers": 1},
    "ngrams": {"bits": 4},
    "cnn": {},
    "patches": {"patch": 8},
}
"""Of parts that are large unless told otherwise."""
ABOUT = {
    "text", "output", "source", "read", "said", "of", "what", "given", "source_words", "said_words",
    "unknown", "ablation",
}  # fmt: skip


def fitting(room: str, kind: str, folder: Path) -> Run:
    """A run of the first task that takes the part; those that have it by default come first."""
    parts_of = {task: module("tasks", task).PARTS for task in small_runs.TASKS}
    order = sorted(small_runs.TASKS, key=lambda task: parts_of[task].get(ROOMS[room]) != kind)
    spelt: dict[str, Any] = {"characters": True}
    for task, keys in [*((task, {}) for task in order), ("classify", spelt)]:
        parts = parts_of[task]
        if ROOMS[room] not in parts:
            continue
        chosen = parts | {ROOMS[room]: kind}
        plain = {name: each for name, each in chosen.items() if isinstance(each, str)}
        model: dict[str, Any] = {"tie": "none"} if kind == "both_ways" else {}
        model |= {"tie": "output"} if task == "caption" else {}
        model |= {name: {"kind": each} | SMALL.get(each, {}) for name, each in plain.items()}
        if kind == "pretrained":  # it reads by another run
            read_by = small_runs.make("both_ways", folder / task / f"read-{len(keys)}")
            model["input"]["weights"] = str(read_by.folder)
        try:
            return small_runs.create(task, model, folder / task / str(len(keys)), **keys)
        except RecipeError:
            continue
    pytest.fail(f"{room}/{kind}: no task of tests/small_runs.py can be made with it")


def look(run: Run) -> tuple[Model, Reading]:
    model, task = run.model(), run.task
    search = report.search(run, report.Options())
    return model, read(run, task, model, example(run), search, length=2)


OF_FILES = ("transcribe", "caption", "contrast")


def example(run: Run) -> str:
    if run.recipe.kind in OF_FILES:
        return small_runs.example(run.recipe.kind)
    return small_runs.SERIES if run.recipe.kind == "forecast" else "a dog"


def test_what_the_model_says_is_looked_at_where_a_tag_is_unknown(tmp_path: Path):
    run = small_runs.make("tagger", tmp_path / "run")
    model, task = run.model(), run.task
    search = report.search(run, report.Options())
    own = read(run, task, model, "a dog", search, length=2)
    other = next(name for name in own.name([0, 1, 2]) if name != own.said[0])
    half = read(run, task, model, "a dog", search, target=f"{other} _", length=2)
    assert half.said == [other, own.said[1]]
    assert half.symbols[1] == own.symbols[1]


@pytest.mark.parametrize(("room", "kind"), PARTS)
def test_every_part_can_be_looked_into(room: str, kind: str, tmp_path: Path):
    run = fitting(room, kind, tmp_path)
    model, reading = look(run)
    model = reading.model or model
    with torch.no_grad():
        plain = reading.measured(model)
        with capture(model) as seen:
            captured = reading.measured(model)
    torch.testing.assert_close(captured, plain, atol=1e-4, rtol=1e-4)
    for part in ("encoder", "decoder"):
        if getattr(model, part) is not None:
            assert "input" in seen.hidden(part), f"{part}: probe what enters as `input`"
            assert len(seen.hidden(part)) > 1, f"{part}: probe what each layer gives as `output`"
    for name, weights in seen.attention().items():
        assert weights.ndim == 4, f"{name}: (B, H, T, S)"
        torch.testing.assert_close(
            weights.sum(-1), torch.ones(weights.shape[:3]), atol=1e-5, rtol=0
        )
    made = report.build([run], [example(run)], report.Options(length=2))
    shown = made.runs[0]["frames"][0]["readings"][0]
    assert shown["said"] and {"states", "attribution"} < shown.keys()
    assert max(shown["attribution"]["errors"]) <= 0.01
    assert shown.keys() - ABOUT <= DRAWN.keys(), "every view can be a picture"
    data = report.page(made).split('id="data">')[1].split("</script>")[0]
    assert json.loads(data)["runs"][0]["task"] == run.recipe.kind


def test_every_task_has_a_reader():
    tasks = {name: module("tasks", name).Task for name in kinds("tasks")}
    assert {name for name, task in tasks.items() if issubclass(task, Looks)} == {*tasks}
    assert set(kinds("tasks")) == set(small_runs.TASKS), "the tests above should know all tasks"
