"""What the head of labels reads of a batch: all states, or the first alone where that is enough."""

from typing import Any

import torch

from regard.layers.probe import scope
from regard.model import Model
from regard.types import Batch, Selective, Sequence


def memory(model: Model, batch: Batch) -> Sequence:
    """The memory of a batch. Where the head pools by the class token, its state alone: the last
    block of a Transformer then computes no other, a sixth of the work of one of five blocks."""
    head: Any = model.head
    encoder: Any = model.encoder
    reads = model.input
    assert reads is not None
    alone = head.pooling.kind == "class" and not model.all_layers
    if not alone or not isinstance(encoder, Selective):
        found = model.encode(batch)
        assert found is not None
        return found
    source = reads(batch)
    places = torch.zeros(len(source.mask), 1, dtype=torch.int64, device=source.mask.device)
    with scope("encoder"):
        return Sequence(encoder.at(source, places), source.mask[:, :1])
