"""What is refused in a run is named, in one line, with what to do about it; all hashes agree."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard import front
from regard.errors import RecipeError, UserError
from regard.runs import run as opening, training
from regard.train import checkpoint, manifest
from tests import small_runs
from tests.fault import forger


def refused(folder: Path, **options: Any) -> str:
    """Why a run whose hashes were made to agree is not loaded."""
    forger.agree(folder)
    with pytest.raises(UserError) as error:
        front.load(folder, **options)
    assert str(error.value).isprintable()
    return str(error.value)


def not_finite(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    first = min(weights)
    save_file(weights | {first: weights[first] * torch.nan}, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("kind", "name"), [("transformer", "target.tokenizer.json"), ("tagger", "labels.json"),
                       ("forecaster", "series.json")],
)  # fmt: skip
def test_what_a_run_was_made_with(kind: str, name: str, tmp_path: Path):
    folder = small_runs.make(kind, tmp_path / "run").folder
    (folder / name).write_text("{}", encoding="utf-8")
    why = refused(folder)
    assert why.startswith(f"{folder / name}") and why.endswith(f". {manifest.MADE}")


def test_one_vocabulary_that_became_two(tmp_path: Path):
    folder = small_runs.make("transformer", tmp_path / "run").folder
    path = folder / "source.tokenizer.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    words = table["model"]["vocab"]
    words["another"] = words.pop("dog")
    path.write_text(json.dumps(table), encoding="utf-8")
    both = f"{path} and {folder / 'target.tokenizer.json'}"
    why = refused(folder)
    assert why == f"{both} are not the same, but tokenizer.joint = true. {manifest.MADE}"


@pytest.mark.parametrize("damage", [not_finite, lambda model: (model / "progress.json").unlink()])
def test_a_final_model_is_written_again(damage: Callable[[Path], None], tmp_path: Path):
    folder = small_runs.make("tagger", tmp_path / "run", (2,)).folder
    damage(folder / "model")
    why = refused(folder)
    assert why.startswith(f"{folder / 'model'}: ")
    again = f"Take --checkpoint last, or have it written again: regard train --resume {folder}"
    assert why.endswith(f". {again}")
    front.load(folder, checkpoint="last")


def test_a_checkpoint_makes_room_for_another(tmp_path: Path):
    run = small_runs.make("tagger", tmp_path / "run", (2, 4))
    not_finite(run.checkpoints / "00000004")
    why = refused(run.folder, checkpoint="last")
    assert why.startswith(f"{run.checkpoints / '00000004'}: ") and "not finite" in why
    assert why.endswith(". Put it back from a copy, or remove it and take another one")


def test_no_checkpoint_at_all(tmp_path: Path):
    run = small_runs.make("tagger", tmp_path / "run", (2, 4))
    for update in (2, 4):
        (run.checkpoints / f"{update:08d}" / "progress.json").write_text("[]", encoding="utf-8")
    why = refused(run.folder, checkpoint="last")
    assert why.startswith(f"{run.folder} has no whole checkpoint; {run.checkpoints}")
    assert why.endswith(f". To train it: regard train --resume {run.folder}")
    assert why.count("progress.json") == 2


def test_training_says_which_checkpoint_to_remove(tmp_path: Path):
    run = small_runs.make("tagger", tmp_path / "run", (2,))
    not_finite(run.checkpoints / "00000002")
    save_file({}, run.checkpoints / "00000002" / "optimizer.safetensors")
    forger.agree(run.folder)
    with pytest.raises(UserError) as error:
        front.train(resume=run.folder)
    assert str(error.value).startswith(f"{run.checkpoints / '00000002'}: ")
    assert str(error.value).endswith("remove that folder and resume: the others are used")


def test_a_name_does_not_steer_a_terminal():
    with pytest.raises(UserError, match=r"^here: a\\nb\\x1b\[2J has numbers") as error:
        checkpoint.check_finite({"a\nb\x1b[2J": torch.tensor([torch.nan])}, "here")
    assert str(error.value).isprintable()


def test_a_model_that_cannot_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of a run's recipe, too, the file and the line are named."""

    def never(*_: Any) -> None:
        raise RecipeError("model.tie: it cannot be")

    run = small_runs.make("transformer", tmp_path / "run")
    lines = (run.folder / "recipe.toml").read_text(encoding="utf-8").splitlines()
    line = lines.index('tie = "all"') + 1
    place = f"{run.folder / 'recipe.toml'}:{line}"
    for module in (opening, training):
        monkeypatch.setattr(module, "build", never)
    for use in (run.model, lambda: front.train(resume=run.folder)):
        with pytest.raises(RecipeError, match=f"^{re.escape(place)}: model.tie: it cannot be$"):
            use()
