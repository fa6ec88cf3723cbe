"""One process with two threads beside two processes of one thread each, turn by turn.

The models are those of `train` and `base`, encoder and decoder, and learn from one batch of pairs
of random tokens. A pair of processes is started once: in one turn rank 0 trains alone while the
other waits, in the next both train together.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from functools import partial
from typing import Any

import torch

from bench import training
from regard.errors import UserError
from regard.layers.allocator import keep_pages
from regard.model import build
from regard.recipe import config
from regard.recipe.parts import module
from regard.train import device, loop
from regard.train.group import Group
from regard.train.job import Job, make
from regard.train.processes import join
from regard.train.progress import Progress
from regard.types import Batch, Position, Sizes

MODELS = {
    "Transformer-Tiny": (training.TINY, 10_000, 256),
    "Transformer base": (training.BASE, 37_000, 128),
}
"""Size, vocabulary and pairs in a batch: about as many targets as `train` and `base` have."""
LENGTH = 16
"""Tokens of each side of a pair."""
BOUND = 0.9
"""What two processes must reach of the rate of one with two threads."""


def processes(options: argparse.Namespace) -> dict[str, Any]:
    """The tokens per second of two processes over those of one with two threads."""
    rounds = 3 if options.quick else 9
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    pair = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.processes", str(rounds)],
            env={**os.environ, **common, "RANK": rank},
            stdout=subprocess.PIPE if rank == "0" else None,
            text=True,
        )
        for rank in ("0", "1")
    ]
    answer = pair[0].communicate()[0]
    if pair[0].returncode or pair[1].wait():
        raise UserError("bench processes: one of the two processes failed; it says above why")
    return report(json.loads(answer))


def report(figures: dict[str, Any]) -> dict[str, Any]:
    """Print rates, ratios, and whether each model keeps the bound."""
    print(f"{'':>18}{'one × 2 threads':>18}{'two × 1 thread':>18}{'wall':>8}{'CPU':>8}")
    for name, found in figures.items():
        one, two = (statistics.median(found[who]["speed"]) for who in ("one", "two"))
        print(f"{name:>18}{one:14,.0f}/s  {two:14,.0f}/s  {found['wall']:8.2f}{found['cpu']:8.2f}")
    for name, found in figures.items():
        kept = "yes" if found["wall"] >= BOUND else "NO"
        print(f"{kept:>4}  {name}: {found['wall']:.2f} of the rate of one process, {BOUND} wanted")
    return {
        "unit": "target tokens per second",
        "ratio": {f"{name}, {by}": f[by] for name, f in figures.items() for by in ("wall", "cpu")},
        "figures": figures,
        "complete": all(found["wall"] >= BOUND for found in figures.values()),
    }


class Pairs:
    """One batch of pairs of random tokens, again and again."""

    def __init__(self, rows: int, length: int, symbols: int) -> None:
        source, given, said = torch.randint(4, symbols, (3, rows, length))
        mask = torch.ones(rows, length, dtype=torch.bool)
        self._tensors = {
            "source": source, "source_mask": mask,
            "target_in": given, "target_out": said, "target_mask": mask,
        }  # fmt: skip

    def at(self, position: Position, rows: slice = slice(None)) -> Batch:
        tensors = {name: tensor[rows] for name, tensor in self._tensors.items()}
        mask = tensors["target_mask"]
        return Batch(tensors=tensors, ids=tuple(range(len(mask))), targets=mask.numel())

    def after(self, position: Position) -> Position:
        return Position(0, position.index + 1)


def job_of(
    size: dict[str, Any], symbols: int, rows: int, group: Group, threads: int, length: int = LENGTH
) -> Job:
    """A Transformer that translates, and its batch."""
    torch.manual_seed(1)
    table = training.recipe(size)
    table["train"] = table["train"] | {"device": "cpu", "threads": threads}
    recipe = config.recipe(table)
    settings = device.settle(recipe.train)
    model = build(recipe.model, Sizes(**training.sizes(symbols)))
    loss = partial(module("tasks", recipe.kind).Task.loss, None)
    batches = Pairs(rows, length, symbols)
    return make(model, loss, batches, settings, seed=1, dim=size["dim"], group=group)


def work(rounds: int) -> None:
    """What each of the pair does; rank 0 prints what it has found."""
    keep_pages()
    group, found = join(), {}
    for name, (size, symbols, rows) in MODELS.items():
        jobs = {
            "one": (job_of(size, symbols, rows, Group(), 2), 2),
            "two": (job_of(size, symbols, rows, group, 1), 1),
        }
        states = {who: loop.begin(job, Progress()) for who, (job, _) in jobs.items()}
        seen: dict[str, Any] = {who: {"speed": [], "cpu": []} for who in jobs}
        for number in range(rounds + 1):  # the first prepares what later ones find
            for who, (job, threads) in jobs.items():
                torch.set_num_threads(threads)
                group.gather(None)
                wall, cpu = time.perf_counter(), time.process_time()
                if who == "two" or group.rank == 0:
                    loop.step(job, states[who])
                used = sum(group.gather(time.process_time() - cpu))
                if number:
                    seen[who]["speed"].append(rows * LENGTH / (time.perf_counter() - wall))
                    seen[who]["cpu"].append(used)
        pairs = list(zip(seen["two"]["speed"], seen["one"]["speed"], strict=True))
        spent = list(zip(seen["one"]["cpu"], seen["two"]["cpu"], strict=True))
        seen["wall"] = statistics.median(two / one for two, one in pairs)
        seen["cpu"] = statistics.median(one / two for one, two in spent)
        found[name] = seen
    if group.rank == 0:
        print(json.dumps(found), flush=True)
    group.close()


if __name__ == "__main__":
    work(int(sys.argv[1]))
