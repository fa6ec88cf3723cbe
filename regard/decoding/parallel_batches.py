"""Pieces of work beside one another, each on its share of the threads.

The products of a small model are too short to be worth dividing between threads: two batches on
one thread each are done sooner than one after the other on two. PyTorch computes without Python's
lock, so threads are enough; more than a few of them would wait for one another all the same. Who
watches the computation (`regard.layers.probe`) sees one piece after the other.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import torch

from regard.layers.probe import watched

Item = TypeVar("Item")
Result = TypeVar("Result")
WORKERS = 4
"""At most."""


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
