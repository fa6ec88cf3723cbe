"""Keys of earlier versions: refused in a recipe with the present name, read in a run."""

import re
from pathlib import Path

import pytest

from regard.errors import RecipeError
from regard.recipe import config, upgrade
from regard.recipe.parts import kinds
from tests import corpus, recipe_keys


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return corpus.write(tmp_path / "corpus")


@pytest.mark.parametrize("key", ["model.head.consistency=0", "cutting.dropout=0.1"])
def test_a_key_that_is_gone_is_refused_with_the_reason(key: str, recipe: Path):
    with pytest.raises(RecipeError, match=r"no such key; it was removed: .*leave it out"):
        config.load(recipe, [key])


def test_an_old_name_is_answered_by_the_new_one(recipe: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(upgrade.RENAMED, "tokenizer.old", "tokenizer.kind")
    with pytest.raises(RecipeError, match=r"tokenizer\.old: .*it is called tokenizer\.kind now"):
        config.load(recipe, ["tokenizer.old=word"])


def test_a_runs_recipe_may_have_old_keys(recipe: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(upgrade.RENAMED, "tokenizer.old", "tokenizer.kind")
    before = config.load(recipe)
    text = config.dump(before).replace("[tokenizer]\nkind", "[tokenizer]\nold")
    assert text != config.dump(before)
    recipe.write_text(text + "\n[cutting]\ndropout = 0.0\ncopies = 8\n")
    assert config.load(recipe, of_run=True).task.tokenizer == before.task.tokenizer


def test_a_run_that_used_what_is_gone_is_refused(recipe: Path):
    recipe.write_text(recipe.read_text() + "\n[cutting]\ndropout = 0.1\ncopies = 8\n")
    with pytest.raises(RecipeError, match=r"cutting\.dropout: 0\.1, but this version has no such"):
        config.load(recipe, of_run=True)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("lr=1", "train.optimizer.learning_rate"),
        ("train.lr=1", "train.optimizer.learning_rate"),
        ("train.learning_rate=1", "train.optimizer.learning_rate"),
        ("train.max_epochs=3", "train.epochs"),
        ("train.warmup_steps=3", "train.schedule.warmup"),
        ("batch_size=3", "batch.tokens"),
        ("tokenizer.vocab_size=300", "tokenizer.vocabulary"),
        ("tokenizer.min_freq=3", "tokenizer.min_frequency"),
        ("model.hidden_size=3", "model.dim"),
        ("model.encoder.num_layers=3", "model.encoder.layers"),
        ("model.encoder.ffn_dim=3", "model.encoder.feedforward"),
        ("train.label_smoothing=0.1", "model.head.smoothing"),
        ("train.early_stopping=3", "train.patience"),
        ("search.beam_size=3", "search.beams"),
        ("search.num_beams=3", "search.beams"),
        ("max_length=3", "data.max_length"),
        ("train.weight_decay=0.1", "train.optimizer.weight_decay"),
        ("train.max_steps=3", "train.updates"),
    ],
)
def test_a_name_of_another_toolkit_is_answered_by_ours(key: str, meant: str, recipe: Path):
    with pytest.raises(RecipeError, match=f"no such key; it is called {re.escape(meant)} here"):
        config.load(recipe, [key])


def test_every_present_name_is_a_key_of_some_task():
    known = {key.name for kind in kinds("tasks") for key in recipe_keys.keys(kind)}
    sections = {key.rpartition(".")[0] for key in known}
    assert not {*upgrade.RENAMED.values(), *upgrade.ELSEWHERE} - known - sections
    assert not {*upgrade.RENAMED, *upgrade.REMOVED} & known


def test_what_did_nothing_is_left_out():
    table = {"cutting": {"dropout": 0.0, "copies": 8}, "seed": 1}
    assert upgrade.present(table) == {"seed": 1}


def test_the_glossary_has_every_old_key():
    text = (Path(__file__).resolve().parents[2] / "docs" / "glossary.md").read_text("utf-8")
    rows = [f"| `{old}` | `{new}` |" for old, new in upgrade.RENAMED.items()]
    rows += [f"| `{old}` | removed: {gone.why} |" for old, gone in upgrade.REMOVED.items()]
    assert [row for row in rows if row not in text] == []
