"""The next word and the one before: one softmax for both directions of a `both_ways` encoder."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import RecipeError
from regard.layers import sampled_softmax
from regard.layers.cross_entropy import cross_entropy
from regard.recipe.values import SymbolsOrZero
from regard.types import Term, Terms


@dataclass(frozen=True, kw_only=True)
class Config:
    """The projection to the vocabulary and its loss."""

    samples: SymbolsOrZero = 0
    """In training, how many words are drawn for the sum of the softmax; 0: it has all words, as it
    always has in validation and evaluation. Worth it from some thousand words on."""
    bias: bool = True
    """Whether each token has a bias."""


WAYS = ("forward", "backward")


class Asked(NamedTuple):
    """What is predicted: states that have read all before it, or all after it, and what it is."""

    states: Float[Tensor, "N W"]
    symbols: Int[Tensor, " N"]


class Head(nn.Module):
    """p(x_{t+1} | x₁ … x_t) = softmax(W →h_t + b), p(x_{t−1} | x_t … x_n) = softmax(W ←h_t + b).

    L = ½ (mean of −log p forward + mean of −log p backward)   (Peters et al. 2018, section 3.1).
    The hidden vector of a position is [→h_t; ←h_t].
    """

    predicts = "tokens both ways"

    def __init__(self, config: Config, dim: int, symbols: int, weight: nn.Parameter | None) -> None:
        super().__init__()
        if dim % 2:
            raise RecipeError(f"kind: model.dim = {dim} is not even: half is for each direction")
        if weight is not None:
            raise RecipeError("kind: it has vectors of its own; set model.tie = 'none'")
        self.samples = config.samples if config.samples < symbols else 0
        self.weight = nn.Parameter(torch.empty(symbols, dim // 2))
        nn.init.normal_(self.weight, std=(dim // 2) ** -0.5)
        self.bias = nn.Parameter(torch.zeros(symbols)) if config.bias else None
        self.precision = torch.float32

    def logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        """Of what stands between [→h_{t−1}; ←h_{t+1}] (see `beside`): the sum of both directions'
        logits, which is p(v | before, after) ∝ p(v | before) p(v | after)."""
        onward, backward = hidden.chunk(2, -1)
        return self.way(onward) + self.way(backward)

    def beside(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """[→h_{t−1}; ←h_{t+1}] for each t: all but x_t itself has been read; 0 beyond the ends."""
        onward, backward = states.chunk(2, -1)
        return torch.cat([F.pad(onward, (0, 0, 1, -1)), F.pad(backward, (0, 0, -1, 1))], -1)

    def way(self, states: Float[Tensor, "*N W"]) -> Float[Tensor, "*N V"]:
        """Of one direction."""
        return F.linear(states, self.weight, self.bias)

    def loss(
        self, hidden: Float[Tensor, "B S D"], targets: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]
    ) -> Terms:
        """`targets` are the tokens that stand at the positions themselves."""
        asked = ask(hidden, targets, mask)
        symbols = [each.symbols for each in asked]
        drawn = None
        if self.samples and self.training:
            drawn = sampled_softmax.draw(torch.cat(symbols), len(self.weight), self.samples)
            symbols = [*drawn.places.tensor_split(len(asked))]  # as many in either direction
        weight, bias, offset = self._words(drawn)
        found = {}
        for way, each, places in zip(WAYS, asked, symbols, strict=True):
            loss, _ = cross_entropy(
                each.states, weight, bias, places, 0.0, offset=offset, precision=self.precision
            )
            found[way] = Term(loss, len(places), 0.5)
        return found

    def _words(self, drawn: sampled_softmax.Drawn | None) -> tuple[Tensor, Tensor | None, Any]:
        """Weights and biases of all words, or of those that are drawn, and their offsets."""
        if drawn is None:
            return self.weight, self.bias, None
        bias = None if self.bias is None else self.bias[drawn.words]
        return self.weight[drawn.words], bias, drawn.offset


def ask(
    hidden: Float[Tensor, "B S D"], tokens: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]
) -> tuple[Asked, Asked]:
    """Each token but the first by what stands before it, each but the last by what follows."""
    onward, backward = hidden.chunk(2, -1)
    both = mask[:, 1:]  # of two neighbours, the right one is the last to be real
    return (
        Asked(onward[:, :-1][both], tokens[:, 1:][both]),
        Asked(backward[:, 1:][both], tokens[:, :-1][both]),
    )
