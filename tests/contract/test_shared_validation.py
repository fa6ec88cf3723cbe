"""What several ranks find by sharing a validation is what one finds alone, to the last bit.

Threads stand for the processes; tests/fault/ranks.py has two real ones.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from regard.decoding.shared_work import shared, shared_among, shared_batches, shared_rows
from regard.model import build
from regard.recipe.config import from_table
from regard.runs import Run
from tests.contract.test_verbs import RECIPES, TASKS, TRAIN, files
from tests.unit.test_group import Meeting, Rank


class Row(NamedTuple):
    number: int
    values: np.ndarray[Any, Any]


def together(count: int, work: Any) -> list[Any]:
    """What each of so many ranks finds."""
    meeting = Meeting(count)

    def one(rank: int) -> Any:
        try:
            with shared_among(Rank(rank, meeting)):
                return work()
        except BaseException:
            meeting.end()  # the others wait no longer
            raise

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("items", [0, 1, 2, 7])
def test_results_come_in_order_with_all_their_bits(ranks: int, items: int) -> None:
    done: list[int] = []

    def work(n: int) -> Row:
        done.append(n)
        return Row(n, np.arange(n, dtype=np.float32) / 3)

    for found in together(ranks, lambda: shared(range(items), work, lambda told: Row(*told))):
        assert [row.number for row in found] == [*range(items)]
        for row in found:
            assert row.values.dtype == np.float32
            assert np.array_equal(row.values, np.arange(row.number, dtype=np.float32) / 3)
    assert sorted(done) == [*range(items)], "each is done once, by one rank"


def test_rows_of_batches_and_of_parts() -> None:
    plan = [np.array([2, 0]), np.array([1]), np.array([3])]
    for found in together(2, lambda: shared_batches(plan, lambda ids: [f"row {n}" for n in ids])):
        assert found == ["row 0", "row 1", "row 2", "row 3"]
    for few in ([], ["ä"], ["a", "b", "c", "d"]):  # also fewer than ranks
        for found in together(3, lambda few=few: shared_rows(few, lambda some: [*some])):
            assert found == few


def test_who_works_for_others_shares_no_more() -> None:
    """Work that calls for work would wait for ranks that are at something else."""

    def work(n: int) -> list[int]:
        return shared(range(n), lambda m: m)

    assert together(2, lambda: shared(range(4), work)) == [[[], [0], [0, 1], [0, 1, 2]]] * 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shared")
    files(made)
    return made


@pytest.mark.parametrize("name", TASKS)
def test_every_task(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    table = {"task": name, **RECIPES[name], "train": TRAIN}
    if name not in ("forecast", "language_model"):  # others have several batches so
        table["batch"] = {**table.get("batch", {}), "tokens": 16}
    if name in ("translate", "transcribe", "caption"):
        table["evaluation"] = {**table.get("evaluation", {}), "lines": 5}
    run = Run.create(folder / name, from_table(table))
    torch.manual_seed(1)
    model = build(run.recipe.model, run.task.sizes).eval()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = run.task.validate(model)
        for ranks in (2, 3):
            tasks = [run.task for _ in range(ranks)]
            found = together(ranks, lambda tasks=tasks: tasks.pop().validate(model))
            assert found == [alone] * ranks
    finally:
        torch.set_num_threads(threads)
    assert len(alone) > 1
