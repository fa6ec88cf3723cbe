"""Work that several processes share: each does some of it, and all have what came of all of it.

    with shared_among(group):
        figures = task.validate(model)  # all ranks ask for the same

Item n is for rank n mod R. Items are the batches that one process by itself would have, and
results come back bit by bit and in order: the figures are those of one process. Nothing is pickled:
numbers, texts and lists are told as JSON, arrays as their bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from regard.types import Carry

Item = TypeVar("Item")
Result = TypeVar("Result")


class Ranks(Protocol):
    """What is asked of a group of processes."""

    rank: int
    size: int

    def gather(self, value: Any) -> list[Any]: ...
    def gather_tensors(self, tensors: Carry) -> list[Carry]: ...


_among: ContextVar[Ranks | None] = ContextVar("among", default=None)


@contextmanager
def shared_among(ranks: Ranks | None) -> Iterator[None]:
    """All ranks do the same inside, and share the work of it; None: whoever asks does it alone."""
    before = _among.set(ranks)
    try:
        yield
    finally:
        _among.reset(before)


def shared(
    items: Iterable[Item],
    work: Callable[[Item], Result],
    build: Callable[[Any], Result] = lambda value: value,
) -> list[Result]:
    """`work` of each item, in order. `build` makes a result of what has come from another rank,
    where it is more than lists of numbers, texts and arrays: tuples have become lists."""
    ranks = _among.get()
    if ranks is None or ranks.size == 1:
        return [work(item) for item in items]
    with shared_among(None):
        own = [work(item) for n, item in enumerate(items) if n % ranks.size == ranks.rank]
    found = [iter(each) for each in _exchanged(ranks, own)]
    count = sum(ranks.gather(len(own)))
    return [build(next(found[n % ranks.size])) for n in range(count)]


def shared_batches(
    plan: Iterable[NDArray[np.int64] | list[int]],
    work: Callable[[list[int]], Iterable[Result]],
    build: Callable[[Any], Result] = lambda value: value,
) -> list[Result]:
    """The same of batches of rows, given by their numbers: a result for each row, in order."""
    batches = [list(map(int, ids)) for ids in plan]
    told = shared(batches, work, lambda batch: [build(row) for row in batch])
    found: dict[int, Result] = {}
    for ids, rows in zip(batches, told, strict=True):
        found |= zip(ids, rows, strict=True)
    return [found[n] for n in range(len(found))]


def shared_rows(
    rows: Sequence[Item],
    work: Callable[[Sequence[Item]], list[Result]],
    build: Callable[[Any], Result] = lambda value: value,
) -> list[Result]:
    """The same of rows where `work` makes batches by itself."""
    ranks = _among.get()
    size = 1 if ranks is None else ranks.size
    cuts = [len(rows) * n // size for n in range(size + 1)]
    parts = [rows[start:end] for start, end in pairwise(cuts)]
    found = shared(parts, lambda part: work(part) if len(part) else [])
    return [build(each) for some in found for each in some]


# What ranks tell each other

ARRAY = "array"


def _exchanged(ranks: Ranks, own: list[Any]) -> list[list[Any]]:
    """What each rank gives."""
    arrays: list[NDArray[Any]] = []
    described = ranks.gather(_described(own, arrays))
    together = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    given = torch.frombuffer(bytearray(together or b"\0"), dtype=torch.uint8)
    tensors = ranks.gather_tensors({ARRAY: given})
    return [
        _restored(each, _Bytes((told or {})[ARRAY].cpu().numpy()))
        for each, told in zip(described, tensors, strict=True)
    ]


class _Bytes:
    """Arrays that stand one after the other."""

    def __init__(self, stored: NDArray[np.uint8]) -> None:
        self._stored, self._place = stored, 0

    def array(self, dtype: str, shape: list[int]) -> NDArray[Any]:
        kind = np.dtype(dtype)
        end = self._place + kind.itemsize * int(np.prod(shape, dtype=np.int64))
        made = self._stored[self._place : end].copy().view(kind).reshape(shape)
        self._place = end
        return made


def _described(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """The value as JSON can say it; its arrays are put aside, in order."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {ARRAY: [value.dtype.str, list(value.shape)]}
    if isinstance(value, list | tuple):
        return [_described(each, arrays) for each in value]
    return value


def _restored(value: Any, stored: _Bytes) -> Any:
    if isinstance(value, dict):
        return stored.array(*value[ARRAY])
    if isinstance(value, list):
        return [_restored(each, stored) for each in value]
    return value
