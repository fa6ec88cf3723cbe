"""A bag that begins with the weights of naive Bayes: counts, ratios, what is refused, resuming."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import front
from regard.errors import RecipeError
from regard.inputs import ngrams
from regard.recipe.config import from_table
from regard.runs import Run, naive_bayes
from regard.train.checkpoint import Checkpoint
from regard.types import Batch, Position
from tests.field_sizes import labelled

SIZES = labelled(7, 2)
COUNTS = torch.tensor([[3, 0, 1, 0], [1, 1, 2, 0]])
"""How often four words stand in the texts of two labels, which have four words each."""


def test_log_count_ratios():
    """With as many words under both labels: ½ log((n₀ + α) / (n₁ + α)) and its opposite."""
    found = naive_bayes.ratios(COUNTS, 1.0)
    first = [math.log(4 / 2) / 2, math.log(1 / 2) / 2, math.log(2 / 3) / 2, 0.0]
    torch.testing.assert_close(found[:, 0], torch.tensor(first))
    torch.testing.assert_close(found[:, 1], -found[:, 0])


@pytest.mark.parametrize("alpha", [0.5, 10.0])
def test_a_label_with_more_text_is_not_favoured(alpha: float):
    """Nine tenths of the text have label 0, and so have nine tenths of each word's occurrences."""
    found = naive_bayes.ratios(torch.tensor([[90, 9, 0], [10, 1, 0]]), alpha)
    torch.testing.assert_close(found, torch.zeros(3, 2))


class Texts:
    """Two batches for an epoch."""

    def at(self, position: Position, rows: slice = slice(None)) -> Batch:
        first, second = torch.tensor([[4, 5, 4], [5, 6, 0]]), torch.tensor([[6, 6]])
        source = (first, second)[position.index]
        labels = (torch.tensor([0, 1]), torch.tensor([1]))[position.index]
        tensors = {"source": source, "source_mask": source > 0, "labels": labels}
        return Batch(tensors=tensors, ids=tuple(range(len(labels))), targets=len(labels))

    def after(self, position: Position) -> Position:
        return Position(0, 1) if position.index == 0 else Position(1, 0)


def reader(n: int, dim: int = 3, *, scale: bool = False) -> ngrams.Input:
    config = ngrams.Config(n=n, bits=12, naive_bayes=1.0)
    return ngrams.Input(config, SIZES.of("source"), dim, shared=None, scale=scale)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_words_and_ngrams_are_counted_by_label(n: int):
    """Texts 4 5 4 of label 0, 5 6 and 6 6 of label 1; padding, and what is too short, is not."""
    reads = reader(n)
    counts = naive_bayes.count(reads, Texts(), 2)
    assert counts.found[:, :7].tolist() == [[0, 0, 0, 0, 2, 1, 0], [0, 0, 0, 0, 0, 1, 3]]
    assert counts.texts.tolist() == [1, 2]
    assert counts.length == pytest.approx(7 / 3)
    pairs_and_triples = {1: [0, 0], 2: [2, 2], 3: [3, 2]}[n]
    assert counts.found[:, 7:].sum(1).tolist() == pairs_and_triples
    if n > 1:
        bucket = int(ngrams.ngrams(torch.tensor([[4, 5]]), 2, 12)[0, 1, 0])
        assert counts.found[:, 7 + bucket].tolist() == [1, 0]
        assert counts.found[:, 7 + ngrams.NONE].tolist() == [0, 0]


@pytest.mark.parametrize("scale", [False, True])
def test_what_is_looked_up_is_the_ratio(scale: bool):
    """x_t has the ratios of the word and of the pair that ends with it, whatever it is scaled by;
    entries beyond those of the labels stay as they were."""
    reads = reader(2, scale=scale)
    before = reads.embedding.weight[:, 2].clone()
    values = naive_bayes.ratios(naive_bayes.count(reads, Texts(), 2).found, 1.0)
    reads.begin(values)
    torch.testing.assert_close(reads.embedding.weight[:, 2], before)
    states = reads(Texts().at(Position(0, 0))).states
    bucket = int(ngrams.ngrams(torch.tensor([[4, 5]]), 2, 12)[0, 1, 0])
    torch.testing.assert_close(states[0, 1, :2], values[5] + values[7 + bucket])
    assert not reads.table[ngrams.NONE].any()


# Runs


def recipe(folder: Path, **sections: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "task": "classify",
        "data": {"folder": str(folder), "train": ["train.tsv"]},
        "held_out": {"validation": 0.2},
        "tokenizer": {"kind": "word"},
        "batch": {"tokens": 60},
        "model": {
            "dim": 3,
            "input": {"kind": "ngrams", "n": 2, "bits": 8, "naive_bayes": 1.0},
            "encoder": {"kind": "bag"},
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
    }
    for name, value in sections.items():
        section = made.setdefault(name, {})
        for key, change in value.items():
            kept = section.get(key)
            section[key] = kept | change if isinstance(kept, dict) else change
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("naive_bayes")
    rows = [
        f"{'yes' if n % 2 else 'no'}\tfilm {n} was {'good' if n % 2 else 'bad'} {n}\n"
        for n in range(60)
    ]
    (made / "train.tsv").write_text("".join(rows))
    return made


def test_it_is_right_before_anything_is_learnt(folder: Path, tmp_path: Path):
    model = front.train(recipe(folder), to=tmp_path / "run")
    assert model.predict(["film 1 was bad", "it was good"]) == ["no", "yes"]


def test_resume_is_exact(folder: Path, tmp_path: Path):
    made = recipe(
        folder, train={"optimizer": {"learning_rate": 0.02, "rows": "seen", "beta1": 0.0}}
    )
    front.train(made, to=tmp_path / "straight")

    def stop(record: dict[str, Any]) -> None:
        if record["kind"] == "train" and record["update"] == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        front.train(made, to=tmp_path / "stopped", callback=stop)
    front.train(resume=tmp_path / "stopped")
    one, other = (Checkpoint(tmp_path / run / "model").weights() for run in ("straight", "stopped"))
    assert all(torch.equal(one[key], other[key]) for key in one | other)


def test_a_run_that_begins_with_its_weights_counts_nothing(folder: Path, tmp_path: Path):
    front.train(recipe(folder), to=tmp_path / "first")
    made = recipe(folder, model={"weights": str(tmp_path / "first")})
    model = front.train(made, to=tmp_path / "second")
    assert naive_bayes.smoothing(model.run.recipe.model.input) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": {"encoder": {"kind": "cnn"}}}, r"it needs model.encoder.kind = 'bag'"),
        ({"model": {"head": {"pooling": "max"}}}, r"it needs model.head.pooling = 'mean'"),
        ({"model": {"head": {"pooler": True}}}, r"no model.head.pooler"),
        ({"model": {"input": {"vectors": "v.txt"}}}, r"model.input.vectors gives other vectors"),
        ({"model": {"dim": 1}}, r"model.dim: 1 is less than the 2 labels"),
        ({"model": {"input": {"naive_bayes": -1.0}}}, r"model.input.naive_bayes"),
        ({"model": {"input": {"kind": "tokens"}}}, r"no such key"),
        ({"labels": {"kind": "several"}}, r"naive_bayes: it is for labels.kind = 'one'"),
    ],
)
def test_where_it_means_nothing_it_is_refused(
    folder: Path, tmp_path: Path, change: dict[str, Any], said: str
):
    with pytest.raises(RecipeError, match=said):
        Run.create(tmp_path / "run", from_table(recipe(folder, **change)))
    assert not (tmp_path / "run").exists()


def test_tags_are_not_counted(tmp_path: Path):
    (tmp_path / "train.txt").write_text("a\tX\nb\tY\n\na\tX\n\n" * 9)
    made = {
        "task": "tag",
        "data": {"folder": str(tmp_path), "train": ["train.txt"]},
        "held_out": {"validation": 0.2},
        "model": {"dim": 4, "input": {"kind": "ngrams", "naive_bayes": 1.0}},
    }
    with pytest.raises(RecipeError, match=r"only labels of whole texts are counted"):
        Run.create(tmp_path / "run", from_table(made))
