"""One machine, several processes: `regard train --processes N`, and what each of them does.

They are started as torchrun starts its workers, by the same environment variables, and started
again where one of them is killed or stands still: from the last checkpoint. (torchrun itself is for
many machines; it would take seconds to start, and answer Ctrl-C by a traceback.)
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.console import streams
from regard.errors import RecipeError

if TYPE_CHECKING:
    from regard.runs import Run
    from regard.train.processes import Processes

MOST = 256
"""Processes on one machine."""
LOST = 75
"""The exit code of a process that has lost another one (sysexits: try again)."""
ENOUGH = 3
"""So many failures in a row, each within a minute, are no accident."""
NOTICE = 3.0
"""Seconds after which the others are told that one has failed, if they have not noticed."""
PATIENCE = 20.0
"""Seconds that processes have to end by themselves when another has failed."""


def launch(count: int, arguments: Sequence[str]) -> int:
    """Run `regard ARGUMENTS` by so many processes, to the end; the exit code of it."""
    if not 1 <= count <= MOST:
        raise RecipeError(f"--processes: {count} is not from 1 to {MOST}")
    failures = restarts = 0
    while True:
        began = time.monotonic()
        code, why = _Attempt(count, arguments, restarts).wait()
        if code != LOST:
            return code
        failures = failures + 1 if time.monotonic() - began < 60 else 1
        if failures == ENOUGH:
            streams.warn(
                f"{why}, for the {ENOUGH}rd time in a row: given up. What was saved is whole"
            )
            return 1
        restarts += 1
        streams.warn(f"{why}: all {count} processes start again, from the last checkpoint")


class _Attempt:
    """All processes, from their start until the last has ended."""

    def __init__(self, count: int, arguments: Sequence[str], restarts: int) -> None:
        self._asked = 0
        before = {number: signal.getsignal(number) for number in _signals()}
        self._before = {n: handler for n, handler in before.items() if handler != signal.SIG_IGN}
        for number in self._before:
            signal.signal(number, self._pass_on)
        port = _free_port()
        common = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": str(count),
            "TORCHELASTIC_RESTART_COUNT": str(restarts),
        }
        if sys.platform == "linux":
            common["GLOO_SOCKET_IFNAME"] = "lo"
        command = [sys.executable, "-m", "regard", *arguments]
        self.processes = [
            subprocess.Popen(
                command,
                env=os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                start_new_session=True,  # Ctrl-C comes by way of us, once
            )
            for rank in range(count)
        ]

    def _pass_on(self, number: int, frame: Any) -> None:
        """A signal to stop is one for all: one rank that hears it stops the others, too. A second
        one ends them at once."""
        self._asked += 1
        for process in self.processes if self._asked > 1 else self.processes[:1]:
            with suppress(ProcessLookupError):
                process.send_signal(number)

    def wait(self) -> tuple[int, str]:
        """The exit code of all; LOST where they should start again, and why."""
        try:
            while all(process.poll() is None for process in self.processes) or not self._over():
                time.sleep(0.05)
            return self._end()
        finally:
            for process in self.processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def _over(self) -> bool:
        """Whether all have ended, or one has failed."""
        codes = [process.poll() for process in self.processes]
        return all(code is not None for code in codes) or any(codes)

    def _end(self) -> tuple[int, str]:
        """Let the others end, once one has failed."""
        first = {rank: code for rank, code in enumerate(self._codes()) if code}
        now = time.monotonic()
        told, limit = now + NOTICE, now + PATIENCE
        while None in self._codes() and time.monotonic() < limit:
            time.sleep(0.05)
            if time.monotonic() > told:  # one that waits for a start does not notice by itself
                told = limit
                for process in self.processes:
                    if process.poll() is None:
                        process.terminate()
        late = [rank for rank, code in enumerate(self._codes()) if code is None]
        for rank in late:
            self.processes[rank].kill()
            self.processes[rank].wait()
        codes = {rank: code for rank, code in enumerate(self._codes()) if code and rank not in late}
        killed = {rank: -code for rank, code in codes.items() if code < 0 and rank in first}
        own = [code for rank, code in codes.items() if 0 < code != LOST and rank in first]
        if self._asked or not (first or late):
            return (max([abs(code) for code in codes.values()]) if codes else 0), ""
        if killed:
            return LOST, ", ".join(f"rank {r} was ended by {_named(n)}" for r, n in killed.items())
        if own:
            return own[0], ""
        return LOST, ", ".join(f"rank {rank} stood still" for rank in late) or "a process was lost"

    def _codes(self) -> list[int | None]:
        return [process.poll() for process in self.processes]


def _signals() -> list[signal.Signals]:
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def _named(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


# What each of them does


def timeout(recipe: Path | None, overrides: Sequence[str], resume: Path | None) -> float:
    """The recipe's `train.timeout`. What is wrong with a recipe, rank 0 says."""
    from regard.errors import UserError
    from regard.recipe import config
    from regard.train.job import Config

    found = Config.timeout
    with suppress(UserError, OSError):
        if recipe is not None:
            found = config.load(recipe, overrides).train.timeout
        elif resume is not None:
            found = config.load(resume / "recipe.toml", of_run=True).train.timeout
    return found


def opened(
    group: "Processes", make: Callable[[], tuple["Run", list[dict[str, Any]]]]
) -> tuple["Run", list[dict[str, Any]]]:
    """The run: made, or prepared to its end, by rank 0, while the others wait."""
    from regard.runs import Run

    if group.rank == 0:
        run, warnings = make()
        group.tell("run", str(run.folder.absolute()))
        return run, warnings
    return Run(Path(group.wait_for("run"))), []
