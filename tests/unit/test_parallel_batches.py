"""Pieces of work on threads of their own: in order, each on its share, and none left behind."""

import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from threading import Barrier

import pytest
import torch

from regard.decoding import parallel_batches as module
from regard.decoding.parallel_batches import (
    SMALL,
    WORKERS,
    free_cores,
    parallel_batches,
    threads_for,
)
from regard.layers.probe import watch
from regard.model import Model

CPU = torch.device("cpu")
LANGUAGE = ContextVar("LANGUAGE", default="en")


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_results_are_in_order_and_the_last_begin_first() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        return item * item

    assert parallel_batches(work, range(9), CPU) == [n * n for n in range(9)]
    assert begun[0] == 8
    assert sorted(begun) == list(range(9))


def test_two_pieces_run_at_once_each_on_half_of_the_threads() -> None:
    meeting = Barrier(2, timeout=30)

    def work(item: int) -> int:
        meeting.wait()  # nobody passes alone
        return torch.get_num_threads()

    assert parallel_batches(work, range(2), CPU) == [2, 2]
    assert torch.get_num_threads() == 4


def test_no_more_workers_than_there_is_use_for() -> None:
    torch.set_num_threads(64)
    names = parallel_batches(lambda _: threading.current_thread().name, range(100), CPU)
    assert len(set(names)) <= WORKERS


@pytest.mark.parametrize("items", [[], [7]])
def test_a_single_piece_stays_where_it_is(items: list[int]) -> None:
    here = threading.current_thread()
    found = parallel_batches(lambda _: threading.current_thread() is here, items, CPU)
    assert found == [True] * len(items)


def test_elsewhere_than_on_a_processor_nothing_is_divided() -> None:
    here = threading.current_thread()
    elsewhere = torch.device("meta")
    assert all(parallel_batches(lambda _: threading.current_thread() is here, range(3), elsewhere))


def test_who_watches_sees_one_piece_after_the_other() -> None:
    here = threading.current_thread()
    with watch(lambda name, value: value):
        assert all(parallel_batches(lambda _: threading.current_thread() is here, range(3), CPU))


def test_the_caller_s_context_is_theirs() -> None:
    LANGUAGE.set("de")
    assert parallel_batches(lambda _: LANGUAGE.get(), range(3), CPU) == ["de"] * 3


def test_a_failure_comes_out_and_what_was_not_begun_never_is() -> None:
    begun: list[int] = []
    failed = threading.Event()

    def work(item: int) -> None:
        begun.append(item)
        if item == 999:
            failed.set()
            raise ValueError("the first to begin")
        failed.wait(30)

    with pytest.raises(ValueError, match="the first to begin"):
        parallel_batches(work, range(1000), CPU)
    assert len(begun) < 1000
    assert torch.get_num_threads() == 4


class Sized(Model):
    """A model of so many parameters, which take no memory."""

    device = CPU

    def __init__(self, size: int) -> None:
        torch.nn.Module.__init__(self)
        self.weight = torch.nn.Parameter(torch.empty(size, device="meta"))


@pytest.mark.parametrize(
    ("size", "sentences", "wanted"), [(SMALL, 1, 1), (SMALL + 1, 1, 4), (SMALL, 2, 4)]
)
def test_one_sentence_of_a_small_model_has_one_thread(
    size: int, sentences: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "free_cores", lambda: 4)
    with threads_for(Sized(size), sentences):
        assert torch.get_num_threads() == wanted
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize(("free", "wanted"), [(9, 4), (4, 4), (3, 3), (1, 1), (0, 1), (-7, 1)])
def test_one_sentence_has_no_more_threads_than_free_cores(
    free: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "free_cores", lambda: free)
    threads = threads_for(Sized(SMALL + 1), 1)
    for _ in range(2):  # for each step of a search anew
        with threads:
            assert torch.get_num_threads() == wanted
        assert torch.get_num_threads() == 4


def test_cores_are_free_that_no_other_program_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight threads want one of twelve cores, three of them our own."""
    monkeypatch.setattr(module, "PROC", tmp_path)
    monkeypatch.setattr("os.cpu_count", lambda: 12)
    assert free_cores() == 12  # a system that does not say
    tmp_path.joinpath("loadavg").write_text("6.83 6.00 3.85 8/312 4711\n")
    for number, state in enumerate("RSRDR"):
        thread = tmp_path / "self" / "task" / str(number)
        thread.mkdir(parents=True)
        thread.joinpath("stat").write_text(f"{number} (a (python) R) {state} 1 1\n")
    assert free_cores() == 12 - 5
    tmp_path.joinpath("loadavg").write_text("nothing that we know\n")
    assert free_cores() == 12


def test_the_threads_are_restored_whoever_leaves_last() -> None:
    first, second = threads_for(Sized(1), 1), threads_for(Sized(1), 1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert torch.get_num_threads() == 4
