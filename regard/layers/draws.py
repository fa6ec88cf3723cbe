"""Chance in training: each thread that trains draws from a generator of its own.

PyTorch has one generator for all threads of a processor. Where several threads learn at once, what
each draws would depend on which of them is quicker.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

import torch
from torch import Tensor

_own: ContextVar[torch.Generator | None] = ContextVar("generator", default=None)


def generator(device: torch.device) -> torch.Generator | None:
    """What a layer's draws on this device come from; None is PyTorch's own."""
    return _own.get() if device.type == "cpu" else None


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draws on a processor in this thread are a function of the seed alone: the same as after
    `torch.manual_seed`."""
    token = _own.set(torch.Generator().manual_seed(seed))
    try:
        yield
    finally:
        _own.reset(token)


def twice() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Around what is computed now and what computes the same again: both draw the same."""
    own = _own.get()
    return nullcontext(), nullcontext() if own is None else _again(own.get_state())


@contextmanager
def _again(state: Tensor) -> Iterator[None]:
    drawn = torch.Generator()
    drawn.set_state(state)
    token = _own.set(drawn)
    try:
        yield
    finally:
        _own.reset(token)
