"""Training while other processes want the same cores.

Threads that share an operation wait for each other at its end, and spin for a while before they
sleep. That costs nothing while every thread has a core, and much once another process takes one.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.batches import Corpus
from bench.peers import Contestant, Peer, Unavailable
from bench.training import TINY, _options
from regard.errors import UserError
from regard.train.device import cores

SPIN = "while True: pass"
WAYS: dict[str, tuple[str, dict[str, str]]] = {
    "half a batch each": ("", {}),
    "inside each operation": ("halves", {}),
    "inside, OMP_WAIT_POLICY=passive": ("halves", {"OMP_WAIT_POLICY": "passive"}),
}
"""Ways for threads to share the work: a measure to leave out, and variables of the process."""
Rates = dict[str, dict[int, list[float]]]
"""Target tokens per second by contestant and by how many cores are busy, of each round."""


def busy(options: argparse.Namespace) -> dict[str, Any]:
    """Transformer-Tiny alone, and while other processes keep one core, or all, busy."""
    corpus = Corpus(options, 10_000)
    batches, _ = corpus.write(corpus.by_length(4096)[:12], "batches-busy")
    loads = sorted({0, 1, cores()})
    seconds = 3 if options.quick else 5  # of a round, so that it has seen the load for most of it
    peers: list[Peer] = []
    try:
        for contestant in contestants(options, str(batches), seconds):
            try:
                peers.append(Peer.start(contestant))
            except Unavailable as reason:
                raise UserError(f"{contestant.name} cannot take part: {reason}") from None
        rates = _race(peers, loads, rounds=3 if options.quick else 8)
    finally:
        for peer in peers:
            peer.stop()
    return show(rates, loads)


def contestants(options: argparse.Namespace, batches: str, seconds: float) -> list[Contestant]:
    """One thread, which waits for nobody; and several, in each way of sharing."""
    found = []
    for threads in sorted({1, max(2, options.threads)}):
        ways = WAYS if threads > 1 else {"": ("", {})}
        for way, (without, variables) in ways.items():
            name = f"{threads} threads, {way}" if way else "1 thread"
            given = _options(options, TINY, 10_000, updates=1)
            given |= {"threads": threads, "batches": batches, "without": without}
            given["seconds"] = seconds
            found.append(Contestant(name, "train_regard.py", given, variables=variables))
    return found


def _race(peers: list[Peer], loads: list[int], rounds: int) -> Rates:
    """Rounds in turn, under each load in turn."""
    rates: Rates = {peer.name: {load: [] for load in loads} for peer in peers}
    for number in range(rounds):
        for load in loads:
            with spinning(load):
                for peer in peers[number % len(peers) :] + peers[: number % len(peers)]:
                    try:
                        answer = peer.round()
                    except Unavailable as reason:
                        raise UserError(f"{peer.name} cannot go on: {reason}") from None
                    rates[peer.name][load].append(answer["tokens"] / answer["seconds"])
    return rates


@contextmanager
def spinning(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many processes that do nothing but keep a core busy."""
    processes = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
    try:
        time.sleep(0.3)  # until they are at it
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def show(rates: Rates, loads: list[int]) -> dict[str, Any]:
    """Print the median rate under each load, and its fraction of the same when alone."""
    wide = max(map(len, rates))
    heads = ["alone" if not load else f"{load} busy" for load in loads]
    print(f"\n{'':>{wide}}" + "".join(f"{head:>17}" for head in heads), end="")
    print("   (target tokens per second, median)")
    figures: dict[str, Any] = {}
    for name, by_load in rates.items():
        medians = {load: statistics.median(by_load[load]) for load in loads}
        cells = [f"{rate:9,.0f} ({rate / medians[0]:4.0%})" for rate in medians.values()]
        print(f"{name:>{wide}}" + "".join(f"{cell:>17}" for cell in cells))
        figures[name] = {
            head: {"median": medians[load], "best": max(by_load[load])}
            for head, load in zip(heads, loads, strict=True)
        }
    return {"unit": "target tokens per second", "ratio": {}, "figures": figures}
