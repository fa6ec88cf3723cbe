"""How much memory a batch takes, known before it is run, so that one too large is split.

What a training step needs beside the model is what its forward pass keeps for the backward pass.
That is linear in the rows of a batch: with k₁ and k₄ the bytes kept for one and for four rows of
its very shape, n rows of it take

    need(n) = MARGIN · (k₁ + (n − 1) (k₄ − k₁) / 3)

where MARGIN is for what lives for a short time only. k₁ and k₄ are measured by running one and four
rows forwards and counting the tensors that autograd saves: a function of the model and the shape
alone. So is, with a limit that is written into the run, whether a batch is split; never of what
happens to be free at the moment. A shape is not measured where a larger one is known to fit.
"""

import itertools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from regard.errors import UserError
from regard.layers import recompute
from regard.types import Batch, Batches, Carry, Position

MARGIN = 2.5
"""A step's largest size as a multiple of what its forward pass keeps. On a processor 0.8 to 1.7 was
measured for batches of 4,000 positions, and 2.2 for additive attention over 220 positions, where it
grows with the length. For small batches it is more, by copies of the weights: see budget.STATE."""
SOME = 4
"""Rows that are measured beside one; some kernels round what they keep for two up to nothing."""

FEWEST = 512
"""Positions that are worth a thread of their own."""
SHORTAGE = ("can't allocate memory", "not enough memory", "out of memory")
"""What PyTorch says: on a processor, on one under Windows, on Apple's GPU."""

Shape = tuple[tuple[str, tuple[int, ...]], ...]
"""Each tensor's name and sizes, but for the number of rows."""


class Memory:
    """Splits batches so that each part stays within a limit."""

    def __init__(
        self,
        objective: nn.Module,
        limit: float = math.inf,
        context: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        """`limit` is in bytes, for a batch alone; forward passes are run in a `context`."""
        self.limit = limit
        self._objective, self._context = objective, context
        self._measured: dict[tuple[Shape, int], tuple[float, float]] = {}

    def parts(
        self, batches: Batches, position: Position, batch: Batch, first: int = 0, cuts: int = 1
    ) -> tuple[list[Batch], list[int]]:
        """A batch, which begins with row `first` of the one at a position, in parts that fit; and
        the examples that fit not even alone.

        There are as many parts as `cuts` at least, where the batch is large enough for it. A batch
        that is not divisible stays whole; if it does not fit, that is an error.
        """
        positions = max((tensor.numel() for tensor in batch.tensors.values()), default=0)
        cuts = min(cuts, len(batch), positions // FEWEST)
        if cuts > 1 and batch.divisible:
            return self._pieces(batches, position, first, len(batch), cuts)
        return self._split(batches, position, batch, first)

    def _split(
        self, batches: Batches, position: Position, batch: Batch, start: int
    ) -> tuple[list[Batch], list[int]]:
        """The same for the part of a batch that begins with row `start`."""
        count = len(batch)
        if self.limit == math.inf or not count:
            return [batch], []
        fitting = self._rows(batch)
        if fitting >= count:
            return [batch], []
        if count == 1:
            return [], list(batch.ids)
        if not batch.divisible:
            raise UserError(
                f"train.memory: a batch of {count:,} examples does not fit: about "
                f"{int(fitting):,} of them would. It cannot be split, since they are compared with "
                "each other (Batch.divisible). Make the batches smaller (section batch), or allow "
                "more memory"
            )
        return self._pieces(batches, position, start, count, -(-count // max(1, int(fitting))))

    def _pieces(
        self, batches: Batches, position: Position, start: int, count: int, pieces: int
    ) -> tuple[list[Batch], list[int]]:
        """`count` rows in equal pieces, each of them in parts that fit."""
        parts, oversized = [], []
        borders = [start + count * n // pieces for n in range(pieces + 1)]
        for first, end in itertools.pairwise(borders):
            # Made anew, a part has the padding of its own longest example.
            piece = batches.at(position, slice(first, end))
            found, out = self._split(batches, position, piece, first)
            parts += found
            oversized += out
        return parts, oversized

    def _rows(self, batch: Batch) -> float:
        """How many rows of this batch's shape fit; all of them, where a larger shape's do."""
        shape, count = _shape(batch), len(batch)
        for (known, _), (fixed, each) in self._measured.items():
            if _covers(known, shape) and fixed + count * each <= self.limit:
                return count
        fixed, each = self._need(batch)
        return max(0.0, (self.limit - fixed) // each) if each else math.inf

    def _need(self, batch: Batch) -> tuple[float, float]:
        """What a batch of this shape takes: for itself, and for each row. One row alone cannot
        tell the two apart."""
        some = min(SOME, len(batch))
        key = _shape(batch), some
        if key not in self._measured:
            one = many = MARGIN * self._kept(_first(batch, 1))
            if some > 1 and one <= self.limit:  # otherwise more rows are not even tried
                many = MARGIN * self._kept(_first(batch, some))
            each = (many - one) / (some - 1) if one < many < math.inf else one
            self._measured[key] = one - each if one < math.inf else 0.0, each
        return self._measured[key]

    def _kept(self, batch: Batch) -> float:
        """Bytes that a forward pass keeps for the backward pass, parameters excepted."""
        own = {p.untyped_storage().data_ptr() for p in self._objective.parameters()}
        kept, blocks = dict[int, int](), recompute.Kept(own)
        device = next(self._objective.parameters()).device
        hooks = torch.autograd.graph.saved_tensors_hooks(blocks.noted(kept), lambda tensor: tensor)
        self._objective.train()
        try:
            with self._context(), hooks, recompute.watching(blocks):
                self._objective(batch.to(device), None)
        except Exception as error:
            if not is_shortage(error):
                raise
            return math.inf
        return sum(kept.values()) + blocks.size

    def lower(self, parts: list[Batch]) -> None:
        """After an error of memory: what is as large as the largest of these parts is too large.

        The limit falls by a quarter at least, so that there is an end to it. (Without parts, it was
        another process that ran out.)"""
        if not parts:
            return
        needs = [(self._need(part), len(part)) for part in parts]
        largest = max((fixed + count * each for (fixed, each), count in needs), default=math.inf)
        self.limit = 0.75 * min(self.limit, largest)
        if self.limit == math.inf:  # not even one row could be measured
            self.limit = 0.0


def _shape(batch: Batch) -> Shape:
    return tuple((name, tuple(tensor.shape[1:])) for name, tensor in batch.tensors.items())


def _covers(known: Shape, shape: Shape) -> bool:
    """Whether a measured shape is at least as large in every way."""
    return len(known) == len(shape) and all(
        a == b and len(x) == len(y) and all(m >= n for m, n in zip(x, y, strict=True))
        for (a, x), (b, y) in zip(known, shape, strict=True)
    )


def _first(batch: Batch, count: int) -> Batch:
    """Rows as wide as the batch, and as full as they could be: what they take is then a matter of
    the shape alone. Its tensors may have several rows for an example."""
    rows = {name: t[: len(t) * count // len(batch)] for name, t in batch.tensors.items()}
    full = {name: torch.ones_like(t) for name, t in rows.items() if name.endswith("mask")}
    return replace(batch, tensors=rows | full, ids=batch.ids[:count], continues=False)


def share(carry: Carry, parts: list[Batch]) -> list[Carry]:
    """What each part of a batch goes on from: its rows of what the batch before handed on."""
    if not carry or len(parts) == 1:
        return [carry] * len(parts)
    ends = [0, *itertools.accumulate(map(len, parts))]
    return [
        {name: tensor[start:end] for name, tensor in carry.items()}
        for start, end in itertools.pairwise(ends)
    ]


def joined(carries: list[Carry]) -> Carry:
    """What the parts of a batch hand on, as one."""
    found = [carry for carry in carries if carry]
    if len(found) < 2:
        return found[0] if found else carries[0] if carries else None
    return {name: torch.cat([carry[name] for carry in found]) for name in found[0]}


def is_shortage(error: BaseException) -> bool:
    """Whether memory was asked for and there was none."""
    said = str(error)
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(words in said for words in SHORTAGE)
    )
