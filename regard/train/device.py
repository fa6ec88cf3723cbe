"""Where and how exactly to compute: whatever is `auto` is decided once and written into the run."""

import dataclasses
import os
import platform
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.errors import RecipeError


def resolve(recipe: Any) -> Any:
    """The recipe with device, precision and threads decided for this machine."""
    train = recipe.train
    device = pick(train.device)
    precision = train.precision
    if precision == "auto":
        precision = _precision(device)
    threads = train.threads or os.cpu_count() or 1
    decided = dataclasses.replace(train, device=device, precision=precision, threads=threads)
    return dataclasses.replace(recipe, train=decided)


def pick(name: str, key: str = "train.device") -> str:
    """A device that is there: `auto` takes CUDA, then Apple's GPU, then the processor."""
    if name == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        kind = torch.device(name).type
    except RuntimeError:
        raise RecipeError(f"{key}: {name!r} is not one of auto, cpu, cuda, cuda:N, mps") from None
    present = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if not present.get(kind, False):
        raise RecipeError(f"{key}: {name!r} is not there on this machine; auto finds what is")
    return name


def _precision(device: str) -> str:
    """bfloat16 where the hardware multiplies it natively."""
    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
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


def processor() -> str:
    """The processor's name, as the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
