"""Tokens as vectors."""

from dataclasses import dataclass

from torch import nn

from regard.layers.embedding import Embedding
from regard.types import Batch, FieldSize, Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """Where the vectors come from; what a token is, the tokenizer decides."""

    vectors: str = ""
    """A file of pretrained vectors (word2vec's or GloVe's text format) to begin with."""
    frozen_vectors: bool = False
    """Whether the vectors alone stay as they are in the beginning."""


class Input(nn.Module):
    """tokens (B, S) ↦ their embeddings (B, S, D). The encoder adds positions if it needs them."""

    def __init__(
        self, config: Config, size: FieldSize, dim: int, *, shared: Embedding | None, scale: bool
    ) -> None:
        super().__init__()
        self.field = size.name
        self.embedding = embedding(config, size, dim, shared=shared, scale=scale)

    def forward(self, batch: Batch) -> Sequence:
        return Sequence(self.embedding(batch[self.field]), batch[f"{self.field}_mask"])


def embedding(
    config: Config, size: FieldSize, dim: int, *, shared: Embedding | None, scale: bool
) -> Embedding:
    """The embedding that is shared with the target, or one of its own."""
    made = Embedding(size["tokens"], dim, scale=scale) if shared is None else shared
    if config.frozen_vectors:
        made.weight.requires_grad_(False)
    return made
