"""Processes that encode the data of a run which another one prepares: on this machine, or on others
that see the same folder.

    python -m regard.runs.encoding      a helper on this machine; its order is a line of JSON

Helpers read what was read, load what the fields have learnt, and make pieces that nobody makes (see
data/pieces.py). All that they can do wrong is nothing: what they leave undone is made by the
process that asked them.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

from regard.data import pieces
from regard.errors import UserError
from regard.examples.piecework import Piecework, Wait
from regard.examples.preparation import STORE, Plan
from regard.recipe.parts import add_folder, folders, module
from regard.runs import cluster, preparing
from regard.train import manifest
from regard.train.device import cores

POLL = 0.5
"""Seconds between two looks at what another machine is at."""
PARTS = ("train", "validation")
Helpers = Callable[[Path, str, int], AbstractContextManager[Wait]]
"""A run's folder, a part and how many of its pieces are missing ↦ processes that make some of them,
and what waits until they have."""


def by_processes(count: int | None = None) -> Helpers:
    """So many processes in all on this machine; by default, one for each core."""
    return partial(_processes, count or cores())


@contextmanager
def _processes(count: int, folder: Path, part: str, missing: int) -> Iterator[Wait]:
    """Helpers, which end with this process, however it ends."""
    order = {"folder": str(folder), "part": part, "parts": [*map(str, folders())]}
    started = [_start(order) for _ in range(min(count, missing) - 1)]
    try:
        yield lambda: [each.wait() for each in started].clear()
    finally:
        for each in started:
            each.kill()
            each.wait()
            assert each.stdin is not None
            with suppress(OSError):  # it has ended before it was told everything
                each.stdin.close()


def _start(order: Mapping[str, object]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "regard.runs.encoding"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        # Each has one core: the tokenizer's own threads would be in each other's way.
        env={**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"},
        start_new_session=True,  # Ctrl-C comes to the process that asks, which ends them
    )  # fmt: skip
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
    return process


def main() -> None:
    """Do what a line of standard input says, as long as whoever wrote it is there."""
    order = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for parts in order["parts"]:
        add_folder(Path(parts))
    with suppress(UserError):  # whoever asked will come upon it, too
        help_with(Path(order["folder"]), order["part"])


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def help_with(folder: Path, part: str) -> None:
    """Make pieces of a part of a run that another process prepares."""
    if (helper := _helper(folder, part)) is not None:
        helper.help()


def _helper(folder: Path, part: str) -> Piecework | None:
    """Who can make pieces of a part, if there are any."""
    recipe = preparing.recipe_of(folder)
    with recipe.place.located():
        plan = module("tasks", recipe.kind).plan(recipe.task)
        return plan.helper(folder, part) if isinstance(plan, Plan) else None


def by_ray(tell: Callable[[str], None]) -> Helpers:
    """The workers of the cluster that this process is connected with. What they could not do for
    want of a folder or a version is reported, and done here."""
    return partial(_cluster, tell)


@contextmanager
def _cluster(tell: Callable[[str], None], folder: Path, part: str, missing: int) -> Iterator[Wait]:
    """They make all pieces; this process has nothing to do meanwhile."""
    plan = pieces.begun(folder / STORE, part)
    count = plan["count"] if plan and missing else 0
    order = {"folder": str(folder), "part": part}
    try:
        done = cluster.each("runs.encoding:encoder", order, [*map(str, range(count))])
        for fault in sorted({each.error for each in done if each.error}):
            tell(fault)
    except UserError as error:
        tell(f"{error}; this process does what is left")
    yield lambda: None


def encoder(order: Mapping[str, str]) -> cluster.Work:
    """What makes a piece, by its number, in a worker of a cluster."""
    if (helper := _helper(Path(order["folder"]), order["part"])) is None:
        raise UserError(f"{order['folder']}: no run is being prepared there")

    def make(number: str) -> bytes:
        with suppress(UserError):  # whoever asked will come upon it, too
            helper.help([int(number)])
        return b""

    return make


def join(folder: Path) -> None:
    """Help a process of another machine that prepares the run in this folder, which both see: once
    it has read its data, make pieces that nobody makes, until the run is whole."""
    if not (folder / preparing.NAME).is_file() and not (folder / manifest.RECIPE).is_file():
        raise UserError(f"{folder}: no run is being prepared there")
    done = set[str]()
    while (folder / preparing.NAME).is_file() and not (folder / manifest.RECIPE).is_file():
        for part in PARTS:
            found = pieces.begun(folder / STORE, part)
            if found is not None and found["key"] not in done:
                done.add(found["key"])
                with suppress(UserError, OSError):  # the other process will come upon it, too
                    help_with(folder, part)
        time.sleep(POLL)


if __name__ == "__main__":
    main()
