"""Numbers that are not finite reach neither the weights nor a checkpoint."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard import plots
from regard.errors import UserError
from regard.runs import Run
from regard.train import budget, checkpoint, loop
from regard.train.job import Objective
from regard.train.progress import Progress
from regard.types import Term
from tests.fault import tiny
from tests.fault.conftest import Amount, Tally

HARMS: dict[str, Callable[[Tensor], Tensor]] = {
    "loss and gradient": lambda total: total * math.nan,
    "infinite": lambda total: total * math.inf,
    "loss alone": lambda total: total + math.nan,
    "infinite loss alone": lambda total: total - math.inf,
    "gradient alone": lambda total: _hooked(total, math.nan),
    "infinite gradient alone": lambda total: _hooked(total, math.inf),
}


def _hooked(total: Tensor, value: float) -> Tensor:
    if not total.requires_grad:
        return total
    total = total * 1
    total.register_hook(lambda gradient: gradient * value)
    return total


class Poisoned(Objective):
    """Does harm in the updates that `harm` names; looks at the weights before each."""

    harm: dict[int, Callable[[Tensor], Tensor]] = {}  # noqa: RUF012 (set by each test)
    lowered = 0
    """How often the rate has been lowered."""
    cured = 99
    """After so many times there is no more harm."""
    update = 0

    def forward(self, batch: Any, carry: Any = None) -> Any:
        terms, after = super().forward(batch, carry)
        harm = self.harm.get(self.update + 1)
        if harm and self.lowered < self.cured:
            terms = {n: Term(harm(t.sum), t.count, t.weight) for n, t in terms.items()}
        return terms, after

    def weights(self) -> Tensor:
        return torch.cat([p.detach().flatten().clone() for p in self.parameters()])


class Watch:
    """The weights after each update, and every checkpoint."""

    def __init__(self) -> None:
        self.weights: dict[int, Tensor] = {}
        self.checkpoints = self.bad = 0

    def fit(self, job: Any, progress: Any, carry: Any) -> Any:
        job.objective.update, job.objective.lowered = progress.update, progress.lowered
        self.weights[progress.update] = job.objective.weights()
        real = job.record

        def record(record: dict[str, Any]) -> None:
            if record["kind"] == "back":
                job.objective.update, job.objective.lowered = record["update"], record["lowered"]
            real(record)

        job.record = record

        def tick(progress: Progress) -> None:
            job.objective.update = progress.update
            self.weights[progress.update] = job.objective.weights()

        job.tick = tick
        return loop.fit(job, progress, carry)

    def save(self, folder: Path, weights: Any, progress: Any, *rest: Any, **more: Any) -> Any:
        tensors = [*weights.values(), *(t for table in rest if table for t in table.values())]
        finite = all(bool(torch.isfinite(tensor).all()) for tensor in tensors)
        self.checkpoints += 1
        self.bad += not finite or "NaN" in json.dumps(progress) or "Inf" in json.dumps(progress)
        return real_save(folder, weights, progress, *rest, **more)


real_save = checkpoint.save


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    made = Watch()
    monkeypatch.setattr(plots, "curves", lambda records, path: None)
    monkeypatch.setattr("regard.train.job.Objective", Poisoned)
    monkeypatch.setattr("regard.runs.training.fit", made.fit)
    monkeypatch.setattr(checkpoint, "save", made.save)
    monkeypatch.setattr(budget, "for_batches", lambda *_: math.inf)  # nothing else runs the model
    monkeypatch.setattr(Poisoned, "harm", {})
    monkeypatch.setattr(Poisoned, "cured", 99)
    yield made


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", tiny.KINDS)
def test_nothing_bad_is_learnt_or_saved(
    kind: str, watch: Watch, tmp_path: Path, amount: Amount, tally: Tally
):
    """Every second update is poisoned, in one way after the other."""
    steps = amount(6, 100)
    harms = list(HARMS.values())
    Poisoned.harm = {2 * n + 2: harms[n % len(harms)] for n in range(steps)}
    changes = (f"train.updates={2 * steps + 1}", "train.validate_every=0", "train.save_every=2")
    run = regard.train(tiny.write(kind, tmp_path / "data"), *changes, to=tmp_path / "run").run
    bad = [u for u in Poisoned.harm if not torch.equal(watch.weights[u], watch.weights[u - 1])]
    moved = [u for u in range(1, 2 * steps + 2) if u not in Poisoned.harm]
    assert not bad
    assert all(not torch.equal(watch.weights[u], watch.weights[u - 1]) for u in moved)
    assert watch.checkpoints > steps / 2
    assert watch.bad == 0
    records = run.records()
    refused = {r["update"]: r["ids"] for r in records if r["kind"] == "refused"}
    assert refused.keys() == Poisoned.harm.keys()
    assert all(refused.values()), "the examples are named"
    assert all(math.isfinite(v) for r in records for v in r.values() if isinstance(v, float))
    tally("poisoned steps, no bad update and no bad checkpoint", steps)


SICK = (
    "train.max_nonfinite=2",
    "train.save_every=4",
    "train.validate_every=3",
    "train.schedule.kind=constant",
)


def sick(recipe: Path, folder: Path, watch: Watch, *changes: str, **options: Any) -> Run:
    """From update 7 on, a rate above 0.004 is too much: 0.01 and 0.005, but not 0.0025."""
    Poisoned.harm = dict.fromkeys(range(7, 100), HARMS["loss alone"])
    Poisoned.cured = 2
    if (folder / "recipe.toml").exists():
        return regard.train(resume=folder, **options).run
    return regard.train(recipe, *SICK, *changes, to=folder, **options).run


class Stop(Exception):
    pass


def test_the_rate_is_lowered_and_training_goes_back(watch: Watch, tmp_path: Path):
    """To the checkpoint of update 4, or of 6 if that was better than that of 3."""
    recipe = tiny.write("transformer", tmp_path / "data")
    run = sick(recipe, tmp_path / "run", watch)
    records = run.records()
    back = [r for r in records if r["kind"] == "back"]
    assert [r["lowered"] for r in back] == [1, 2]
    assert {r["update"] for r in back} <= {4, 6}
    assert not [r for r in records if r["kind"] == "refused"], "what was taken back is not told"
    rates = {r["update"]: r["rate"] for r in records if r["kind"] == "train"}
    assert rates == pytest.approx({5: 0.01 * 5 / 6, 10: 0.0025, 12: 0.0025})
    assert run.find("last").progress()["lowered"] == 2
    assert watch.bad == 0


@pytest.mark.parametrize("place", [("validation", 6), ("refused", 8), ("back", 0)])
def test_going_back_is_the_same_after_an_interruption(
    place: tuple[str, int], watch: Watch, tmp_path: Path
):
    recipe = tiny.write("transformer", tmp_path / "data")
    whole = sick(recipe, tmp_path / "whole", watch)
    folder, stops = tmp_path / "run", iter([True])

    def stop(record: dict[str, Any]) -> None:
        if (record["kind"], record["update"] if place[1] else 0) == place and next(stops, False):
            raise Stop

    with pytest.raises(Stop):
        sick(recipe, folder, watch, callback=stop)
    sick(recipe, folder, watch)
    assert tiny.outcome(folder) == tiny.outcome(whole.folder)


def test_going_back_keeps_a_damaged_checkpoint(watch: Watch, tmp_path: Path):
    """The newest is damaged when the trouble begins: it is kept aside, and the one before used."""
    recipe = tiny.write("transformer", tmp_path / "data")
    folder = tmp_path / "run" / "checkpoints"
    torn: list[str] = []

    def tear(record: dict[str, Any]) -> None:
        if record["kind"] == "refused" and not torn:
            newest = sorted(folder.iterdir())[-1]
            torn.append(newest.name)
            weights = newest / "model.safetensors"
            weights.write_bytes(weights.read_bytes()[:-9])

    changes = ("train.save_every=3", "train.validate_every=0", "train.keep=3")
    run = sick(recipe, tmp_path / "run", watch, *changes, callback=tear)
    assert torn == ["00000006"]
    assert (folder / "00000006.damaged" / "model.safetensors").is_file()
    backs = [r["update"] for r in run.records() if r["kind"] == "back"]
    assert backs[0] == 3, "before the damaged one"
    assert watch.bad == 0


def test_after_so_many_setbacks_it_stops(watch: Watch, tmp_path: Path):
    recipe = tiny.write("lstm", tmp_path / "data")
    with pytest.raises(UserError, match=r"3 updates in a row .* rate lowered 1 times") as error:
        sick(recipe, tmp_path / "run", watch, "train.max_rollbacks=1")
    assert "train.optimizer.learning_rate" in str(error.value), "what to do about it"
    last = Run(tmp_path / "run").find("last").weights()
    learnt = torch.cat([tensor.flatten() for tensor in last.values()])
    assert torch.equal(learnt.sort()[0], watch.weights[6].sort()[0]), "nothing after update 6"
    assert watch.bad == 0


def test_weights_that_are_not_finite_are_not_saved(watch: Watch, tmp_path: Path):
    """As if a step itself had gone wrong: the run goes back to where they were."""
    recipe = tiny.write("lstm", tmp_path / "data")
    weights: list[Tensor] = []

    def spoil(record: dict[str, Any]) -> None:
        if (record["kind"], record["update"]) == ("train", 5) and weights:
            with torch.no_grad():
                weights.pop().fill_(math.nan)

    def fit(job: Any, progress: Any, carry: Any) -> Any:
        weights.append(next(iter(job.objective.parameters())))
        return watch.fit(job, progress, carry)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.runs.training.fit", fit)
        run = regard.train(recipe, to=tmp_path / "run", callback=spoil).run
    [back] = [r for r in run.records() if r["kind"] == "back"]
    assert "weights are no longer finite" in back["text"]
    assert back["update"] < 5
    assert run.find("last").progress()["finished"]
    assert watch.bad == 0
