"""What comes before a step: starting, reading and tokenizing, making batches."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.batches import Corpus, pairs
from bench.peers import Contestant, race
from bench.timing import best
from bench.training import TINY, _options, recipe
from regard.errors import UserError
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


def _write(folder: Path, given: Sequence[Sequence[str]], count: int) -> None:
    """So many pairs, in a file for each language."""
    for side, language in enumerate(("en", "de")):
        with (folder / f"train.{language}").open("w", encoding="utf-8") as file:
            file.writelines(f"{given[n % len(given)][side]}\n" for n in range(count))


def against(old: Path, folder: Path, count: int, rounds: int) -> dict[str, Any]:
    """This version and the one whose checkout is `old` prepare the pairs in `folder`, in turns."""
    if not (old / "regard" / "__init__.py").is_file():
        raise UserError(f"--old {old}: there is no checkout of regard")
    trees = {"regard": Path(__file__).parents[1], "old": old}
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in trees}
    for _ in range(rounds):
        for name, tree in trees.items():
            seen[name].append(_prepared(tree, folder))
            last = seen[name][-1]
            print(f"{name:>8}  {last['seconds']:6.1f} s  {last['cpu_seconds']:6.1f} CPU s  "
                  f"{last['peak_megabytes']:6,.0f} MB")  # fmt: skip
    figures = {
        name: {
            "best": count / min(r["seconds"] for r in each),
            "median": count / statistics.median(r["seconds"] for r in each),
            "cpu_seconds": min(r["cpu_seconds"] for r in each),
            "peak_megabytes": max(r["peak_megabytes"] for r in each),
        }
        for name, each in seen.items()
    }
    new, before = figures["regard"], figures["old"]
    ratio = {key: round(new[key] / before[key], 3) for key in ("best", "median")}
    ratio["cpu"] = round(before["cpu_seconds"] / new["cpu_seconds"], 3)
    ratio["memory"] = round(new["peak_megabytes"] / before["peak_megabytes"], 3)
    same = len({r["tokens"] for each in seen.values() for r in each}) == 1
    print(f"{count:,} pairs: {ratio['best']:.2f} times as fast at best, {ratio['cpu']:.2f} by CPU")
    print(f"{ratio['memory']:.2f} of the memory; {'the same' if same else 'OTHER'} tokens")
    return {"unit": "pairs per second", "ratio": ratio, "figures": figures, "same_tokens": same}


def _prepared(tree: Path, folder: Path) -> dict[str, Any]:
    """One preparation by the version of regard in `tree`, in a process of its own."""
    script = Path(__file__).parent / "contestants" / "prepare_pairs.py"
    environment = os.environ | {"PYTHONPATH": str(tree.absolute())}
    done = subprocess.run(
        [sys.executable, str(script), str(folder)],
        env=environment, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise UserError(f"{tree} could not prepare the pairs: {done.stderr.strip()[-300:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def prepare(options: argparse.Namespace) -> dict[str, Any]:
    """Read, tokenize and store 1 M pairs (multi30k's, again and again); make batches of them.

    Beside it an epoch of Transformer-Tiny on them, at the rate of its first updates; with `--old`
    an earlier version of regard instead, in turns.
    """
    count = 100_000 if options.quick else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, pairs(options), count)
        if options.old:
            return against(Path(options.old), folder, count, rounds=2 if options.quick else 3)
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
