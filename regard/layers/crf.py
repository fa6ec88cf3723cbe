"""The linear-chain conditional random field (Lafferty et al. 2001; Lample et al. 2016, §2.2).

For emissions e ∈ ℝ^(T×C), a table of transitions A ∈ ℝ^(C×C) and scores b, z ∈ ℝᶜ of the two ends

    s(y) = b[y₁] + Σ_t e_t[y_t] + Σ_{t>1} A[y_{t−1}, y_t] + z[y_T],     p(y) = exp(s(y)) / Z

and Z = Σ_y exp(s(y)) runs over all Cᵀ sequences. The forward algorithm finds it in T steps:

    α₁ = b + e₁,   α_t[k] = e_t[k] + log Σ_j exp(α_{t−1}[j] + A[j, k])
    log Z = log Σ_k exp(α_T[k] + z[k])

β is the same from the other end: β_T = z, β_t[j] = log Σ_k exp(A[j, k] + e_{t+1}[k] + β_{t+1}[k]).

Real positions stand before padding. A tag below 0 is not known: probabilities are then those of
the known tags, whatever the others may be.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

IMPOSSIBLE = -1e9
"""Finite, so that no gradient becomes inf − inf; exp of it is zero."""

Emissions = Float[Tensor, "B T C"]
Tags = Int[Tensor, "B T"]
Mask = Bool[Tensor, "B T"]


class CRF(nn.Module):
    """The scores of transitions, and all that is asked of the field."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(labels))
        self.transitions = nn.Parameter(torch.zeros(labels, labels))
        self.end = nn.Parameter(torch.zeros(labels))
        nn.init.uniform_(self.transitions, -0.1, 0.1)

    def log_partition(self, emissions: Emissions, mask: Mask) -> Float[Tensor, "B"]:
        """log Z."""
        alpha = self.start + emissions[:, 0]
        for t in range(1, emissions.shape[1]):
            alpha = torch.where(mask[:, t, None], self._next(alpha) + emissions[:, t], alpha)
        return (alpha + self.end).logsumexp(-1)

    def log_likelihood(self, emissions: Emissions, tags: Tags, mask: Mask) -> Float[Tensor, "B"]:
        """log p(y): the log Z of the sequences that agree with `tags`, less that of all."""
        both = torch.cat([_only(emissions, tags), emissions])
        agreeing, all_ = self.log_partition(both, mask.repeat(2, 1)).chunk(2)
        return agreeing - all_

    def marginals(self, emissions: Emissions, mask: Mask) -> Emissions:
        """p(y_t = k) = exp(α_t[k] + β_t[k]) / Z at each position."""
        alphas = [self.start + emissions[:, 0]]
        for t in range(1, emissions.shape[1]):
            alphas.append(self._next(alphas[-1]) + emissions[:, t])
        return (torch.stack(alphas, 1) + self._backward(emissions, mask)).softmax(-1)

    def chain(self, emissions: Emissions, tags: Tags, mask: Mask) -> Float[Tensor, "B T"]:
        """log p(y_t | y₁ … y_{t−1}), which sum to the log-likelihood; 0 where y_t is not known."""
        beta, known = self._backward(emissions, mask), _only(emissions, tags)
        steps, before = [], self.start.expand(len(tags), -1)
        for t in range(emissions.shape[1]):
            log_probs = (before + emissions[:, t] + beta[:, t]).log_softmax(-1)
            chosen = log_probs.gather(-1, tags[:, t, None].clamp(min=0)).squeeze(-1)
            steps.append(chosen.masked_fill(~mask[:, t] | (tags[:, t] < 0), 0.0))
            before = self._next(before + known[:, t])
        return torch.stack(steps, 1)

    def decode(self, emissions: Emissions, mask: Mask) -> Tags:
        """argmax_y s(y)."""
        return viterbi(emissions, mask, self.start, self.transitions, self.end)

    def _next(self, alpha: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """log Σ_j exp(α[j] + A[j, k]) for each k."""
        return (alpha[..., None] + self.transitions).logsumexp(1)

    def _backward(self, emissions: Emissions, mask: Mask) -> Emissions:
        """β; at the last real position and after it, z."""
        beta = self.end.expand(len(mask), -1)
        betas = [beta]
        for t in range(emissions.shape[1] - 1, 0, -1):
            before = (self.transitions + (emissions[:, t] + beta)[:, None]).logsumexp(2)
            beta = torch.where(mask[:, t, None], before, beta)
            betas.append(beta)
        return torch.stack(betas[::-1], 1)


def looped(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of plain tensors whose loops stay loops where a graph is traced."""
    untyped: Any = torch.jit
    made: Callable[..., Tensor] = untyped.script_if_tracing(inspect.unwrap(function))
    return made


@looped
def viterbi(
    emissions: Tensor, mask: Tensor, start: Tensor, transitions: Tensor, end: Tensor
) -> Tensor:
    """Maxima in place of sums, and where each came from: tags (B, T), 0 at padding."""
    best = start + emissions[:, 0]
    stay = torch.arange(emissions.shape[2], device=emissions.device).expand_as(best)
    pointers = [stay]  # which nothing follows: a graph has no empty lists
    for t in range(1, emissions.shape[1]):
        scores, came_from = (best[..., None] + transitions).max(1)  # (B, C)
        real = mask[:, t, None]
        best = torch.where(real, scores + emissions[:, t], best)
        pointers.append(torch.where(real, came_from, stay))
    tags = [(best + end).argmax(-1, keepdim=True)]
    for t in range(1, len(pointers)):
        tags.append(pointers[len(pointers) - t].gather(-1, tags[-1]))
    return torch.cat(tags, 1).flip(1).masked_fill(~mask, 0)


def _only(emissions: Emissions, tags: Tags) -> Emissions:
    """Emissions under which no tag but the known one is possible."""
    names = torch.arange(emissions.shape[2], device=tags.device)
    allowed = (tags[..., None] == names) | (tags[..., None] < 0)
    return emissions.masked_fill(~allowed, IMPOSSIBLE)
