"""What a server holds after many requests is what it held after some."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from bench.load import Connection
from tests.serve.serving import FULL, Process, Running

pytestmark = pytest.mark.skipif(os.name == "nt", reason="what a process holds is asked of Linux")
WARM, MANY = (20_000, 200_000) if FULL else (300, 800)
WITHIN = 1.05 if FULL else 1.2
"""Of a few requests, what is loaded with the first of each kind is still a part."""
CLIENTS = 16


def bodies() -> list[tuple[str, bytes]]:
    """Requests of several kinds, some of them refused, no two of a kind the same."""
    words = ["a", "dog", "runs", "two", "dogs", "play", "in", "the", "snow", "man", "sits"]
    found: list[tuple[str, Any]] = []
    for n in range(500):
        text = " ".join(words[(n * k) % len(words)] for k in range(1, 2 + n % 7))
        found += [
            ("/translate", {"q": text, "source": "auto", "target": "target"}),
            ("/v1/predict", {"model": "classifier", "inputs": [text, f"{text} {n}"]}),
            ("/v1/completions", {"model": "causal", "prompt": text, "max_tokens": 3, "seed": n}),
            ("/v1/predict", {"model": f"nobody-{n}", "inputs": text}),
        ]
    return [(path, json.dumps(body).encode()) for path, body in found]


async def ask(port: int, count: int, asked: list[tuple[str, bytes]], codes: set[int]) -> None:
    todo = iter(range(count))

    async def one() -> None:
        kept = {path: Connection(port, path) for path, _ in asked}
        for n in todo:
            path, body = asked[n % len(asked)]
            codes.add((await kept[path].ask(body)).status)
        for each in kept.values():
            await each.close()

    await asyncio.gather(*(one() for _ in range(CLIENTS)))


def megabytes(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux")
@pytest.mark.timeout(3600 if FULL else 120)
def test_requests_leave_nothing_behind(
    server: Running, runs: dict[str, Path], tmp_path: Path
) -> None:
    if not FULL:  # clients and server are one process: this is to show that the test works
        check(server.port, os.getpid())
        return
    names = ("transformer", "classifier", "causal")
    process = Process(*(runs[name] for name in names), "--log", "errors", log=tmp_path / "log")
    try:
        process.ready()
        check(process.port, process.process.pid)
    finally:
        process.kill()


def check(port: int, process: int) -> None:
    asked, codes = bodies(), set[int]()
    asyncio.run(ask(port, WARM, asked, codes))
    before = megabytes(process)
    asyncio.run(ask(port, MANY - WARM, asked, codes))
    after = megabytes(process)
    print(f"{before:.1f} MB after {WARM:,} requests, {after:.1f} MB after {MANY:,}")
    assert codes == {200, 404}
    assert after <= WITHIN * before, f"{before:.1f} MB, then {after:.1f} MB"
