"""kill -9 at any instant: no run is lost, and all end as if nothing had happened."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fault import tiny
from tests.fault.conftest import Amount, Tally
from tests.fault.forks import End, Forks

KILLED = -9
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
