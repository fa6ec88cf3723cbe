"""Models that read or predict several fields: towers and heads by the fields' names."""

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import RecipeError
from regard.model import build
from regard.recipe import config, parts
from regard.runs import Run, train
from regard.train.checkpoint import weights_of
from regard.types import Position
from regard.verbs import keys

OWN = Path(__file__).resolve().parents[1] / "own_parts"
SMALL = {"kind": "rnn", "layers": 1, "dropout": 0.25}
MODELS: dict[str, dict[str, Any]] = {
    "contrast": {"towers": {"left": {"encoder": SMALL}}},
    "two_heads": {"encoder": SMALL, "heads": {"parity": {"pooling": "last"}}},
}


class Stop(Exception):
    """What ends a training in the middle."""


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_folders", [])
    parts.add_folder(OWN)


def table(task: str, **model: Any) -> dict[str, Any]:
    training: dict[str, Any] = {"updates": 12, "save_every": 5, "log_every": 1, "validate_every": 0}
    training |= {"threads": 2, "precision": "float32", "optimizer": {"learning_rate": 0.05}}
    training |= {"schedule": {"kind": "constant", "warmup": 1}}
    return {"task": task, "model": {"dim": 12} | MODELS[task] | model, "train": training}


def weights(run: Run) -> dict[str, torch.Tensor]:
    return run.find("final").weights()


@pytest.mark.parametrize("task", MODELS)
def test_a_model_of_named_parts_trains_and_comes_back(task: str, tmp_path: Path):
    run = Run.create(tmp_path / "run", config.from_table(table(task)))
    assert train(run).finished
    term = {"contrast": "nll", "two_heads": "first.loss"}[task]
    losses = [record[term] for record in run.records() if record["kind"] == "train"]
    assert len(losses) == 12 and sum(losses[-4:]) < sum(losses[:4])
    loaded, saved = weights_of(Run(run.folder).model()), weights(run)
    assert loaded.keys() == saved.keys()
    assert all(torch.equal(loaded[name], saved[name]) for name in saved)


@pytest.mark.parametrize("task", MODELS)
def test_a_model_of_named_parts_is_resumed_exactly(task: str, tmp_path: Path):
    straight, stopped = (
        Run.create(tmp_path / name, config.from_table(table(task))) for name in ("a", "b")
    )
    train(straight)

    def stop(record: dict[str, Any]) -> None:
        if record["kind"] == "train" and record["update"] == 8:
            raise Stop

    with pytest.raises(Stop):
        train(stopped, [stop])
    train(Run(stopped.folder))
    mine, its = weights(straight), weights(stopped)
    assert mine.keys() == its.keys()
    assert all(torch.equal(mine[name], its[name]) for name in mine)


def test_parameters_are_called_by_the_keys_of_the_recipe(tmp_path: Path):
    run = Run.create(tmp_path / "run", config.from_table(table("contrast")))
    names = [name for name, _ in build(run.recipe.model, run.task.sizes).named_parameters()]
    assert {name.rpartition(".embedding")[0] for name in names if "embedding" in name} == {
        "towers.left.input",
        "towers.right.input",
    }
    assert any(name.startswith("towers.left.encoder.layers.0.") for name in names)


def test_a_recipe_with_named_parts_is_the_same_when_it_is_read_again(tmp_path: Path):
    for task in MODELS:
        recipe = config.from_table(table(task))
        (tmp_path / "again.toml").write_text(config.dump(recipe), encoding="utf-8")
        assert config.load(tmp_path / "again.toml") == recipe


def test_a_tower_reads_its_own_field(tmp_path: Path):
    run = Run.create(tmp_path / "run", config.from_table(table("contrast")))
    model = build(run.recipe.model, run.task.sizes).eval()
    batch = run.task.batches(1).at(Position())
    given = model.towers["right"].input.embedding(batch["right"])
    memory = model.encode(batch, "right")
    assert memory is not None and torch.equal(memory.states, given)  # its encoder is none
    assert model.encode(batch) is None
    last = model.encode_layers(batch, "left")[-1].states
    assert torch.equal(last, model.encode(batch, "left").states)  # type: ignore[union-attr]


def test_a_head_predicts_as_many_outputs_as_its_field_has(tmp_path: Path):
    run = Run.create(tmp_path / "run", config.from_table(table("two_heads")))
    model = build(run.recipe.model, run.task.sizes)
    assert {name: len(head.project.weight) for name, head in model.heads.items()} == {
        "first": 11,
        "parity": 2,
    }
    assert model.head is None


def test_a_part_that_the_task_can_do_without(tmp_path: Path):
    heads = {"first": {"kind": "none"}, "parity": {}}
    recipe = config.from_table(table("two_heads", heads=heads))
    assert recipe.model.heads["first"] is None
    (tmp_path / "again.toml").write_text(config.dump(recipe), encoding="utf-8")
    assert config.load(tmp_path / "again.toml") == recipe
    run = Run.create(tmp_path / "run", recipe)
    assert list(build(run.recipe.model, run.task.sizes).heads) == ["parity"]


@pytest.mark.parametrize(
    ("task", "model", "message"),
    [
        (
            "contrast",
            {"towers": {"third": {}}},
            "model.towers.third: no such key; known here: left",
        ),
        (
            "contrast",
            {"towers": {"letf": {}}},
            "model.towers.letf: no such key; did you mean 'left'",
        ),
        ("contrast", {"decoder": {}}, "model.decoder: no such key; known here: dim"),
        ("contrast", {"heads": {"x": {}}}, "model.heads: no such key; known here: dim"),
        (
            "contrast",
            {"towers": {"left": {"decoder": {}}}},
            "model.towers.left.decoder: no such key; did you mean 'encoder'",
        ),
        (
            "contrast",
            {"towers": {"left": {"encoder": {"kind": "rnn", "heads": 2}}}},
            "model.towers.left.encoder.heads: no such key",
        ),
        (
            "contrast",
            {"towers": {"left": {"input": {"kind": "none"}}}},
            "model.towers.left.input.kind: the task contrast needs one",
        ),
        (
            "two_heads",
            {"input": {"kind": "none"}},
            "model.input.kind: the task two_heads needs one",
        ),
        ("two_heads", {"heads": {"A": {}}}, "model.heads.A: not the name of a field"),
        ("two_heads", {"heads": {"items": {}}}, "model.heads.items: this cannot be the name"),
        (
            "two_heads",
            {"heads": {"first": {"kind": "none", "dropout": 0.5}}},
            "model.heads.first.dropout: a part of kind 'none' has no keys",
        ),
        ("two_heads", {"heads": {"x": 3}}, "model.heads.x: 3 (int) given, wanted: "),
        ("two_heads", {"towers": {}}, "model.towers: no such key"),
    ],
)
def test_what_a_task_does_not_know_is_refused(task: str, model: dict[str, Any], message: str):
    with pytest.raises(RecipeError) as refused:
        config.from_table(table(task, **model))
    assert message in str(refused.value)


def test_a_field_that_the_task_has_not_is_refused_where_the_run_is_made(tmp_path: Path):
    recipe = config.from_table(table("two_heads", heads={"colour": {}}))
    message = (
        r"model\.heads\.colour\.kind: the task has no field 'colour', only text, first, parity"
    )
    with pytest.raises(RecipeError, match=message):
        Run.create(tmp_path / "run", recipe)
    assert not (tmp_path / "run").exists()


def test_the_keys_of_named_parts_are_listed():
    headers = {section.header for section in keys.sections("contrast")}
    assert {"model.towers.left.input", "model.towers.right.encoder"} <= headers
    headers = {section.header for section in keys.sections("two_heads")}
    assert {"model.heads.first", "model.heads.NAME"} <= headers
