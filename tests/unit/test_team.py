"""One batch on several threads: the same gradient, and the same draws however quick each is."""

import math
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import regard
from regard import plots
from regard.layers.draws import generator, seeded
from regard.layers.dropout import dropout
from regard.runs import Run
from regard.train import loop, optimizer, schedule
from regard.train.gradient import gradient as compute
from regard.train.job import Config, Job, Objective
from regard.train.progress import Progress
from regard.train.team import SharedDraws, Team
from regard.types import Batch, Position, Term
from tests import corpus

ROWS, DIM = 6, 256
CPU = torch.device("cpu")


class Rows:
    """A batch of rows x, whose loss is Σ ‖W x‖²; the n-th row of every batch is the same."""

    def __init__(self) -> None:
        self.x = torch.randn(ROWS, DIM)

    def at(self, position: Position, rows: slice = slice(None)) -> Batch:
        x = self.x[rows]
        return Batch(tensors={"x": x}, ids=tuple(range(ROWS))[rows], targets=len(x))

    def after(self, position: Position) -> Position:
        return Position(0, position.index + 1)


def objective(layer: Any = None) -> Objective:
    model = nn.Sequential(nn.Linear(DIM, 3, bias=False), layer or nn.Identity())

    def loss(model: nn.Module, batch: Batch, carry: Any) -> Any:
        return {"nll": Term(model(batch["x"]).square().sum(), len(batch))}, None

    return Objective(model, loss)


def job(of: Objective, threads: int, **changes: Any) -> Job:
    config = Config(
        optimizer=optimizer.Config(), schedule=schedule.Config(), threads=threads, updates=3
    )
    return Job(
        objective=of,
        batches=Rows(),
        optimizer=torch.optim.SGD(of.parameters(), lr=0.1),
        config=config,
        seed=1,
        dim=DIM,
        device=CPU,
        **changes,
    )


def gradient(of: Objective, threads: int) -> tuple[torch.Tensor, int]:
    """The gradient of the first update, and how many parts its batch has."""
    torch.manual_seed(3)
    work = job(of, threads)
    state = loop.begin(work, Progress())
    micro, counts, _ = loop.take(work, state)
    compute(work, micro, counts, 0, None, state.team)
    state.team.close()
    found = next(of.parameters()).grad
    assert found is not None
    return found.clone(), len(micro[0])


def test_two_threads_have_the_gradient_of_one() -> None:
    """∂L/∂W = 2 W Σ x xᵀ / N, derived by hand."""
    of = objective()
    weight = next(of.parameters()).detach()
    one, parts = gradient(of, 1)
    assert parts == 1
    of.zero_grad()
    two, parts = gradient(of, 2)
    assert parts == 2
    torch.manual_seed(3)
    x = Rows().x
    expected = 2 * weight @ x.t() @ x / ROWS
    torch.testing.assert_close(one, expected)
    torch.testing.assert_close(two, expected)


def test_a_twin_shares_the_weights_and_nothing_else() -> None:
    team = Team(objective(), 2, CPU)
    own, twin = (list(each.parameters()) for each in team.objectives)
    assert own[0] is not twin[0] and own[0].data_ptr() == twin[0].data_ptr()
    with torch.no_grad():
        own[0].add_(1)
    assert torch.equal(own[0], twin[0])
    twin[0].sum().backward()
    assert [p.grad is None for p in (own[0], twin[0])] == [True, False]
    team.sum_gradients()
    assert [p.grad is None for p in (own[0], twin[0])] == [False, True]


def test_draws_are_those_of_the_seed_in_any_thread() -> None:
    """Whichever thread is first: the slower one does not take from the other's chance."""
    x, seen = torch.ones(40, 8), {}

    def work(_: nn.Module, item: tuple[int, float]) -> None:
        seed, pause = item
        with seeded(seed):
            first = dropout(x, 0.5, True)
            time.sleep(pause)
            seen[seed] = torch.stack([first, dropout(x, 0.5, True)])

    team = Team(objective(), 2, CPU)
    team.each(work, [(5, 0.1), (6, 0.0)])
    team.close()
    for seed in (5, 6):
        torch.manual_seed(seed)
        assert torch.equal(seen[seed], torch.stack([dropout(x, 0.5, True) for _ in range(2)]))
    assert generator(CPU) is None, "outside of it PyTorch's own"


def test_results_come_in_the_order_of_the_items() -> None:
    team = Team(objective(), 2, CPU)
    assert team.each(lambda _, n: n * n, list(range(5))) == [0, 1, 4, 9, 16]
    team.close()


def test_a_failure_comes_out_when_all_have_ended() -> None:
    ended = []

    def work(_: nn.Module, n: int) -> None:
        if n == 0:
            raise MemoryError("can't allocate memory")
        time.sleep(0.05)
        ended.append(n)

    team = Team(objective(), 2, CPU)
    with pytest.raises(MemoryError):
        team.each(work, [0, 1])
    assert ended == [1]
    team.close()


def test_a_layer_that_draws_from_the_shared_generator_is_learnt_by_one_thread() -> None:
    """torch's own Dropout: what it draws would depend on which thread is quicker."""
    torch.manual_seed(1)
    alone, together = (objective(nn.Dropout(0.5)) for _ in range(2))
    together.load_state_dict(alone.state_dict())
    for of, threads in ((alone, 1), (together, 2)):
        torch.manual_seed(2)
        assert loop.fit(job(of, threads), Progress()).update == 3
    for mine, other in zip(alone.parameters(), together.parameters(), strict=True):
        assert torch.equal(mine, other)
    team = Team(objective(), 2, CPU)
    with pytest.raises(SharedDraws):
        team.each(lambda _, n: torch.rand(2), [1, 2])
    team.disband()
    assert team.each(lambda _, n: n, [1, 2]) == [1, 2] and team.size == 1


@pytest.mark.parametrize(
    ("threads", "device", "size"),
    [(0, "cpu", 1), (1, "cpu", 1), (2, "cpu", 2), (8, "cpu", 2), (8, "cuda", 1)],
)
def test_only_a_processor_with_several_threads_has_twins(threads, device, size) -> None:
    assert Team(objective(), threads, torch.device(device)).size == size


def test_each_thread_has_its_part_of_the_memory() -> None:
    work = job(objective(), 2, limit=8e6)
    state = loop.begin(work, Progress())
    assert state.memory.limit == 4e6
    state.team.close()


class Stop(Exception):
    pass


def test_two_threads_train_to_the_same_weights_again_and_resumed(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(plots, "curves", lambda records, path: None)
    monkeypatch.setattr("regard.train.memory.FEWEST", 8)
    recipe = corpus.write(tmp_path / "data", train=40)
    changes = ("train.threads=2", "train.updates=8", "train.save_every=3", "train.validate_every=0",
               "train.log_every=2", "train.precision=float32", "batch.tokens=60")  # fmt: skip

    def stop(record: dict[str, Any]) -> None:
        if record["update"] == 4:
            raise Stop

    whole = regard.train(recipe, *changes, to=tmp_path / "whole").run
    with pytest.raises(Stop):
        regard.train(recipe, *changes, to=tmp_path / "half", callback=stop)
    half = regard.train(resume=tmp_path / "half").run
    again = regard.train(recipe, *changes, to=tmp_path / "again").run
    one = regard.train(recipe, *changes, "train.threads=1", to=tmp_path / "one").run
    weights = [_weights(run) for run in (whole, half, again, one)]
    assert weights[0] == weights[1] == weights[2]
    assert weights[0] != weights[3], "dropout is drawn for each part"
    losses = [[r["nll"] for r in run.records() if r["kind"] == "train"] for run in (whole, one)]
    assert losses[0] == pytest.approx(losses[1], rel=0.2) and all(map(math.isfinite, losses[0]))


def _weights(run: Run) -> bytes:
    return (run.folder / "model" / "model.safetensors").read_bytes()
