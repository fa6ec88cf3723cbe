"""One process with two threads beside two processes of one thread each, turn by turn.

Both learn from the same batches of random tokens. A pair of processes is started once: in one turn
rank 0 trains alone while the other waits, in the next both train together.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from typing import Any

import torch

from bench.scaling import Same
from regard.layers.allocator import keep_pages
from regard.model import build
from regard.recipe import config
from regard.train import device, loop
from regard.train.group import Group
from regard.train.job import make
from regard.train.processes import join
from regard.train.progress import Progress
from regard.types import Batch, Sizes

MODELS = {
    "Transformer-Tiny": {"dim": 256, "layers": 4, "heads": 4, "feedforward": 1024},
    "Transformer base": {"dim": 512, "layers": 6, "heads": 8, "feedforward": 2048},
}
ROWS, LENGTH, VOCABULARY = 128, 32, 8000


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
    figures = json.loads(pair[0].communicate()[0])
    pair[1].wait()
    print(f"{'':>18}{'one × 2 threads':>18}{'two × 1 thread':>18}{'wall':>8}{'CPU':>8}")
    for name, found_ in figures.items():
        one, two = (statistics.median(found_[who]["speed"]) for who in ("one", "two"))
        print(
            f"{name:>18}{one:14,.0f}/s  {two:14,.0f}/s  {found_['wall']:8.2f}{found_['cpu']:8.2f}"
        )
    ratio = {f"{name}, {by}": f[by] for name, f in figures.items() for by in ("wall", "cpu")}
    return {"unit": "target tokens per second", "ratio": ratio, "figures": figures}


def _job(shape: dict[str, int], group: Group, threads: int) -> Any:
    torch.manual_seed(1)
    table = {
        "task": "language_model",
        "unit": "line",
        "data": {"train": ["unused"]},
        "model": {
            "dim": shape["dim"],
            "decoder": {"kind": "transformer", **{k: v for k, v in shape.items() if k != "dim"}},
        },
        "train": {"device": "cpu", "threads": threads, "optimizer": {"learning_rate": 1e-4}},
    }
    recipe = config.recipe(table)
    settings = device.settle(recipe.train)
    fields = {"target": {"tokens": VOCABULARY, "outputs": VOCABULARY}}
    model = build(recipe.model, Sizes(fields, writes="target"))

    def loss(model: Any, batch: Batch, carry: Any) -> Any:
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
        return model.head.loss(hidden, batch["target_out"], batch["target_mask"]), None

    batches = Same(ROWS, LENGTH, VOCABULARY)
    return make(model, loss, batches, settings, seed=1, dim=shape["dim"], group=group)


def work(rounds: int) -> None:
    """What each of the pair does; rank 0 prints what it has found."""
    keep_pages()
    group, found = join(), {}
    for name, shape in MODELS.items():
        jobs = {"one": (_job(shape, Group(), 2), 2), "two": (_job(shape, group, 1), 1)}
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
                    seen[who]["speed"].append(ROWS * LENGTH / (time.perf_counter() - wall))
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
