"""A head that begins as a linear probe: what is fitted, what is refused, resuming."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from regard import front
from regard.errors import RecipeError
from regard.recipe.config import from_table
from regard.runs import Run, linear_probe
from regard.train.checkpoint import Checkpoint


def vectors(count: int = 97) -> tuple[torch.Tensor, torch.Tensor]:
    """Five entries, the third of which nearly says which of three labels it is; the last is always
    the same."""
    random = torch.Generator().manual_seed(3)
    truth = torch.randint(3, (count,), generator=random)
    found = torch.randn(count, 5, generator=random, dtype=torch.float64)
    found[:, 2] = 100 + 0.01 * (truth - 1 + 0.3 * found[:, 2])
    found[:, 4] = 7.0
    return found, truth


def test_it_is_the_minimum():
    """The gradient vanishes there: 1/N Σ (p − y) xᵀ + 2 λ A = 0, for x with deviation 1."""
    x, truth = vectors()
    weight, bias = linear_probe.fit(x, truth, 3, 0.1)
    deviation = torch.where(x.std(0, correction=0) > 0, x.std(0, correction=0), 1.0)
    known, scaled = (x - x.mean(0)) / deviation, weight * deviation
    error = (x @ weight.t() + bias).softmax(-1) - F.one_hot(truth, 3)
    gradient = error.t() @ known / len(x) + 2 * 0.1 * scaled
    assert gradient.abs().max() < 1e-4
    assert error.mean(0).abs().max() < 1e-4  # of the bias, which has no penalty


def test_scale_and_place_of_an_entry_do_not_matter():
    x, truth = vectors()
    weight, bias = linear_probe.fit(x, truth, 3, 0.01)
    other, other_bias = linear_probe.fit(x * 50 - 3, truth, 3, 0.01)
    torch.testing.assert_close(x @ weight.t() + bias, (x * 50 - 3) @ other.t() + other_bias)
    assert ((x @ weight.t() + bias).argmax(1) == truth).double().mean() > 0.9


def recipe(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "task": "classify",
        "data": {"folder": str(folder), "train": ["train.tsv"]},
        "held_out": {"validation": 0.2},
        "tokenizer": {"kind": "word"},
        "batch": {"tokens": 60},
        "model": {
            "dim": 13,
            "input": {"kind": "tokens"},
            "encoder": {"kind": "bag"},
            "head": {"pooling": "mean", "linear_probe": 0.01},
        },
        "train": {
            "updates": 6,
            "log_every": 1,
            "validate_every": 3,
            "save_every": 2,
            "threads": 1,
            "precision": "float32",
            "optimizer": {"learning_rate": 1e-9},
        },
    } | changes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("linear_probe")
    rows = [
        f"{'yes' if n % 2 else 'no'}\tfilm {n} was {'good' if n % 2 else 'bad'}\n"
        for n in range(60)
    ]
    (made / "train.tsv").write_text("".join(rows))
    return made


def test_it_is_right_before_anything_is_learnt(folder: Path, tmp_path: Path):
    model = front.train(recipe(folder), to=tmp_path / "run")
    assert model.predict(["film 1 was bad", "film 2 was good"]) == ["no", "yes"]


def test_resume_is_exact(folder: Path, tmp_path: Path):
    made = recipe(folder)
    made["train"] |= {"optimizer": {"learning_rate": 0.02}, "save_every": 6}
    front.train(made, to=tmp_path / "straight")

    def stop(record: dict[str, Any]) -> None:
        if record["kind"] == "train" and record["update"] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        front.train(made, to=tmp_path / "stopped", callback=stop)
    front.train(resume=tmp_path / "stopped")
    one, other = (Checkpoint(tmp_path / run / "model").weights() for run in ("straight", "stopped"))
    assert all(torch.equal(one[key], other[key]) for key in one | other)


def test_a_run_that_takes_over_a_head_fits_nothing(folder: Path, tmp_path: Path):
    front.train(recipe(folder), to=tmp_path / "first")
    made = recipe(folder, model={"weights": str(tmp_path / "first")})
    model = front.train(made, to=tmp_path / "second")
    assert linear_probe.penalty(model.run.recipe.model) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"labels": {"kind": "several"}}, r"linear_probe: it is for labels.kind = 'one'"),
        (
            {
                "model": {
                    "dim": 3,
                    "input": {"kind": "ngrams", "bits": 8, "naive_bayes": 1.0},
                    "encoder": {"kind": "bag"},
                    "head": {"pooling": "mean", "linear_probe": 0.01},
                }
            },
            r"model.input.naive_bayes gives the head other first weights",
        ),
    ],
)
def test_where_it_means_nothing_it_is_refused(
    folder: Path, tmp_path: Path, change: dict[str, Any], said: str
):
    with pytest.raises(RecipeError, match=said):
        Run.create(tmp_path / "run", from_table(recipe(folder, **change)))
    assert not (tmp_path / "run").exists()


def test_a_second_head_cannot_begin_so(tmp_path: Path):
    (tmp_path / "train.txt").write_text("one two three . four five .\n" * 30)
    made = {
        "task": "masked_language_model",
        "data": {"folder": str(tmp_path), "train": ["train.txt"]},
        "held_out": {"validation": 0.2},
        "pairs": {"next_sentence": True},
        "model": {"dim": 8, "heads": {"next": {"kind": "labels", "linear_probe": 0.1}}},
    }
    with pytest.raises(RecipeError, match=r"heads.next.linear_probe: only model.head"):
        Run.create(tmp_path / "run", from_table(made))
