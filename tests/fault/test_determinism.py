"""The same recipe, seed, machine and number of threads: the same weights."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fault import tiny
from tests.fault.conftest import Amount, Tally

PROJECT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, sys
from pathlib import Path
import regard
from regard.runs import finishing
from tests.fault import tiny
finishing.draw = lambda folder, records: None
to, threads, found = Path(sys.argv[1]), sys.argv[2], {}
for kind in tiny.KINDS:
    recipe = tiny.write(kind, to / kind / "data")
    regard.train(recipe, f"train.threads={threads}", to=to / kind / "run")
    found[kind] = tiny.outcome(to / kind / "run")
print(json.dumps(found))
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("threads", [1, 2])
def test_two_processes(threads: int, tmp_path: Path, amount: Amount, tally: Tally):
    """Each with another order of Python's sets."""
    if threads > amount(1, 2):
        pytest.skip("two threads take their time: REGARD_FAULTS=full")
    found = []
    for seed in ("1", "2"):
        end = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / seed), str(threads)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=PROJECT,
            capture_output=True,
            text=True,
        )
        assert end.returncode == 0, end.stderr
        found.append(json.loads(end.stdout.splitlines()[-1]))
    assert found[0] == found[1]
    weights = [found[0][kind]["weights"] for kind in tiny.KINDS]
    assert weights[0] != weights[1]
    tally("models trained twice, in two processes, the same", len(weights))
