"""Transcription by CTC beside a plain loop of PyTorch, on the same length-bucketed batches."""

import argparse
from typing import Any

from bench import features
from bench.batches import of_recipe
from bench.peers import Contestant, race
from bench.table import compare
from regard.data import catalogue

OURS = {"regard": "", "regard, float32": "bfloat16"}
"""regard as it is, and with a measure left out."""


def train(options: argparse.Namespace) -> dict[str, Any]:
    """A smaller relative of recipes/fsdd-strings.toml, CTC over letters, on the embedded tones,
    6,000 frames a batch."""
    recipe = _recipe()
    updates = 3 if options.quick else 8  # the same ones in every round
    batches, sizes = of_recipe(recipe, "ctc", updates)
    common = {
        "threads": options.threads,
        "batches": str(batches),
        "sizes": sizes,
        "recipe": recipe,
        "updates": updates,
        "counted": "source_mask",
    }
    own = [name for name in OURS if features.is_native() or name == "regard"]
    contestants = [Contestant(k, "train_regard.py", common | {"without": OURS[k]}) for k in own]
    contestants.append(Contestant("torch", "train_torch_ctc.py", common))
    raced = race(
        contestants,
        rounds=4 if options.quick else 10,
        seconds=60 if options.quick else 600,
    )
    return compare(raced, "frames per second")


def _recipe() -> dict[str, Any]:
    return {
        "task": "transcribe",
        "data": {"folder": str(catalogue.get("tones")), "train": ["train.tsv"]},
        "source": {"features": {"rate": 8000, "mels": 40}},
        "tokenizer": {"kind": "character"},
        "batch": {"tokens": 6000},
        "model": {
            "dim": 128,
            "input": {"channels": 24},
            "encoder": {"kind": "rnn", "cell": "lstm", "layers": 2, "dropout": 0.2},
        },
        "train": {"optimizer": {"learning_rate": 1e-4}, "metric": "nll"},
    }
