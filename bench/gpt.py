"""GPT beside Hugging Face's: training, and writing with the shape of GPT-2."""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from bench import machine
from bench.batches import write
from bench.peers import Contestant, race
from bench.table import compare

SIZE = {"dim": 320, "layers": 6, "heads": 5, "feedforward": 1280, "dropout": 0.1}
"""10 M parameters with a vocabulary of 8,000."""
SYMBOLS, LENGTH, ROWS = 8000, 256, 16
GPT_2, PROMPT, WRITTEN = "gpt-2", 32, 64
"""The recipe whose shape writes, tokens that it reads first, and tokens that it writes."""


def train(options: argparse.Namespace) -> dict[str, Any]:
    """10 M parameters, 16 windows of 256 tokens a batch, dropout 0.1; tokens at random."""
    sizes = {"fields": {"target": {"tokens": SYMBOLS, "outputs": SYMBOLS}}, "writes": "target"}
    own = {"sizes": sizes, "recipe": recipe(), "counted": "target_mask"}
    return beside_huggingface(options, "gpt", _batch, flops(), own)


def beside_huggingface(
    options: argparse.Namespace,
    name: str,
    batch: Callable[[int], dict[str, Any]],
    flops: float,
    own: dict[str, Any],
    *,
    shapes: list[tuple[int, int, int]] | None = None,
    also: dict[str, dict[str, Any]] | None = None,
    unit: str = "tokens",
) -> dict[str, Any]:
    """Training of a model of SIZE by regard and by Hugging Face's loop of this name, in turns, on
    the same batches; each with its share of what the processor could do.

    `own` has a model of another size, `shapes` its products, `also` more of Hugging Face's loops,
    by name, with what is different in them.
    """
    updates = 3 if options.quick else 8
    common = {
        "threads": options.threads,
        "symbols": SYMBOLS,
        "length": LENGTH,
        "size": SIZE,
        "updates": updates,
        "batches": str(write([batch(seed) for seed in range(updates)], name)),
        **own,
    }
    dim, inner, tokens = int(SIZE["dim"]), int(SIZE["feedforward"]), ROWS * LENGTH
    shapes = shapes or [(tokens, dim, inner), (tokens, dim, 3 * dim), (512, dim, SYMBOLS)]
    limits = machine.limits(shapes, options.threads)
    theirs, where = f"train_huggingface_{name}.py", "huggingface"
    raced = race(
        [
            Contestant("regard", "train_regard.py", common),
            Contestant("huggingface", theirs, common, where),
            *(Contestant(n, theirs, common | more, where) for n, more in (also or {}).items()),
        ],
        rounds=5 if options.quick else 10,
        seconds=200 if options.quick else 1200,
    )
    result = compare(raced, f"{unit} per second")
    return result | machine.shares(flops * max(raced.peers[0].rates()) / 1e9, limits)


def recipe() -> dict[str, Any]:
    """The model of `train`; its data are given otherwise."""
    stack = SIZE | {"kind": "transformer", "activation": "gelu", "norm": "pre"}
    del stack["dim"]
    stack |= {"position": "learned", "limit": LENGTH}
    return {
        "task": "language_model",
        "data": {"train": ["unused"]},
        "stream": {"length": LENGTH},
        "model": {
            "dim": SIZE["dim"],
            "tie": "output",
            "decoder": stack,
            "head": {"smoothing": 0.0, "bias": False},
        },
        "train": {"optimizer": {"kind": "adamw", "learning_rate": 1e-4}},
    }


def flops() -> float:
    """Of the matrix products for one token, forward and backward: 6 for each weight that is used,
    and for each place of the half that attention sees, twice the width."""
    dim, inner, layers = (int(SIZE[name]) for name in ("dim", "feedforward", "layers"))
    block = 4 * dim * dim + 2 * dim * inner + 2 * dim * LENGTH / 2
    return 6 * (layers * block + dim * SYMBOLS)


def _batch(seed: int) -> dict[str, torch.Tensor]:
    chance = np.random.default_rng(seed)
    text = torch.from_numpy(chance.integers(4, SYMBOLS, (ROWS, LENGTH + 1)))
    mask = torch.ones(ROWS, LENGTH, dtype=torch.bool)
    return {"target_in": text[:, :-1], "target_out": text[:, 1:], "target_mask": mask}


def generate(options: argparse.Namespace) -> dict[str, Any]:
    """The shape of GPT-2, weights at random: one text, and 16 at once, each token the best."""
    results = {f"{rows} at once": _generate(options, rows) for rows in (1, 16)}
    complete = all(result["complete"] for result in results.values())
    ratio = {f"{n}, {k}": v for n, r in results.items() for k, v in r["ratio"].items()}
    return {"ratio": ratio, "races": results, "complete": complete}


def _generate(options: argparse.Namespace, rows: int) -> dict[str, Any]:
    print(f"\n{rows} at once")
    common = {
        "threads": options.threads,
        "recipe": GPT_2,
        "rows": rows,
        "prompt": PROMPT,
        "written": WRITTEN // 2 if options.quick else WRITTEN,
    }
    raced = race(
        [
            Contestant("regard", "generate_regard.py", common),
            Contestant("regard int8", "generate_regard.py", common | {"quantization": "int8"}),
            Contestant("huggingface", "generate_huggingface.py", common, "huggingface"),
        ],
        rounds=3 if options.quick else 8,
        seconds=120 if options.quick else 900,
    )
    result = compare(raced, "tokens per second")
    rates = {peer.name: max(peer.rates()) for peer in raced.peers}
    theirs = rates.get("huggingface")
    ours = {name: rate for name, rate in rates.items() if name.startswith("regard")}
    ratio = {name: round(rate / theirs, 3) for name, rate in ours.items()} if theirs else {}
    about = raced.peers[1].ready.get("ready", {})
    for name, times in ratio.items():
        print(f"{name}: {times:.2f} times as fast as huggingface")
    print(f"perplexity of random text: {about.get('perplexity')}")
    return result | {"ratio": ratio, "perplexity": about.get("perplexity")}
