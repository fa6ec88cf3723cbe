"""Where and how exactly to compute: whatever is `auto` is decided once and written into the run."""

import dataclasses
import os
import platform
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.errors import RecipeError
from regard.train import budget


def resolve(recipe: Any) -> Any:
    """The recipe with device, precision, threads and memory decided for this machine."""
    train = recipe.train
    device = pick(train.device)
    precision = train.precision
    if precision == "auto":
        precision = _precision(device)
    if precision == "float16" and device.startswith("cpu"):
        raise RecipeError("train.precision: float16 is for a GPU; a processor has bfloat16")
    threads = train.threads or cores()
    memory = train.memory or budget.default(device)
    decided = dataclasses.replace(
        train, device=device, precision=precision, threads=threads, memory=memory
    )
    return dataclasses.replace(recipe, train=decided)


def pick(name: str, key: str = "train.device") -> str:
    """A device that is there: `auto` takes CUDA, then Apple's GPU, then the processor."""
    if name == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        asked = torch.device(name)
    except RuntimeError:
        raise RecipeError(f"{key}: {name!r} is not one of auto, cpu, cuda, cuda:N, mps") from None
    present = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }
    if (asked.index or 0) >= present.get(asked.type, 0):
        raise RecipeError(f"{key}: {name!r} is not there on this machine; auto finds what is")
    return name


def _precision(device: str) -> str:
    """bfloat16 where the hardware multiplies it natively."""
    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float16"
    if device == "cpu":
        native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        return "bfloat16" if native else "float32"
    return "float32"


def set_precision(model: nn.Module, settings: Any) -> None:
    """On a processor bfloat16 pays inside large products; tell the layers that make them."""
    if settings.device == "cpu" and settings.precision == "bfloat16":
        for module in model.modules():
            if hasattr(module, "precision"):
                setattr(module, "precision", torch.bfloat16)  # noqa: B010 (modules type it away)


def cores() -> int:
    """How many cores this process may use; a container or `taskset` can leave it fewer."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux alone tells
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def processor() -> str:
    """The processor's name, as the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
