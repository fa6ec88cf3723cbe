"""Symbols as vectors."""

from dataclasses import dataclass

from torch import nn

from regard.layers.embedding import Embedding
from regard.types import Batch, Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """Nothing to choose: the tokenizer decides what a symbol is."""


class Input(nn.Module):
    """source (B, S) ↦ its embeddings (B, S, D). The encoder adds positions if it needs them."""

    def __init__(self, config: Config, embedding: Embedding) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, batch: Batch) -> Sequence:
        return Sequence(self.embedding(batch["source"]), batch["source_mask"])
