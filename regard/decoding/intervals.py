"""How wide the interval of a forecast is, so that it covers what it says.

Split conformal prediction (Vovk et al. 2005; Lei et al. 2018) with the validation part: a residual
y − μ is measured in units of what its own window lets one expect, s(x), and for each step j of the
horizon

    q_j = the weighted `level` quantile of |y_j − μ_j| / s(x),   weights w_i = i / n,   i = 1 … n

over the windows of the validation part, oldest first, for each variable by itself: what is nearer
to the future counts more, since a series does not stay what it was (Barber et al. 2023). The
interval is μ_j ± q_j s(x). For a new window, one more residual of weight 1 is unknown, and counts
as the largest.

    s(x) = deviation(x) + 2 |mean(later half of x) − mean(earlier half of x)|

is the deviation of the steps that were read, and how far their level moved: of a straight line
exactly as far as it rose. Calm weeks get narrow intervals and restless ones wide intervals. A head
that predicts its own variance says s(x) itself.
"""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from regard.recipe.values import Few, Range
from regard.types import float64

SMALLEST = 1e-3
"""Of s(x), in standardised values: after a flat stretch something may still happen."""


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """Between which ends a value is expected: μ ± z σ."""

    level: Annotated[float, Range(0, 1, open_low=True, open_high=True)] = 0.9
    """The fraction of values that should lie between them."""
    width: Literal["fixed", "window"] = "fixed"
    """The same for every window and for all independent variables, or in proportion to how restless
    the window is, each variable by itself. A head with loss = "gaussian" says itself how sure it
    is."""
    paths: Few = 100
    """Futures that are drawn for σ of an autoregressive forecast."""

    @property
    def reach(self) -> float:
        """z."""
        return NormalDist().inv_cdf((1 + self.level) / 2)


def restlessness(past: Float[Tensor, "B S C"]) -> Float[Tensor, "B 1 C"]:
    """s(x) of each window and variable."""
    half = past.shape[1] // 2
    deviation = past.std(1, correction=0, keepdim=True)
    if not half:
        return deviation + SMALLEST
    moved = past[:, half:].mean(1, keepdim=True) - past[:, :half].mean(1, keepdim=True)
    return deviation + 2 * moved.abs() + SMALLEST


def conformal(
    distances: Float[Tensor, "N T C"], level: float, *, shared: bool
) -> Float[Tensor, "1 T C2"]:
    """q_j of the distances |y − μ| / s(x) of windows in the order of time.

    One for each variable, or one for all of them (C2 = 1).
    """
    count, _, variables = distances.shape
    weights = torch.arange(1, count + 1).double() / count
    rows = float64(distances).movedim(0, -1).cpu()  # (T, C, N)
    if shared:
        rows, weights = rows.flatten(1)[:, None], weights.repeat(variables)
    ordered, places = rows.sort(-1)
    reached = weights[places].cumsum(-1)
    wanted = level * (weights.sum() + weights.max())
    first = (reached < wanted).sum(-1, keepdim=True).clamp(max=ordered.shape[-1] - 1)
    return ordered.gather(-1, first).movedim(-1, 0)
