"""Processes that share a port: how they are started again, and what they count together."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from regard.serve import workers
from regard.serve.metrics import SHARED
from regard.serve.settings import Settings
from tests.serve.serving import PATIENCE, PROJECT, Process, until

pytestmark = pytest.mark.skipif(os.name == "nt", reason="processes that share a socket")
WORKER = """
import itertools, os, sys, time
folder, *plan = sys.argv[1:]
for n in itertools.count():  # which of all that were started this is
    try:
        os.close(os.open(os.path.join(folder, str(n)), os.O_CREAT | os.O_EXCL))
        break
    except FileExistsError:
        pass
act = plan[min(n, len(plan) - 1)]
if act == "serve":
    os.write(int(os.environ["REGARD_SERVE_READY"]), b".")
if act != "fail":
    time.sleep(600)
sys.exit(1)
"""
Begin = Callable[..., workers._Supervisor]


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """A file in it for each process that was started."""
    folder = tmp_path / "started"
    folder.mkdir()
    return folder


@pytest.fixture
def begin(tmp_path: Path, started: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    monkeypatch.setattr(workers, "PAUSES", (0.02, 0.1))
    begun = list[workers._Supervisor]()

    def make(*plan: str) -> workers._Supervisor:
        """Two processes; `plan` says what each that is started does, the last what others do."""
        command = [sys.executable, "-S", "-c", WORKER, str(started), *plan]
        begun.append(workers._Supervisor(listening, Settings(workers=2), command, str(tmp_path)))
        return begun[-1]

    with socket.socket() as listening:
        yield make
    for each in begun:
        for process in each._processes:
            process.kill()
            process.wait()


def looked(supervisor: workers._Supervisor, true: Callable[[], bool]) -> bool:
    supervisor.look()
    return true()


def test_one_that_ends_early_is_started_again_and_again(begin: Begin, started: Path) -> None:
    supervisor = begin("serve", "fail", "fail", "fail", "serve")
    places = supervisor._places
    until(lambda: looked(supervisor, lambda: all(place.ready for place in places)))
    assert len([*started.iterdir()]) == 5


def test_all_end_where_none_can_begin(begin: Begin, started: Path) -> None:
    supervisor = begin("fail")
    with pytest.raises(SystemExit) as end:
        until(lambda: looked(supervisor, lambda: False))
    assert end.value.code == 1
    assert len([*started.iterdir()]) == 2


def test_who_could_not_begin_waits_for_another_to_do_so(begin: Begin, started: Path) -> None:
    supervisor = begin("load", "fail")
    places = supervisor._places
    until(lambda: looked(supervisor, lambda: any(place.refused for place in places)))
    until(lambda: (started / "0").exists())
    for _ in range(20):
        time.sleep(0.01)
        supervisor.look()
    assert len([*started.iterdir()]) == 2
    [loading] = supervisor._processes
    loading.kill()  # which says nothing of the runs: it is started again, and fails, too
    with pytest.raises(SystemExit):
        until(lambda: looked(supervisor, lambda: False))
    assert len([*started.iterdir()]) == 3


def test_pauses_grow_up_to_a_minute() -> None:
    place = workers._Place()

    def pause(lived: float) -> float:
        place._pipe, other = os.pipe()
        os.close(other)
        now = time.monotonic()
        place._begun = now - lived
        place._ended(-9)
        return place.due - now

    wanted = [1, 2, 4, 8, 16, 32, 60, 60]
    assert [pause(3) for _ in wanted] == pytest.approx(wanted, abs=0.5)
    assert pause(61) == pytest.approx(0, abs=0.5)
    assert pause(3) == pytest.approx(1, abs=0.5)


COUNTS = """
import sys
from types import SimpleNamespace
from regard.serve.metrics import Metrics
metrics, count = Metrics(), int(sys.argv[1])
for _ in range(count):
    metrics.seen("/v1/predict", 200, 0.1)
figures = dict.fromkeys(["requests", "highest", "answered", "items"], count)
queue = SimpleNamespace(**figures, rate=lambda: 2.0)
metrics.look([SimpleNamespace(name="mine", queue=queue, version=count)])
print(metrics.text().decode())
"""


def counted(folder: Path, count: int) -> dict[str, float]:
    """What a process says that has counted so much itself."""
    found = subprocess.run(
        [sys.executable, "-c", COUNTS, str(count)],
        env={**os.environ, SHARED: str(folder), "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines = [each for each in found.stdout.splitlines() if each and each[0] != "#"]
    return {name: float(value) for name, _, value in (each.rpartition(" ") for each in lines)}


def test_figures_are_of_all_processes(tmp_path: Path) -> None:
    answered, took = (
        'regard_requests_total{route="/v1/predict",status="200"}',
        'regard_request_seconds_count{route="/v1/predict"}',
    )
    for count, total in ((3, 3), (5, 8), (0, 8)):
        found = counted(tmp_path, count)
        assert found[answered] == found[took] == total
        assert found['regard_inputs_answered_total{run="mine"}'] == total
    assert found['regard_queue_requests{run="mine"}'] == 8
    assert found['regard_queue_requests_highest{run="mine"}'] == 5
    assert found['regard_inputs_a_second{run="mine"}'] == 6
    assert found['regard_run_version{run="mine"}'] == 0


@pytest.mark.timeout(400)
def test_processes_share_a_port(runs: dict[str, Path], tmp_path: Path) -> None:
    process = Process(runs["classifier"], "--workers", "2", log=tmp_path / "log")
    try:
        process.ready()
        started = [e["process"] for e in process.events() if e["event"] == "worker started"]
        assert len(started) == 2
        ask(process, 3)
        os.kill(started[0], signal.SIGKILL)
        until(lambda: sum(e["event"] == "worker started" for e in process.events()) == 3)
        ask(process, 2)  # if the other one is still loading, the connection waits
        for _ in range(5):  # whichever answers
            figures = httpx.get(f"{process.url}/metrics", timeout=PATIENCE).text
            assert re.search(r'regard_requests_total{.*predict",status="200"} 5\.0', figures)
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(PATIENCE) == 0
    finally:
        process.kill()


def ask(process: Process, count: int) -> None:
    for _ in range(count):
        body = {"inputs": "a dog runs"}
        found = httpx.post(f"{process.url}/v1/predict", json=body, timeout=PATIENCE)
        assert found.status_code == 200
