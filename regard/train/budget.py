"""How much memory a run may take: by default most of what machine and container have free."""

import ctypes
import math
import os
import sys
from pathlib import Path

import torch
from torch import nn

from regard.errors import UserError
from regard.train import cgroups

GB = 1e9
SHARE = 0.8
"""Of the free memory, how much a run takes by default."""
STATE = 24
"""Bytes for each weight: four each for itself, its gradient and Adam's two moments, and eight for
copies that live for a moment."""
# Names of limit, use, and the part of it that the kernel would give back: cgroups 2 and 1.
CGROUPS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def default(device: str, processes: int = 1) -> float:
    """GB for each of so many processes on this device; 0, which is no limit, where nobody knows
    what is free."""
    most = SHARE * free(device) / GB / processes
    return float(math.floor(most)) if most > 4 else round(most, 1)


def free(device: str, root: Path = Path("/")) -> float:
    """Bytes that this process could still get on a device."""
    kind = torch.device(device)
    if kind.type == "cuda":
        return float(torch.cuda.mem_get_info(kind)[0])
    # A container has control groups of its own, and others around it.
    folders = cgroups.groups("memory", root)
    found = (_left(folder, *names) for folder in folders for names in CGROUPS)
    return min([_machine(root), *(left for left in found if left is not None)])


def for_batches(budget: float, model: nn.Module) -> float:
    """Bytes that are left for a batch beside the model; no limit for a budget of 0."""
    own = STATE * sum(p.numel() for p in model.parameters() if p.requires_grad)
    if not budget:
        return math.inf
    if own >= budget * GB:
        raise UserError(
            f"train.memory: the model, its gradient and the optimizer take {own / GB:.2g} GB, but "
            f"the run may take {budget:g} GB. Make the model smaller, or allow more"
        )
    return budget * GB - own


def _machine(root: Path) -> float:
    """What the machine has; where only the whole is known, half of it."""
    info = root / "proc/meminfo"
    if info.is_file():
        fields = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
        if "MemAvailable" in fields:
            return 1024.0 * int(fields["MemAvailable"].split()[0])
    if sys.platform == "win32":
        # Eight numbers: length and load, physical memory in all, what of it is free, …
        status = (ctypes.c_ulonglong * 8)(64)
        ctypes.windll.kernel32.GlobalMemoryStatusEx(status)
        return float(status[2])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2
    except (ValueError, OSError):
        return 0.0


def _left(folder: Path, limit: str, used: str, reclaimable: str) -> float | None:
    """Bytes left in one control group; None where it has no limit, or is not of this version."""
    try:
        most, now = (float((folder / name).read_text()) for name in (limit, used))
        lines = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return max(0.0, most - now + float(dict(lines).get(reclaimable, 0)))
    except (OSError, ValueError):  # "max" is no number
        return None
