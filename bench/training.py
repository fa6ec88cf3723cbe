"""Training, preparing and starting."""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import machine
from bench.peers import HOME, Peer, race
from bench.table import compare
from regard.data import batching, catalogue, tokenizers
from regard.data.readers import Policy, Report, parallel
from regard.data.tokenizers import Tokenizer
from regard.tasks.translate import collate

TINY = {"dim": 128, "layers": 4, "heads": 4, "inner": 256, "dropout": 0.3}
BASE = {"dim": 512, "layers": 6, "heads": 8, "inner": 2048, "dropout": 0.1}


def tiny(options: argparse.Namespace) -> dict[str, Any]:
    """Transformer-Tiny on multi30k, vocabulary of 10,000, 4,096 tokens a batch."""
    names = ["regard", "huggingface", "torch"]
    return _train(options, TINY, 10_000, 4096, updates=4 if options.quick else 12, names=names)


def base(options: argparse.Namespace) -> dict[str, Any]:
    """The paper's base model, vocabulary of 37,000, 2,000 target tokens a batch."""
    names = ["regard", "huggingface"]
    return _train(options, BASE, 37_000, 2000, updates=1 if options.quick else 3, names=names)


def memory(options: argparse.Namespace) -> dict[str, Any]:
    """Peak memory in training, of processes that train nothing else."""
    result = tiny(options)
    peaks = {name: figure["peak_megabytes"] for name, figure in result["figures"].items()}
    return result | {"ratio": {n: round(peaks["regard"] / p, 3) for n, p in peaks.items()}}


def _train(
    options: argparse.Namespace,
    size: dict[str, Any],
    symbols: int,
    tokens: int,
    updates: int,
    names: list[str],
) -> dict[str, Any]:
    batches, count = _batches(options, min(symbols, 10_000), tokens)
    common = {
        "threads": options.threads,
        "symbols": symbols,
        "size": size,
        "batches": str(batches),
        "updates": updates,
        "recipe": _recipe(size),
    }
    inner, dim = size["inner"], size["dim"]
    shapes = [(tokens, dim, dim), (tokens, dim, inner), (tokens, dim, 3 * dim), (512, dim, symbols)]
    limits = machine.limits(shapes, options.threads)
    for name, value in limits.items():
        print(f"{name:>20}  {value:8.1f}   (the best seen for these shapes)")
    environments = {"huggingface": "huggingface"}
    peers = [
        Peer.start(name, f"train_{name}.py", environments.get(name, "own"), common)
        for name in names
    ]
    race(peers, rounds=5 if options.quick else 8, seconds=180 if options.quick else 1200)
    result = compare(peers, "target tokens per second")
    rate = max(peers[0].rates())
    needed = _flops(size, symbols, count["sources"] / count["targets"]) * rate / 1e9
    share = {name: needed / limit for name, limit in limits.items() if "GFLOP" in name}
    print(f"\nregard's matrix products: {needed:.0f} GFLOP/s", end="")
    for name, part in share.items():
        print(f", {part:.0%} of the {name.split()[0]} limit", end="")
    print()
    return result | {"limits": limits, "products GFLOP/s": needed, "share": share}


def _flops(size: dict[str, Any], symbols: int, sources: float) -> float:
    """Of the matrix products for one target token, forward and backward: 6 per weight used."""
    dim, inner, layers = size["dim"], size["inner"], size["layers"]
    encoder = layers * (4 * dim * dim + 2 * dim * inner)
    decoder = layers * (6 * dim * dim + 2 * dim * inner)
    memory = layers * 2 * dim * dim  # the keys and values of the source
    return 6 * (sources * (encoder + memory) + decoder + dim * symbols)


def _recipe(size: dict[str, Any]) -> dict[str, Any]:
    stack = {key: size[key] for key in ("layers", "heads", "inner", "dropout")} | {"norm": "pre"}
    return {
        "task": "translate",
        "data": {"train": ["unused.source", "unused.target"]},
        "model": {"dim": size["dim"], "encoder": stack, "decoder": stack},
        "train": {"optimizer": {"rate": 1e-4}},
    }


def folder_of(options: argparse.Namespace) -> Path:
    """Where multi30k is."""
    return Path(options.data) / "multi30k" if options.data else catalogue.find("multi30k")


def _multi30k(options: argparse.Namespace) -> list[tuple[str, ...]]:
    folder = folder_of(options)
    paths = [folder / f"train.lc.norm.tok.{language}" for language in ("en", "de")]
    rows = parallel(paths, ("source", "target"), Policy(), Report())
    return [fields for _, fields in rows]


def _batches(options: argparse.Namespace, symbols: int, tokens: int) -> tuple[Path, dict[str, int]]:
    """One epoch's batches, as regard plans them, in a file for all contestants."""
    pairs = _multi30k(options)
    config = tokenizers.Config(size=symbols, split="blanks")
    tokenizer = Tokenizer.train(config, (text for pair in pairs for text in pair))
    sources, targets = (tokenizer.encode(list(side)) for side in zip(*pairs, strict=True))
    lengths = np.array([[len(s) + 1, len(t) + 1] for s, t in zip(sources, targets, strict=True)])
    limits = batching.Config(tokens=tokens)
    stream = batching.Batches(lengths, lambda ids: None, limits, seed=1)  # type: ignore[arg-type,return-value]
    arrays: dict[str, Any] = {}
    plan = stream.epoch(0)[:64]
    for number, ids in enumerate(plan):
        batch = collate([sources[n] for n in ids], [targets[n] for n in ids], ids.tolist())
        arrays |= {f"{number}.{name}": t.numpy() for name, t in batch.tensors.items()}
    HOME.mkdir(exist_ok=True)
    path = HOME / f"batches-{symbols}-{tokens}.npz"
    np.savez(path, count=np.array(len(plan)), **arrays)
    chosen = np.concatenate(plan)
    real = {"sources": int(lengths[chosen, 0].sum()), "targets": int(lengths[chosen, 1].sum())}
    padded = sum(a.size for name, a in arrays.items() if name.endswith(("source", "target_in")))
    print(f"{'padding':>20}  {1 - sum(real.values()) / padded:8.1%}   of the positions")
    return path, real


def start(options: argparse.Namespace) -> dict[str, Any]:
    """`regard --help` and `import regard`."""
    commands = {
        "regard --help": [sys.executable, "-m", "regard", "--help"],
        "import regard": [sys.executable, "-c", "import regard"],
        "python alone": [sys.executable, "-c", "pass"],
    }
    seconds = {name: machine.best(lambda c=c: _run(c), 5) for name, c in commands.items()}
    for name, value in seconds.items():
        print(f"{name:>16}  {value:6.3f} s")
    return {"unit": "seconds", "ratio": {}, "figures": seconds}


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def prepare(options: argparse.Namespace) -> dict[str, Any]:
    """Read, tokenize and store 1 M pairs (multi30k's, again and again)."""
    from regard import config
    from regard.parts import module

    pairs = _multi30k(options)
    count = 100_000 if options.quick else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, language in enumerate(("en", "de")):
            with (folder / f"train.{language}").open("w", encoding="utf-8") as file:
                file.writelines(f"{pairs[n % len(pairs)][side]}\n" for n in range(count))
        recipe = config.recipe(
            _recipe(TINY)
            | {"data": {"folder": name, "train": ["train.en", "train.de"]}}
            | {"tokenizer": {"size": 10_000, "split": "blanks"}}
        )
        began = time.perf_counter()
        module("tasks", "translate").prepare(recipe.task, folder)
        seconds = time.perf_counter() - began
    print(f"{count:,} pairs in {seconds:.1f} s: {count / seconds:,.0f} pairs per second")
    return {"unit": "pairs per second", "ratio": {}, "figures": {"regard": count / seconds}}
