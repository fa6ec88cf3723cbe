"""Which input token an output token looked at."""

import torch
from torch import Tensor

from regard.layers.probe import watch
from regard.model import Model
from regard.types import Batch


def cross_attention(model: Model, batch: Batch) -> dict[str, Tensor]:
    """The weights (B, H, T, S) of each attention from the decoder to the memory, by its name."""
    seen: dict[str, Tensor] = {}

    def watcher(name: str, value: Tensor) -> Tensor:
        if name.startswith("decoder.") and name.endswith("cross.weights"):
            seen[name] = value
        return value

    with watch(watcher):
        model.decode(batch["target_in"], model.start(batch))
    return seen


def align(model: Model, batch: Batch) -> list[list[int]]:
    """For each target token, the end included, the source token with the largest mean weight."""
    weights = list(cross_attention(model, batch).values())
    if not weights:
        return [[] for _ in range(len(batch))]
    mean = torch.stack([w.mean(1) for w in weights]).mean(0)  # (B, T, S)
    best = mean.argmax(-1).tolist()
    lengths = batch["target_mask"].sum(1).tolist()
    return [row[:length] for row, length in zip(best, lengths, strict=True)]
