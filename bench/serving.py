"""Serving: what a server keeps of the speed of `predict`, beside plain servers, under load.

The client is on the same machine, and counts. Each server is a process of its own and works alone.
"""

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from bench import decoding
from bench.load import Seen, bodies, closed, opened
from bench.peers import HERE, HOME
from regard import front, runs
from regard.errors import UserError
from regard.model import build
from regard.recipe import config
from regard.serve.languages import languages_of
from regard.train import checkpoint
from regard.train.progress import Progress

CLIENTS = 64
TOGETHER = (1, 16)
"""Sentences of a request."""
QUICK_ENOUGH = ("regard", "FastAPI, CTranslate2")
"""To be asked for sixteen sentences at once by 64 clients."""
OVERLOAD = 10
BEAMS = 5
BASE = (
    "model.dim=512", "model.encoder.layers=6", "model.decoder.layers=6", "model.encoder.heads=8",
    "model.decoder.heads=8", "model.encoder.feedforward=2048", "model.decoder.feedforward=2048",
    "output.factor=0.001", "output.extra=16",
)  # fmt: skip
"""The base size; its weights are drawn by chance, so that outputs end where they may be no longer:
after 16 tokens, about as many as a translation here has."""
WANTED = {"1": 0.65, "16": 0.85, "base": 0.85, "FastAPI, CTranslate2": 1.0,
          "FastAPI, Hugging Face": 5.0}  # fmt: skip
"""What a server is to keep of `predict`, and to be beside others, at the least."""
PLACES = 96
"""Of the queue."""


def serve(options: argparse.Namespace) -> dict[str, Any]:
    """Throughput with 64 clients, beside plain servers; then ten times what it can take."""
    run = decoding._run(options)
    task: Any = run.task
    sentences = task.references("test")[0][: 256 if options.quick else 1000]
    result: dict[str, Any] = {"sizes": {}}
    for size, chosen in (("run", run), ("base", _base(run))):
        print(f"\n{size}: {chosen.folder}", flush=True)
        result["sizes"][size] = _size(options, chosen, sentences, whole=size == "run")
    lines = _verdicts(result["sizes"])
    missed = _judged(lines)
    result["verdicts"] = {name: [round(found, 3), *wanted] for name, found, *wanted in lines}
    return result | {"missed": missed, "complete": not missed}


Line = tuple[str, float, str, float]
"""A name, what came, a sign, and what was wanted."""


def _verdicts(sizes: dict[str, Any]) -> list[Line]:
    """What was wanted and what came."""
    lines: list[Line] = []
    for size, found in sizes.items():
        ours = found["servers"]["regard"]
        for items, figures in ours.items():
            wanted = WANTED["base"] if size == "base" else WANTED[items]
            lines.append((f"{size}, {items} each, of predict", figures["of_offline"], "≥", wanted))
        for name, theirs in found["servers"].items():
            if name != "regard":
                for items, figures in theirs.items():
                    ratio = ours[items]["sentences_per_second"] / figures["sentences_per_second"]
                    lines.append((f"{size}, {items} each, of {name}", ratio, "≥", WANTED[name]))
    return lines + _under_overload(sizes["base"]["overload"])


def _under_overload(over: dict[str, Any]) -> list[Line]:
    """Of ten times what a server answers."""
    statuses = over["admitted"]["statuses"]
    others = sum(count for status, count in statuses.items() if status not in ("200", "503"))
    held = over["megabytes"]
    later = held[len(held) // 6 :]  # after ten seconds of a minute
    return [
        ("overload: times the usual rate", over["times_usual"], "≥", 0.99 * OVERLOAD),
        ("overload: requests in the queue", over["most_in_queue"], "≤", PLACES),
        ("overload: admitted requests", statuses.get("200", 0), "≥", 1),
        ("overload: refused requests", statuses.get("503", 0), "≥", 1),
        ("overload: neither 200 nor 503", others, "≤", 0),
        ("overload: refusals without Retry-After", over["without_wait"], "≤", 0),
        ("overload: refusals, p99 in ms", over["refused_p99_ms"], "≤", 50),
        ("overload: admitted, p99 of the usual", over["admitted_p99_times_usual"], "≤", 2),
        ("overload: memory, of that after a sixth", max(later) / max(later[0], 1e-9), "≤", 1.05),
    ]


def _judged(lines: Sequence[Line]) -> list[str]:
    """Each line with yes or NO; the names of those that are missed."""
    missed = []
    print()
    for name, found, sign, wanted in lines:
        good = found >= wanted if sign == "≥" else found <= wanted
        print(f"{name:>44}  {found:9.2f}  {sign} {wanted:<6g}  {'yes' if good else 'NO'}")
        if not good:
            missed.append(name)
    if missed:
        print(f"\nmissed: {'; '.join(missed)}", flush=True)
    return missed


def _base(run: runs.Run) -> runs.Run:
    """A run of the base size with the tokenizers of another."""
    folder = HOME / f"serve-base-{run.folder.resolve().name}"
    if not (folder / "model").is_dir():
        shutil.rmtree(folder, ignore_errors=True)
        made = runs.Run.create(folder, config.load(run.folder / "recipe.toml", BASE))
        torch.manual_seed(1)
        built = build(made.recipe.model, made.task.sizes)
        checkpoint.save(folder / "model", checkpoint.weights_of(built), Progress().as_dict())
    return runs.Run(folder)


def _size(
    options: argparse.Namespace, run: runs.Run, sentences: Sequence[str], *, whole: bool
) -> dict[str, Any]:
    seconds = 8.0 if options.quick else 30.0 if whole else 60.0
    offline = _offline(run, sentences, seconds)
    print(f"{'predict, offline':>28}  {offline:9.1f} sentences per second", flush=True)
    _, target = languages_of(run)
    found: dict[str, Any] = {"offline": round(offline, 1), "servers": {}}
    for name, command in _servers(options, run, huggingface=whole).items():
        with _started(command) as (port, process):
            for items in TOGETHER if name in QUICK_ENOUGH else TOGETHER[:1]:
                asked = bodies(sentences, items, target)
                asyncio.run(closed(port, "/translate", asked, 8, 2))  # warm-up
                seen = asyncio.run(closed(port, "/translate", asked, CLIENTS, seconds))
                figures = _shown(f"{name}, {items} each", seen, items, offline)
                found["servers"].setdefault(name, {})[str(items)] = figures
            if name == "regard" and not whole:
                usual = found["servers"][name]["1"]
                found["overload"] = _overload(options, port, process, sentences, usual, target)
    return found


def _shown(name: str, seen: Seen, items: int, offline: float) -> dict[str, Any]:
    if {*seen.seconds} != {200}:
        counts = {status: len(times) for status, times in seen.seconds.items()}
        raise UserError(f"{name}: not all requests were answered: {counts}")
    figures = seen.as_dict(items)
    figures["of_offline"] = round(figures["sentences_per_second"] / offline, 3)
    print(
        f"{name:>28}  {figures['sentences_per_second']:9.1f}  ({figures['of_offline']:.2f}×)  "
        f"p50 {figures['p50_ms']:7.1f}  p95 {figures['p95_ms']:7.1f}  "
        f"p99 {figures['p99_ms']:7.1f} ms  {figures['statuses']}",
        flush=True,
    )
    return figures


def _offline(run: runs.Run, sentences: Sequence[str], seconds: float) -> float:
    """Sentences per second of `predict`, in a process of its own."""
    program = (
        "import sys, time, json, regard\n"
        "from regard.verbs.common import own_process\n"
        "own_process()\n"
        f"model = regard.load({str(run.folder)!r})\n"
        "lines = json.load(sys.stdin)\n"
        f"model.predict(lines[:64], beams={BEAMS}, search='beam')\n"
        "began, count = time.perf_counter(), 0\n"
        f"while time.perf_counter() - began < {seconds}:\n"
        f"    count += len(model.predict(lines, beams={BEAMS}, search='beam'))\n"
        "print(count / (time.perf_counter() - began))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(list(sentences)),
        capture_output=True,
        text=True,
        env=_environment(),
    )
    if done.returncode:
        raise UserError(f"predict failed: {done.stderr[-500:]}")
    return float(done.stdout.split()[-1])


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{HERE.parent}{os.pathsep}{HERE / 'contestants'}"}


def _servers(
    options: argparse.Namespace, run: runs.Run, *, huggingface: bool
) -> dict[str, list[str]]:
    """Commands, to which the port is added."""
    model = front.load(run.folder, engine="torch").model
    direct = HOME / "serve-ctranslate2"
    decoding._convert(model, run.recipe, direct, "float32")
    output: Any = run.recipe.task.output
    shared = {
        "run": str(run.folder),
        "beams": BEAMS,
        "threads": options.threads,
        "factor": output.factor,
        "extra": output.extra,
    }
    found = {
        "regard": [sys.executable, "-m", "regard", "serve", str(run.folder)],
        "FastAPI, CTranslate2": _contestant("serve_ctranslate2.py", shared, direct),
    }
    if huggingface:
        theirs = HOME / "serve-huggingface"
        decoding.to_huggingface(model, run.recipe, theirs)
        found["FastAPI, Hugging Face"] = _contestant("serve_huggingface.py", shared, theirs)
    return found


def _contestant(script: str, shared: dict[str, Any], model: Path) -> list[str]:
    given = json.dumps(shared | {"model": str(model)})
    return [sys.executable, str(HERE / "contestants" / script), given]


@contextmanager
def _started(command: Sequence[str]) -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    if command[1] == "-m":
        # 64 clients with 16 sentences each of the base size wait for longer than a minute.
        command = [*command, "--port", str(port), "--log", "errors", "--deadline", "600"]
    else:
        command = [*command[:-1], json.dumps(json.loads(command[-1]) | {"port": port})]
    process = subprocess.Popen(command, env=_environment(), stdout=subprocess.DEVNULL)
    try:
        _await(port, process)
        yield port, process
    finally:
        process.terminate()
        process.wait(60)


def _await(port: int, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
            return
        time.sleep(0.2)
    raise UserError("a server did not come up")


def _overload(
    options: argparse.Namespace,
    port: int,
    process: "subprocess.Popen[bytes]",
    sentences: Sequence[str],
    usual: dict[str, Any],
    target: str,
) -> dict[str, Any]:
    """Ten times as many requests as it answers: how long refusals take, and the admitted ones."""
    seconds = 10.0 if options.quick else 60.0
    rate = OVERLOAD * usual["sentences_per_second"]
    asked = bodies(sentences, 1, target)
    seen, held = asyncio.run(
        _watched(process.pid, opened(port, "/translate", asked, rate, seconds))
    )
    found = {
        "offered_per_second": round(seen.sent / seconds, 1),
        "times_usual": round(seen.sent / seconds / usual["sentences_per_second"], 2),
        "seconds": seconds,
        "without_wait": seen.without_wait,
        "admitted": seen.as_dict(),
        "refused_p99_ms": round(seen.percentile(0.99, 503), 1),
        "admitted_p99_times_usual": round(seen.percentile(0.99) / max(usual["p99_ms"], 1e-9), 2),
        "most_in_queue": _most_in_queue(port),
        "megabytes": held,
    }
    print(f"{'overload':>28}  {json.dumps(found)}", flush=True)
    return found


async def _watched(process: int, load: Coroutine[Any, Any, Seen]) -> tuple[Seen, list[float]]:
    """What is seen under a load, and what a process holds meanwhile, each two seconds."""
    held: list[float] = []

    async def look() -> None:
        while True:
            held.append(_megabytes(process))
            await asyncio.sleep(2)

    looking = asyncio.ensure_future(look())
    try:
        return await load, held
    finally:
        looking.cancel()


def _most_in_queue(port: int) -> float:
    """The most requests that were in work at a time, as the server counts them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    named = [line for line in lines if line.startswith("regard_queue_requests_highest{")]
    return max(float(line.split()[-1]) for line in named)


def _megabytes(process: int) -> float:
    """What a process holds; 0 where the system does not say."""
    with suppress(OSError, LookupError, ValueError):
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
        return round(int(next(x for x in lines if x.startswith("VmRSS")).split()[1]) / 1024, 1)
    return 0.0
