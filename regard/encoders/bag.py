"""A bag: positions know nothing of each other; what they are together, the head's pooling says.

With the n-grams of `inputs/ngrams.py` and the mean it is a bag of n-grams (Joulin et al. 2017),
with words alone the average of Iyyer et al. (2015), whose word dropout is here, too.
"""

from dataclasses import dataclass

import torch
from torch import nn

from regard.layers.draws import generator
from regard.layers.dropout import Dropout
from regard.layers.probe import probe
from regard.recipe.values import Share
from regard.types import Sequence


@dataclass(frozen=True, kw_only=True)
class Config:
    """What is left out in training."""

    word_dropout: Share = 0.0
    """The fraction of positions that are left out altogether."""
    dropout: Share = 0.0
    """On the entries of the vectors that stay."""


class Encoder(nn.Module):
    """h_t = x_t; in training, h_t = x_t / (1 − p) or, with probability p, zero."""

    def __init__(self, config: Config, dim: int) -> None:
        super().__init__()
        self.word_dropout = config.word_dropout
        self.dropout = Dropout(config.dropout)

    def forward(self, source: Sequence) -> Sequence:
        x = probe("input", source.states)
        if self.training and self.word_dropout:
            chance = torch.rand(x.shape[:2], device=x.device, generator=generator(x.device))
            kept = chance >= self.word_dropout
            x = x * (kept / (1 - self.word_dropout))[..., None]
        return Sequence(probe("output", self.dropout(x)), source.mask)
