"""The rows of a run's store, and batches of them."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data import batching, files, mixture
from regard.data.batching import Batches, Draw, Lengths
from regard.data.store import Store
from regard.errors import UserError
from regard.examples.preparation import STORE, Fields
from regard.fields import Array, Row
from regard.types import Batch

Rows = Sequence[Row] | Store
"""In memory, or read as they are asked for."""


class Stored:
    """The rows of a part, each array checked by its field."""

    def __init__(self, folder: Path, part: str, fields: Fields, longest: int = sys.maxsize) -> None:
        self.fields = list(fields.values())
        self._place = folder / STORE
        self.store = Store(self._place, part)
        self.store.rename(EARLIER)
        for field in self.fields:
            field.verify(self.store, longest)
            self._check_types(field)
        found = (field.lengths(self.store) for field in self.fields)
        sides = [_narrow(each) for each in found if each is not None]
        self.lengths: Lengths = np.stack(sides, 1)
        """(N, sides that have positions)."""

    def _check_types(self, field: Any) -> None:
        """Refuse columns of other kinds of numbers or shapes; how wide numbers are is no matter."""
        for name, column in field.columns.items():
            found = self.store.columns[name]
            if (found.kind.kind, found.shape) != (column.kind.kind, column.shape):
                raise UserError(
                    f"the stored data cannot be read: {self.store.name}.{name} is of type "
                    f"{found.dtype} instead of {column.dtype}. Start a new run from the recipe"
                )

    def __len__(self) -> int:
        return len(self.store)

    def rows(self) -> list[Row]:
        return list(self.store)

    def batches(
        self,
        config: batching.Config,
        seed: int,
        change: Callable[[Batch], Batch] = lambda batch: batch,
        *,
        data: files.Config | None = None,
        by_length: bool = True,
    ) -> Batches:
        """The endless stream of training batches, each changed; of rows of like length, or drawn
        whatever their lengths: then all count as long as the longest. `data` says how sources are
        mixed, if they are."""

        def make(ids: Sequence[int], draw: Draw) -> Batch:
            return change(learnt(self.fields, self._rows, ids, draw))

        lengths = self.lengths
        if not by_length:
            lengths = np.broadcast_to(lengths.max(0), lengths.shape)
        mixed = None
        if data is not None and data.mixed:
            mixed = mixture.load(self._place, len(self), data.weights, data.temperature)
        return Batches(lengths, make, config, seed, mixed)

    def _rows(self, ids: Sequence[int]) -> list[Row]:
        return [self.store[n] for n in ids]

    def planned(self, config: batching.Config) -> list[NDArray[np.int64]]:
        """Batches of all rows, by their numbers: those of like length together."""
        return batching.plan(self.lengths, config)

    def batch(self, ids: Sequence[int]) -> Batch:
        return collate(self.fields, self._rows(ids), ids)


def _narrow(lengths: Lengths) -> NDArray[Any]:
    """In as few bytes as they need: there may be many millions."""
    return lengths.astype(np.min_scalar_type(lengths.max(initial=0)))


EARLIER = {
    "symbols": "source",
    "pieces": "source_pieces",
    "characters": "source_characters",
    "letters": "source_letters",
}
"""What earlier versions called the columns of texts."""
FIRST = Draw()


def collate(
    fields: Sequence[Any],
    rows: Sequence[Row],
    ids: Sequence[int],
    draw: Draw = FIRST,
) -> Batch:
    """A batch of the rows of some fields."""
    return _batch(fields, _arrays(fields, rows, ids, draw), ids)


def learnt(
    fields: Sequence[Any],
    rows: Callable[[Sequence[int]], Sequence[Row]],
    ids: Sequence[int],
    draw: Draw,
) -> Batch:
    """A batch to learn from, of the rows with these numbers; where a field mixes them, each with
    the one that follows it in the whole batch."""
    if not any(field.mixed for field in fields):
        return collate(fields, rows(ids), ids, draw)
    every = [*dict.fromkeys([*ids, *draw.others])]
    whole = _arrays(fields, rows(every), every, draw)
    place = {number: n for n, number in enumerate(every)}
    own, others = (
        {name: array[[place[number] for number in some]] for name, array in whole.items()}
        for some in (ids, draw.others)
    )
    changed = {n: a for field in fields for n, a in field.mix(own, others, ids, draw).items()}
    return _batch(fields, own | changed, ids)


def _arrays(
    fields: Sequence[Any], rows: Sequence[Row], ids: Sequence[int], draw: Draw
) -> dict[str, Array]:
    return {n: a for field in fields for n, a in field.collate(rows, ids, draw).items()}


def _batch(fields: Sequence[Any], arrays: dict[str, Array], ids: Sequence[int]) -> Batch:
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    targets = sum(field.targets(arrays) for field in fields)
    return Batch(tensors=tensors, ids=tuple(ids), targets=targets)
