"""Recurrent models beside plain `torch.nn.LSTM`, on the same length-bucketed batches."""

import argparse
from typing import Any

from bench import features, machine
from bench.batches import folder_of, of_recipe
from bench.peers import Contestant, race
from bench.table import compare

OURS = {"regard": "", "regard, float32": "bfloat16", "regard, packed": "rows without packing"}
"""regard as it is, and with a measure left out."""


def lstm(options: argparse.Namespace) -> dict[str, Any]:
    """A language model on multi30k's English lines, and a two-way classifier on imdb."""
    recipes = {"language model": _language_model(options), "classifier": _classifier(options)}
    races = {
        name: _race(options, f"lstm-{name.replace(' ', '-')}", recipe)
        for name, recipe in recipes.items()
    }
    ratios = {
        f"{peer}, {name}": ratio
        for name, result in races.items()
        for peer, ratio in result["ratio"].items()
    }
    complete = all(result["complete"] for result in races.values())
    return {"ratio": ratios, "races": races, "complete": complete}


def _race(options: argparse.Namespace, name: str, recipe: dict[str, Any]) -> dict[str, Any]:
    updates = 3 if options.quick else 8  # the same ones in every round
    batches, sizes = of_recipe(recipe, name, updates)
    writes = recipe["task"] == "language_model"
    common = {
        "threads": options.threads,
        "batches": str(batches),
        "sizes": sizes,
        "recipe": recipe,
        "updates": updates,
        "counted": "target_mask" if writes else "source_mask",
    }
    print(f"\n{name}: {sizes}")
    own = [k for k in OURS if not (writes and "packed" in k)]  # a decoder packs nothing
    if not features.is_native():
        own.remove("regard, float32")
        print("bfloat16 is emulated here: regard trains in float32 as it is")
    contestants = [Contestant(k, "train_regard.py", common | {"without": OURS[k]}) for k in own]
    contestants += [
        Contestant("torch", "train_torch_lstm.py", common | {"packed": True}),
        Contestant("torch, padded", "train_torch_lstm.py", common | {"packed": False}),
    ]
    dim = recipe["model"]["dim"]
    limits = machine.limits([(64, dim, 4 * dim), (4096, dim, 4 * dim)], options.threads)
    raced = race(
        contestants,
        rounds=4 if options.quick else 10,
        seconds=60 if options.quick else 600,
    )
    result = compare(raced, "tokens per second")
    flops = 6 * _weights(recipe, sizes)
    return result | machine.shares(flops * max(raced.peers[0].rates()) / 1e9, limits)


def _weights(recipe: dict[str, Any], sizes: dict[str, Any]) -> int:
    """How many weights each token meets in a product."""
    model = recipe["model"]
    dim = int(model["dim"])
    if "decoder" in model:
        tokens = sizes["fields"]["target"]["tokens"]
        return int(model["decoder"]["layers"] * 8 * dim * dim + dim * tokens)
    return 2 * 8 * dim * dim + 2 * dim * dim


def _language_model(options: argparse.Namespace) -> dict[str, Any]:
    """Two layers of 256, lines of like length, 4,096 tokens a batch."""
    return {
        "task": "language_model",
        "unit": "line",
        "data": {"folder": str(folder_of(options)), "train": ["train.lc.norm.tok.en"]},
        "tokenizer": {"vocabulary": 10_000, "split": "whitespace"},
        "batch": {"tokens": 4096},
        "model": {
            "dim": 256,
            "tie": "none",
            "scale": False,
            "decoder": {"kind": "rnn", "cell": "lstm", "layers": 2, "dropout": 0.3},
            "head": {"smoothing": 0.0, "bias": True},
        },
        "train": {"optimizer": {"learning_rate": 1e-4}},
    }


def _classifier(options: argparse.Namespace) -> dict[str, Any]:
    """One layer of 100 in both directions, reviews of up to 400 words, 8,192 tokens a batch."""
    return {
        "task": "classify",
        "data": {
            "folder": str(folder_of(options, "imdb")),
            "train": ["train.tsv.gz"],
            "on_bad_line": "skip",
            "max_length": 400,
            "on_too_long": "cut",
        },
        "tokenizer": {
            "kind": "word",
            "split": "punctuation",
            "lowercase": True,
            "size": 20_000,
            "min_frequency": 3,
        },
        "batch": {"tokens": 8192},
        "model": {
            "dim": 100,
            "scale": False,
            "encoder": {"kind": "rnn", "cell": "lstm", "layers": 1, "hidden": 100, "dropout": 0.3},
            "head": {"pooling": "max", "dropout": 0.3},
        },
        "train": {"optimizer": {"learning_rate": 1e-4}},
    }
