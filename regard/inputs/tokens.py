"""Tokens as vectors."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.draws import generator
from regard.layers.embedding import Embedding
from regard.recipe.values import FewOrZero, Share
from regard.types import Batch, FieldSize, Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """Where the vectors come from; what a token is, the tokenizer decides."""

    vectors: str = ""
    """Pretrained vectors to begin with: a run of `regard word2vec`, or a file of them in word2vec's
    text or binary form or in GloVe's."""
    frozen_vectors: bool = False
    """Whether the vectors alone stay as they are in the beginning."""
    scaled_vectors: bool = False
    """Whether they are multiplied by one number, so that what is read has a deviation of 1, as
    vectors by chance have. A Transformer adds to what it reads: short vectors drown in that."""
    segments: FewOrZero = 0
    """How many segments a text may have, as the two of a pair, each with a vector that is added to
    those of its tokens; 0: they are not distinguished."""
    word_dropout: Share = 0.0
    """The fraction of the tokens that are read as nothing in training: zero is their vector."""


class Input(nn.Module):
    """tokens (B, S) ↦ their embeddings (B, S, D), and those of their segments, where these are
    distinguished. The encoder adds positions if it needs them. In training, with probability p each
    token has the embedding 0 (Iyyer et al. 2015), so that no word alone decides."""

    def __init__(
        self, config: Config, size: FieldSize, dim: int, *, shared: Embedding | None, scale: bool
    ) -> None:
        super().__init__()
        self.field, self.word_dropout = size.name, config.word_dropout
        self.embedding = embedding(config, size, dim, shared=shared, scale=scale)
        self.segments: nn.Parameter | None = None
        if config.segments:
            self.segments = nn.Parameter(torch.empty(config.segments, dim))
            nn.init.normal_(self.segments, std=dim**-0.5)

    def forward(self, batch: Batch) -> Sequence:
        vectors = self.embedding(batch[self.field])
        if self.training and self.word_dropout:
            place = vectors.device
            chance = torch.rand(vectors.shape[:2], device=place, generator=generator(place))
            vectors = vectors * (chance >= self.word_dropout)[..., None]
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
