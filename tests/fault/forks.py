"""Processes that can be killed by the hundred: forked from one that has imported everything.

`Forks` is the test's end; `python -m tests.fault.forks` is the other one. A request is a line of
JSON, and so is the answer, which comes when the forked process has ended in whatever way.
"""

import contextlib
import faulthandler
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PROJECT = Path(__file__).resolve().parents[2]
HANGS = 100.0
"""Seconds after which a process counts as hanging."""


class End(NamedTuple):
    """How a process ended."""

    code: int
    """0, or 1 after an error, or minus the signal that killed it."""
    seconds: float
    cpu: float
    points: int
    """Calls that write, sync, rename or remove, if it was not killed."""
    told: str
    """What a function returns; or what went wrong, in a person's words, or with a traceback where
    nobody expected it."""


class Forks:
    """Runs a function of `FUNCTIONS` in a process of its own."""

    def __enter__(self) -> "Forks":
        if not hasattr(os, "fork"):
            pytest.skip("this system cannot fork")
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.fault.forks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=PROJECT,
            env=environment,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        with self._server:
            assert self._server.stdin is not None
            self._server.stdin.close()

    def __call__(
        self,
        function: str,
        *arguments: Any,
        kill_after: float | None = None,
        kill_at: int | None = None,
        memory: int | None = None,
    ) -> End:
        """Kill it after so many seconds, or at its n-th point; allow it so many more bytes."""
        assert self._server.stdin is not None and self._server.stdout is not None
        request = [function, [str(a) for a in arguments], kill_after, kill_at, memory]
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        end = End(*json.loads(self._server.stdout.readline()))
        assert end.seconds < HANGS, f"{request} hangs: {end.told}"
        return end


# The other end


def train(run: str, recipe: str) -> None:
    """Go on with a run, or with one that was never finished being made: the same command."""
    import regard

    if (Path(run) / "recipe.toml").exists():
        regard.train(resume=run)
    else:
        regard.train(recipe, to=run)


def prepare(run: str, recipe: str) -> None:
    """Make a run, into many small shards, or finish making it; train nothing."""
    from regard.data import shards
    from regard.front import create, prepared, resumed
    from regard.runs import preparing

    shards.SHARD = 150
    if preparing.is_interrupted(Path(run)):
        resumed(Path(run))
    elif not (Path(run) / "recipe.toml").exists():
        create(*prepared(recipe, (), run))
    preparing.end(Path(run))  # as training does first: a kill may have come before that


def use(run: str) -> None:
    """Whatever a person may do with a run that somebody sent."""
    import regard
    from regard.errors import UserError

    errors = []
    for verb in (_predict, lambda folder: regard.train(resume=folder)):
        try:
            verb(run)
        except UserError as error:
            errors.append(str(error))
    if errors:
        raise UserError(" | ".join(errors))


def _predict(run: str) -> None:
    import regard

    regard.load(run, engine="torch").predict(["ka lo"])


def answers(run: str, text: str) -> str:
    """What a run answers to each verb, as JSON; None where it is refused, with the reason."""
    import regard
    from regard.errors import UserError

    def resumed() -> str:
        regard.train(resume=run)
        weights = (Path(run) / "model" / "model.safetensors").read_bytes()
        return hashlib.sha256(weights).hexdigest()

    def scored() -> str:
        predictor = regard.load(run, engine="torch")
        sides = predictor.task.references("train")
        return repr(predictor.score(*(side[:2] for side in sides)))

    def converted() -> str:
        predictor = regard.load(run, choices="none", quantization="int8", shortlist=True)
        return repr(predictor.predict([text]))

    engine = {"engine": converted} if list(Path(run).glob("*/ctranslate2-*")) else {}
    verbs: dict[str, Callable[[], str]] = engine | {
        "predict": lambda: repr(regard.load(run, engine="torch").predict([text])),
        "score": scored,
        "evaluate": lambda: repr(regard.load(run, engine="torch").evaluate("train")[0]),
        "train": resumed,
    }
    found: dict[str, tuple[str | None, str]] = {}
    for name, verb in verbs.items():
        try:
            found[name] = (verb(), "")
        except UserError as error:
            found[name] = (None, str(error))
    return json.dumps(found)


def convert(run: str) -> None:
    """Have a run keep its model as CTranslate2 reads it, if that can be had."""
    import regard
    from regard.interop.conversion import missing

    if missing() is None:
        regard.load(run, choices="none", quantization="int8", shortlist=True)


def both(run: str, recipe: str, attempt: str, killed: str, after: str, *changes: str) -> str:
    """Train by two processes, as torchrun would start them for the n-th time; kill one of them
    after some seconds, unless these are fewer than 0. How each ended and how long it took, as JSON.
    """
    import socket

    from regard import cli

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": 2}
    common |= {"LOCAL_WORLD_SIZE": 2, "TORCHELASTIC_RESTART_COUNT": attempt}
    os.environ.update({name: str(value) for name, value in common.items()})
    pids, start = list[int](), time.monotonic()
    for rank in ("0", "1"):
        if not (pid := os.fork()):
            os.environ.update({"RANK": rank, "LOCAL_RANK": rank})
            code = 0
            try:
                cli.main(["train", recipe, "--to", run, *changes])
            except SystemExit as stop:
                code = int(stop.code or 0)
            except BaseException:
                traceback.print_exc()
                code = 2
            os._exit(code)
        pids.append(pid)
    ends: dict[int, int] = {}
    kill, last, told = float(after), start + 0.8 * HANGS, 0.0
    while len(ends) < 2:
        for pid in pids:
            if pid not in ends and (ended := os.waitpid(pid, os.WNOHANG))[0]:
                ends[pid] = os.waitstatus_to_exitcode(ended[1])
        passed, victim = time.monotonic() - start, pids[int(killed)]
        if 0 <= kill < passed and victim not in ends:
            os.kill(victim, signal.SIGKILL)
        if ends and not told and any(ends.values()):
            told = time.monotonic()
        if told and time.monotonic() > told + 2:  # as torchrun does at once
            told = math.inf
            for pid in set(pids) - ends.keys():
                os.kill(pid, signal.SIGTERM)
        if time.monotonic() > last:
            for pid in set(pids) - ends.keys():
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    return json.dumps([[ends[pid] for pid in pids], time.monotonic() - start])


FUNCTIONS: dict[str, Callable[..., str | None]] = {
    "train": train,
    "both": both,
    "prepare": prepare,
    "use": use,
    "answers": answers,
    "convert": convert,
}


class Points:
    """Counts the calls by which a process changes what is on the disk; kills it at one of them.

    A file that is being written is also cut in the middle: that is what a reader would find.
    """

    def __init__(self, last: int | None) -> None:
        self.count, self._last = 0, last

    def watch(self) -> None:
        from regard.train import checkpoint

        for name in ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir"):
            self._wrap(os, name, None)
        self._wrap(checkpoint, "save_file", lambda tensors, path: path)
        self._wrap(Path, "write_text", lambda path, *rest: path)

    def _wrap(self, owner: Any, name: str, written: Callable[..., Path] | None) -> None:
        real = getattr(owner, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            self._reached()
            result = real(*arguments, **options)
            if written and self._reached(kill=False):
                path = written(*arguments)
                os.truncate(path, path.stat().st_size // 2)
                self._kill()
            return result

        setattr(owner, name, watched)

    def _reached(self, *, kill: bool = True) -> bool:
        self.count += 1
        if self.count == self._last and kill:
            self._kill()
        return self.count == self._last

    def _kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def child(
    function: str, arguments: list[str], kill_at: int | None, memory: int | None, told: Path
) -> int:
    from regard.errors import UserError

    os.dup2(2, 1)  # the answer alone goes to the other end
    if hasattr(signal, "SIGUSR2"):
        faulthandler.register(signal.SIGUSR2, told.with_suffix(".stacks").open("w"))
    points = Points(kill_at)
    points.watch()
    if memory is not None and sys.platform == "linux":
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    text, code = "", 0
    try:
        text = FUNCTIONS[function](*arguments) or ""
    except UserError as error:
        text, code = str(error), 1
    except BaseException:
        text, code = traceback.format_exc(), 2
    told.write_bytes(json.dumps([points.count, text]).encode())
    return code


def fork(
    told: Path,
    function: str,
    arguments: list[str],
    kill_after: float | None,
    kill_at: int | None,
    memory: int | None,
) -> End:
    told.unlink(missing_ok=True)
    start, pid = time.monotonic(), os.fork()
    if pid == 0:
        os._exit(child(function, arguments, kill_at, memory, told))
    last = start + (HANGS if kill_after is None else kill_after)
    ended = 0
    while not ended:
        if time.monotonic() >= last:
            if kill_after is None:  # nobody asked for it: where does it hang?
                os.kill(pid, signal.SIGUSR2)
                time.sleep(1)
            os.kill(pid, signal.SIGKILL)
        ended, status, used = os.wait4(pid, os.WNOHANG)
        time.sleep(0.001)
    stacks = told.with_suffix(".stacks")
    left = stacks.read_text() if stacks.exists() else ""
    count, text = json.loads(told.read_bytes()) if told.exists() else (0, left)
    code = os.waitstatus_to_exitcode(status)
    cpu = used.ru_utime + used.ru_stime
    return End(code, time.monotonic() - start, cpu, count, text)


def serve() -> None:
    import torch

    import regard
    from regard import plots
    from regard.interop import conversion
    from regard.plots import drawing, series as series_plots
    from tests.fault import tiny

    torch.set_num_threads(1)
    conversion.missing()  # imports it, if it is there
    # A picture takes longer than the training.
    for room, name in ((plots, "curves"), (plots, "matrix"), (series_plots, "forecast")):
        setattr(room, name, lambda *_, **__: None)
    drawing.save = lambda *_: None
    with tempfile.TemporaryDirectory() as folder:
        for kind in tiny.KINDS:  # so that whatever is imported late is imported, too
            recipe = tiny.write(kind, Path(folder) / kind)
            regard.train(recipe, "train.updates=4", to=Path(folder) / f"{kind}-run")
        for line in sys.stdin:
            end = fork(Path(folder) / "told", *json.loads(line))
            print(json.dumps(end), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        serve()
