"""`regard train --processes N`: who starts the ranks, and what it does when one of them is lost.

What a lost rank leads to is tried with processes that only say how they end; then for real.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from regard.errors import RecipeError
from regard.recipe import config
from regard.runs import Run
from regard.train import checkpoint, processes
from regard.verbs import learning
from regard.verbs.processes import LOST, launch
from tests.fault import tiny
from tests.fault.conftest import FULL, Tally
from tests.fault.test_kill import CHANGES, _children, assert_each_once
from tests.fault.test_ranks import free_port

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="asks /proc who the ranks are"),
]
STAND_IN = """
import json, os, signal, sys, time
rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
with open(f"said-{attempt}-{rank}", "w") as file:
    json.dump([sys.argv[1:], os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"]], file)
"""
NOTICES = "signal.signal(signal.SIGTERM, lambda *_: os._exit(75)); time.sleep(60)"
Launch = Callable[[str], int]


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """Two processes that do what some Python says."""
    (tmp_path / "regard").mkdir()
    (tmp_path / "regard" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("regard.verbs.processes.NOTICE", 0.1)
    monkeypatch.setattr("regard.verbs.processes.PATIENCE", 1.0)

    def run(does: str) -> int:
        code = STAND_IN + does
        (tmp_path / "regard" / "__main__.py").write_text(code, encoding="utf-8")
        return launch(2, ["train", "some.toml"])

    return run


def attempts() -> int:
    return len([*Path().glob("said-*-0")])


def test_each_knows_who_it_is(launched: Launch):
    assert launched("") == 0
    said = [json.loads(Path(f"said-0-{rank}").read_text()) for rank in range(2)]
    assert said == [[["train", "some.toml"], "2", str(rank)] for rank in range(2)]


def test_an_error_is_not_tried_again(launched: Launch, capfd: pytest.CaptureFixture[str]):
    assert launched(f"if rank: sys.exit(2)\n{NOTICES}") == 2
    assert attempts() == 1 and not capfd.readouterr().err


def test_a_killed_one_is_named_and_all_start_again(
    launched: Launch, capfd: pytest.CaptureFixture[str]
):
    killed = "os.kill(os.getpid(), 9)"
    assert launched(f"if attempt: sys.exit()\nif rank: {killed}\n{NOTICES}") == 0
    assert attempts() == 2
    said = capfd.readouterr().err
    assert "rank 1 was ended by SIGKILL: all 2 processes start again, from the last" in said


def test_one_that_stands_still_is_named(launched: Launch, capfd: pytest.CaptureFixture[str]):
    """The other one has noticed; what gets no signal is killed."""
    stands = "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    does = f"if attempt: sys.exit()\nif not rank: time.sleep(0.3); sys.exit({LOST})\n{stands}"
    assert launched(does) == 0
    assert "rank 1 stood still: all 2 processes start again" in capfd.readouterr().err


def test_three_failures_in_a_row_are_no_accident(
    launched: Launch, capfd: pytest.CaptureFixture[str]
):
    assert launched(f"sys.exit({LOST})") == 1
    assert attempts() == 3
    assert "for the 3rd time in a row: given up" in capfd.readouterr().err


def test_a_signal_to_stop_is_handed_to_one(launched: Launch):
    """Who stops the others."""
    pid = os.getpid()
    ranks = (
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(130))\n"
        f"if not rank: os.kill({pid}, signal.SIGINT); time.sleep(60)\n"
        "time.sleep(0.5); sys.exit(130)"
    )
    assert launched(ranks) == 130
    assert attempts() == 1


def test_how_many_there_can_be():
    for count in (0, 257):
        with pytest.raises(RecipeError, match=f"--processes: {count} is not from 1 to 256"):
            launch(count, [])


# What torchrun starts again


def test_a_run_of_the_same_recipe_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """torchrun counts no start that others bring about who come or go."""
    recipe, run = tiny.write("transformer", tmp_path), tmp_path / "run"
    changes = ["train.epochs=2"]
    assert learning._begun(recipe, changes, run, None) is None
    Run.create(run, config.load(recipe, changes))
    assert learning._begun(recipe, changes, run, None) is None, "not started by torchrun"
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert learning._begun(recipe, changes, run, None) == run
    assert learning._begun(recipe, ["train.epochs=3"], run, None) is None
    assert learning._begun(recipe, changes, tmp_path / "other", None) is None
    monkeypatch.setattr("regard.runs.state.RUNS", tmp_path)
    run.rename(tmp_path / recipe.stem)
    assert learning._begun(recipe, changes, None, None) == tmp_path / recipe.stem
    (tmp_path / recipe.stem / "model").mkdir()
    assert learning._begun(recipe, changes, None, None) is None, "it is finished"


# Who does not answer


class Noted:
    """A store in this process."""

    def __init__(self) -> None:
        self.said: dict[str, bytes] = {}

    def clone(self) -> "Noted":
        return self

    def set(self, name: str, text: str) -> None:
        self.said[name] = text.encode()

    def get(self, name: str) -> bytes:
        return self.said[name]

    def check(self, names: list[str]) -> bool:
        return all(name in self.said for name in names)


def test_who_has_gone_is_told_from_who_is_stuck(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "BEAT", 0.05)
    store = Noted()
    asking, stuck = (processes.Processes(store, rank, 4) for rank in (0, 1))
    asking.calls, stuck.calls, stuck.doing = 7, 6, "a batch"
    store.set("beat/2", json.dumps([1, 7, "the forward pass"]))  # and never again
    time.sleep(0.2)
    said = str(asking.explained(RuntimeError("Timed out waiting")))
    for group in (asking, stuck):
        group._left.set()
    assert said.startswith(
        "rank 0: rank 1 is stuck at a batch, rank 2 gives no sign of life, last at the forward "
        "pass, rank 3 gives no sign of life."
    )


# For real


def started(run: Path, recipe: Path, *changes: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "regard", "train", str(recipe), "--to", str(run)]
    return subprocess.Popen(
        [*command, "--processes", "2", *CHANGES, *changes], stderr=subprocess.PIPE, text=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip


def wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path):
    recipe, run = tiny.write("transformer", tmp_path), tmp_path / "run"
    process = started(run, recipe, "train.updates=100000")
    wait_for(run / "checkpoints", process)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    assert process.returncode == 130, said
    assert "--resume" in said and checkpoint.newest(run / "checkpoints", resumable=True)[0]


@pytest.mark.skipif(not FULL, reason="of the whole")
def test_a_killed_rank_costs_no_example(tmp_path: Path):
    recipe, run = tiny.write("transformer", tmp_path), tmp_path / "run"
    process = started(run, recipe)
    wait_for(run / "recipe.toml", process)
    os.kill(max(_children(process.pid)), signal.SIGKILL)
    assert "was ended by SIGKILL" in process.communicate()[1]
    assert process.returncode == 0
    assert_each_once(run)


@pytest.mark.skipif(not FULL, reason="of the whole")
def test_a_rank_that_is_stopped_is_named_and_started_again(tmp_path: Path):
    recipe, run = tiny.write("transformer", tmp_path), tmp_path / "run"
    process = started(run, recipe, "train.timeout=0.15")
    wait_for(run / "recipe.toml", process)
    os.kill(max(_children(process.pid)), signal.SIGSTOP)
    said = process.communicate()[1]
    assert process.returncode == 0, said
    assert "rank 1 gives no sign of life" in said and "start again" in said
    assert_each_once(run)


@pytest.mark.skipif(not FULL, reason="of the whole")
def test_nodes_come_and_go(tmp_path: Path, tally: Tally):
    """Begun with one node, torchrun goes on with two; started anew, after all were killed, with one
    again."""
    recipe, run, updates = tiny.write("transformer", tmp_path), tmp_path / "run", 600
    words = ["--nnodes=1:2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--max-restarts=9"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", *words]
    torchrun.append(f"--rdzv-endpoint=127.0.0.1:{free_port()}")
    changes = [*CHANGES, f"train.updates={updates}", "train.save_every=50"]
    changes.append("train.validate_every=0")
    command = [*torchrun, "-m", "regard", "train", str(recipe), "--to", str(run), *changes]
    nodes: list[subprocess.Popen[bytes]] = []
    # Else a node that comes waits for an address that torchrun 2.13 gives in the first round alone.
    environment = os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

    def kill(node: "subprocess.Popen[bytes]") -> None:
        for pid in (*_children(node.pid), node.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        node.wait()

    def saved_by(count: int) -> bool:
        newest, _ = checkpoint.newest(run / "checkpoints", resumable=True)
        return newest is not None and newest.progress()["machine"].get("processes", 1) == count

    try:
        for count in (1, 2):
            nodes.append(subprocess.Popen(command, env=environment))
            while not saved_by(count):
                assert all(node.poll() is None for node in nodes)
                time.sleep(0.1)
        while nodes:
            kill(nodes.pop())
        nodes.append(subprocess.Popen(command, env=environment))
        assert nodes[0].wait(200) == 0
    finally:
        for node in nodes:
            kill(node)
    assert_each_once(run, updates)
    starts = [record for record in Run(run).records() if record["kind"] == "start"]
    assert [record.get("processes", 1) for record in starts] == [1, 2, 1]
    tally("nodes of torchrun's that came or went", 2)
