"""What this machine is, and the most that it can do."""

import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch


def describe(threads: int) -> dict[str, Any]:
    """Processor, threads and versions: what a figure depends on."""
    from regard.train.device import processor

    packages = ("regard", "torch", "numpy", "tokenizers", "ctranslate2", "transformers")
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "python": platform.python_version(),
        "system": platform.platform(),
        **{name: _version(name) for name in packages},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def limits(shapes: list[tuple[int, int, int]], threads: int) -> dict[str, float]:
    """Best rates seen for the given matrix products (M, K, N), and of copying memory.

    GFLOP/s count a multiplication and an addition as two; GB/s count what is read and written.
    """
    torch.set_num_threads(threads)
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        rates = [_product(m, k, n, dtype) for m, k, n in shapes]
        found[f"{str(dtype).removeprefix('torch.')} GFLOP/s"] = max(rates)
    source = torch.empty(64 * 2**20 // 4)
    target = torch.empty_like(source)
    seconds = best(lambda: target.copy_(source))
    found["memory GB/s"] = 2 * source.numel() * 4 / seconds / 1e9
    for name, value in found.items():
        print(f"{name:>20}  {value:8.1f}   (the best seen for these shapes)")
    return found


def shares(reached: float, limits: dict[str, float], whose: str = "regard") -> dict[str, Any]:
    """Print which share of the limits so many GFLOP/s are."""
    share = {name: reached / limit for name, limit in limits.items() if "GFLOP" in name}
    told = ", ".join(f"{part:.0%} of the {name.split()[0]} limit" for name, part in share.items())
    print(f"\nmatrix products of {whose}: {reached:.0f} GFLOP/s, {told}")
    return {"limits": limits, "products GFLOP/s": reached, "share": share}


def _product(m: int, k: int, n: int, dtype: torch.dtype) -> float:
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
