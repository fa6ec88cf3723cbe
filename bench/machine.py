"""What this machine is, and the most that it can do."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from bench import features
from bench.timing import best, product
from regard.recipe import config
from regard.train import device


def describe(threads: int) -> dict[str, Any]:
    """Processor, the features in use, threads, precision, versions: what a figure depends on."""
    packages = ("regard", "torch", "numpy", "tokenizers", "ctranslate2", "transformers")
    return {
        "processor": device.processor(),
        "features": features.describe(),
        "cores": os.cpu_count(),
        "threads": threads,
        "regard trains in": precision(),
        "python": platform.python_version(),
        "system": platform.platform(),
        **{name: _version(name) for name in packages},
    }


def show(about: dict[str, Any], of: str = "") -> None:
    """One line for each entry."""
    for name, value in about.items():
        if isinstance(value, dict):
            show(value, f"{name}: ")
        else:
            print(f"{of + name:>33}  {value}")


def precision() -> str:
    """What `regard train` computes in on this machine where a recipe leaves it to regard."""
    table = {
        "task": "language_model",
        "data": {"train": ["unused"]},
        "train": {"device": "cpu"},
    }
    return str(device.settle(config.recipe(table).train).precision)


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
    kinds = [torch.float32, torch.bfloat16] if features.is_native() else [torch.float32]
    for dtype in kinds:
        rates = [product(m, k, n, dtype) for m, k, n in shapes]
        found[f"{str(dtype).removeprefix('torch.')} GFLOP/s"] = max(rates)
    source = torch.empty(64 * 2**20 // 4)
    target = torch.empty_like(source)
    seconds = best(lambda: target.copy_(source))
    found["memory GB/s"] = 2 * source.numel() * 4 / seconds / 1e9
    for name, value in found.items():
        print(f"{name:>20}  {value:8.1f}   (the best seen for these shapes)")
    if torch.bfloat16 not in kinds:
        print(f"{'bfloat16 GFLOP/s':>20}  {'-':>8}   (emulated here, not measured)")
    return found


def fractions(reached: float, limits: dict[str, float]) -> dict[str, float]:
    """Which fraction of each limit so many GFLOP/s are."""
    return {name: reached / limit for name, limit in limits.items() if "GFLOP" in name}


def in_words(reached: float, limits: dict[str, float]) -> str:
    """So many GFLOP/s, as fractions of the limits."""
    parts = fractions(reached, limits).items()
    said = ", ".join(f"{part:.0%} of the {name.split()[0]} limit" for name, part in parts)
    return f"{reached:.0f} GFLOP/s, {said}"


def shares(reached: float, limits: dict[str, float], whose: str = "regard") -> dict[str, Any]:
    """Print which fractions of the limits so many GFLOP/s are."""
    print(f"\nmatrix products of {whose}: {in_words(reached, limits)}")
    share = fractions(reached, limits)
    return {"limits": limits, "products GFLOP/s": reached, "share": share}
