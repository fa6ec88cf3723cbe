"""Activation checkpointing (Chen et al. 2016): of a block, what it reads is kept for the backward
pass and nothing else; there the block is computed again.

Dropout must draw the same numbers the second time: a block's draws begin again where they began
(`draws.py`), so that loss and gradient are those of a block whose activations are kept.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.layers import draws

Result = TypeVar("Result")


class Recomputing(nn.Module):
    """A block that can be computed twice."""

    recompute: bool = False
    """Whether it is, while it learns."""

    def computed(self, work: Callable[..., Result], x: Tensor, *others: Any) -> Result:
        """`work` of x and others, which is all that the block does."""
        if not (self.recompute and self.training and torch.is_grad_enabled()):
            return work(x, *others)
        if (kept := _watching.get()) is not None:
            return kept.watch(work, x, *others)
        found: Result = checkpoint(work, x, *others, use_reentrant=False, context_fn=draws.twice)
        return found


class Kept:
    """How much memory blocks take that are computed twice."""

    def __init__(self, own: set[int]) -> None:
        self._own = own
        """Where the storages of parameters are, which count for nothing."""
        self._read: dict[int, int] = {}
        self._largest = 0

    @property
    def size(self) -> int:
        """Bytes: of what all of them read, and of what one of them keeps while it learns."""
        return sum(self._read.values()) + self._largest

    def watch(self, work: Callable[..., Result], x: Tensor, *others: Any) -> Result:
        inside: dict[int, int] = {}
        hooks = torch.autograd.graph.saved_tensors_hooks(self.noted(inside), lambda tensor: tensor)
        self.noted(self._read)(x)
        with hooks:
            found = work(x, *others)
        self._largest = max(self._largest, sum(inside.values()))
        return found

    def noted(self, into: dict[int, int]) -> Callable[[Tensor], Tensor]:
        """Writes down the bytes of each tensor that it is given."""

        def note(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self._own:
                into[storage.data_ptr()] = storage.nbytes()
            return tensor.detach()

        return note


_watching: ContextVar[Kept | None] = ContextVar("kept", default=None)


@contextmanager
def watching(kept: Kept) -> Iterator[None]:
    """Measure what blocks keep; they are computed once meanwhile."""
    token = _watching.set(kept)
    try:
        yield
    finally:
        _watching.reset(token)
