"""A sweep that is killed, as a process and twice, ends with the trials of one that was not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from tests.fault.conftest import FULL, Tally
from tests.unit.test_sweep import RATE, outcome, recipe as recipe, sweep

pytestmark = pytest.mark.timeout(600)
TRIALS, KILLED_AT = (20, (4, 11)) if FULL else (5, (1, 3))
"""How many there are, and in which of them the process is killed."""


def command(recipe: Path, to: str) -> list[str]:
    begun = [sys.executable, "-m", "regard", "sweep", str(recipe), f"{RATE}=log:1e-5:1"]
    return [*begun, "--trials", str(TRIALS), "--to", to]


def test_a_sweep_that_is_killed_twice_ends_as_one_that_is_not(recipe: Path, tally: Tally):
    environment = os.environ | {"PYTHONPATH": str(Path(regard.__file__).parents[1])}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    subprocess.run(command(recipe, "whole"), check=True, **quiet)  # type: ignore[call-overload]
    for trial in KILLED_AT:
        process = subprocess.Popen(command(recipe, "killed"), **quiet)  # type: ignore[call-overload]
        begun = Path(f"killed/{trial:03d}/metrics.jsonl")
        while not begun.exists() and process.poll() is None:
            pass
        process.kill()
        process.wait()
        assert not Path(f"killed/{TRIALS - 1:03d}").exists(), "it was killed long before its end"
    subprocess.run(command(recipe, "killed"), check=True, **quiet)  # type: ignore[call-overload]
    whole, killed = (outcome(sweep(recipe, to, TRIALS)) for to in ("whole", "killed"))
    assert len(whole) == TRIALS
    assert killed == whole
    own = next(each for each in whole if each["values"][RATE] == 1e-5)  # type: ignore[index]
    best = min(each["score"] for each in whole if each["state"] == "finished")  # type: ignore[index]
    assert best < own["score"]  # type: ignore[index]
    tally("trials of a sweep that was killed twice", TRIALS)
