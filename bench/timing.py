"""How long a piece of work takes at best."""

import time
from collections.abc import Callable
from typing import Any

import torch


def product(m: int, k: int, n: int, dtype: torch.dtype) -> float:
    """GFLOP/s of (m, k) times (k, n); a multiplication and an addition count as two."""
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    out = torch.empty(m, n, dtype=dtype)
    return 2 * m * k * n / best(lambda: torch.mm(a, b, out=out)) / 1e9


def best(work: Callable[[], Any], rounds: int = 10) -> float:
    """Seconds of the quickest of several rounds, each long enough for the clock."""
    work()
    start = time.perf_counter()
    work()
    repeats = max(1, int(0.02 / max(time.perf_counter() - start, 1e-6)))
    seen = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        seen.append((time.perf_counter() - start) / repeats)
    return min(seen)
