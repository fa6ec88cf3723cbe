"""What this processor computes by itself, and what PyTorch would only emulate."""

import time
from functools import cache

import torch

from regard.layers.recurrent import LSTM


@cache
def bfloat16() -> bool:
    """Whether products in bfloat16 are faster than in float32, and an LSTM has them: tried once.

    No name of a processor tells this as surely, and none has to be known.
    """
    return gain() > 1 and _has_lstm()


@cache
def gain(size: int = 256, times: int = 9) -> float:
    """How many times as fast as in float32 a product is in bfloat16; 0 where there is none.

    Where they are native a product takes half the time of the float32 one; emulated it takes two
    and a half times as long with AVX-512, and thirty times with AVX2, where oneDNN has no LSTM of
    this precision at all.
    """
    x = torch.ones(size, size)
    best = dict.fromkeys((torch.float32, torch.bfloat16), float("inf"))
    try:
        for dtype in [*best] * times:
            operand = x.to(dtype)
            start = time.perf_counter()
            torch.mm(operand, operand)
            best[dtype] = min(best[dtype], time.perf_counter() - start)
    except RuntimeError:  # no such kernel
        return 0.0
    return best[torch.float32] / best[torch.bfloat16]


def _has_lstm() -> bool:
    try:
        _lstm()
    except (RuntimeError, AttributeError):  # no such kernel, or a PyTorch without oneDNN
        return False
    return True


def _lstm() -> None:
    """One training step of a small LSTM in bfloat16."""
    layer = LSTM(8, 8)
    layer.precision = torch.bfloat16
    with torch.enable_grad():
        layer(torch.ones(2, 3, 8))[0].sum().backward()
