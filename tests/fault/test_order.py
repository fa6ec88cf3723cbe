"""However often a run is stopped, it sees the same examples in the same order."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import plots
from regard.data import batching, stream
from regard.runs import Run
from regard.train import loop
from regard.train.progress import Progress
from regard.types import Batch, Position
from tests.fault import tiny
from tests.fault.conftest import Tally

Place = Callable[[Any, Callable[[], None]], None]


def at_batch(number: int) -> Place:
    """While the n-th batch of a process is made."""

    def trap(job: Any, stop: Callable[[], None]) -> None:
        real, count = job.batches.at, 0

        def at(position: Position, *rows: Any) -> Any:
            nonlocal count
            count += 1
            stop() if count == number else None
            return real(position, *rows)

        job.batches.at = at

    return trap


def at_epoch(job: Any, stop: Callable[[], None]) -> None:
    """When the first batch of an epoch is asked for."""
    real, first = job.batches.at, []

    def at(position: Position, *rows: Any) -> Any:
        first.append(position)
        stop() if position.index == 0 and len(first) > 1 else None
        return real(position, *rows)

    job.batches.at = at


def in_validation(job: Any, stop: Callable[[], None]) -> None:
    job.validate = stop


def after_updates(count: int) -> Place:
    def trap(job: Any, stop: Callable[[], None]) -> None:
        ticks: list[int] = []

        def tick(progress: Progress) -> None:
            ticks.append(progress.update)
            stop() if len(ticks) == count else None

        job.tick = tick

    return trap


# Two batches an update: the third of a process is in the middle of one.
PLACES = {
    "mid-accumulation": at_batch(4),
    "in validation": in_validation,
    "mid-epoch": after_updates(2),
    "at an epoch's start": at_epoch,
    "mid-accumulation again": at_batch(2),
}


class Stop(BaseException):
    pass


def stopped(folder: Path, recipe: Path, changes: tuple[str, ...], place: Place, hard: bool) -> None:
    """Go on with a run until it is ended at a place: by an error, after which it still saves, or
    as by kill -9, after which it does not."""

    def fit(job: Any, progress: Any, carry: Any) -> Any:
        def stop() -> None:
            if hard:
                job.save = lambda progress, carry: None
            raise Stop

        place(job, stop)
        return loop.fit(job, progress, carry)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stop):
        patch.setattr("regard.runs.training.fit", fit)
        train(folder, recipe, changes)


def train(folder: Path, recipe: Path, changes: tuple[str, ...]) -> None:
    if (folder / "recipe.toml").exists():
        regard.train(resume=folder)
    else:
        regard.train(recipe, *changes, to=folder)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("hard", [True, False], ids=["killed", "error"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_five_resumes_in_a_row(
    kind: str, workers: int, hard: bool, tmp_path: Path, monkeypatch: Any, tally: Tally
):
    monkeypatch.setattr(plots, "curves", lambda records, path: None)
    recipe = tiny.write(kind, tmp_path / "data")
    changes = ("train.trace=true", f"train.workers={workers}", "train.updates=16", "train.keep=20")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    regard.train(recipe, *changes, to=whole)
    for place in PLACES.values():
        stopped(broken, recipe, changes, place, hard)
    regard.train(resume=broken)
    assert ids(broken) == ids(whole)
    assert sorted(ids(whole)) == list(range(1, 17))
    assert tiny.outcome(broken)["weights"] == tiny.outcome(whole)["weights"]
    assert tiny.outcome(broken)["records"] == tiny.outcome(whole)["records"]
    tally("resumes, the same examples in the same order", len(PLACES))


def ids(folder: Path) -> dict[int, list[int]]:
    return {r["update"]: r["ids"] for r in Run(folder).records() if r["kind"] == "examples"}


def test_workers_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plots, "curves", lambda records, path: None)
    recipe = tiny.write("transformer", tmp_path / "data")
    runs = [tmp_path / str(workers) for workers in (0, 1, 3)]
    for workers, folder in zip((0, 1, 3), runs, strict=True):
        regard.train(recipe, f"train.workers={workers}", "train.trace=true", to=folder)
    first, *others = map(tiny.outcome, runs)
    assert all(other == first for other in others)


@pytest.mark.parametrize("rows", [slice(0, 2), slice(1, 3), slice(2, None)])
def test_rows_of_a_batch_are_the_same_examples(rows: slice, tmp_path: Path):
    import numpy as np

    lengths = np.array([[3], [5], [2], [4], [4], [1]], np.int64)

    def collate(ids: Sequence[int], draw: batching.Draw) -> Batch:
        return Batch(tensors={}, ids=tuple(ids), targets=len(ids))

    plain = batching.Batches(lengths, collate, batching.Config(tokens=99), 1)
    assert plain.at(Position(1, 0), rows).ids == plain.at(Position(1, 0)).ids[rows]
    text = stream.Streams(np.arange(50), 0, stream.Config(streams=4, length=5), 1)
    whole, part = text.at(Position(2, 1)), text.at(Position(2, 1), rows)
    assert part.ids == whole.ids[rows]
    assert part.continues
    assert part.targets == len(part.ids) * whole["target_in"].shape[1]
    assert all(torch.equal(part[name], whole[name][rows]) for name in whole.tensors)
