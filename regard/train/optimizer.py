"""Adam and AdamW (Kingma & Ba 2015; Loshchilov & Hutter 2019)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.recipe.values import Factor, Range, Share, Weight


@dataclass(frozen=True, kw_only=True)
class Config:
    """m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²,  θ ← θ − η m̂ / (√v̂ + ε);  AdamW: θ ← θ − ηλθ, too."""

    kind: Literal["adam", "adamw"] = "adam"
    """Adam adds the decay to the gradient, AdamW takes it off the weights."""
    learning_rate: Factor = 5e-4
    """The highest learning rate η; the schedule says how it is reached and left."""
    beta1: Share = 0.9
    """How slowly the mean of the gradient changes."""
    beta2: Share = 0.98
    """How slowly the mean of its square changes."""
    epsilon: Annotated[float, Range(0, 1, open_low=True)] = 1e-9
    """Keeps the quotient finite."""
    weight_decay: Weight = 0.0
    """Weight decay λ, on matrices alone."""


def make(
    config: Config,
    parameters: Iterable[nn.Parameter],
    rates: Mapping[Tensor, float] | None = None,
) -> torch.optim.Optimizer:
    """The optimizer; vectors (biases, norms) are not decayed. A group's `factor` is that of `rates`
    for its parameters, which the learning rate is multiplied by, and 1 for all others."""
    trained = [p for p in parameters if p.requires_grad]
    factors = {p: (rates or {}).get(p, 1.0) for p in trained}
    groups = [
        {
            "params": [p for p in trained if (p.ndim > 1) == matrices and factors[p] == factor],
            "weight_decay": config.weight_decay if matrices else 0.0,
            "factor": factor,
        }
        for factor in sorted({*factors.values()})
        for matrices in (True, False)
    ]
    kind = torch.optim.AdamW if config.kind == "adamw" else torch.optim.Adam
    return kind(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=all(p.device.type in ("cpu", "cuda", "mps") for p in trained),
    )
