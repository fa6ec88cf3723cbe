"""Tokens as vectors."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.embedding import Embedding
from regard.recipe.values import FewOrZero
from regard.types import Batch, FieldSize, Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """Where the vectors come from; what a token is, the tokenizer decides."""

    vectors: str = ""
    """Pretrained vectors to begin with: a run of `regard word2vec`, or a file of them in word2vec's
    text or binary form or in GloVe's."""
    frozen_vectors: bool = False
    """Whether the vectors alone stay as they are in the beginning."""
    segments: FewOrZero = 0
    """How many segments a text may have, as the two of a pair, each with a vector that is added to
    those of its tokens; 0: they are not distinguished."""


class Input(nn.Module):
    """tokens (B, S) ↦ their embeddings (B, S, D), and those of their segments, where these are
    distinguished. The encoder adds positions if it needs them."""

    def __init__(
        self, config: Config, size: FieldSize, dim: int, *, shared: Embedding | None, scale: bool
    ) -> None:
        super().__init__()
        self.field = size.name
        self.embedding = embedding(config, size, dim, shared=shared, scale=scale)
        self.segments: nn.Parameter | None = None
        if config.segments:
            self.segments = nn.Parameter(torch.empty(config.segments, dim))
            nn.init.normal_(self.segments, std=dim**-0.5)

    def forward(self, batch: Batch) -> Sequence:
        vectors = self.embedding(batch[self.field])
        if self.segments is not None:
            # A batch of single texts does not say so: all of them are of the first.
            found = batch.tensors.get(f"{self.field}_segments")
            vectors = vectors + (self.segments[0] if found is None else self._of(found))
        return Sequence(vectors, batch[f"{self.field}_mask"])

    def _of(self, segments: Int[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        assert self.segments is not None
        # More than the model has count as the last.
        return F.embedding(segments.clamp(max=len(self.segments) - 1), self.segments)


def embedding(
    config: Config, size: FieldSize, dim: int, *, shared: Embedding | None, scale: bool
) -> Embedding:
    """The embedding that is shared with the target, or one of its own."""
    made = Embedding(size["tokens"], dim, scale=scale) if shared is None else shared
    if config.frozen_vectors:
        made.weight.requires_grad_(False)
    return made
