"""Batches made in advance, while the processor or the GPU is busy with the one before."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from regard.types import ALL, Batch, Batches, Position


@contextmanager
def prefetch(batches: Batches, workers: int) -> Iterator[Batches]:
    """The same batches; with workers, the next ones are made in so many threads."""
    if not workers:
        yield batches
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="batches") as pool:
        try:
            yield Prefetched(batches, pool, workers)
        finally:
            pool.shutdown(cancel_futures=True)


class Prefetched:
    """A batch is a pure function of its position, so there is nothing to keep in order: a
    position that is asked for gives its batch, and those that follow it are begun."""

    def __init__(self, batches: Batches, pool: ThreadPoolExecutor, count: int) -> None:
        self._batches, self._pool, self._count = batches, pool, count
        self._begun: dict[Position, Future[Batch]] = {}

    def at(self, position: Position, rows: slice = ALL) -> Batch:
        if rows != ALL:
            return self._batches.at(position, rows)
        begun = self._begun.pop(position, None)
        self._begin(position)
        return begun.result() if begun else self._batches.at(position)

    def _begin(self, position: Position) -> None:
        """The batches after a position; what was begun for elsewhere is forgotten."""
        wanted = []
        for _ in range(self._count):
            position = self._batches.after(position)
            wanted.append(position)
        self._begun = {
            each: self._begun.get(each) or self._pool.submit(self._batches.at, each)
            for each in wanted
        }

    def after(self, position: Position) -> Position:
        return self._batches.after(position)
