"""A softmax over many words, of which a step of training sees a few (Bengio & Senécal 2008; Jean et
al. 2015): its cost is that of the words that are drawn, not of the vocabulary.

For a hidden vector whose target is y, Z = Σ_v exp ℓ_v is replaced by

    Ẑ = exp ℓ_y + Σ_{v∈S, v≠y} exp(ℓ_v) / π_v

with a set S of words drawn by chance, π_v = p(v ∈ S): E Ẑ = Z (Horvitz & Thompson 1952). S is what
m draws give, by Zipf's law, with P(v) = log((v + 2) / (v + 1)) / log(V + 1) for the word of rank v;
vocabularies of words are in the order of their frequency. So π_v = 1 − (1 − P(v))ᵐ.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.layers.draws import generator

NEVER = -1e4
"""The offset of a word that is in no row's sum but as its target."""


class Drawn(NamedTuple):
    """The words that a step of training sees."""

    words: Int[Tensor, " U"]
    """Those of S and all targets, each once."""
    offset: Float[Tensor, " U"]
    """−log π_v; for targets that are not in S, all but −∞."""
    places: Int[Tensor, " N"]
    """Of the targets among the words."""


def draw(targets: Int[Tensor, " N"], vocabulary: int, samples: int) -> Drawn:
    """The words for these targets, with S from `samples` draws."""
    device = targets.device
    chance = torch.rand(samples, dtype=torch.float64, device=device, generator=generator(device))
    ranks = (chance * math.log(vocabulary + 1)).exp().long() - 1  # by the inverse of Σ P
    inside = torch.zeros(vocabulary, dtype=torch.bool, device=device)
    inside[ranks.clamp(max=vocabulary - 1)] = True
    seen = inside.clone()
    seen[targets] = True
    words = seen.nonzero()[:, 0]
    place = torch.empty(vocabulary, dtype=torch.int64, device=device)
    place[words] = torch.arange(len(words), device=device)
    offset = torch.where(inside[words], -inclusion(words, vocabulary, samples).log(), NEVER)
    return Drawn(words, offset, place[targets])


def inclusion(words: Int[Tensor, " U"], vocabulary: int, samples: int) -> Float[Tensor, " U"]:
    """π_v of words by their ranks."""
    rank = words.double()
    p = torch.log1p(1 / (rank + 1)) / math.log(vocabulary + 1)
    return -torch.expm1(samples * torch.log1p(-p)).float()
