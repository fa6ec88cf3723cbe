"""Where and how exactly to compute.

What a recipe asks for, `auto` or by name, stays in the recipe; what that comes to on this machine
is decided at each start (`settle`) and recorded. A new run that names what is not here is refused
(`check`); a run that continues takes the nearest that is.
"""

import dataclasses
import math
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.errors import RecipeError
from regard.layers import native
from regard.train import budget, cgroups
from regard.types import Rounded

NEAREST = {
    "float32": ("float32",),
    "bfloat16": ("bfloat16", "float16", "float32"),
    "float16": ("float16", "bfloat16", "float32"),
}
"""What stands in for a precision that a device does not have, the best first."""
DECIDED = ("device", "precision", "threads", "memory")
"""Keys of a recipe's section `train` whose values depend on the machine."""
MODEL_NAMES = ("model name", "cpu model", "cpu", "uarch")
"""What /proc/cpuinfo calls a processor's name: on x86, MIPS, POWER and RISC-V; ARM has none."""


def check(train: Any) -> None:
    """Refuse what a new run asks for by hand and this machine does not have."""
    on = pick(train.device)
    if train.precision == "auto" or _has(on, train.precision):
        return
    if train.precision == "float16":
        raise RecipeError("train.precision: float16 is for a GPU; a processor has bfloat16")
    name = f"this processor ({processor()})" if on == "cpu" else on
    raise RecipeError(
        f"train.precision: {train.precision!r} is not native to {name}: it would be emulated, and "
        "many times slower. Use 'auto' or 'float32'"
    )


def settle(
    train: Any,
    before: Mapping[str, Any] | None = None,
    near: tuple[int, int] = (0, 1),
    processes: int = 1,
) -> Any:
    """The section `train` with device, precision, threads and memory decided for this machine; for
    the process that is number n of k here (`near`), which share its cores, its memory and its GPUs,
    and of so many in all.

    `before` is what the last start of the run came to (`describe`): on the same kind of machine,
    with as many processes, the memory stays as it was then, so that batches are split in the same
    places.
    """
    try:
        on = pick(train.device)
    except RecipeError:
        on = pick("auto")
    number, count = near
    if on == "cuda" and count > 1:
        on = f"cuda:{number % torch.cuda.device_count()}"
    fastest = "bfloat16" if on == "cpu" or on.startswith("cuda") else "float32"
    asked = fastest if train.precision == "auto" else train.precision
    precision = next(p for p in NEAREST[asked] if _has(on, p))
    decided = dataclasses.replace(
        train, device=on, precision=precision, threads=train.threads or max(1, cores() // count)
    )
    alike = (before or {}).get("processes", 1) == processes
    kept = _memory(before or {}, decided) if alike else 0.0
    memory = train.memory or kept or budget.default(on, 1 if on.startswith("cuda") else count)
    return dataclasses.replace(decided, memory=memory)


def _memory(before: Mapping[str, Any], decided: Any) -> float:
    """What the last start took on this kind of machine; 0 if it was another."""
    kept, now = before.get("memory"), describe(decided)
    alike = all(before.get(key) == now[key] for key in ("device", "processor", "features"))
    return kept if alike and isinstance(kept, float) and 0 < kept < math.inf else 0.0


def describe(settled: Any, processes: int = 1) -> dict[str, Any]:
    """What was decided, and on what kind of machine; how many processes there are, if several."""
    decided = {key: getattr(settled, key) for key in DECIDED}
    if processes > 1:
        decided["processes"] = processes
    return decided | {"processor": processor(), "features": features()}


def named(train: Any) -> dict[str, Any]:
    """What a recipe names itself, as `describe` does."""
    return {key: value for key in DECIDED if (value := getattr(train, key)) not in ("auto", 0)}


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is no longer as it was at the last start, in words."""
    return [
        f"{key} is {now[key]} on this machine, and was {before[key]} before"
        for key in DECIDED
        if key in before and before[key] != now[key]
    ]


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
        raise RecipeError(
            f"{key}: {name!r} is not there on this machine; 'auto' would take {pick('auto')!r}"
        )
    return name


def _has(device: str, precision: str) -> bool:
    """Whether a device computes in this precision by itself."""
    kind = torch.device(device).type
    if precision == "bfloat16":
        if kind == "cuda":
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
        return kind != "cpu" or native.bfloat16()
    return precision == "float32" or kind != "cpu"


def set_precision(model: nn.Module, settings: Any) -> None:
    """On a processor bfloat16 pays inside large products; tell the layers that make them."""
    if settings.device == "cpu" and settings.precision == "bfloat16":
        for module in model.modules():
            if isinstance(module, Rounded):
                module.precision = torch.bfloat16


def cores(root: Path = Path("/")) -> int:
    """How many cores this process may use; a container or `taskset` can leave it fewer.

    A quota of 2.5 processors is three cores: more threads would use it up early in each period,
    and wait for the next one all at once.
    """
    affinity = getattr(os, "sched_getaffinity", None)  # Linux alone tells
    there = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = cgroups.processors(root)
    return min(there, math.ceil(quota)) if quota < math.inf else there


def bound_threads() -> None:
    """No more of PyTorch's threads than there are cores: a container's quota it does not see.

    Who sets OMP_NUM_THREADS has chosen.
    """
    if "OMP_NUM_THREADS" not in os.environ and torch.get_num_threads() > cores():
        torch.set_num_threads(cores())


def processor(info: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name, as the system tells it; never empty."""
    fields: dict[str, list[str]] = {}
    with suppress(OSError):
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if value.strip():
                fields.setdefault(name.strip(), []).append(value.strip())
    for name in MODEL_NAMES:
        if name in fields:
            return fields[name][0]
    known = platform.processor() or platform.machine() or "unknown processor"
    # ARM gives numbers instead of a name; those of fast and slow cores differ.
    pairs = zip(fields.get("CPU implementer", ()), fields.get("CPU part", ()), strict=False)
    kinds = sorted({f"implementer {maker}, part {part}" for maker, part in pairs})
    return f"{known} ({'; '.join(kinds)})" if kinds else known


def features() -> str:
    """What decides the results and the speed of its products: PyTorch's vector unit, bfloat16."""
    unit = torch.backends.cpu.get_cpu_capability()
    return f"{unit}, bfloat16" if native.bfloat16() else str(unit)
