"""Servers for tests: tiny runs, on a port of this machine, in a thread or in a process."""

import asyncio
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from regard.serve.server import Server, address, bound
from regard.serve.settings import Settings
from regard.serve.shelf import sources
from tests import small_runs

PROJECT = Path(__file__).resolve().parents[2]
FULL = os.environ.get("REGARD_FAULTS") == "full"
"""Whether all is to be tried, and not a sample of it."""
PATIENCE = 100.0
"""Seconds for what happens in one, or ten on a busy machine: nothing is said of speed here."""
KINDS = (
    "transformer", "causal", "filler", "describer", "comparer", "listener", "classifier",
    "tagger", "forecaster",
)  # fmt: skip
DIALOGUES = [
    {"prompt": f"{n} {word}", "answer": word.upper()} for n in range(9) for word in ("dog", "cat")
]


def make(folder: Path) -> dict[str, Path]:
    """A run of each kind, and one that answers, untrained."""
    for kind in KINDS:
        small_runs.make(kind, folder / kind)
    data = folder / "chat-data"
    data.mkdir()
    lines = (json.dumps(each) + "\n" for each in DIALOGUES)
    (data / "d.jsonl").write_text("".join(lines))
    keys: dict[str, Any] = {
        "unit": "dialogue",
        "data": {"folder": str(data), "train": ["d.jsonl"], "validation": ["d.jsonl"]},
        "tokenizer": {"kind": "character"},
        "search": {"kind": "greedy"},
    }
    parts = {"decoder": {**small_runs.BLOCKS, "norm": "pre"}}
    small_runs.create("language_model", parts, folder / "chat", **keys)
    return {kind: folder / kind for kind in (*KINDS, "chat")}


def languages(folder: Path) -> Path:
    """A run that tells languages apart."""
    data = folder / "tsv"
    data.mkdir()
    (data / "l.tsv").write_text("en\ta dog runs\nde\tein hund rennt\nfr\tun chien court\n")
    parts = small_runs.FAMILIES["classifier"][1]
    given = {"folder": str(data), "train": ["l.tsv"]}
    return small_runs.create("classify", parts, folder / "languages", data=given).folder


class Running:
    """A server in a thread of this process."""

    def __init__(
        self,
        runs: list[str],
        *,
        wait: bool = True,
        watched: dict[str, Path] | None = None,
        **options: Any,
    ) -> None:
        settings = Settings(port=0, **options)
        self._socket = bound(settings)
        self.url = address(self._socket)
        self.port = int(self.url.rpartition(":")[2])
        self.server = Server(sources(runs), settings, watched=watched)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        until(lambda: self.server.started and (self.server.shelf.ready or not wait))

    def _run(self) -> None:
        sys.setswitchinterval(0.001)  # as `Server.run_on`, which owns its process
        self.loop.run_until_complete(self.server._run(self._socket))

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.server._end)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=PATIENCE, **options)

    def service(self, name: str) -> Any:
        return self.server.shelf.services[name]

    def idle(self) -> bool:
        """Whether no place is taken."""
        queues = [service.queue for service in self.server.shelf]
        return all(queue.requests == queue.items == 0 for queue in queues)


@contextmanager
def running(*runs: Path | str, **options: Any) -> Iterator[Running]:
    made = Running([str(run) for run in runs], **options)
    try:
        yield made
    finally:
        made.stop()


class Held:
    """A run's engine stands still: what is asked of it waits until `go`."""

    def __init__(self, server: Running, name: str) -> None:
        self._server, self._engine = server, server.service(name).engine
        self._put = self._engine.put
        self._works: list[Any] = []
        self._engine.put = self._works.append

    def go(self) -> None:
        """Everything that has waited is answered, and all that comes."""
        self._engine.put = self._put
        for each in self._works:
            self._server.loop.call_soon_threadsafe(self._put, each)


def asked(server: Running, model: str) -> int:
    """The status of a prediction, on a connection of its own."""
    body = json.dumps({"model": model, "inputs": "a dog runs"})
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as client:
        client.request("POST", "/v1/predict", body, {"content-type": "application/json"})
        return client.getresponse().status


@contextmanager
def others_served(server: Running, model: str) -> Iterator[None]:
    """Meanwhile another client asks for predictions, on a new connection each time: all of its
    requests are answered by 200."""
    over = threading.Event()

    def go() -> list[int]:
        codes = [asked(server, model)]
        while not over.wait(0.01):
            codes.append(asked(server, model))
        return [*codes, asked(server, model)]

    with ThreadPoolExecutor(1) as other:
        codes = other.submit(go)
        try:
            yield
        finally:
            over.set()
        assert {*codes.result()} == {200}


def until(true: Any, seconds: float = PATIENCE) -> None:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


class Process:
    """`regard serve` as a process of its own."""

    def __init__(self, *arguments: str | Path, log: Path) -> None:
        self.log = log
        command = [sys.executable, "-m", "regard", "serve", *map(str, arguments), "--port", "0"]
        with log.open("w") as stream:
            self.process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT)},
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
            )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()  # as soon as it listens
        assert said.startswith("serving at http"), log.read_text()
        self.url = said.split()[-1]
        self.port = int(self.url.rpartition(":")[2])

    def ready(self) -> "Process":
        until(self._ready)
        return self

    def _ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return httpx.get(f"{self.url}/ready", timeout=PATIENCE).status_code == 200
        except httpx.TransportError:
            return False

    def events(self) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
