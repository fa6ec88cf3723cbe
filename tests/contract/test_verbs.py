"""Every verb on every task: a file in `tasks/` is all that it takes, and no verb knows its name."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
import tomli_w

from regard import cli
from regard.data import scenes, tones
from regard.recipe.parts import kinds, module
from regard.tasks import Looks, Task
from tests import small_runs

TASKS = kinds("tasks")
WORDS = [
    "a",
    "dog",
    "runs",
    "in",
    "the",
    "snow",
    "and",
    "two",
    "cats",
    "play",
    "with",
    "one",
    "red",
    "ball",
]
BLOCKS = {"layers": 1, "heads": 2, "feedforward": 16}
RNN = {"kind": "rnn", "layers": 1}
Verb = Callable[..., str]


def sentence(n: int) -> str:
    return " ".join(WORDS[(n * k) % len(WORDS)] for k in range(1, 4 + n % 3))


def tagged(word: str) -> str:
    return f"{word} {'V' if word in ('runs', 'play') else 'N'}"


def files(folder: Path) -> None:
    """The same few sentences in the form of each task, in three parts that differ."""
    parts = {"train": range(40), "validation": range(40, 50), "test": range(50, 60)}
    for part, numbers in parts.items():
        lines = [sentence(n) for n in numbers]
        texts = {
            "source": lines,
            "target": [line.upper() for line in lines],
            "tsv": [f"{'odd' if len(line) % 2 else 'even'}\t{line}" for line in lines],
            "tags": ["\n".join(map(tagged, line.split())) + "\n" for line in lines],
        }
        for ending, rows in texts.items():
            (folder / f"{part}.{ending}").write_text("\n".join(rows) + "\n")
    tones.write(folder / "sounds", {"train": 12, "validation": 4, "test": 4})
    scenes.write(folder / "scenes", {"train": 12, "validation": 4, "test": 4})
    steps = (f"{math.sin(t / 3):.4f},{t % 7}" for t in range(160))
    (folder / "series.csv").write_text("\n".join(["x,y", *steps]) + "\n")


def data(*endings: str) -> dict[str, Any]:
    parts = ("train", "validation", "test")
    return {part: [f"{part}.{ending}" for ending in endings] for part in parts}


SCENES = {part: [f"scenes/{part}.tsv"] for part in ("train", "validation", "test")}
RECIPES: dict[str, dict[str, Any]] = {
    "translate": {
        "data": data("source", "target"),
        "tokenizer": {"kind": "word"},
        "evaluation": {"lines": 2},
        "model": {"dim": 8, "encoder": BLOCKS, "decoder": BLOCKS},
    },
    "language_model": {
        "unit": "line",
        "data": data("target"),
        "tokenizer": {"kind": "word"},
        "model": {"dim": 8, "decoder": RNN},
    },
    "masked_language_model": {
        "data": data("target"),
        "windows": {"length": 8},
        "tokenizer": {"kind": "word"},
        "model": {"dim": 8, "encoder": BLOCKS},
    },
    "bidirectional_language_model": {
        "data": data("target"),
        "windows": {"length": 8},
        "tokenizer": {"kind": "word"},
        "model": {"dim": 8, "tie": "none", "input": {"size": 8}},
    },
    "classify": {
        "data": data("tsv"),
        "tokenizer": {"kind": "word"},
        "model": {"dim": 8, "encoder": RNN},
    },
    "transcribe": {
        "data": {part: [f"sounds/{part}.tsv"] for part in ("train", "validation", "test")},
        "source": {"features": {"rate": 8000, "mels": 11}},
        "tokenizer": {"kind": "character"},
        "evaluation": {"lines": 2, "metrics": ["wer", "cer"]},
        "model": {"dim": 8, "input": {"channels": 3}, "encoder": RNN},
    },
    "caption": {
        "data": SCENES,
        "source": {"size": [16, 16]},
        "tokenizer": {"kind": "word"},
        "evaluation": {
            "lines": 2,
            "metrics": ["bleu", "cider", "exact"],
            "multiple_references": " | ",
        },
        "model": {
            "dim": 8,
            "tie": "output",
            "input": {"stem": 4, "widths": [8]},
            "decoder": RNN,
        },
    },
    "contrast": {
        "data": SCENES,
        "source": {"size": [16, 16]},
        "tokenizer": {"kind": "word"},
        "batch": {"sentences": 6},
        "evaluation": {
            "multiple_references": " | ",
            "labelled": ["scenes/colours.tsv"],
            "prompts": ["scenes/prompts-colours.tsv"],
        },
        "model": {
            "dim": 8,
            "towers": {
                "source": {"input": {"stem": 4, "widths": [8]}},
                "target": {"encoder": BLOCKS},
            },
        },
    },
    "tag": {
        "data": data("tags"),
        "tokenizer": {"kind": "word"},
        "model": {"dim": 8, "encoder": RNN},
    },
    "forecast": {
        "data": {"file": "series.csv"},
        "window": {"look_back": 8, "horizon": 2},
        "model": {"dim": 8, "encoder": RNN},
    },
}
NOT_SHIPPED = ("bidirectional_language_model", "transcribe", "caption", "contrast")
"""Of the first, what reads by it is."""
FILES = {
    "transcribe": ("audio", "sounds/test/0000.wav"),
    "caption": ("image", "scenes/test/0000.png"),
    "contrast": ("image", "scenes/test/0000.png"),
}
"""What a column of inputs is called, and one of them, where inputs are files."""
TRAIN = {"updates": 4, "validate_every": 2, "save_every": 2, "threads": 1, "allow": ["data.leaked"]}


def toml(table: dict[str, Any], name: str) -> str:
    return tomli_w.dumps({"task": name, **table, "train": TRAIN})


@pytest.fixture
def verb(capsys: pytest.CaptureFixture[str]) -> Verb:
    """A command, and what it says on stdout."""

    def call(*words: str | Path) -> str:
        capsys.readouterr()
        cli.main([*map(str, words)])
        return capsys.readouterr().out

    return call


def test_every_task_has_a_recipe_here():
    assert RECIPES.keys() == {*TASKS}


@pytest.mark.parametrize("task", TASKS)
def test_every_verb(task: str, tmp_path: Path, verb: Verb, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    files(tmp_path)
    Path("x.toml").write_text(toml(RECIPES[task], task))
    named = RECIPES[task]["data"].values()
    own = [name for each in named for name in ([each] if isinstance(each, str) else each)]
    assert json.loads(verb("new", task, *own, "--quick", "--json"))["task"] == task
    found = json.loads(verb("doctor", "x.toml", "--json"))["findings"]
    assert not [each for each in found if each["severity"] == "error"]
    assert {"data.counts", "cost.time"} <= {each["code"] for each in found}
    verb("train", "x.toml", "--to", "one")
    verb("train", "--resume", "one")
    shutil.copytree("one", "two")
    scores = json.loads(verb("evaluate", "one", "--json"))["scores"]
    assert scores
    assert all(math.isfinite(each["score"]) and each["signature"] for each in scores.values())
    both = json.loads(verb("evaluate", "one", "--baseline", "two", "--report", "r.html", "--json"))
    assert all(each["p"] == 1.0 for each in both.get("differences", []))  # a copy
    tested = {each["name"] for each in both["differences"]}
    assert tested | {*both.get("comparison", {}).get("scores", {})} == scores.keys()
    for name, each in scores.items():
        assert ("low" in each) == (name != "ece"), name
        assert name == "ece" or each["low"] <= each["high"]
    assert both["details"] and all(each["rows"] or each["note"] for each in both["details"])
    page = Path("r.html").read_text()
    assert "<script" not in page and next(iter(scores)) in page
    compared = verb("compare", "one", "two", "--samples", "20")
    assert next(iter(scores)) in compared and "no winner" in compared
    given = Path("series.csv").read_text() if task == "forecast" else "a dog runs"
    column, given = FILES.get(task, ("text", given))
    Path("input.txt").write_text(given)
    said = verb("predict", "one", "input.txt")
    assert len(said.splitlines()) == (3 if task == "forecast" else 1)
    if task != "forecast":
        assert verb("predict", "one", given) == said
        Path("table.csv").write_text(f"id,{column}\n7,{given}\n")
        row = verb("predict", "one", "table.csv").splitlines()[1]
        assert row.startswith(f"7,{given},") and said.strip() in row
    scored = verb("score", "one", "--part", "test", "--json")
    rows = [json.loads(line) for line in scored.splitlines()]
    assert rows
    assert all(math.isfinite(row["log_prob"]) for row in rows)
    verb("inspect", "one", given if task != "forecast" else "input.txt", "--output", "page.html")
    assert "<script" in Path("page.html").read_text()
    assert "[train.optimizer]" in verb("keys", task)
    listed = {row["run"]: row for row in json.loads(verb("runs", ".", "--json"))}
    assert {(row["task"], row["state"]) for row in listed.values()} == {(task, "finished")}
    assert {"one", "two"} <= listed.keys()
    # While a graph is traced, sizes are tensors: no shape in a signature can be checked.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    if task in NOT_SHIPPED:
        with pytest.raises(SystemExit):
            verb("export", "one", "shipped")
        assert not Path("shipped").exists()
        return
    shipped = json.loads(verb("export", "one", "shipped", "--json"))
    assert shipped["parity"]["difference"] < 1e-4
    assert Path("shipped", "README.md").is_file()


@pytest.mark.parametrize("task", TASKS)
def test_what_a_task_declares(task: str, tmp_path: Path):
    """All that the rooms above ask for."""
    family = next(name for name, (kind, _) in small_runs.FAMILIES.items() if kind == task)
    run = small_runs.make(family, tmp_path / "run")
    assert isinstance(run.task, Task)
    assert isinstance(run.task, Looks)
    assert list(run.task.fields) == list(module("tasks", task).plan(run.recipe.task).fields)
    for field in run.task.fields.values():
        assert all(number > 0 for number in field.size.values())
    assert any(field.columns for field in run.task.fields.values())
