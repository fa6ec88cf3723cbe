"""Two processes train as one does: the same loss, whatever is divided, split, refused or resumed.

Both are started once, and all is tried in them (`ranks.py`); here their findings are looked at.
"""

import json
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

from tests.fault import ranks, tiny
from tests.fault.conftest import FULL, Tally

pytestmark = pytest.mark.timeout(600)
EVERY = [("transformer", "none"), ("transformer", "full"), ("lstm", "none"), ("lstm", "full")]
CASES = [case for case in EVERY if FULL or case[1] in ranks.SHARDINGS[case[0]]]
each_case = pytest.mark.parametrize(("kind", "sharding"), CASES)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("ranks")
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "",
    }
    command = [
        sys.executable,
        "-m",
        "tests.fault.ranks",
        str(folder),
        "whole" if FULL else "sample",
    ]
    pair = [
        subprocess.Popen(command, env={**os.environ, **common, "RANK": rank, "LOCAL_RANK": rank})
        for rank in ("0", "1")
    ]
    try:
        assert [process.wait(500) for process in pair] == [0, 0]
    finally:
        for process in pair:
            process.kill()
            process.wait()
    made: dict[str, Any] = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return made


def losses(training: dict[str, Any]) -> list[float | None]:
    """None of an update that was refused."""
    return [record.get("nll") for record in training["train"]]


def assert_the_same(one: dict[str, Any], other: dict[str, Any], within: float) -> None:
    assert len(losses(one)) == len(losses(other))
    assert one["refused"] == other["refused"]
    assert one["examples"] == other["examples"], "the same examples in the same order"
    for mine, theirs in zip(losses(one), losses(other), strict=True):
        assert mine == theirs or abs(mine - theirs) < within  # type: ignore[operator]


@each_case
def test_both_learn_what_one_does(
    found: dict[str, Any], kind: str, sharding: str, tally: Tally
) -> None:
    """For 50 updates in double precision, with dropout, by two, one, and two again."""
    alone, both = found[f"{kind} alone"], found[f"{kind} {sharding}"]
    assert_the_same(alone, both, 1e-9)
    assert len(losses(both)) == 50
    starts = [(r["update"], r.get("processes", 1)) for r in both["start"]]
    assert starts == [(0, 2), (20, 1), (30, 2)]
    assert len(both["checkpoints"]) == 2 and "damaged" not in str(both["checkpoints"])
    tally("updates by two processes, the loss within 1e-9 of that by one", 50)


@each_case
def test_shards_are_written_by_both(found: dict[str, Any], kind: str, sharding: str) -> None:
    """Of each of two checkpoints, weights and moments of each rank; or none."""
    assert found[f"{kind} {sharding}"]["shards"] == (8 if sharding == "full" else 0)


def test_what_is_gathered_is_an_ordinary_run(found: dict[str, Any]) -> None:
    """And goes on as one process would have. A shard that is damaged is named, and costs no more
    than what was learnt since the checkpoint before."""
    seen, alone = found["gathering"], found["transformer alone"]
    assert seen["updates"] == [[10, 20], []] and seen["same"]
    assert all(f"{seen['shard']} is damaged" in said for said in seen["said"]), seen["said"]
    assert len(seen["aside"]) == 1
    for name in ("gathered", "damaged"):
        mine = losses(found[f"transformer {name}"])
        assert mine == pytest.approx(losses(alone), abs=1e-9)
    assert found["transformer gathered"]["shards"] == 0


def test_what_is_not_stored_both_read_alike(found: dict[str, Any]) -> None:
    assert_the_same(found["streamed alone"], found["streamed"], 1e-9)
    ids = [n for record in found["streamed"]["examples"] for n in record["ids"]]
    assert sorted(ids[:30]) == sorted(ids[30:60]) == list(range(30)), "each once in an epoch"


def test_text_that_is_not_stored_both_read_alike(found: dict[str, Any]) -> None:
    """With the state of an LSTM, over the borders of windows."""
    assert_the_same(found["text streamed alone"], found["text streamed"], 1e-9)
    assert len(losses(found["text streamed"])) == 20


@each_case
@pytest.mark.parametrize("what", ["split", "refused"])
def test_what_one_does_to_a_batch_both_do(
    found: dict[str, Any], kind: str, sharding: str, what: str
) -> None:
    alone, both = found[f"{kind} {what} alone"], found[f"{kind} {what} {sharding}"]
    assert_the_same(alone, both, 1e-9)
    [mine], [theirs] = both["validation"], alone["validation"]
    assert mine == pytest.approx(theirs, abs=1e-9), "a validation that both share"
    assert kind == "lstm" or "chrf" in mine or "bleu" in mine, "and predict for"
    if what == "split":  # and the parts have draws of their own
        assert losses(alone)[0] != losses(found[f"{kind} alone"])[0]
    assert bool(alone["refused"]) == (what == "refused")


@each_case
def test_near_in_single_precision(found: dict[str, Any], kind: str, sharding: str) -> None:
    alone, both = found[f"{kind} single alone"], found[f"{kind} single {sharding}"]
    assert_the_same(alone, both, 1e-5)
    mine, theirs = both["gradient"], alone["gradient"]
    square = sum((a - b) ** 2 for a, b in zip(mine, theirs, strict=True))
    assert 0 < square**0.5 < 1e-5 * sum(b * b for b in theirs) ** 0.5, "equal, but for rounding"


def test_blocks_of_a_divided_model_are_computed_twice(found: dict[str, Any]) -> None:
    once, twice = found["transformer single full"], found["transformer recomputed"]
    assert_the_same(once, twice, 1e-7)
    assert twice["gradient"] == pytest.approx(once["gradient"], rel=1e-6, abs=1e-9)


def test_who_hangs_is_named(found: dict[str, Any]) -> None:
    assert found["hanging"].startswith("rank 0: rank 1 is stuck at a nap.")


def test_all_kinds_are_tried() -> None:
    assert {kind for kind, _ in CASES} == set(tiny.KINDS)
