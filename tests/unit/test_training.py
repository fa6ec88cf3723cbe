"""The trainer: the update, the schedule, when it stops, what it keeps, whom it tells."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import regard
from regard.decoding.translation import collate
from regard.errors import UserError
from regard.model import build
from regard.recipe import config as recipes
from regard.runs import Run
from regard.tasks import translate
from regard.train import loop, optimizer, schedule
from regard.train.job import Config, Job, Objective
from regard.train.progress import Progress
from regard.types import Batch, Carry, Position, Term, Terms
from tests import corpus
from tests.field_sizes import texts

# The learning rate


def rate(kind: Any, update: int, *, updates: int = 1000, **options: Any) -> float:
    config = schedule.Config(kind=kind, **{"warmup": 100} | options)
    return schedule.rate(config, peak=0.5, update=update, updates=updates, dim=512)


def test_the_papers_schedule():
    """dim^(−1/2) · min(u^(−1/2), u · w^(−3/2)), section 5.3."""
    warmup = 4000
    for update in (1, 2, 3999, 4000, 4001, 16_000, 100_000):
        by_hand = 512**-0.5 * min(update**-0.5, update * warmup**-1.5)
        found = rate("paper", update, warmup=warmup, updates=100_000)
        assert found == pytest.approx(by_hand, rel=1e-12)
    assert rate("paper", 4000, warmup=warmup) == pytest.approx(6.9877e-4, rel=1e-4)
    assert rate("paper", 16_000, warmup=warmup, scale=2.0) == pytest.approx(6.9877e-4, rel=1e-4)


@pytest.mark.parametrize("kind", ["inverse_sqrt", "cosine", "linear", "constant"])
def test_the_warm_up_is_a_line_to_the_highest_rate(kind: str):
    assert rate(kind, 1) == pytest.approx(0.005)
    assert rate(kind, 50) == pytest.approx(0.25)
    assert rate(kind, 100) == pytest.approx(0.5)
    assert rate(kind, 1, warmup=0) == pytest.approx(0.5), "no warm-up at all"


@pytest.mark.parametrize(
    ("kind", "middle", "last"),
    [("cosine", 0.275, 0.05), ("linear", 0.275, 0.05), ("constant", 0.5, 0.5)],
)
def test_the_way_down(kind: str, middle: float, last: float):
    """Updates 100 to 1000, from 0.5 to a tenth of it: half way is 550."""
    assert rate(kind, 550, end=0.1) == pytest.approx(middle)
    assert rate(kind, 1000, end=0.1) == pytest.approx(last)
    assert rate(kind, 1200, end=0.1) == pytest.approx(last), "beyond the end nothing changes"


def test_cosine_is_steepest_in_the_middle():
    assert rate("cosine", 325) == pytest.approx(0.25 * (1 + math.cos(math.pi / 4)))
    assert rate("cosine", 1000) == 0


def test_the_inverse_square_root():
    assert rate("inverse_sqrt", 400) == pytest.approx(0.25)
    assert rate("inverse_sqrt", 10_000) == pytest.approx(0.05)


# A loop whose every figure can be worked out by hand: the loss of x is w · x


class Product(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))

    def forward(self, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        total = (batch["x"] * self.weight).sum()
        return {"nll": Term(total, len(batch))}, None


class Listed:
    """Batches from a list, over and over."""

    def __init__(self, *rows: list[list[float]]) -> None:
        self.rows = rows

    def at(self, position: Position) -> Batch:
        x = torch.tensor(self.rows[position.index])
        ids = tuple(10 * position.index + n for n in range(len(x)))
        return Batch(tensors={"x": x}, ids=ids, targets=len(x))

    def after(self, position: Position) -> Position:
        index = position.index + 1
        return Position(position.epoch + index // len(self.rows), index % len(self.rows))


def settings(**changes: Any) -> Config:
    """Plain descent by the rate 1, unless `changes` say otherwise."""
    return Config(
        optimizer=optimizer.Config(learning_rate=1.0),
        schedule=schedule.Config(kind="constant", warmup=0),
        **{"updates": 1, "clip": 0.0, "validate_every": 0, "log_every": 1, "save_every": 1000}
        | changes,
    )


class Told:
    """A job and what it told."""

    def __init__(
        self,
        batches: Any,
        config: Config,
        validate: Callable[[], dict[str, float]] = dict,
        **changes: Any,
    ) -> None:
        self.records: list[dict[str, Any]] = []
        self.saved: list[dict[str, Any]] = []
        self.model: nn.Module = changes.pop("model", None) or Product()
        self.job = Job(
            objective=self.model,
            batches=batches,
            optimizer=torch.optim.SGD(self.model.parameters(), lr=1.0),
            config=config,
            seed=1,
            dim=2,
            device=torch.device("cpu"),
            validate=validate,
            record=self.records.append,
            save=lambda progress, carry: self.saved.append(progress.as_dict()),
            **{"lower_is_better": True} | changes,
        )

    def fit(self, progress: Progress | None = None) -> Progress:
        return loop.fit(self.job, progress or Progress())

    @property
    def weight(self) -> list[float]:
        weight = self.model.weight
        assert isinstance(weight, Tensor)
        return weight.tolist()


def test_the_update_is_the_mean_over_all_targets():
    told = Told(Listed([[3.0, 0.0], [0.0, 6.0], [0.0, 0.0]]), settings())
    told.fit()
    assert told.weight == pytest.approx([-1.0, -2.0])


def test_batches_are_weighted_by_their_targets_when_accumulated():
    told = Told(Listed([[3.0, 0.0]], [[0.0, 6.0], [0.0, 0.0]]), settings(accumulate=2))
    told.fit()
    assert told.weight == pytest.approx([-1.0, -2.0])


@pytest.mark.parametrize(("clip", "expected"), [(0.0, 5.0), (10.0, 5.0), (1.0, 1.0), (0.5, 0.5)])
def test_the_gradient_is_clipped_to_its_norm(clip: float, expected: float):
    told = Told(Listed([[3.0, 4.0]]), settings(clip=clip))
    told.fit()
    assert told.weight == pytest.approx([-0.6 * expected, -0.8 * expected], rel=1e-5)
    assert told.records[0]["norm"] == pytest.approx(5.0), "what is recorded is the norm before"


def test_records_hold_means_between_records():
    """The weight goes 0, −1, −2, … and the losses of one target each are 0, −1, −2, −3, …"""
    told = Told(Listed([[1.0, 0.0]]), settings(updates=5, log_every=2))
    progress = told.fit()
    assert [record["update"] for record in told.records] == [2, 4, 5], "the last is always there"
    assert [record["nll"] for record in told.records] == pytest.approx([-0.5, -2.5, -4.0])
    assert [record["tokens"] for record in told.records] == [2, 4, 5]
    assert progress.tokens == 5
    assert progress.finished


def test_training_stops_at_the_number_of_targets():
    told = Told(Listed([[1.0, 0.0], [1.0, 0.0]]), settings(updates=100, tokens=5))
    assert told.fit().update == 3


# Validation


def scripted(*values: float) -> Callable[[], dict[str, float]]:
    remaining = iter(values)
    return lambda: {"nll": next(remaining)}


@pytest.mark.parametrize(
    ("values", "patience", "update", "best"),
    [
        ((5, 4, 4, 4.5, 3, 9), 2, 8, 4),  # 4 at update 4; not better at 6 and 8: stop
        ((5, 4, 4.5, 3, 3.5, 3.5), 2, 12, 8),
        ((5, 6), 1, 4, 2),
        ((5, math.nan, 4, 3, 2, 1), 2, 12, 12),
        ((math.nan, math.nan, 4, 3, 2, 1), 2, 4, 0),
    ],
)
def test_early_stopping(values: tuple[float, ...], patience: int, update: int, best: int):
    config = settings(updates=12, validate_every=2, patience=patience)
    told = Told(Listed([[1.0, 0.0]]), config, scripted(*values))
    progress = told.fit()
    assert (progress.update, progress.best_update) == (update, best)
    assert progress.finished
    assert told.saved[-1]["update"] == update


def test_higher_may_be_better():
    config = settings(updates=8, validate_every=2, metric="bleu")
    values = iter([1.0, 3.0, 2.0, 3.0])
    told = Told(Listed([[1.0, 0.0]]), config, lambda: {"bleu": next(values)}, lower_is_better=False)
    assert told.fit().best_update == 4, "an equal one is not better"


def test_a_better_validation_is_saved_whenever_it_is():
    config = settings(updates=10, validate_every=2, save_every=5)
    told = Told(Listed([[1.0, 0.0]]), config, scripted(3, 2, 4, 1, 5))
    told.fit()
    assert [saved["update"] for saved in told.saved] == [2, 4, 5, 8, 10]
    assert [saved["finished"] for saved in told.saved] == [False] * 4 + [True]


def test_an_unknown_metric_is_named():
    told = Told(Listed([[1.0, 0.0]]), settings(validate_every=1, metric="wer"), scripted(1))
    with pytest.raises(UserError, match=r"train\.metric: 'wer' .* there are nll"):
        told.fit()


# Numbers that are not finite

BAD = [[math.inf, 0.0]]


def test_a_gradient_that_is_not_finite_is_refused_and_recorded():
    told = Told(Listed([[1.0, 0.0]], BAD, [[0.0, 1.0]]), settings(updates=3))
    progress = told.fit()
    assert told.weight == pytest.approx([-1.0, -1.0]), "the second update left no trace"
    assert [r for r in told.records if r["kind"] == "refused"] == [
        {"kind": "refused", "update": 2, "ids": [10]}
    ]
    assert progress.update == 3
    assert progress.refused == 0, "only those in a row count"
    assert all(math.isfinite(v) for r in told.records for v in r.values() if isinstance(v, float))


def test_one_bad_batch_spoils_the_whole_accumulated_update():
    told = Told(Listed([[1.0, 0.0]], BAD), settings(accumulate=2))
    told.fit()
    assert told.weight == [0.0, 0.0]
    assert told.records[0]["ids"] == [0, 10]


def test_too_many_refusals_in_a_row_stop():
    told = Told(Listed(BAD), settings(updates=50, max_nonfinite=3))
    with pytest.raises(UserError, match=r"4 updates in a row .* update 4\)") as error:
        told.fit()
    assert "train.optimizer.learning_rate" in str(error.value), "what to do about it"
    assert told.weight == [0.0, 0.0]
    assert not told.saved


def test_refusals_are_counted_over_an_interruption():
    told = Told(Listed(BAD), settings(updates=2, max_nonfinite=3))
    progress = Progress.from_dict(json.loads(json.dumps(told.fit().as_dict())))
    told.job.config = replace(told.job.config, updates=50)
    with pytest.raises(UserError, match="4 updates in a row"):
        told.fit(progress)
    assert [r["update"] for r in told.records if r["kind"] == "refused"] == [1, 2, 3, 4]


# The whole model


@pytest.fixture(scope="module")
def sentences() -> list[tuple[list[int], list[int]]]:
    generator = torch.Generator().manual_seed(5)

    def symbols() -> list[int]:
        length = int(torch.randint(1, 9, (), generator=generator))
        return torch.randint(4, 20, (length,), generator=generator).tolist()

    return [(symbols(), symbols()) for _ in range(12)]


class Slices:
    """The same sentences in batches of `size`."""

    def __init__(self, pairs: list[tuple[list[int], list[int]]], size: int) -> None:
        self.pairs, self.size = pairs, size

    def at(self, position: Position) -> Batch:
        ids = range(position.index * self.size, (position.index + 1) * self.size)
        sources, targets = zip(*(self.pairs[n] for n in ids), strict=True)
        return replace(collate(sources, targets), ids=tuple(ids))

    def after(self, position: Position) -> Position:
        return Position(0, (position.index + 1) % (len(self.pairs) // self.size))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("size", [1, 3, 4])
def test_accumulation_is_the_one_large_batch(
    sentences: Any, size: int, dtype: torch.dtype, tolerance: float, tmp_path: Path
):
    quiet = ("model.encoder.dropout=0", "model.decoder.dropout=0")
    recipe = recipes.load(corpus.write(tmp_path), quiet)
    weights = []
    for each in (12, size):
        torch.manual_seed(7)
        model = build(recipe.model, texts(20, 20)).to(dtype)
        if dtype == torch.float64:
            model.head.precision = dtype  # type: ignore[attr-defined]
        task = translate.Task.__new__(translate.Task)  # its loss needs nothing of it
        objective = Objective(model, task.loss)
        told = Told(Slices(sentences, each), settings(accumulate=12 // each), model=objective)
        told.fit()
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
        assert told.records[0]["tokens"] == sum(len(target) + 1 for _, target in sentences)
    assert (weights[0] - weights[1]).abs().max() < tolerance


# A run's folder

EMBEDDING = "decoder.embedding.weight"


def train(folder: Path, *changes: str, **options: Any) -> Run:
    recipe = corpus.write(folder / "corpus")
    return regard.train(recipe, *changes, to=folder / "run", **options).run


def updates(run: Run) -> list[int]:
    return sorted(int(folder.name) for folder in run.checkpoints.iterdir())


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def mean(found: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {
        name: torch.stack([each[name].double() for each in found]).mean(0).float()
        for name in found[0]
    }


def assert_same(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def averaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list[dict[str, Any]]]:
    """22 updates, a checkpoint every 4, the last 3 kept and averaged; and what was told."""
    told: list[dict[str, Any]] = []
    changes = ("train.updates=22", "train.save_every=4", "train.validate_every=8", "train.keep=3")
    more = ("train.average=3", "train.log_every=5")
    run = train(tmp_path_factory.mktemp("a"), *changes, *more, callback=told.append)
    return run, told


def test_the_last_checkpoints_are_kept_and_the_best(averaged: Any):
    run, told = averaged
    scores = {r["update"]: r["nll"] for r in told if r["kind"] == "validation"}
    assert set(scores) == {8, 16, 22}, "and after the last update"
    assert updates(run) == sorted({16, 20, 22, min(scores, key=lambda u: scores[u])})


def test_the_final_model_is_the_mean_of_the_last(averaged: Any):
    run, _ = averaged
    chosen = [weights(run.checkpoints / f"{update:08d}") for update in (16, 20, 22)]
    assert_same(weights(run.folder / "model"), mean(chosen))
    assert run.find("final").progress()["mean_of"] == [16, 20, 22]
    assert not torch.equal(chosen[0][EMBEDDING], chosen[1][EMBEDDING])


def test_the_final_model_is_the_mean_of_the_best(tmp_path: Path, monkeypatch: Any):
    """Scores are 5, 2, 4, 3, 6 at updates 3, 6, 9, 12, 15: the best two are 6 and 12."""
    values = iter([5.0, 2.0, 4.0, 3.0, 6.0])
    monkeypatch.setattr(translate.Task, "validate", lambda self, model: {"nll": next(values)})
    changes = ("train.updates=15", "train.save_every=3", "train.validate_every=3", "train.keep=1")
    run = train(tmp_path, *changes, "train.average=2", "train.average_of=best")
    assert updates(run) == [6, 12, 15]
    chosen = [weights(run.checkpoints / f"{update:08d}") for update in (6, 12)]
    assert_same(weights(run.folder / "model"), mean(chosen))


def test_without_averaging_the_final_model_is_the_best(tmp_path: Path, monkeypatch: Any):
    """Scores are 5, 2, 4, 3 at updates 2, 4, 6, 8, of which a plan would save 5 and 8 only."""
    values = iter([5.0, 2.0, 4.0, 3.0])
    monkeypatch.setattr(translate.Task, "validate", lambda self, model: {"nll": next(values)})
    run = train(
        tmp_path, "train.updates=8", "train.save_every=5", "train.validate_every=2", "train.keep=1"
    )
    assert updates(run) == [4, 8]
    assert_same(weights(run.folder / "model"), weights(run.checkpoints / "00000004"))
    assert_same(run.find("best").weights(), weights(run.checkpoints / "00000004"))
    assert_same(run.find("last").weights(), weights(run.checkpoints / "00000008"))


@pytest.mark.usefixtures("pictures")
def test_without_validation_the_final_model_is_the_last(tmp_path: Path):
    run = train(tmp_path, "train.updates=4", "train.log_every=50", "data.validation=[]")
    assert_same(weights(run.folder / "model"), weights(run.checkpoints / "00000004"))
    assert (run.folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (run.folder / "curves.svg").read_text()


def test_every_record_is_told_and_written(averaged: Any):
    run, told = averaged
    assert run.records() == told
    kinds = [(record["kind"], record["update"]) for record in told]
    assert kinds == [
        ("start", 0),
        ("train", 5),
        ("validation", 8),
        ("samples", 8),
        ("train", 10),
        ("train", 15),
        ("validation", 16),
        ("samples", 16),
        ("train", 20),
        ("train", 22),
        ("validation", 22),
        ("samples", 22),
    ]
    assert {"nll", "smoothed", "rate", "norm", "tokens_per_second"} <= told[1].keys()
    assert {"nll", "perplexity", "bleu", "chrf"} <= told[2].keys()
    assert told[2]["perplexity"] == pytest.approx(math.exp(told[2]["nll"]))


def test_events_are_written(averaged: Any):
    run, _ = averaged
    (events,) = (run.folder / "events").iterdir()
    assert b"train/nll" in events.read_bytes()
    assert b"validation/bleu" in events.read_bytes()


def test_the_run_tells_all_that_decides_it(averaged: Any):
    run, _ = averaged
    assert recipes.load(run.folder / "recipe.toml") == run.recipe
    start = run.records()[0]
    assert start["device"] == "cpu" and start["precision"] in ("float32", "bfloat16")
    assert start["threads"] >= 1 and start["memory"] > 0 and start["processor"]
    assert json.loads((run.folder / "data.json").read_text())["used"] == 80
    assert {"regard", "torch", "processor"} <= json.loads(
        (run.folder / "environment.json").read_text()
    ).keys()


def test_the_same_recipe_gives_the_same_weights(averaged: Any, tmp_path: Path):
    run, _ = averaged
    again = train(
        tmp_path,
        "train.updates=22",
        "train.save_every=4",
        "train.validate_every=8",
        "train.average=3",
    )
    assert_same(weights(again.folder / "model"), weights(run.folder / "model"))
    other = train(tmp_path / "other", "train.updates=2", "seed=4")
    third = train(tmp_path / "third", "train.updates=2")
    assert not torch.equal(
        weights(other.folder / "model")[EMBEDDING], weights(third.folder / "model")[EMBEDDING]
    )
