"""The control groups that this process is in: how Linux bounds what a container may take."""

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def groups(controller: str, root: Path = Path("/")) -> Iterator[Path]:
    """The folders of the groups that bound this process: its own, and those around it.

    Version 2 has one tree for all controllers, version 1 one for each, or for some together. A
    container may see its own group as the root of the tree, which is therefore always among them.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controllers == "" or controller in controllers.split(","):
            inside = Path(path.lstrip("/"))
            for mount in {controllers: None, controller: None} if controllers else ("",):
                tree = root / "sys/fs/cgroup" / mount
                yield from (tree / inside, *(tree / outer for outer in inside.parents))


def processors(root: Path = Path("/")) -> float:
    """How many processors' time this process may take; no limit where no group has a quota."""
    return min(
        (quota for folder in groups("cpu", root) for quota in _quotas(folder)), default=math.inf
    )


def _quotas(folder: Path) -> Iterator[float]:
    """quota / period of one group: version 2 has both in `cpu.max`, version 1 in a file each."""
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        with suppress(OSError, ValueError):  # "max" is no number
            text = " ".join((folder / name).read_text() for name in names)
            quota, period = map(int, text.split())
            if quota > 0 and period > 0:  # −1 is no limit
                yield quota / period
