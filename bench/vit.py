"""The Vision Transformer of the recipe mnist-vit beside Hugging Face's: training on pictures."""

import argparse
import tomllib
from pathlib import Path
from typing import Any

import torch

from bench import features
from bench.gpt import beside_huggingface

RECIPE = Path(__file__).parent.parent / "recipes" / "mnist-vit.toml"
LABELS = 10


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Its model and batches of its size; pixels and labels at random. Counted are pictures."""
    whole = _recipe()
    model, source = whole["model"], whole["source"]
    encoder, side, channels = model["encoder"], source["size"][0], source["channels"]
    names = ("layers", "heads", "feedforward", "dropout")
    size = {"dim": model["dim"]} | {name: encoder[name] for name in names}
    picture = {"side": side, "patch": model["input"]["patch"], "channels": channels}
    rows, places = whole["batch"]["sentences"], (side // picture["patch"]) ** 2 + 1
    field = {"height": side, "width": side, "channels": channels}
    fields = {"source": field, "labels": {"outputs": LABELS}}
    own = {
        "sizes": {"fields": fields, "reads": "source", "writes": "labels"},
        "recipe": {
            "task": "classify",
            "data": {"train": ["unused"]},
            "source": source,
            "model": model,
            "train": {"clip": 1.0, "optimizer": {"kind": "adamw", "learning_rate": 1e-4}},
        },
        "counted": "examples",
        "size": size,
        "picture": picture | {"labels": LABELS},
    }

    def batch(seed: int) -> dict[str, torch.Tensor]:
        chance = torch.Generator().manual_seed(seed)
        return {
            "source": torch.randn(rows, channels, side, side, generator=chance),
            "labels": torch.randint(LABELS, (rows,), generator=chance),
        }

    dim, inner = size["dim"], size["feedforward"]
    return beside_huggingface(
        options,
        "vit",
        batch,
        flops(size, places),
        own,
        shapes=[(rows * places, dim, inner), (rows * places, dim, 3 * dim)],
        also={"huggingface, bfloat16": {"autocast": True}} if features.is_native() else None,
        unit="pictures",
    )


def flops(size: dict[str, Any], places: int) -> float:
    """Of the matrix products for one picture, forward and backward, as we compute them: of the last
    block keys and values of all places, and the rest of the class token."""
    dim, inner = size["dim"], size["feedforward"]
    look, network = 2 * dim * places, 2 * dim * inner
    block = places * (4 * dim * dim + network + look)
    last = places * 2 * dim * dim + 2 * dim * dim + network + look
    return float(6 * ((size["layers"] - 1) * block + last))


def _recipe() -> dict[str, Any]:
    return tomllib.loads(RECIPE.read_text(encoding="utf-8"))
