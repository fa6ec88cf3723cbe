"""Labels of a whole sequence: one out of several, or each by itself."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.dropout import Dropout
from regard.layers.linear import Linear, glorot
from regard.layers.pooling import Kind, Pooling
from regard.recipe.values import Share, Weight
from regard.types import Sequence, Term, Terms


@dataclass(frozen=True, kw_only=True)
class Config:
    """How states become one vector, and the vector labels."""

    pooling: Kind = "mean"
    """What stands for the sequence: its last state, both ends, the first (class), the mean, the
    maximum, or a mean with weights that are learnt (attention)."""
    all_layers: bool = False
    """Whether what the encoder reads and what each of its layers gives stand side by side in each
    state, instead of what the last layer gives alone. Of pretrained encoders the last layer knows
    most of what it was trained for, and earlier ones often more of the text."""
    pooler: bool = False
    """Whether that vector goes through a layer of its own first, tanh(W v + b), as in BERT."""
    pooler_activation: Literal["tanh", "relu"] = "tanh"
    """Of that layer; relu is DistilBERT's."""
    dropout: Share = 0.0
    """On that vector."""
    smoothing: Share = 0.0
    """Label smoothing: this much of the probability is spread over the labels."""
    linear_probe: Weight = 0.0
    """Begin as a regression on what the parts before give when training begins, with this weight of
    ‖W‖²; 0: by chance. For parts that are pretrained."""


def mixed(
    labels: Int[Tensor, "B"], others: Int[Tensor, "B"], share: Float[Tensor, "B"], count: int
) -> Float[Tensor, "B C"]:
    """λ y + (1 − λ) y′: the probabilities of labels where each example is mixed with another."""
    own, other = (F.one_hot(each, count).to(share.dtype) for each in (labels, others))
    return own * share[:, None] + other * (1 - share[:, None])


class Head(nn.Module):
    """z = (W pool(h) + b) / τ,  and  p(c) = softmax(z)_c  or, for several labels,  p(c) = σ(z_c).

    With a pooler, φ(W′ pool(h) + b′) stands for pool(h), where φ is tanh or ReLU. The temperature
    τ is 1 in training; afterwards validation decides it (Guo et al. 2017).
    """

    predicts = "labels"
    positive = ("temperature",)
    """Weights that mean nothing at 0 and below: other ones are refused where a run is loaded."""

    def __init__(self, config: Config, dim: int, labels: int, weight: nn.Parameter | None) -> None:
        super().__init__()
        self.smoothing = config.smoothing
        self.pooling = Pooling(config.pooling, dim)
        self.dropout = Dropout(config.dropout)
        size = self.pooling.size
        self.pooler = glorot(Linear(size, size)) if config.pooler else None
        self.activation = {"tanh": torch.tanh, "relu": torch.relu}[config.pooler_activation]
        self.project = glorot(Linear(size, labels))
        self.temperature = nn.Parameter(torch.ones(()), requires_grad=False)

    def pool(self, sequence: Sequence) -> Float[Tensor, "B E"]:
        found: Tensor = self.pooling(sequence)
        return found if self.pooler is None else self.activation(self.pooler(found))

    def logits(self, hidden: Float[Tensor, "*N E"]) -> Float[Tensor, "*N C"]:
        """Of vectors that are pooled already."""
        logits: Tensor = self.project(self.dropout(hidden))
        return logits / self.temperature

    def loss(
        self,
        hidden: Float[Tensor, "B S D"],
        targets: Int[Tensor, "B"] | Bool[Tensor, "B C"] | Float[Tensor, "B C"],
        mask: Bool[Tensor, "B S"],
        weights: Float[Tensor, "C"] | None = None,
    ) -> Terms:
        """What is trained, smoothed and weighted by class, and −log p of the targets.

        Numbers as targets say that a text has one label, probabilities (B, C) that it has one of
        several, as mixed pictures have; truth values that each label is a question of its own; a
        class's weight is then that of the answer yes.
        """
        logits = self.logits(self.pool(Sequence(hidden, mask)))
        if targets.dtype != torch.bool:
            smoothed = F.cross_entropy(
                logits, targets, weights, reduction="none", label_smoothing=self.smoothing
            )
            plain = F.cross_entropy(logits, targets, reduction="none")
        else:
            truth = targets.to(logits.dtype)
            soft = truth * (1 - self.smoothing) + self.smoothing / 2
            smoothed = F.binary_cross_entropy_with_logits(
                logits, soft, pos_weight=weights, reduction="none"
            )
            plain = F.binary_cross_entropy_with_logits(logits, truth, reduction="none")
        count = len(targets)
        return {"loss": Term(smoothed.sum(), count), "nll": Term(plain.detach().sum(), count, 0.0)}
