"""Each term of the loss is divided by its own count, over all parts of an update."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.train import loop, memory, optimizer, schedule
from regard.train.job import Config, Job, Objective
from regard.train.memory import Memory
from regard.train.progress import Clock, Progress
from regard.types import ALL, Batch, Position, Term

NONE = math.nan
ROWS = [(3.0, 4.0), (6.0, NONE), (9.0, 2.0), (0.0, NONE)]
"""Each has a first number, which is 18 in all, and two of the four have a second, 6 in all."""


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))


class Rows:
    """Batches of rows, of unlike sizes; those of a second number count for themselves."""

    def __init__(self, *batches: list[tuple[float, float]], named: bool = True) -> None:
        self.batches, self.named = batches, named

    def at(self, position: Position, rows: slice = ALL) -> Batch:
        x = torch.tensor(self.batches[position.index][rows])
        known = int((~x[:, 1].isnan()).sum())
        return Batch(
            tensors={"x": x},
            ids=tuple(range(len(x))),
            targets=len(x),
            counts={"second": known, "seen": known} if self.named else {},
        )

    def after(self, position: Position) -> Position:
        return Position(0, (position.index + 1) % len(self.batches))


def loss(model: Any, batch: Batch, carry: Any) -> Any:
    """w₁ Σ x₁ / n₁ + ½ w₂ Σ x₂ / n₂, and a term that is reported alone."""
    first, second = batch["x"].unbind(1)
    known = ~second.isnan()
    total, count = second[known].sum() * model.weight[1], int(known.sum())
    terms = {
        "first": Term(first.sum() * model.weight[0], len(first)),
        "second": Term(total, count, 0.5),
        "seen": Term(total.detach(), count, 0.0),
    }
    return terms, None


def trained(
    batches: Rows, of: Callable[..., Any] = loss, **changes: Any
) -> tuple[list[float], list[dict[str, Any]]]:
    """The weights after an update by plain descent with the rate 1, and what was recorded."""
    model, records = Weights(), list[dict[str, Any]]()
    config = Config(
        optimizer=optimizer.Config(learning_rate=1.0),
        schedule=schedule.Config(kind="constant", warmup=0),
        **{"updates": 1, "clip": 0.0, "validate_every": 0} | changes,
    )
    job = Job(
        objective=Objective(model, of),
        batches=batches,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        config=config,
        seed=1,
        dim=2,
        device=torch.device("cpu"),
        record=records.append,
    )
    loop.fit(job, Progress())
    return model.weight.tolist(), records


SPLITS = {
    "one batch": [ROWS],
    "unlike sizes": [ROWS[:1], ROWS[1:]],
    "a batch without the second": [ROWS[1:2], [ROWS[0], *ROWS[2:]]],
    "one by one": [[row] for row in ROWS],
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("split", SPLITS)
def test_each_term_has_its_own_count(
    split: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """∂L/∂w = (18 / 4, ½ · 6 / 2) = (4.5, 1.5), and the weights began as 1."""
    monkeypatch.setattr(memory, "FEWEST", 1)
    batches = SPLITS[split]
    weights, [record] = trained(Rows(*batches), accumulate=len(batches), threads=threads)
    assert weights == [1 - 4.5, 1 - 1.5]
    assert (record["first"], record["second"], record["seen"]) == (4.5, 3.0, 3.0)
    assert record["tokens"] == 4, "what is reported is the number of targets"


def test_a_batch_that_is_split_for_memory_keeps_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    split = list[int]()
    real = Memory.parts

    def parts(self: Memory, *given: Any) -> Any:
        self.limit = 1.0
        found = real(self, *given)
        split.append(len(found[0]))
        return found

    monkeypatch.setattr(Memory, "parts", parts)
    monkeypatch.setattr(Memory, "_rows", lambda self, batch: 1)
    weights, [record] = trained(Rows(ROWS))
    assert split == [4]
    assert weights == [1 - 4.5, 1 - 1.5] and record["second"] == 3.0


def test_a_count_that_the_batch_does_not_know_is_named() -> None:
    with pytest.raises(UserError, match=r"counted 2 targets for 'second', .* 4: .*\['second'\]"):
        trained(Rows(ROWS, named=False))


def test_a_batch_has_the_counts_that_it_names_and_its_targets_for_all_others() -> None:
    batch = Batch(tensors={}, ids=(0,), targets=7, counts={"second": 3})
    assert (batch.count("second"), batch.count("nll")) == (3, 7)
    assert batch.to("cpu").count("second") == 3


def test_means_go_on_over_an_interruption() -> None:
    """(4 + 2) / (2 + 1) and (9 + 1) / (4 + 1), with a checkpoint between the two updates."""

    def sums(first: float, second: float) -> dict[str, Tensor]:
        return {"first": torch.tensor(first), "second": torch.tensor(second)}

    progress, norm = Progress(), torch.tensor(1.0)
    clock = Clock(progress)
    clock.count(sums(4.0, 9.0), {"first": 2, "second": 4}, 2, norm)
    clock.stamp()
    kept = json.loads(json.dumps(progress.as_dict()))
    clock = Clock(Progress.from_dict(kept))
    clock.count(sums(2.0, 1.0), {"first": 1, "second": 1}, 1, norm)
    record = clock.record(rate=0.1)
    assert (record["first"], record["second"], record["tokens"]) == (2.0, 2.0, 3)


def test_a_checkpoint_of_an_older_version_divides_all_terms_by_its_targets() -> None:
    old = Progress(update=3, sums={"nll": 6.0}, counted=2).as_dict()
    del old["counts"]
    clock = Clock(Progress.from_dict(old))
    clock.count({"nll": torch.tensor(2.0)}, {"nll": 2}, 2, torch.tensor(1.0))
    assert clock.record(rate=0.1)["nll"] == 2.0


# Batches whose examples are compared with each other


class Compared(Rows):
    def __init__(self, *batches: list[tuple[float, float]], divisible: bool = False) -> None:
        super().__init__(*batches)
        self.divisible = divisible

    def at(self, position: Position, rows: slice = ALL) -> Batch:
        made = super().at(position, rows)
        tensors = {"x": made["x"].nan_to_num()}
        return replace(made, tensors=tensors, counts={}, divisible=self.divisible)


def contrast(model: Any, batch: Batch, carry: Any) -> Any:
    """Σₙ log Σₘ exp(xₙ₁ w₁ · xₘ₂ w₂): every row is compared with all rows."""
    first, second = (batch["x"] * model.weight * 0.1).unbind(1)
    return {"nll": Term((first[:, None] * second).logsumexp(1).sum(), len(first))}, None


def compared(monkeypatch: pytest.MonkeyPatch, batches: Rows, **changes: Any) -> list[float]:
    monkeypatch.setattr(memory, "FEWEST", 1)
    return trained(batches, contrast, **changes)[0]


def test_what_is_not_divisible_is_not_shared_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compared(monkeypatch, Compared(ROWS), threads=1)
    assert compared(monkeypatch, Compared(ROWS), threads=2) == whole
    assert compared(monkeypatch, Compared(ROWS, divisible=True), threads=2) != whole


def test_what_is_not_divisible_is_not_accumulated(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = Compared(ROWS[:2], ROWS[2:])
    with pytest.raises(UserError, match=r"train\.accumulate: 2 batches .* train\.accumulate=1"):
        compared(monkeypatch, batches, accumulate=2)
    assert compared(monkeypatch, batches, accumulate=1) != [1.0, 1.0]


def test_what_is_not_divisible_is_not_split_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = Memory(Objective(Weights(), contrast), limit=1.0)
    monkeypatch.setattr(Memory, "_rows", lambda self, batch: 3)

    def whole(batches: Rows, cuts: int = 1) -> tuple[list[Batch], list[int]]:
        return meter.parts(batches, Position(), batches.at(Position()), cuts=cuts)

    with pytest.raises(UserError, match=r"train\.memory: a batch of 4 examples .* about 3 .*batch"):
        whole(Compared(ROWS))
    parts, oversized = whole(Compared(ROWS[:3]), 2)
    assert [len(part) for part in parts] == [3] and not oversized
    divided, _ = whole(Compared(ROWS, divisible=True))
    assert [len(part) for part in divided] == [2, 2]


def test_where_memory_runs_out_what_is_not_divisible_is_an_error() -> None:
    """And not tried again without end."""
    tried = []

    def small(model: Any, batch: Batch, carry: Any) -> Any:
        tried.append(len(batch))
        if len(batch) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return contrast(model, batch, carry)

    with pytest.raises(UserError, match="cannot be split"):
        trained(Compared(ROWS), small)
    assert len(tried) < 10
