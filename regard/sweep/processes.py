"""Several processes that work on one sweep, each on its share of the cores."""

import os
import signal
import subprocess
import sys
import time

from regard.errors import UserError
from regard.recipe.parts import folders
from regard.sweep.folder import Folder
from regard.train.device import cores
from regard.train.signals import interruptible

WORKER = "REGARD_SWEEP_WORKER"
"""What a process is told by the one that started it: its number, that one's, the cores to use."""
SECONDS = 0.1
STOPPED = (130, -signal.SIGTERM)
"""Exit codes: the second where nothing was trained yet, and nothing had to be saved."""


def work(sweep: Folder, count: int, minutes: float | None) -> bool:
    """Let so many processes work; whether nothing is left to do. A signal to stop is handed on."""
    command = [sys.executable, "-m", "regard", "sweep", "--resume", str(sweep.path)]
    command += ["--trials", str(sweep.settings.trials)]
    command += ["--minutes", repr(minutes)] if minutes else []
    command += [word for each in folders() for word in ("--parts", str(each))]
    with interruptible() as asked:
        workers = [
            # A session of its own: Ctrl-C comes to this process alone, which hands it on once.
            subprocess.Popen(
                command, stdout=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, WORKER: f"{os.getpid()} {_share(number, count)}"},
            )
            for number in range(count)
        ]  # fmt: skip
        told = False
        try:
            while any(worker.poll() is None for worker in workers):
                failed = any(worker.poll() not in (None, 0, *STOPPED) for worker in workers)
                if (asked() or failed) and not told:
                    told = True
                    for worker in workers:
                        worker.terminate()
                time.sleep(SECONDS)
        except BaseException:
            for worker in workers:
                worker.kill()
            raise
    codes = [worker.returncode for worker in workers]
    if any(code not in (0, *STOPPED) for code in codes):
        raise UserError(f"{sweep.path}: a process of the sweep has failed; it says why above")
    return not any(codes)


def _share(number: int, count: int) -> str:
    """The cores of one of the processes: 0,1."""
    if not hasattr(os, "sched_getaffinity"):
        return ""
    there = sorted(os.sched_getaffinity(0))
    each = max(1, min(cores(), len(there)) // count)
    return ",".join(str(there[(number * each + n) % len(there)]) for n in range(each))


def settle() -> None:
    """Take the cores that this process was given, if it is one of several."""
    _, _, given = os.environ.get(WORKER, "").partition(" ")
    if given and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [int(each) for each in given.split(",")])


def is_orphan() -> bool:
    """Whether the process that started this one is gone: nobody would stop it any more."""
    parent = os.environ.get(WORKER, "").partition(" ")[0]
    return bool(parent) and os.getppid() != int(parent)
