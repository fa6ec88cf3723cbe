"""Pieces of work beside one another, each on its share of the threads.

The products of a small model are too short to be worth dividing between threads: two batches on
one thread each are done sooner than one after the other on two. PyTorch computes without Python's
lock, so threads are enough; more than a few of them would wait for one another all the same. Who
watches the computation (`regard.layers.probe`) sees one piece after the other.

A single sentence is done sooner on one thread, too: to hand an operation of three microseconds to a
second thread takes as long again, and where another program has that core, much longer.
"""

from collections.abc import Callable, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
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
    """Around the search for so many sentences: one thread where more would not be faster."""
    if sentences > 1 or model.device.type != "cpu":
        return nullcontext()
    if model not in _sizes:
        _sizes[model] = model.size()  # to count takes as long as two layers
    return _one_thread if _sizes[model] <= SMALL else nullcontext()


class _OneThread(AbstractContextManager[None]):
    """Operations inside have one thread. As a setting becomes that of threads to come, too, all who
    leave restore what the first who came found."""

    def __init__(self) -> None:
        self._lock, self._inside, self._threads = Lock(), 0, 1

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._threads = torch.get_num_threads()
            self._inside += 1
            torch.set_num_threads(1)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            torch.set_num_threads(self._threads)


_one_thread = _OneThread()
_sizes: MutableMapping[Model, int] = WeakKeyDictionary()
