"""`regard info`: what this machine has, and what `auto` comes to here."""

import importlib.metadata
import math
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard import __version__
from regard.data import catalogue
from regard.errors import UserError
from regard.recipe.typed import Place, section
from regard.train import budget, cgroups, device
from regard.train.job import Config

LIBRARIES = ("tokenizers", "safetensors", "numpy", "sacrebleu", "tyro", "rich", "matplotlib")
ENGINES = ("ctranslate2", "onnxruntime")
VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA",
    "CUDA_VISIBLE_DEVICES",
)  # fmt: skip
"""Of the environment those that decide how it computes; none of them has a path."""


def info() -> dict[str, Any]:
    """All of it, as plain values. The name of the user and of the machine are not in it."""
    import torch

    settled = device.settle(section(Config, {}, "train", Place()))
    quota = cgroups.processors()
    free = budget.free("cpu")
    return {
        "regard": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "libraries": {"torch": torch.__version__} | {name: _version(name) for name in LIBRARIES},
        "engines": {name: _version(name) for name in ENGINES},
        "processor": device.processor(),
        "features": device.features(),
        "cores": {
            "machine": os.cpu_count(),
            "allowed": device.cores(),
            "quota": quota if math.isfinite(quota) else None,
        },
        "gpu": _gpus(),
        "memory_free_gb": round(free / budget.GB, 1) if free else None,
        "auto": {
            "device": settled.device,
            "precision": settled.precision,
            "threads": settled.threads,
            "memory_gb": settled.memory,
        },
        "data": _data(),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def as_text(found: dict[str, Any]) -> str:
    """For a person and a bug report: a line each."""
    cores, auto = found["cores"], found["auto"]
    quota = "" if cores["quota"] is None else f", quota {cores['quota']:g}"
    memory = found["memory_free_gb"]
    libraries = found["libraries"] | {n: v for n, v in found["engines"].items() if v}
    missing = [name for name, version in found["engines"].items() if not version]
    lines = {
        "regard": found["regard"],
        "Python": found["python"],
        "system": found["system"],
        "libraries": ", ".join(f"{name} {version}" for name, version in libraries.items()),
        "not installed": ", ".join(missing),
        "processor": f"{found['processor']} ({found['features']})",
        "cores": f"{cores['allowed']} of {cores['machine']} may be used{quota}",
        "GPU": ", ".join(found["gpu"]) or "none",
        "memory": f"{memory:g} GB free" if memory else "unknown",
        "auto": f"device {auto['device']}, precision {auto['precision']}, "
        f"threads {auto['threads']}, at most {auto['memory_gb']:g} GB",
        "data": found["data"],
        "variables": ", ".join(f"{n}={v}" for n, v in found["variables"].items()),
    }
    width = max(map(len, lines))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items() if value)


def _version(name: str) -> str | None:
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None


def _gpus() -> list[str]:
    import torch

    names = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
    return names + (["Apple (MPS)"] if torch.backends.mps.is_available() else [])


def _data() -> str:
    """Where data sets are kept; the home folder, which has somebody's name, is ~."""
    try:
        folder = catalogue.home()
    except UserError as error:
        return str(error)
    with suppress(RuntimeError, ValueError):
        return str(Path("~") / folder.relative_to(Path.home()))
    return str(folder)
