"""A label, or a number, for each position."""

from dataclasses import dataclass
from math import log, pi

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.crf import CRF
from regard.layers.dropout import Dropout
from regard.layers.linear import Linear, glorot
from regard.recipe.values import Share
from regard.types import Term, Terms


@dataclass(frozen=True, kw_only=True)
class Config:
    """Each position by itself, or all labels of a sequence together."""

    crf: bool = False
    """A conditional random field: neighbouring labels have to get on with each other."""
    dropout: Share = 0.0
    """On the hidden vectors."""


class Head(nn.Module):
    """e_t = W h_t + b. Labels: p(y_t) = softmax(e_t), or the field's p(y) with emissions e.

    Numbers: y_t is Gaussian with mean e_t and the deviation that validation decides; its loss is
    the squared error. A target below 0, or NaN, is not known and does not count.
    """

    predicts = "tags"
    positive = ("deviation",)
    """Weights that mean nothing at 0 and below: other ones are refused where a run is loaded."""

    def __init__(self, config: Config, dim: int, labels: int, weight: nn.Parameter | None) -> None:
        super().__init__()
        self.dropout = Dropout(config.dropout)
        self.project = glorot(Linear(dim, labels))
        self.crf = CRF(labels) if config.crf else None
        self.deviation = nn.Parameter(torch.ones(()), requires_grad=False)

    def logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N C"]:
        logits: Tensor = self.project(self.dropout(hidden))
        return logits

    def loss(
        self,
        hidden: Float[Tensor, "B T D"],
        targets: Int[Tensor, "B T"] | Float[Tensor, "B T"],
        mask: Bool[Tensor, "B T"],
    ) -> Terms:
        """−log p of whole numbers, the squared error of others."""
        if targets.is_floating_point():
            known = mask & ~targets.isnan()
            errors = self.logits(hidden).squeeze(-1)[known] - targets[known]
            return {"mse": Term(errors.square().sum(), int(known.sum()))}
        known = mask & (targets >= 0)
        if self.crf is None:
            chosen = targets.masked_fill(~known, -1).flatten()
            logits = self.logits(hidden).flatten(0, 1)
            nll = F.cross_entropy(logits, chosen, ignore_index=-1, reduction="sum")
        else:
            nll = -self.crf.log_likelihood(self.logits(hidden), targets, mask).sum()
        return {"nll": Term(nll, int(known.sum()))}

    def best(
        self, hidden: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]
    ) -> tuple[Int[Tensor, "B T"] | Float[Tensor, "B T"], Float[Tensor, "B T"]]:
        """The likeliest labels (with a field: as a sequence), and log p of each by itself.

        Of numbers, which have one output alone, the numbers.
        """
        logits = self.logits(hidden).float()
        if logits.shape[-1] == 1:
            return logits.squeeze(-1), torch.zeros_like(logits[..., 0])
        if self.crf is None:
            values, labels = logits.log_softmax(-1).max(-1)
            return labels, values
        labels = self.crf.decode(logits, mask)
        chances = self.crf.marginals(logits, mask).gather(-1, labels[..., None]).squeeze(-1)
        return labels, chances.log()

    def log_probs(
        self,
        hidden: Float[Tensor, "B T D"],
        targets: Int[Tensor, "B T"] | Float[Tensor, "B T"],
        mask: Bool[Tensor, "B T"],
    ) -> Float[Tensor, "B T"]:
        """log p of each target, given those before it where that matters; 0 where not known."""
        logits = self.logits(hidden).float()
        if targets.is_floating_point():
            error = (targets - logits.squeeze(-1)) / self.deviation
            density = -0.5 * error.square() - self.deviation.log() - 0.5 * log(2 * pi)
            return density.masked_fill(~mask | targets.isnan(), 0.0)
        if self.crf is not None:
            return self.crf.chain(logits, targets, mask)
        chosen = logits.log_softmax(-1).gather(-1, targets.clamp(min=0)[..., None]).squeeze(-1)
        return chosen.masked_fill(~mask | (targets < 0), 0.0)
