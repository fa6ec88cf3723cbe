"""Every verb on runs that were made of somebody else's model."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
pytest.importorskip("transformers")

from regard import cli
from regard.runs import Run
from tests.parity.huggingface_models import FAMILIES, FILLERS, WRITERS, drawn, saved

Say = Callable[..., str]
LINES = ["the quick brown fox", "jumps over the lazy dog", "again and again!", "a fox, a dog"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each family, called like it, and a little data beside them."""
    base = tmp_path_factory.mktemp("imported")
    torch.manual_seed(3)
    for name, make in FAMILIES.items():
        model, tokenizer = make()
        saved(drawn(model, 0.1), tokenizer, base / "theirs" / name)
        cli.main(["import", str(base / "theirs" / name), str(base / name)])
    (base / "text.txt").write_text("\n\n".join(LINES * 5) + "\n")
    rows = [f"{'good' if 'fox' in line else 'bad'}\t{line}" for line in LINES * 5]
    for side in ("source", "target"):
        (base / f"text.{side}").write_text("\n".join(LINES * 5) + "\n")
    (base / "labels.tsv").write_text("\n".join(rows) + "\n")
    return base


@pytest.fixture
def say(folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    monkeypatch.chdir(folders)

    def call(*words: str) -> str:
        capsys.readouterr()
        cli.main([*words])
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("run", WRITERS)
def test_a_language_model_predicts_and_scores(say: Say, run: str) -> None:
    words = ("the quick", "--length", "9", "--format", "jsonl")
    (line,) = map(json.loads, say("predict", run, *words).splitlines())
    assert 1 <= len(line["tokens"]) <= 9
    (line,) = map(json.loads, say("score", run, "the quick brown fox", "--json").splitlines())
    assert line["log_prob"] < 0
    words = ("the quick", "--next", "3", "--format", "jsonl")
    (line,) = map(json.loads, say("predict", run, *words).splitlines())
    chances = [each["probability"] for each in line["next"]]
    assert len(chances) == 3 and chances == sorted(chances, reverse=True)


@pytest.mark.parametrize("run", FILLERS)
def test_a_masked_language_model_fills_in_and_scores(say: Say, run: str) -> None:
    words = ("the [MASK] fox [SEP] a lazy [MASK]", "--format", "jsonl")
    (line,) = map(json.loads, say("predict", run, *words).splitlines())
    assert len(line["masks"]) == 2 and line["status"] == "ok"
    (line,) = map(json.loads, say("score", run, "the quick brown fox", "--json").splitlines())
    assert line["log_prob"] < 0


def test_a_translator_predicts_and_scores(say: Say, folders: Path) -> None:
    words = ("the quick fox", "--length", "9", "--format", "jsonl")
    (line,) = map(json.loads, say("predict", "marian", *words).splitlines())
    assert len(line["tokens"]) <= 9
    rows = say("score", "marian", "text.source", "text.target", "--json").splitlines()
    assert len(rows) == 20 and all(json.loads(row)["log_prob"] < 0 for row in rows)


@pytest.mark.parametrize("run", FAMILIES)
def test_a_run_is_looked_into_and_listed(say: Say, run: str, folders: Path) -> None:
    text = "the [MASK] fox" if run in FILLERS else "the quick fox"
    say("inspect", run, text, "--length", "3", "--output", f"{run}.html")
    assert (folders / f"{run}.html").stat().st_size > 10_000
    assert run in say("runs", ".")


def own_data(run: str) -> tuple[str, ...]:
    files = ("text.source", "text.target") if run == "marian" else ("text.txt",)
    return ("--data", *files)


@pytest.mark.parametrize("run", FAMILIES)
def test_it_is_scored_on_files_that_are_named(say: Say, run: str) -> None:
    few = ("--samples", "20", "--json")
    found = json.loads(say("evaluate", run, *own_data(run), *few))
    assert {"nll", "perplexity", "bleu"} & found["scores"].keys()


@pytest.mark.parametrize(("one", "other"), [("gpt2", "llama"), ("bert", "distilbert")])
def test_two_are_compared_on_files_that_are_named(say: Say, one: str, other: str) -> None:
    found = json.loads(say("compare", one, other, *own_data(one), "--samples", "20", "--json"))
    assert [each["run"] for each in found["runs"]] == [one, other]
    assert "winner" in json.dumps(found)


SHORT = ("train.epochs=0", "train.updates=2", "train.threads=1", "train.validate_every=0")


def recipe(folders: Path, name: str, task: str, data: str, base: str) -> str:
    path = folders / f"{name}.toml"
    path.write_text(f'task = "{task}"\n[data]\ntrain = ["{data}"]\n[model]\nweights = "{base}"\n')
    return str(path)


@pytest.mark.parametrize(
    ("name", "task", "data", "base"),
    [
        ("bert-labels", "classify", "labels.tsv", "bert"),
        ("roberta-labels", "classify", "labels.tsv", "roberta"),
        ("distilbert-labels", "classify", "labels.tsv", "distilbert"),
        ("gpt2-labels", "classify", "labels.tsv", "gpt2"),
        ("gpt_neox-text", "language_model", "text.txt", "gpt_neox"),
        ("qwen2-text", "language_model", "text.txt", "qwen2"),
        ("marian-labels", "classify", "labels.tsv", "marian"),
        ("llama-text", "language_model", "text.txt", "llama"),
        ("bert-text", "masked_language_model", "text.txt", "bert"),
    ],
)
def test_it_is_fine_tuned(
    say: Say, folders: Path, name: str, task: str, data: str, base: str
) -> None:
    """The tokenizer and all sizes come along; what it begins with are the imported weights."""
    say("train", recipe(folders, name, task, data, base), "--to", name, *SHORT)
    made, other = Run(folders / name), Run(folders / base)
    assert made.recipe.task.tokenizer.kind == "huggingface"
    start = made.folder / "start" / "model.safetensors"
    assert start.is_file()
    key = "target" if task == "language_model" else "source"
    files = [*made.folder.glob("*.tokenizer.json")]
    assert key in files[0].name or task == "classify"
    assert files[0].read_bytes() == next(other.folder.glob("*.tokenizer.json")).read_bytes()
    word = "the [MASK] fox" if task == "masked_language_model" else "the quick fox"
    assert say("predict", name, word).strip()


def test_a_head_that_reads_all_layers_is_looked_into(say: Say, folders: Path) -> None:
    path = recipe(folders, "all", "classify", "labels.tsv", "bert")
    say("train", path, "--to", "all", "model.head.all_layers=true", *SHORT)
    say("inspect", "all", "the quick fox", "--output", "all.html")
    page = (folders / "all.html").read_text()
    assert len(page) > 10_000 and "attribution" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("evaluate", "gpt2"), "regard evaluate and compare take --data FILE"),
        (("evaluate", "gpt2", "--part", "train", "--data", "text.txt"), "leave --part out"),
        (("evaluate", "gpt2", "--data", "nowhere.txt"), "nowhere.txt: there is no such file"),
        (("train", "--resume", "gpt2"), "gpt2"),
        (("export", "gpt2", "out", "--to", "onnx"), "its tokenizer was imported"),
        (("import", "theirs/gpt2", "gpt2"), "gpt2 exists and is not empty"),
        (("import", "theirs", "new"), "config.json: there is no such file"),
    ],
)
def test_what_needs_more_is_refused_in_one_line(
    say: Say, capsys: pytest.CaptureFixture[str], words: Any, message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        say(*words)
    assert stopped.value.code in (1, 2)
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said
