"""A distribution over the next token."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers import int8
from regard.layers.cross_entropy import cross_entropy
from regard.layers.linear import prepared_product
from regard.recipe.values import Share
from regard.types import Term, Terms


@dataclass(frozen=True, kw_only=True)
class Config:
    """The projection to the vocabulary and its loss."""

    smoothing: Share = 0.1
    """Label smoothing: this much of the probability is spread over the vocabulary."""
    bias: bool = False
    """Whether each token has a bias."""


class Head(nn.Module):
    """p(v | h) = softmax(h Wᵀ + b)_v. The weight may be that of an embedding."""

    predicts = "tokens"

    def __init__(self, config: Config, dim: int, symbols: int, weight: nn.Parameter | None) -> None:
        super().__init__()
        self.smoothing = config.smoothing
        self.weight = nn.Parameter(torch.empty(symbols, dim)) if weight is None else weight
        if weight is None:
            nn.init.normal_(self.weight, std=dim**-0.5)
        self.bias = nn.Parameter(torch.zeros(symbols)) if config.bias else None
        self.precision = torch.float32
        self.packed: int8.Packed = None
        """The weight in 8 bits, where that is what prediction takes."""

    def logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        if self.packed is not None and not torch.is_grad_enabled():
            return int8.product(hidden, self.packed)
        if hidden.ndim == 2:  # one step of a search
            return prepared_product(hidden, self.weight, self.bias)
        return F.linear(hidden, self.weight, self.bias)

    def loss(
        self,
        hidden: Float[Tensor, "B T D"],
        targets: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B T"],
    ) -> Terms:
        """The smoothed loss, which is trained, and the plain one, which is reported."""
        kept = mask.flatten().nonzero().squeeze(1)
        states = hidden.flatten(0, 1).index_select(0, kept)
        return self.states_loss(states, targets.flatten().index_select(0, kept))

    def states_loss(self, states: Float[Tensor, "N D"], symbols: Int[Tensor, " N"]) -> Terms:
        """The same of states that all count."""
        smoothed, plain = cross_entropy(
            states, self.weight, self.bias, symbols, self.smoothing, precision=self.precision
        )
        count = len(symbols)
        return {"smoothed": Term(smoothed, count), "nll": Term(plain, count, 0.0)}
