"""How the learning rate goes up and comes down, as a function of the update's number alone."""

import math
from dataclasses import dataclass
from typing import Literal

from regard.recipe.values import Factor, NonNegative, Weight


@dataclass(frozen=True, kw_only=True)
class Config:
    """A linear warm-up to the optimizer's rate η over w updates, then

    inverse_sqrt   η · √(w / u)
    cosine         from η down to end · η over the rest of the updates, along half a cosine
    linear         from η down to end · η over the rest of the updates, along a line
    constant       η
    paper          inverse_sqrt with η = scale · (dim · w)^(−1/2) (Vaswani et al. 2017, section 5.3)
    """

    kind: Literal["inverse_sqrt", "cosine", "linear", "constant", "paper"] = "inverse_sqrt"
    """The shape."""
    warmup: NonNegative = 4000
    """Updates until the rate is at its highest. Below 1: that part of the training."""
    end: Weight = 0.0
    """What part of the rate is left at the end (cosine, linear)."""
    scale: Factor = 1.0
    """A factor for the paper's rate."""


def rate(config: Config, peak: float, update: float, updates: int, dim: int) -> float:
    """The learning rate of update 1, 2, …, `updates`."""
    warmup = max(config.warmup, 1.0)
    if config.kind == "paper":
        peak = config.scale * (dim * warmup) ** -0.5
    if update <= warmup:
        return peak * update / warmup
    done = min(1.0, (update - warmup) / max(1.0, updates - warmup))
    match config.kind:
        case "inverse_sqrt" | "paper":
            return peak * math.sqrt(warmup / update)
        case "cosine":
            return peak * (config.end + (1 - config.end) * (1 + math.cos(math.pi * done)) / 2)
        case "linear":
            return peak * (1 - (1 - config.end) * done)
        case "constant":
            return peak
