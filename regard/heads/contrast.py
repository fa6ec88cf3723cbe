"""Two readers' vectors in one space, alike where things belong together (Radford et al. 2021)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.linear import Linear, glorot
from regard.layers.pooling import Kind, Pooling
from regard.recipe.values import Range, Width
from regard.types import Sequence, Term, Terms

LARGEST = 100.0
"""Of 1/τ: beyond it learning is unstable (section 2.5)."""


class _Limited(torch.autograd.Function):
    """min(eˣ, LARGEST). Beyond the limit its gradient would be 0, and x could never come back:
    there it is that of eˣ at the limit, as far as a step against it makes x smaller."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        limited = x.exp().clamp(max=LARGEST)
        context.save_for_backward(x, limited)
        return limited

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        x, limited = context.saved_tensors
        back = gradient.clamp(min=0)
        found: Tensor = torch.where(x > math.log(LARGEST), back, gradient) * limited
        return found


@dataclass(frozen=True, kw_only=True)
class Config:
    """The space that sources and targets share."""

    size: Width = 128
    """Its dimension."""
    pooling: Kind = "mean"
    """What stands for a source: its last state, both ends, the first (class), the mean, the
    maximum, or a mean with weights that are learnt (attention)."""
    target_pooling: Kind = "mean"
    """What stands for a target."""
    temperature: Annotated[float, Range(0.01, 10)] = 0.07
    """τ in the beginning: it is learnt, and never below 0.01."""


class Head(nn.Module):
    """s_ij = u_i · v_j / τ,   u = W pool(x) / ‖W pool(x)‖,   v = W′ pool′(y) / ‖W′ pool′(y)‖

    for the states x of source i and y of target j, u, v ∈ ℝᴱ; and over the N pairs of a batch

        L = −½ Σ_i (log softmax(s_i1 … s_iN)_i + log softmax(s_1i … s_Ni)_i) / N

    so that every other pair of the batch says what does not belong together.
    """

    predicts = "pairs"
    joins = True

    def __init__(
        self,
        config: Config,
        dim: int,
        outputs: int,
        weight: nn.Parameter | None,
        *,
        widths: Mapping[str, int],
    ) -> None:
        super().__init__()
        kinds: tuple[Kind, Kind] = (config.pooling, config.target_pooling)
        pooling = {s: Pooling(k, widths[s]) for s, k in zip(widths, kinds, strict=True)}
        project = {s: Linear(each.size, config.size, bias=False) for s, each in pooling.items()}
        self.pooling = nn.ModuleDict(pooling)
        self.project = nn.ModuleDict({side: glorot(each) for side, each in project.items()})
        self.sharpness = nn.Parameter(torch.tensor(-math.log(config.temperature)))  # log 1/τ

    def vectors(self, side: str, sequence: Sequence) -> Float[Tensor, "B E"]:
        """u of a source, v of a target: of length 1."""
        return F.normalize(self.project[side](self.pooling[side](sequence)).float(), dim=-1)

    def scale(self) -> Float[Tensor, ""]:
        """1/τ."""
        found: Tensor = _Limited.apply(self.sharpness)  # type: ignore[no-untyped-call]
        return found

    def logits(
        self, hidden: Float[Tensor, "*N E"], others: Float[Tensor, "M E"]
    ) -> Float[Tensor, "*N M"]:
        """s."""
        return hidden @ others.t() * self.scale()

    def loss(self, hidden: Float[Tensor, "B E"], others: Float[Tensor, "B E"]) -> Terms:
        """L, for vectors that belong together row by row."""
        logits = self.logits(hidden, others)
        right = torch.arange(len(logits), device=logits.device)
        both = [F.cross_entropy(each, right, reduction="sum") for each in (logits, logits.t())]
        return {"nll": Term((both[0] + both[1]) / 2, len(logits))}
