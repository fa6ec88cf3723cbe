"""Chance in training: each thread that trains draws from a generator of its own.

PyTorch has one generator for all threads of a processor. Where several threads learn at once, what
each draws would depend on which of them is quicker.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

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
