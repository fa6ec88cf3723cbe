"""Real numbers: a mean for each, and how far from it the truth may be."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.errors import RecipeError
from regard.layers.dropout import Dropout
from regard.layers.pooling import Pooling
from regard.recipe.values import Share
from regard.types import Sequence, Term, Terms

LIMIT = 14.0
"""|s| is at most this, so that e⁻ˢ stays finite."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """How states become numbers, and what an error costs."""

    loss: Literal["squared", "gaussian"] = "squared"
    """The squared error, or −log of a normal density whose variance is predicted, too."""
    readout: Literal["last", "mean", "flatten"] = "last"
    """What the numbers are a linear function of: the last state, the mean, or all states."""
    dropout: Share = 0.0
    """On that."""


class Head(nn.Module):
    """y_j ~ N(μ_j, σ_j²),  μ = W h + b,  σ_j = d_j e^{s_j/2},  s = V h + c or 0 (squared error).

    d is 1 in training; afterwards validation decides it, so that intervals are as wide as the
    errors are. Where several variables share W and V, their rows follow each other in turn, and
    each of these groups has a d of its own. W and V keep float32 in training: rounding would blur
    the numbers.
    """

    predicts = "numbers"
    flattens = True
    positive = ("deviation",)
    """Weights that mean nothing at 0 and below: other ones are refused where a run is loaded."""

    def __init__(
        self,
        config: Config,
        dim: int,
        outputs: int,
        weight: nn.Parameter | None,
        positions: int | None = None,
        groups: int = 1,
    ) -> None:
        super().__init__()
        if config.readout == "flatten" and positions is None:
            raise RecipeError("readout: 'flatten' needs inputs that are all of one length")
        self.outputs, self.gaussian = outputs, config.loss == "gaussian"
        self.pooling = Pooling(config.readout, dim) if config.readout != "flatten" else None
        self.dropout = Dropout(config.dropout)
        size = dim * (1 if self.pooling is not None else positions or 1)
        self.project = nn.Linear(size, outputs * (2 if self.gaussian else 1))
        self.deviation = nn.Parameter(torch.ones(groups * outputs), requires_grad=False)

    def pool(self, sequence: Sequence) -> Float[Tensor, "B E"]:
        if self.pooling is not None:
            return self.pooling(sequence)  # type: ignore[no-any-return]
        return (sequence.states * sequence.mask[..., None]).flatten(1)

    def logits(self, hidden: Float[Tensor, "*N E"]) -> Float[Tensor, "*N V"]:
        """μ, and s behind it where the variance is predicted, of vectors that are pooled."""
        return self.project(self.dropout(hidden))  # type: ignore[no-any-return]

    def normal(
        self, hidden: Float[Tensor, "*N E"]
    ) -> tuple[Float[Tensor, "*N O"], Float[Tensor, "*N O"]]:
        """μ and σ."""
        found = self.logits(hidden)
        mean, rest = found[..., : self.outputs], found[..., self.outputs :]
        log_variance = rest.clamp(-LIMIT, LIMIT) if self.gaussian else torch.zeros_like(mean)
        deviation = self.deviation.view(-1, self.outputs)
        rows = torch.exp(log_variance / 2).view(-1, *deviation.shape)
        return mean, (deviation * rows).view_as(mean)

    def loss(
        self,
        hidden: Float[Tensor, "B S D"],
        targets: Float[Tensor, "B O"],
        mask: Bool[Tensor, "B S"],
        scale: Float[Tensor, "B O"] | None = None,
    ) -> Terms:
        """(y − μ)² and −log p(y), one of which is trained.

        Where targets are numbers of another unit, divided by `scale`, both are of that unit.
        """
        mean, deviation = self.normal(self.pool(Sequence(hidden, mask)))
        unit = torch.ones_like(targets) if scale is None else scale
        error = (targets - mean) * unit
        squares, nll = error.square().sum(), surprise(error, deviation * unit).sum()
        count = targets.numel()
        if self.gaussian:
            return {"nll": Term(nll, count), "mse": Term(squares.detach(), count, 0.0)}
        return {"mse": Term(squares, count), "nll": Term(nll.detach(), count, 0.0)}


def surprise(error: Float[Tensor, "*N"], deviation: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """−log N(error; 0, σ²) = ½ log 2π + log σ + ½ (error / σ)²."""
    return 0.5 * math.log(2 * math.pi) + deviation.log() + 0.5 * (error / deviation).square()
