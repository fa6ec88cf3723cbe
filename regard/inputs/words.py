"""Words: each by a vector of its own, by its characters, or by both side by side."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from regard.inputs import characters, tokens
from regard.layers.draws import generator
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.linear import Linear, glorot
from regard.recipe.values import Share, Width
from regard.types import Batch, FieldSize, Sequence


@dataclass(frozen=True, kw_only=True)
class Config(tokens.Config):
    """What is known of a word."""

    features: Literal["both", "words", "characters"] = "both"
    """The word as one token, its characters, or both."""
    size: Width = 100
    """Dimension of a word's own vector; with pretrained `vectors`, that of theirs."""
    dropout: Share = 0.0
    """On the vectors, own and spelt."""
    unknown: Share = 0.0
    """In training, the fraction of words whose own vector is hidden, so that spelling must do."""
    characters: characters.Config
    """How characters become a vector."""

    @property
    def spelt(self) -> bool:
        return self.features != "words"


class Input(nn.Module):
    """x_t = W [E[w_t]; spelling(c₁ … c_m)] + b for the word w_t = c₁ … c_m."""

    def __init__(
        self, config: Config, size: FieldSize, dim: int, *, shared: Embedding | None, scale: bool
    ) -> None:
        super().__init__()
        characters.no_sharing(shared)
        self.field = size.name
        self.embedding: Embedding | None = None
        self.spelling: characters.Spelling | None = None
        self.unknown, width = config.unknown, 0
        if config.features != "characters":
            self.embedding = tokens.embedding(config, size, config.size, shared=None, scale=scale)
            width += config.size
        if config.spelt:
            self.spelling = characters.Spelling(config.characters, size["characters"])
            width += config.characters.size
        self.dropout = Dropout(config.dropout)
        self.project = glorot(Linear(width, dim))

    def forward(self, batch: Batch) -> Sequence:
        vectors = []
        if self.embedding is not None:
            own = self.embedding(batch[self.field])
            if self.training and self.unknown:
                chance = torch.rand(
                    own.shape[:2], device=own.device, generator=generator(own.device)
                )
                seen = chance >= self.unknown
                own = own * seen[..., None]
            vectors.append(own)
        if self.spelling is not None:
            vectors.append(self.spelling(batch[f"{self.field}_characters"]))
        x = self.project(self.dropout(torch.cat(vectors, -1)))
        return Sequence(x, batch[f"{self.field}_mask"])
