"""From the first request to the last: signals, newer versions, processes that share a port."""

import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from regard import cli
from regard.front import load
from regard.serve.service import Source
from tests import small_runs
from tests.serve.serving import FULL, PATIENCE, Process, Running, until

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
BODY: dict[str, Any] = {"inputs": ["a dog runs", "two dogs play in the snow"], "details": False}
STREAM: dict[str, Any] = {"prompt": "a dog", "max_tokens": 60, "stream": True, "seed": 4}


class Crowd:
    """Clients that ask one after the other until somebody stops them."""

    def __init__(self, url: str, count: int = 8, stream: str = "") -> None:
        self.url, self._stream = url, stream
        self.answers: list[Any] = []
        self.refused: list[int] = []
        self.broken: list[str] = []
        self.unheard: list[str] = []
        """Who came so late that the server's door closed before it had read their request."""
        self.ending = threading.Event()
        """From now on the server may close its door."""
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def _ask(self, number: int) -> None:
        while not self._over.is_set():
            begun = False
            try:
                with (
                    httpx.Client(base_url=self.url, timeout=PATIENCE) as client,
                    self._asked(client, number) as found,
                ):
                    begun = True
                    found.read()
                self._take(found)
            except (httpx.TransportError, AssertionError, ValueError) as error:
                late = isinstance(error, httpx.TransportError) and not begun
                (self.unheard if late and self.ending.is_set() else self.broken).append(repr(error))
                return

    def _asked(self, client: httpx.Client, number: int) -> Any:
        if self._stream and number % 2 == 0:
            return client.stream("POST", "/v1/completions", json={**STREAM, "model": self._stream})
        return client.stream("POST", "/v1/predict", json=BODY)

    def _take(self, found: httpx.Response) -> None:
        if found.status_code != 200:
            self.refused.append(found.status_code)
            time.sleep(0.01)
        elif found.headers["content-type"].startswith("text/event-stream"):
            assert found.text.endswith("data: [DONE]\n\n"), "a truncated stream"
            self.answers.append(None)
        else:
            made = found.json()
            assert len(made["predictions"]) == len(BODY["inputs"]), "a truncated answer"
            self.answers.append(made)

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    begun: list[Process] = []

    def begin(*arguments: str | Path) -> Process:
        begun.append(Process(*arguments, log=tmp_path / f"log-{len(begun)}"))
        return begun[-1]

    yield begin
    for each in begun:
        each.kill()


@pytest.mark.timeout(3600 if FULL else 400)
def test_from_the_start_to_sigterm(start: Any, runs: dict[str, Path]) -> None:
    """Alive before it is ready; what was admitted is finished, the rest refused; and nothing that
    was sent is logged."""
    for _ in range(50 if FULL else 1):
        process = start(runs["transformer"], runs["causal"])
        until(lambda p=process: early(p))
        process.ready()
        crowd = Crowd(process.url, stream="causal")
        until(lambda crowd=crowd: len(crowd.answers) > 20)
        crowd.ending.set()
        admitted = {**STREAM, "model": "causal", "max_tokens": 500}
        with (
            httpx.Client(base_url=process.url, timeout=PATIENCE) as client,
            client.stream("POST", "/v1/completions", json=admitted) as found,
        ):
            lines = found.iter_lines()
            next(lines)  # it is being written
            process.process.send_signal(signal.SIGTERM)
            assert [line for line in lines if line][-1] == "data: [DONE]"
        crowd.answers.append(None)
        assert process.process.wait(PATIENCE) == 0
        crowd.stop()
        assert not crowd.broken
        assert set(crowd.refused) <= {503}
        events = process.events()
        assert [each for each in events if each["event"] == "ending"]
        answered = [e for e in events if e["event"] == "request" and e["status"] == 200]
        own = [e for e in answered if e["route"] in ("/v1/predict", "/v1/completions")]
        assert len(own) == len(crowd.answers), "every 200 arrived whole"
        assert {e["status"] for e in events if e["event"] == "request"} <= {200, 503}
        assert "dog" not in process.log.read_text()


def early(process: Process) -> bool:
    """The server is alive; if it is not ready, it says so."""
    try:
        alive = httpx.get(f"{process.url}/health", timeout=PATIENCE).status_code
    except httpx.TransportError:
        return False
    assert alive == 200
    ready = httpx.get(f"{process.url}/ready", timeout=PATIENCE)
    assert ready.status_code == 200 or "retry-after" in ready.headers
    return True


def test_alive_is_not_ready(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The models of this server are not loaded before all has been seen."""
    seen, opened = threading.Event(), Source.open

    def later(self: Source) -> Any:
        seen.wait()
        return opened(self)

    monkeypatch.setattr(Source, "open", later)
    found = Running([str(runs["classifier"])], wait=False)
    with found.client() as client:
        assert client.get("/health").status_code == 200
        for answer in (client.get("/ready"), client.post("/v1/predict", json=BODY)):
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0
        assert client.get("/v1/models").status_code == 503
        seen.set()
        until(lambda: client.get("/ready").status_code == 200)
        assert client.post("/v1/predict", json=BODY).status_code == 200
    found.stop()


@pytest.mark.timeout(1800 if FULL else 400)
def test_sighup_takes_up_a_newer_version(start: Any, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    one, two = (
        small_runs.create(*small_runs.FAMILIES["transformer"], folder, updates)
        for folder, updates in zip(folders, ((), (1,)), strict=True)
    )
    said = [load(each.folder, engine="torch").predict(BODY["inputs"]) for each in (one, two)]
    assert said[0] != said[1]
    served = tmp_path / "served"
    shutil.copytree(folders[0], served)
    process = start(served, "--engine", "torch").ready()
    crowd = Crowd(process.url, 4)
    for n in range(20 if FULL else 2):
        until(lambda n=n: any(each["version"] == n + 1 for each in crowd.answers))
        shutil.rmtree(served / "model")
        shutil.copytree(folders[(n + 1) % 2] / "model", served / "model")
        process.process.send_signal(signal.SIGHUP)
    until(lambda: crowd.answers[-1]["version"] == (21 if FULL else 3))
    # A version that is damaged changes nothing.
    weights = served / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    process.process.send_signal(signal.SIGHUP)
    until(lambda: any(each["event"] == "reload failed" for each in process.events()))
    count = len(crowd.answers)
    until(lambda: len(crowd.answers) > count + 5)
    crowd.stop()
    assert not crowd.broken
    assert not crowd.refused
    process.process.send_signal(signal.SIGINT)
    assert process.process.wait(PATIENCE) == 0
    for each in crowd.answers:
        texts = [prediction["text"] for prediction in each["predictions"]]
        assert texts == said[(each["version"] + 1) % 2]
    assert crowd.answers[-1]["version"] == (21 if FULL else 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["{run}", "{run}"], "two runs are called"),
        (["{run}", "--port", "99999"], "port: 99999 must be"),
        (["{run}", "--keys", "nowhere", "--port", "0"], "nowhere cannot be read"),
        (["{run}", "--host", "203.0.113.1", "--port", "0"], "cannot listen at 203.0.113.1:0"),
        (["{run}", "--port", "{port}"], "cannot listen at 127.0.0.1:{port}"),
    ],
)
def test_what_cannot_be_served(
    arguments: list[str], said: str, runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        words = {"run": runs["classifier"], "port": taken.getsockname()[1]}
        with pytest.raises(SystemExit) as stop:
            cli.main(["serve", *(each.format(**words) for each in arguments)])
    assert stop.value.code in (1, 2)
    found = capsys.readouterr().err
    assert said.format(**words) in found
    assert len(found.strip().splitlines()) == 1


def test_without_a_run_the_demonstrations_is_served(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is trained first, if there is none, and not a second time."""
    trained: list[str] = []
    served: list[Source] = []

    def train(name: str, to: Any, *, as_json: bool) -> bool:
        trained.append(name)
        shutil.copytree(runs["transformer"], Path("runs", "demo-en-de"))
        return True

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("regard.verbs.demo.demo", train)
    monkeypatch.setattr(
        "regard.serve.server.serve", lambda sources, settings, say: served.extend(sources)
    )
    for _ in range(2):
        cli.main(["serve"])
    assert trained == ["en-de"]
    assert [each.name for each in served] == ["demo-en-de"] * 2
