"""Pieces of work beside one another, each on its share of the threads.

The products of a small model are too short to be worth dividing between threads: two batches on
one thread each are done sooner than one after the other on two. PyTorch computes without Python's
lock, so threads are enough; more than a few of them would wait for one another all the same. Who
watches the computation (`regard.layers.probe`) sees one piece after the other.

A single sentence is done sooner on one thread, too: to hand an operation of three microseconds to a
second thread takes as long again. Where another program has that core, it takes thousands of times
as long: a single sentence of any model then has no more threads than there are free cores.
"""

import os
import time
from collections.abc import Callable, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from pathlib import Path
from threading import Lock
from typing import TypeVar
from weakref import WeakKeyDictionary

import torch

from regard.layers.probe import watched
from regard.model import Model

Item = TypeVar("Item")
Result = TypeVar("Result")
WORKERS = 4
"""At most."""
PROC = Path("/proc")
SMALL = 2**23
"""Up to so many parameters the products of one sentence are too short for two threads."""


def parallel_batches(
    work: Callable[[Item], Result], items: Sequence[Item], device: torch.device
) -> list[Result]:
    """`work` of each item, in order; the last are begun first, so let them be the longest.

    After a failure, or Ctrl-C, the pieces in work come to their end, and no other is begun.
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(items), WORKERS)
    if workers < 2 or device.type != "cpu" or watched():
        return [work(item) for item in items]
    pool = ThreadPoolExecutor(
        workers, initializer=torch.set_num_threads, initargs=(threads // workers,)
    )
    try:
        begun = [pool.submit(copy_context().run, work, item) for item in reversed(items)]
        return [each.result() for each in begun][::-1]
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # a worker's setting becomes that of threads to come


def threads_for(model: Model, sentences: int) -> AbstractContextManager[None]:
    """Around the search for so many sentences: fewer threads where more would not be faster. May be
    entered again and again."""
    threads = torch.get_num_threads()
    if sentences > 1 or threads == 1 or model.device.type != "cpu":
        return nullcontext()
    if model not in _sizes:
        _sizes[model] = model.size()  # to count takes as long as two layers
    if _sizes[model] <= SMALL:
        return _Threads(1)
    free = free_cores()
    return _Threads(max(1, free)) if free < threads else nullcontext()


def free_cores() -> int:
    """How many cores no other program wants, in the quietest of a few moments; all of them where
    the system does not say (all but Linux)."""
    return (os.cpu_count() or 1) - min(_others(pause) for pause in (0, 0.001, 0.001))


def _others(pause: float) -> int:
    """Threads of other programs that run or wait for a core."""
    time.sleep(pause)
    try:
        running = PROC.joinpath("loadavg").read_text(encoding="utf-8").split()[3].partition("/")[0]
        own = [each.read_text(encoding="utf-8") for each in PROC.glob("self/task/*/stat")]
        return max(0, int(running) - sum(each.rpartition(") ")[2].startswith("R") for each in own))
    except (OSError, LookupError, ValueError):
        return 0


class _Threads(AbstractContextManager[None]):
    """Operations inside have so many threads. As a setting becomes that of threads to come, too,
    all who leave restore what the first who came found."""

    lock, inside, found = Lock(), 0, 1

    def __init__(self, count: int) -> None:
        self._count = count

    def __enter__(self) -> None:
        with _Threads.lock:
            if not _Threads.inside:
                _Threads.found = torch.get_num_threads()
            _Threads.inside += 1
            torch.set_num_threads(self._count)

    def __exit__(self, *error: object) -> None:
        with _Threads.lock:
            _Threads.inside -= 1
            torch.set_num_threads(_Threads.found)


_sizes: MutableMapping[Model, int] = WeakKeyDictionary()
