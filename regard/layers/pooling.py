"""Many vectors become one: what stands for a whole sequence.

h₁ … h_n ∈ ℝᴰ are the states of the real positions, n ≥ 1:

    last        h_n
    ends        [h₁; h_n] ∈ ℝ²ᴰ: where the two directions of a recurrent encoder have read all
    class       h₁: the state of the token that stands before every text
    mean        (1/n) Σ_t h_t
    max         the largest entry in each dimension
    attention   Σ_t a_t h_t,  a = softmax(v · tanh(W h_t + b))      (Yang et al. 2016, section 2.2)

Padding has no influence on any of them. A sequence without real positions becomes zeros.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.layers.linear import Linear
from regard.layers.probe import probe
from regard.types import Sequence

Kind = Literal["last", "ends", "class", "mean", "max", "attention"]


class Pooling(nn.Module):
    """states (B, S, D), mask (B, S) ↦ (B, size)."""

    def __init__(self, kind: Kind, dim: int) -> None:
        super().__init__()
        self.kind = kind
        self.size = 2 * dim if kind == "ends" else dim
        if kind == "attention":
            self.project = Linear(dim, dim)
            self.query = nn.Parameter(torch.empty(dim))
            nn.init.xavier_uniform_(self.project.weight)
            nn.init.zeros_(self.project.bias)
            nn.init.normal_(self.query, std=dim**-0.5)

    def forward(self, sequence: Sequence) -> Float[Tensor, "B E"]:
        states = sequence.states.masked_fill(~sequence.mask[..., None], 0.0)
        match self.kind:
            case "last":
                return states[_rows(states), _last(sequence.mask)]
            case "class":
                return states[:, 0]
            case "ends":
                return torch.cat([states[:, 0], states[_rows(states), _last(sequence.mask)]], -1)
            case "mean":
                return states.sum(1) / sequence.mask.sum(1, keepdim=True).clamp(min=1)
            case "max":
                hidden = sequence.states.masked_fill(~sequence.mask[..., None], -torch.inf)
                return hidden.amax(1).masked_fill(~sequence.mask.any(1)[:, None], 0.0)
            case "attention":
                return (self.weights(sequence)[..., None] * states).sum(1)

    def weights(self, sequence: Sequence) -> Float[Tensor, "B S"]:
        """a: how much each position counts; exactly zero where the mask is False."""
        scores = torch.tanh(self.project(sequence.states)) @ self.query  # (B, S)
        hidden = scores.masked_fill(~sequence.mask, -torch.inf).softmax(-1)
        return probe("pooling", hidden.masked_fill(~sequence.mask, 0.0))


def _rows(states: Float[Tensor, "B S D"]) -> Tensor:
    return torch.arange(states.shape[0], device=states.device)


def _last(mask: Bool[Tensor, "B S"]) -> Tensor:
    """The place of the last real position."""
    return (mask.sum(1) - 1).clamp(min=0)
