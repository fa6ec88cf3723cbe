"""A distribution over what stands at a place that was hidden (Devlin et al. 2019, section 3.1)."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.heads import vocabulary
from regard.layers.linear import Linear
from regard.recipe.values import Share
from regard.types import Terms


@dataclass(frozen=True, kw_only=True)
class Config:
    """The projection to the vocabulary, what stands before it, and its loss."""

    transform: bool = True
    """Whether a state goes through a layer of its own first: LayerNorm(gelu(W h + b))."""
    smoothing: Share = 0.0
    """Label smoothing: this much of the probability is spread over the vocabulary."""
    bias: bool = True
    """Whether each token has a bias."""
    epsilon: Share = 0.0
    """ε of the norm; 0: 10⁻⁵."""


class Head(vocabulary.Head):
    """p(v | h) = softmax(f(h) Eᵀ + b)_v with f(h) = LayerNorm(gelu(W h + b′)), or f(h) = h.

    E may be the embedding's weight. Only hidden places are projected to the vocabulary.
    """

    predicts = "masked tokens"

    def __init__(self, config: Config, dim: int, symbols: int, weight: nn.Parameter | None) -> None:
        super().__init__(
            vocabulary.Config(smoothing=config.smoothing, bias=config.bias), dim, symbols, weight
        )
        self.dense = Linear(dim, dim) if config.transform else None
        self.norm = nn.LayerNorm(dim, config.epsilon or 1e-5) if config.transform else None
        if self.dense is not None:
            nn.init.xavier_uniform_(self.dense.weight)
            nn.init.zeros_(self.dense.bias)

    def transform(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:
        """f."""
        if self.dense is None or self.norm is None:
            return hidden
        found: Tensor = self.norm(F.gelu(self.dense(hidden)))
        return found

    def logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        return super().logits(self.transform(hidden))

    def states_loss(self, states: Float[Tensor, "N D"], symbols: Tensor) -> Terms:
        return super().states_loss(self.transform(states), symbols)
