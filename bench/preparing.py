"""What comes before a step: starting, reading and tokenizing, making batches."""

import argparse
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from bench.batches import Corpus, pairs
from bench.peers import Contestant, race
from bench.timing import best
from bench.training import TINY, _options, recipe
from regard.recipe import config
from regard.recipe.parts import module
from regard.types import Position


def start(options: argparse.Namespace) -> dict[str, Any]:
    """`regard --help` and `import regard`."""
    commands = {
        "regard --help": [sys.executable, "-m", "regard", "--help"],
        "import regard": [sys.executable, "-c", "import regard"],
        "python alone": [sys.executable, "-c", "pass"],
    }
    seconds = {name: best(partial(_run, c), 5) for name, c in commands.items()}
    for name, value in seconds.items():
        print(f"{name:>16}  {value:6.3f} s")
    return {"unit": "seconds", "ratio": {}, "figures": seconds}


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def prepare(options: argparse.Namespace) -> dict[str, Any]:
    """Read, tokenize and store 1 M pairs (multi30k's, again and again); make batches of them.

    Beside it an epoch of Transformer-Tiny on them, at the rate of its first updates.
    """
    count = 100_000 if options.quick else 1_000_000
    given = pairs(options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, language in enumerate(("en", "de")):
            with (folder / f"train.{language}").open("w", encoding="utf-8") as file:
                file.writelines(f"{given[n % len(given)][side]}\n" for n in range(count))
        made = config.recipe(
            recipe(TINY)
            | {"data": {"folder": name, "train": ["train.en", "train.de"]}}
            | {"tokenizer": {"vocabulary": 10_000, "split": "whitespace"}}
        )
        began = time.perf_counter()
        module("tasks", "translate").plan(made.task).prepare(folder, None)
        seconds = time.perf_counter() - began
        batches = module("tasks", "translate").Task(made.task, folder).batches(1)
        batches.at(Position())  # the plan of the epoch
        began = time.perf_counter()
        drawn = [batches.at(Position(0, n)).targets for n in range(50)]
        waited = (time.perf_counter() - began) / sum(drawn)
    corpus = Corpus(options, 10_000)
    path, _ = corpus.write(corpus.by_length(4096)[:16], "batches-prepare")
    common = _options(options, TINY, 10_000, updates=4) | {"batches": str(path)}
    raced = race([Contestant("regard", "train_regard.py", common)], rounds=3, seconds=120)
    rate = max(raced.peers[0].rates())
    epoch = count * float(corpus.lengths[:, 1].mean()) / rate
    shares = {"prepare / epoch": seconds / epoch, "batches / step": waited * rate}
    print(f"{count:,} pairs in {seconds:.1f} s: {count / seconds:,.0f} pairs per second")
    print(f"an epoch of Transformer-Tiny on them takes {epoch:,.0f} s at {rate:,.0f} targets/s")
    for name, share in shares.items():
        print(f"{name:>16}  {share:6.2%}")
    figures = {"regard": count / seconds, "epoch seconds": epoch, **shares}
    return {"unit": "pairs per second", "ratio": shares, "figures": figures}
