"""Several ranks train as one: threads stand for the processes, and wait for each other."""

import copy
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.train import loop, optimizer, schedule
from regard.train.group import Group
from regard.train.job import Config, Job
from regard.train.pieces import Pieces, enough, spoken
from regard.train.progress import Progress
from regard.types import ALL, Batch, Carry, Position, Term, Terms

D = 3


class Lost(Exception):
    """Another rank has ended."""


class Meeting:
    """Where ranks leave what they give, and wait until all have."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.given: dict[int, dict[int, Any]] = defaultdict(dict)
        """By the number of the question, and by rank."""
        self.changed = threading.Condition()
        self.ended = False

    def ask(self, number: int, rank: int, value: Any) -> list[Any]:
        with self.changed:
            given = self.given[number]
            given[rank] = copy.deepcopy(value)
            self.changed.notify_all()
            self.changed.wait_for(lambda: len(given) == self.size or self.ended, timeout=60)
            if len(given) < self.size:
                raise Lost
            return [copy.deepcopy(given[each]) for each in range(self.size)]

    def end(self) -> None:
        with self.changed:
            self.ended = True
            self.changed.notify_all()


class Rank(Group):
    def __init__(self, rank: int, meeting: Meeting) -> None:
        self.rank, self.size, self._meeting = rank, meeting.size, meeting
        self._asked = 0

    def gather(self, value: Any) -> list[Any]:
        self._asked += 1
        return self._meeting.ask(self._asked, self.rank, value)

    def gather_tensors(self, tensors: Carry) -> list[Carry]:
        return self.gather(tensors)


class Squares(nn.Module):
    """h = x + ½ h₋₁, and the loss Σ (w · h)² of all rows, with half of Σ |w|² for each first row.

    What is handed on is h, where the batch goes on from the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))
        self.room = 99
        """Rows that fit into the memory."""

    def forward(self, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        if len(batch) > self.room:
            raise MemoryError
        x = batch["x"]
        h = x + carry["h"] / 2 if carry and batch.continues else x
        first = batch["first"].sum()
        terms = {
            "nll": Term((h @ self.weight).square().sum(), len(batch)),
            "size": Term(first * self.weight.square().sum(), int(first), 0.5),
        }
        return terms, {"h": h.detach()} if batch.continues else None


class Rows:
    """Batches of unlike sizes: the last has one row, so that one of two ranks has none of it."""

    def __init__(self, *sizes: int, continues: bool = False) -> None:
        self.sizes, self.continues = sizes, continues
        made = torch.Generator().manual_seed(3)
        self.x = torch.randn(99, D, generator=made, dtype=torch.float64)

    def at(self, position: Position, rows: slice = ALL) -> Batch:
        index = position.index % len(self.sizes)
        start = sum(self.sizes[:index])
        ids = range(start, start + self.sizes[index])[rows]
        first = torch.tensor([number == start for number in ids])
        return Batch(
            tensors={"x": self.x[list(ids)], "first": first},
            ids=tuple(ids),
            targets=len(ids),
            counts={"size": int(first.sum())},
            continues=self.continues,
        )

    def after(self, position: Position) -> Position:
        return Position(0, position.index + 1)


class Seen:
    """One rank's job, and all that came of it."""

    def __init__(self, group: Group, batches: Any, **changes: Any) -> None:
        self.records: list[dict[str, Any]] = []
        self.saved: list[tuple[Progress, Carry]] = []
        self.model = Squares()
        self.progress = Progress()
        self.error: BaseException | None = None
        config = Config(
            optimizer=optimizer.Config(learning_rate=0.1),
            schedule=schedule.Config(kind="constant", warmup=0),
            **{"updates": 7, "clip": 0.0, "validate_every": 0, "log_every": 1} | changes,
        )
        self.job = Job(
            objective=self.model,
            batches=batches,
            carried=batches.continues,
            optimizer=torch.optim.SGD(self.model.parameters(), lr=0.1),
            config=config,
            seed=1,
            dim=D,
            device=torch.device("cpu"),
            group=group,
            record=self.records.append,
            save=lambda *given: self.saved.append(copy.deepcopy(given)),
        )

    def fit(self) -> "Seen":
        loop.fit(self.job, self.progress)
        return self

    @property
    def weight(self) -> Tensor:
        return self.model.weight.detach()

    def kinds(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["kind"] == kind]


def alone(batches: Any, **changes: Any) -> Seen:
    return Seen(Group(), batches, **changes).fit()


def together(
    batches: Any, change: Callable[[Seen], None] = lambda seen: None, size: int = 2, **changes: Any
) -> list[Seen]:
    """The same job on as many ranks, each changed first."""
    meeting = Meeting(size)
    ranks = [Seen(Rank(rank, meeting), batches, **changes) for rank in range(size)]

    def work(seen: Seen) -> None:
        try:
            change(seen)
            seen.fit()
        except BaseException as error:
            seen.error = error
            meeting.end()  # as a process that ends makes the others' calls fail

    threads = [threading.Thread(target=work, args=(seen,)) for seen in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ranks


def assert_alike(ranks: list[Seen], whole: Seen) -> None:
    """All ranks to the last bit, and one rank by itself but for rounding."""
    for seen in ranks:
        assert seen.error is None
        assert torch.equal(seen.weight, ranks[0].weight)
        assert seen.progress.update == whole.progress.update
        assert seen.progress.tokens == whole.progress.tokens
    torch.testing.assert_close(ranks[0].weight, whole.weight, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_ranks_on_parts_of_a_batch_are_one_rank_on_the_whole(size: int, accumulate: int) -> None:
    """Two terms of unlike counts, batches of unlike sizes, and a rank without any row."""
    batches = Rows(5, 4, 1)
    whole = alone(batches, accumulate=accumulate)
    ranks = together(batches, size=size, accumulate=accumulate)
    assert_alike(ranks, whole)
    for name in ("nll", "size"):
        expected = [record[name] for record in whole.kinds("train")]
        assert [r[name] for r in ranks[0].kinds("train")] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rows", [4, 1])
def test_what_is_handed_on_is_that_of_all_rows(rows: int) -> None:
    """Of one row, rank 0 has none."""
    batches = Rows(rows, rows, continues=True)
    whole, ranks = alone(batches), together(batches)
    assert_alike(ranks, whole)
    (_, carry), (_, expected) = ranks[0].saved[-1], whole.saved[-1]
    assert carry is not None and expected is not None
    torch.testing.assert_close(carry["h"], expected["h"])
    assert carry["h"].shape == (rows, D)


def test_one_rank_validates_and_all_stop() -> None:
    """4, 3, 5, 6: the second is the best, and two later ones are not better."""

    def change(seen: Seen) -> None:
        values = iter([4.0, 3.0, 5.0, 6.0])
        first = seen.job.group.rank == 0
        seen.job.validate = lambda: {"nll": next(values)} if first else {}

    ranks = together(Rows(4), change, validate_every=1, patience=2)
    for seen in ranks:
        assert seen.error is None and seen.progress.finished
        assert (seen.progress.update, seen.progress.best_update) == (4, 2)


def test_all_stop_when_one_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal reaches rank 1 in update 3."""
    asked: set[int] = set()

    @contextmanager
    def interruptible() -> Iterator[Callable[[], bool]]:
        yield lambda: threading.get_ident() in asked

    def change(seen: Seen) -> None:
        def tick(progress: Progress) -> None:
            if seen.job.group.rank == 1 and progress.update == 3:
                asked.add(threading.get_ident())

        seen.job.tick = tick

    monkeypatch.setattr(loop, "interruptible", interruptible)
    for seen in together(Rows(4), change):
        assert seen.error is None and not seen.progress.finished
        assert seen.progress.update == 3
        assert [progress.update for progress, _ in seen.saved] == [3]


def spoilt(*numbers: int) -> Rows:
    batches = Rows(4, 4)
    batches.x[list(numbers)] = math.inf
    return batches


def test_a_number_that_one_rank_sees_is_refused_by_all() -> None:
    """Example 7 is the last of the second batch, and rank 1's."""
    whole, ranks = alone(spoilt(7), updates=3), together(spoilt(7), updates=3)
    assert_alike(ranks, whole)
    for seen in (whole, *ranks):
        assert seen.kinds("refused") == [{"kind": "refused", "update": 2, "ids": [4, 5, 6, 7]}]


def test_all_stop_when_one_sees_too_many() -> None:
    for seen in together(spoilt(3, 7), max_nonfinite=2):
        assert isinstance(seen.error, UserError)
        assert "3 updates in a row" in str(seen.error)
        assert not seen.saved


def test_all_split_when_the_memory_of_one_runs_out() -> None:
    def change(seen: Seen) -> None:
        seen.model.room = 1 if seen.job.group.rank == 1 else 99

    ranks = together(Rows(6), change)
    assert_alike(ranks, alone(Rows(6)))
    assert ranks[0].progress.memory == ranks[1].progress.memory > 0
    assert len(ranks[0].kinds("memory")) == len(ranks[1].kinds("memory")) > 0


def test_when_one_fails_no_other_goes_on() -> None:
    def change(seen: Seen) -> None:
        def fail(progress: Progress) -> None:
            raise UserError("the disk is full")

        seen.job.tick = fail if seen.job.group.rank == 1 else seen.job.tick

    first, second = together(Rows(4), change)
    assert isinstance(second.error, UserError)
    assert isinstance(first.error, Lost)
    assert first.progress.update == 1


def test_a_batch_that_is_not_divisible_is_not_shared() -> None:
    class Whole(Rows):
        def at(self, position: Position, rows: slice = ALL) -> Batch:
            return Batch(tensors={}, ids=(0, 1), targets=2, divisible=False)

    for seen in together(Whole(2)):
        assert isinstance(seen.error, UserError)
        assert "2 processes cannot share" in str(seen.error)


# One process


def test_a_group_of_one_agrees_with_itself() -> None:
    group, carry, weight = Group(), {"h": torch.ones(())}, nn.Parameter(torch.ones(2))
    weight.grad = gradient = torch.ones(2)
    group.sum_gradients([weight])
    assert (group.rank, group.size) == (0, 1)
    assert group.gather(5) == [5]
    assert group.any(True) and not group.any(False)
    assert weight.grad is gradient and group.gather_tensors(carry)[0] is carry, "nothing is copied"
    assert Pieces().share(carry) is carry


# Who has what


@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("batches", [1, 2, 3])
@pytest.mark.parametrize("before", [1, 4])
@pytest.mark.parametrize("count", [0, 1, 5, 12])
def test_every_row_belongs_to_one_rank(
    carried: bool, ranks: int, batches: int, before: int, count: int
) -> None:
    each = enough(ranks, batches, carried=carried, before=before)
    shared = [Pieces(rank, ranks, batches, each, carried) for rank in range(ranks)]
    for batch in range(batches):
        rows = [
            row
            for mine in shared
            for piece in mine.own(batch)
            for row in range(*mine.rows(count, piece))
        ]
        assert rows == list(range(count))
    assert all(any(mine.own(n) for n in range(batches)) for mine in shared), "none is idle"


def test_whole_batches_are_shared_where_there_are_enough() -> None:
    assert enough(2, 4, carried=False) == 1
    assert [[len(Pieces(r, 2, 4, 1).own(n)) for n in range(4)] for r in range(2)] == [
        [1, 1, 0, 0],
        [0, 0, 1, 1],
    ]
    assert spoken(2, 4, 1, carried=False, before=1) == ""


def test_fewer_batches_than_ranks_are_cut_finer() -> None:
    """Three ranks, two batches: three pieces each, two for each rank."""
    assert enough(3, 2, carried=False) == 3
    assert "cut into 3 parts" in spoken(3, 2, 3, carried=False, before=1)
    assert "not a multiple" in spoken(2, 3, 1, carried=False, before=1)


def test_running_text_is_shared_by_rows() -> None:
    """Rows 2 and 3 of four are rank 1's, in every batch, and so is what was handed on to them."""
    assert enough(2, 4, carried=True) == 2
    mine = Pieces(1, 2, 4, 2, carried=True)
    assert [list(mine.own(n)) for n in range(4)] == [[1]] * 4
    carry = mine.share({"h": torch.arange(4)})
    assert carry is not None and carry["h"].tolist() == [2, 3]


def test_pieces_stay_when_ranks_go() -> None:
    assert enough(1, 1, carried=True, before=2) == 2
    assert enough(2, 1, carried=True, before=4) == 4


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_chance_is_of_the_piece_and_not_of_the_rank(ranks: int) -> None:
    """Six pieces of one batch; the place of each, from which dropout is drawn, is the same for
    however many ranks."""
    places: dict[tuple[int, ...], tuple[int, ...]] = {}

    def change(seen: Seen) -> None:
        begun = loop.begin(seen.job, seen.progress)
        for part in loop.take(seen.job, begun).micro[0]:
            places[part.batch.ids] = part.place

    together(Rows(12), change, size=ranks, pieces=6, updates=1)
    expected = {(2 * n, 2 * n + 1): (n,) if n else () for n in range(6)}
    assert places == expected
