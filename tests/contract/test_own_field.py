"""A field and a task of somebody's own, one file each: every verb works on them."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from regard import cli, front
from regard.data.batching import Draw
from regard.doctor import examination
from regard.errors import UserError
from regard.recipe import config, parts
from regard.recipe.parts import module

OWN = Path(__file__).resolve().parents[1] / "own_parts"
RECIPE = """\
task = "turning"
[data]
train = ["train.tsv"]
validation = ["validation.tsv"]
test = ["test.tsv"]
[source]
noise = 0.01
[batch]
tokens = 192
[model]
dim = 16
[model.encoder]
kind = "rnn"
[train]
updates = 60
validate_every = 30
save_every = 10
threads = 1
[train.optimizer]
learning_rate = 0.01
[train.schedule]
kind = "constant"
warmup = 5
"""


def path(dice: random.Random) -> str:
    """Six points on a circle, one way round or the other, and which way that is."""
    start, way = dice.uniform(0, 2 * math.pi), dice.choice([-1, 1])
    angles = [start + way * n * dice.uniform(0.5, 0.6) for n in range(6)]
    points = " ".join(f"{math.cos(a):.3f},{math.sin(a):.3f}" for a in angles)
    return f"{points}\t{'left' if way > 0 else 'right'}\n"


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    dice = random.Random(1)
    for part, count in (("train", 400), ("validation", 60), ("test", 60)):
        (tmp_path / f"{part}.tsv").write_text("".join(path(dice) for _ in range(count)))
    (tmp_path / "turning.toml").write_text(RECIPE)
    monkeypatch.setattr(parts, "_folders", [])
    parts.add_folder(OWN)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "turning.toml"


class Verbs:
    """Commands, and what they say on stdout."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str | Path) -> str:
        self._capsys.readouterr()
        cli.main([*map(str, words), "--parts", str(OWN)])
        return self._capsys.readouterr().out


@pytest.fixture
def verb(capsys: pytest.CaptureFixture[str]) -> Verbs:
    return Verbs(capsys)


def weights(run: Path) -> bytes:
    return (run / "checkpoints" / "00000060" / "model.safetensors").read_bytes()


def test_every_verb(recipe: Path, verb: Verbs):
    found = json.loads(verb("doctor", recipe, "--json"))
    assert {"data.counts", "cost.memory"} <= {each["code"] for each in found["findings"]}
    verb("train", recipe, "--to", "runs/whole")
    scores = json.loads(verb("evaluate", "runs/whole", "--json"))
    assert scores["scores"]["accuracy"]["score"] > 90
    inputs = [line.split("\t")[0] for line in Path("test.tsv").read_text().splitlines()]
    Path("inputs.txt").write_text("\n".join(inputs[:3]) + "\n")
    labels = verb("predict", "runs/whole", "inputs.txt").splitlines()
    assert len(labels) == 3
    assert {*labels} <= {"left", "right"}
    Path("labels.txt").write_text("\n".join(labels) + "\n")
    said = verb("score", "runs/whole", "inputs.txt", "labels.txt", "--json")
    rows = [json.loads(line) for line in said.splitlines()]
    # What is predicted is the likelier of two.
    assert all(-math.log(2) < row["log_prob"] <= 0 for row in rows)
    verb("inspect", "runs/whole", inputs[0], "--output", "page.html")
    assert "(" + inputs[0].split()[0].replace(",", ", ") + ")" in Path("page.html").read_text()


def test_a_kill_and_a_resume_change_nothing(recipe: Path, verb: Verbs):
    words = ["train", str(recipe), "--to", "runs/killed", "--parts", str(OWN)]
    process = subprocess.Popen([sys.executable, "-m", "regard", *words], stderr=subprocess.DEVNULL)
    checkpoints = Path("runs/killed/checkpoints")
    while not (checkpoints.is_dir() and any(checkpoints.glob("0*"))):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    verb("train", "--resume", "runs/killed")
    verb("train", recipe, "--to", "runs/whole")
    assert weights(Path("runs/killed")) == weights(Path("runs/whole"))
    assert "accuracy" in verb("compare", "runs/whole", "runs/killed", "--samples", "100")


def test_noise_is_a_function_of_seed_position_and_example(recipe: Path):
    loaded = config.load(recipe)
    field = module("tasks", "turning").plan(loaded.task).fields["points"]
    rows = field.encode([np.zeros((6, 2)), np.ones((6, 2))])
    both = field.collate(rows, [7, 8], Draw(1, 2, 3))["source"]
    alone = field.collate(rows[1:], [8], Draw(1, 2, 3))["source"]
    assert np.array_equal(both[1], alone[0])  # whatever part of a batch it is in
    assert not np.array_equal(both, field.collate(rows, [7, 8], Draw(1, 2, 4))["source"])
    assert np.array_equal(field.collate(rows, [7, 8], Draw())["source"][1], np.ones((6, 2)))


def test_bad_points_are_named(recipe: Path, tmp_path: Path):
    lines = Path("train.tsv").read_text().splitlines()
    lines[4] = "1,2 3,4\tleft"
    Path("train.tsv").write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=r"train\.tsv:5: not 6 points of two numbers each"):
        front.train(str(recipe), to=tmp_path / "runs" / "x")
    assert not (tmp_path / "runs" / "x").exists()


def test_the_doctor_asks_the_field(recipe: Path):
    lines = Path("train.tsv").read_text().splitlines()
    lines[9] = lines[9].replace(lines[9].split(",")[0], "1e6", 1)
    Path("train.tsv").write_text("\n".join(lines) + "\n")
    found = examination.quick_check(config.load(recipe))
    assert [each.place for each in found if each.code == "points.far"] == [
        f"{recipe.parent / 'train.tsv'}:10"
    ]


def test_a_wrong_input_is_named(recipe: Path, verb: Verbs, capsys: pytest.CaptureFixture[str]):
    verb("train", recipe, "train.updates=1", "--to", "runs/x")
    Path("inputs.txt").write_text("1,2\n")
    with pytest.raises(SystemExit):
        cli.main(["predict", "runs/x", "inputs.txt", "--parts", str(OWN)])
    assert "input 1: not 6 points of two numbers each" in capsys.readouterr().err


def test_a_task_of_the_package_takes_the_field(recipe: Path):
    """Labels of anything: `classify` reads points instead of text."""
    text = RECIPE.replace('"turning"', '"classify"').replace(
        "[source]", '[source]\nkind = "points"'
    )
    text = text.replace("[model]", '[model]\ninput = { kind = "series" }')
    for part in ("train", "validation", "test"):
        rows = (line.split("\t") for line in Path(f"{part}.tsv").read_text().splitlines())
        Path(f"{part}.tsv").write_text("".join(f"{label}\t{points}\n" for points, label in rows))
    recipe.write_text(text)
    made = front.train(str(recipe), to="runs/classify")
    assert made.evaluate("test")[0]["accuracy"].value > 90
