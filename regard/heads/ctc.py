"""Tokens that are fewer than the positions: which stand where, nobody says (Graves et al. 2006)."""

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.dropout import Dropout
from regard.layers.linear import Linear, glorot
from regard.recipe.values import Share
from regard.types import Term, Terms

BLANK = 0
"""The output that writes nothing: the number that pads texts, which no text has."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Connectionist temporal classification."""

    dropout: Share = 0.0
    """On the hidden vectors."""


class Head(nn.Module):
    """p(y | x) = Σ_π Π_t p(π_t | x),   p(· | x) at t = softmax(W h_t + b)

    over all paths π, one output for each position t, that become y when what is repeated is written
    once and blanks are left out. A text needs a position for each token, and one more between
    two that are the same: one that has fewer has no path. It adds nothing to the loss, and the
    doctor reports it.
    """

    predicts = "paths"

    def __init__(self, config: Config, dim: int, symbols: int, weight: nn.Parameter | None) -> None:
        super().__init__()
        self.dropout = Dropout(config.dropout)
        self.project = glorot(Linear(dim, symbols))

    def logits(self, hidden: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        logits: Tensor = self.project(self.dropout(hidden))
        return logits

    def log_probs(self, hidden: Float[Tensor, "B S D"]) -> Float[Tensor, "B S V"]:
        """log p of every output at every position."""
        return self.logits(hidden).float().log_softmax(-1)

    def likelihood(
        self,
        hidden: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B S"],
        targets: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"],
    ) -> Float[Tensor, " B"]:
        """log p(y | x) of each text, the first `lengths` of its row; −∞ of one without a path."""
        chances = self.log_probs(hidden).transpose(0, 1)  # (S, B, V)
        found: Tensor = F.ctc_loss(
            chances, targets, mask.sum(1), lengths, blank=BLANK, reduction="none"
        )
        return -found

    def loss(
        self,
        hidden: Float[Tensor, "B S D"],
        targets: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B S"],
        lengths: Int[Tensor, " B"] | None = None,
        count: int | None = None,
    ) -> Terms:
        """−log p(y | x), summed over texts. Without `lengths`, a text ends where padding begins;
        `count` is what the sum is to be divided by, if not the number of tokens."""
        if lengths is None:
            lengths = (targets != BLANK).sum(1)
        chances = self.log_probs(hidden).transpose(0, 1)  # (S, B, V)
        nll: Tensor = F.ctc_loss(
            chances, targets, mask.sum(1), lengths,
            blank=BLANK, reduction="sum", zero_infinity=True,
        )  # fmt: skip
        return {"ctc": Term(nll, int(lengths.sum()) if count is None else count)}
