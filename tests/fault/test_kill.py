"""kill -9 at any instant: no run is lost, and all end as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.train import checkpoint
from regard.verbs.processes import LOST
from tests.fault import tiny
from tests.fault.conftest import FULL, Amount, Tally
from tests.fault.forks import End, Forks

KILLED = -9
ENDED = (LOST, 0, -15, 130)
"""How a process ends whose companion was killed: it notices, has done all, or is told to end."""
EXAMPLES = 30
"""That the tiny recipe trains on."""
UPDATES = 15
CHANGES = ["train.trace=true", f"train.updates={UPDATES}", "train.samples=0"]
pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork"),
]


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as made:
        yield made


class Straight:
    """A run that nothing interrupted."""

    def __init__(self, kind: str, folder: Path, forks: Forks) -> None:
        self.recipe = tiny.write(kind, folder / "data")
        self.end = finished(forks("train", folder / "run", self.recipe))
        self.outcome = tiny.outcome(folder / "run")


@pytest.fixture(scope="module", params=tiny.KINDS)
def straight(
    request: pytest.FixtureRequest, forks: Forks, tmp_path_factory: pytest.TempPathFactory
) -> Straight:
    return Straight(request.param, tmp_path_factory.mktemp(request.param), forks)


def finished(end: End) -> End:
    assert end.code == 0, f"ended with {end.code}: {end.told}"
    return end


def lost(run: Path, straight: Straight) -> dict[str, Any]:
    """What differs from the run that was never killed."""
    mine = tiny.outcome(run)
    return {
        key: (mine[key], value) for key, value in straight.outcome.items() if mine[key] != value
    }


def test_the_run_is_worth_killing(straight: Straight):
    records = straight.outcome["records"]
    assert [r["update"] for r in records if r["kind"] == "train"] == [5, 10, 12]
    assert [r["update"] for r in records if r["kind"] == "validation"] == [4, 8, 12]
    assert straight.end.points > 100


def test_at_random_instants(
    straight: Straight, forks: Forks, tmp_path: Path, amount: Amount, tally: Tally
):
    """Over and over, until it gets to its end between two kills; then another run."""
    chance, kills, runs, last = random.Random(7), 0, 0, straight.end.seconds
    while kills < amount(6, 100):
        run = tmp_path / str(runs)
        while (
            end := forks("train", run, straight.recipe, kill_after=chance.uniform(0, last))
        ).code:
            assert end.code == KILLED, end.told
            kills += 1
            if kills % 5 == 0:
                last = finished(forks("train", run, straight.recipe)).seconds
                break
        assert not lost(run, straight)
        runs += 1
    tally("kills at random instants", kills)
    tally("runs killed at random instants, all as if never killed", runs)


def test_at_every_write_sync_and_rename(
    straight: Straight, forks: Forks, tmp_path: Path, amount: Amount, tally: Tally
):
    """Then the process that goes on is killed, too, at some point of its own."""
    chance, every = random.Random(8), straight.end.points
    points = list(range(1, every + 1))
    for point in sorted(chance.sample(points, amount(8, every))):
        run = tmp_path / str(point)
        assert forks("train", run, straight.recipe, kill_at=point).code == KILLED
        again = forks("train", run, straight.recipe, kill_at=chance.randint(1, every))
        assert again.code in (0, KILLED), again.told
        finished(forks("train", run, straight.recipe))
        assert not lost(run, straight)
        tally("kills at a write, a sync or a rename", 1 + (again.code == KILLED))
        tally("runs killed there, all as if never killed", 1)


# One of several


def reached(run: Path) -> int:
    """The update of the newest whole checkpoint."""
    newest, _ = checkpoint.newest(run / "checkpoints", resumable=True)
    return newest.update if newest else 0


def assert_each_once(run: Path, updates: int = UPDATES) -> None:
    """Every update is there, and every example once in each epoch."""
    records = tiny.outcome(run)["records"]
    traced = [record for record in records if record["kind"] == "examples"]
    assert [record["update"] for record in traced] == list(range(1, updates + 1))
    ids = [number for record in traced for number in record["ids"]]
    for start in range(0, len(ids) - EXAMPLES + 1, EXAMPLES):
        assert sorted(ids[start : start + EXAMPLES]) == list(range(EXAMPLES))


def outcome(run: Path) -> dict[str, Any]:
    """What no kill may change."""
    found = tiny.outcome(run)
    kept = [r for r in found["records"] if r["kind"] in ("train", "validation", "examples")]
    return found | {"records": kept}


class Attempts:
    """A run that two forked processes train, until they get to its end."""

    def __init__(self, forks: Forks, run: Path, recipe: Path, *changes: str) -> None:
        self.run, self._number = run, 0
        self._ask = lambda *words: forks("both", run, recipe, *words, *CHANGES, *changes)

    def __call__(self, killed: int = 0, after: float = -1) -> tuple[list[int], float]:
        """How both ended, and after how many seconds."""
        end = self._ask(self._number, killed, after)
        assert end.code == 0, end.told
        self._number += 1
        codes, seconds = json.loads(end.told)
        return codes, seconds


@pytest.mark.parametrize("sharding", ["none", "full"])
@pytest.mark.parametrize("kind", ["transformer"] if not FULL else tiny.KINDS)
def test_of_two_that_are_forked(
    kind: str, sharding: str, forks: Forks, tmp_path: Path, amount: Amount, tally: Tally
) -> None:
    """They are started again as torchrun starts its workers: until the end, the run is that of two
    whom nobody has killed."""
    if sharding == "full" and not FULL:
        pytest.skip("of the whole")
    recipe, change = tiny.write(kind, tmp_path / "data"), f"train.sharding={sharding}"
    straight = Attempts(forks, tmp_path / "straight", recipe, change)
    codes, last = straight()
    assert codes == [0, 0]
    chance, kills, number = random.Random(9), 0, 0
    while kills < amount(2, 10):
        run, saved = Attempts(forks, tmp_path / str(number), recipe, change), 0
        while True:
            more = kills < amount(2, 10)
            killed = chance.randrange(2)
            codes, _ = run(killed, chance.uniform(0, last) if more else -1)
            assert saved <= reached(run.run), "what was saved is there"
            saved = reached(run.run)
            if codes == [0, 0]:
                break
            # The other one has noticed, or had already ended.
            assert codes[killed] == KILLED and codes[1 - killed] in ENDED, codes
            kills += 1
        assert outcome(run.run) == outcome(tmp_path / "straight")
        if kind == "transformer":
            assert_each_once(run.run)
        number += 1
    tally("kills of one of two processes that were forked, the run as if none had come", kills)


@pytest.mark.skipif(not FULL, reason="takes minutes")
@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc who the workers are")
def test_of_two_that_torchrun_has_started(tmp_path: Path, tally: Tally) -> None:
    """50 kills, of whichever worker, at whatever instant."""
    recipe, chance, kills, number = tiny.write("transformer", tmp_path), random.Random(10), 0, 0
    while kills < 50:
        run = tmp_path / f"run-{number}"
        kills += _killed(recipe, run, chance, 50 - kills)
        assert_each_once(run)
        number += 1
    tally("kills of one of torchrun's two workers, every example once in each epoch", kills)


def _killed(recipe: Path, run: Path, chance: random.Random, most: int) -> int:
    """Train a run by torchrun, and kill a worker now and then, until it is at its end."""
    words = ["--standalone", "--nproc-per-node=2", "--max-restarts=1000", "-m", "regard"]
    command = [sys.executable, "-m", "torch.distributed.run", *words, "train", str(recipe)]
    kills, saved, seen = 0, 0, set[int]()
    process = subprocess.Popen([*command, "--to", str(run), *CHANGES], stderr=subprocess.DEVNULL)
    began = time.monotonic()
    try:
        while process.poll() is None:
            assert time.monotonic() - began < 1500, "it hangs"
            fresh = sorted(_children(process.pid) - seen)
            if len(fresh) < 2 or kills == most:
                time.sleep(0.05)
                continue
            time.sleep(chance.uniform(0, 9))
            seen |= set(fresh)
            victim = chance.choice(fresh)
            if victim in _children(process.pid):
                os.kill(victim, signal.SIGKILL)
                kills += 1
            assert saved <= reached(run), "what was saved is there"
            saved = reached(run)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
    return kills


def _children(pid: int) -> set[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return set()
    return {int(word) for word in text.split()}
