"""Signals, and two processes on one run."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import cli, plots
from regard.errors import UserError
from regard.runs import Run
from regard.train import lock, loop
from tests.fault import tiny
from tests.fault.conftest import Tally

PROJECT = Path(__file__).resolve().parents[2]
SIGNALS = [s for s in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, s)]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write("lstm", tmp_path_factory.mktemp("signals") / "data")


@pytest.fixture(scope="module")
def whole(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "curves", lambda records, path: None)
        return regard.train(recipe, to=tmp_path_factory.mktemp("whole") / "run").run.folder


def watched(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None]) -> None:
    def fit(job: Any, progress: Any, carry: Any) -> Any:
        change(job)
        return loop.fit(job, progress, carry)

    monkeypatch.setattr("regard.runs.training.fit", fit)


@pytest.mark.parametrize("name", SIGNALS)
def test_one_signal_finishes_the_update_and_saves(
    name: str, recipe: Path, whole: Path, tmp_path: Path, monkeypatch: Any, tally: Tally
):
    number, before = getattr(signal, name), signal.getsignal(getattr(signal, name))

    def change(job: Any) -> None:
        real, calls = job.batches.at, []

        def at(position: Any, *rows: Any) -> Any:
            calls.append(position)
            if len(calls) == 13:  # the first of update 7
                signal.raise_signal(number)
            return real(position, *rows)

        job.batches.at = at

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        watched(patch, change)
        regard.train(recipe, to=tmp_path / "run")
    saved = Run(tmp_path / "run").find("last").progress()
    assert (saved["update"], saved["finished"]) == (7, False)
    assert signal.getsignal(number) == before, "handlers are put back"
    regard.train(resume=tmp_path / "run")
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(whole)
    tally("signals, the run as if none had come", 1)


def test_a_second_signal_does_not_wait_for_the_validation(
    recipe: Path, whole: Path, tmp_path: Path, monkeypatch: Any, tally: Tally
):
    """The update is saved all the same; the validation is made up for."""

    def change(job: Any) -> None:
        def validate() -> dict[str, float]:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("it has not stopped")

        job.validate = validate

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        watched(patch, change)
        regard.train(recipe, to=tmp_path / "run")
    saved = Run(tmp_path / "run").find("last").progress()
    assert (saved["update"], saved["validated"]) == (4, 0)
    regard.train(resume=tmp_path / "run")
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(whole)
    tally("signals, the run as if none had come", 1)


def test_a_second_signal_in_the_middle_of_a_step_keeps_the_last_checkpoint(
    recipe: Path, whole: Path, tmp_path: Path, monkeypatch: Any
):
    def change(job: Any) -> None:
        real, steps = job.optimizer.step, []

        def step() -> None:
            steps.append(1)
            real()
            if len(steps) == 8:
                raise KeyboardInterrupt  # weights are of update 8, progress is of update 7

        job.optimizer.step = step

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        watched(patch, change)
        regard.train(recipe, to=tmp_path / "run")
    assert Run(tmp_path / "run").find("last").update == 6
    regard.train(resume=tmp_path / "run")
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(whole)


def test_what_is_ignored_stays_ignored(recipe: Path, tmp_path: Path, monkeypatch: Any):
    """nohup."""
    if not hasattr(signal, "SIGHUP"):
        pytest.skip("Windows has no SIGHUP")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        watched(monkeypatch, lambda job: signal.raise_signal(signal.SIGHUP))
        run = regard.train(recipe, "train.updates=2", to=tmp_path / "run").run
        assert run.find("last").progress()["finished"]
    finally:
        signal.signal(signal.SIGHUP, before)


# Two processes

HOLD = """
import sys, time
from pathlib import Path
from regard.train import lock
with lock.held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_processes_on_one_run(recipe: Path, tmp_path: Path, capsys: Any, tally: Tally):
    """The second one is told who is there; a lock dies with its process, however that ends."""
    run = regard.train(recipe, "train.updates=2", to=tmp_path / "run").run
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.folder)],
        stdout=subprocess.PIPE,
        cwd=PROJECT,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(SystemExit) as stop:
            cli.main(["train", "--resume", str(run.folder)])
        assert stop.value.code == 1
        told = capsys.readouterr().err
        assert f"{run.folder} is in use by process {other.pid} on " in told
        assert "Traceback" not in told
        assert regard.load(run.folder).predict(["ka"]), "it can be used meanwhile"
    finally:
        other.kill()
        other.wait()
    regard.train(resume=run.folder)
    tally("second processes turned away", 1)


def test_two_processes_that_begin_the_same_run(recipe: Path, tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    with lock.held(folder), pytest.raises(UserError, match=f"in use by process {os.getpid()} on"):
        regard.train(recipe, to=folder)
    assert [file.name for file in folder.iterdir()] == [lock.NAME], "nothing of it is touched"
    assert regard.train(recipe, "train.updates=1", to=folder).run.folder == folder


def test_a_lock_is_for_one_at_a_time(tmp_path: Path):
    with lock.held(tmp_path):
        pass
    with lock.held(tmp_path), pytest.raises(UserError, match="is in use"), lock.held(tmp_path):
        pass
