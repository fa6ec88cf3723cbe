"""BERT beside Hugging Face's: training by hidden tokens."""

import argparse
from typing import Any

import numpy as np
import torch

from bench.gpt import LENGTH, ROWS, SIZE, SYMBOLS, beside_huggingface

HIDDEN = 0.15
"""The fraction of the tokens that is hidden."""


def train(options: argparse.Namespace) -> dict[str, Any]:
    """10 M parameters, 16 windows of 256 tokens a batch, 15 % of them hidden, dropout 0.1; tokens
    at random. Counted are tokens that are read."""
    field = {"tokens": SYMBOLS, "outputs": SYMBOLS}
    sizes = {"fields": {"source": field}, "reads": "source", "writes": "source", "shared": True}
    own = {"sizes": sizes, "recipe": recipe(), "counted": "source_mask"}
    return beside_huggingface(options, "bert", _batch, flops(), own)


def recipe() -> dict[str, Any]:
    """The model; its data are given otherwise."""
    stack = SIZE | {"kind": "transformer", "activation": "gelu", "norm": "post"}
    del stack["dim"]
    stack |= {"position": "learned", "limit": LENGTH, "embedding_norm": True}
    return {
        "task": "masked_language_model",
        "data": {"train": ["unused"]},
        "windows": {"length": LENGTH},
        "model": {"dim": SIZE["dim"], "tie": "all", "scale": False, "encoder": stack},
        "train": {"optimizer": {"kind": "adamw", "learning_rate": 1e-4}},
    }


def flops() -> float:
    """Of the matrix products for one token that is read, forward and backward, as we compute them:
    of the last block only keys and values of all, and the rest of what is hidden."""
    dim, inner, layers = (int(SIZE[name]) for name in ("dim", "feedforward", "layers"))
    look, network = 2 * dim * LENGTH, 2 * dim * inner
    block = 4 * dim * dim + network + look
    last = 2 * dim * dim + HIDDEN * (2 * dim * dim + network + look)
    return 6 * ((layers - 1) * block + last + HIDDEN * (dim * dim + dim * SYMBOLS))


def _batch(seed: int) -> dict[str, torch.Tensor]:
    chance = np.random.default_rng(seed)
    text = chance.integers(5, SYMBOLS, (ROWS, LENGTH))
    hidden = np.zeros(text.shape, bool)
    for row in hidden:
        row[1 + chance.permutation(LENGTH - 2)[: round(HIDDEN * (LENGTH - 2))]] = True
    arrays = {
        "source": np.where(hidden, 4, text),
        "source_mask": np.ones(text.shape, bool),
        "source_out": text,
        "source_masked": hidden,
    }
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
