"""Adam and AdamW (Kingma & Ba 2015; Loshchilov & Hutter 2019)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

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
    rows: Literal["all", "seen"] = "all"
    """Which rows of a table of vectors an update changes: all, whose m and v go on changing, or
    those that the batch has looked up, m and v of no others (on a processor): much quicker where a
    table is large. Set beta1 = 0 then: what is left of an earlier gradient is not made up for."""


class _Rows(torch.optim.Optimizer):
    """Before what any Adam does: for a gradient of some rows, the same of these rows alone."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    self._change(parameter, parameter.grad, group)
                    parameter.grad = None
        return super().step(closure)

    def _change(self, parameter: Tensor, gradient: Tensor, group: Mapping[str, Any]) -> None:
        rows, g = gradient._indices()[0], gradient._values()  # each row once: it is coalesced
        state, (beta1, beta2) = self.state[parameter], group["betas"]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        before = parameter[rows]
        apart = isinstance(self, torch.optim.AdamW)
        step, rate, decay = float(state["step"]), group["lr"], group["weight_decay"]
        if decay and not apart:
            g = g.add(before, alpha=decay)
        m = g
        if beta1:
            m = state["exp_avg"][rows].lerp_(g, 1 - beta1)
            state["exp_avg"].index_copy_(0, rows, m)
        v = state["exp_avg_sq"][rows].mul_(beta2).addcmul_(g, g, value=1 - beta2)
        state["exp_avg_sq"].index_copy_(0, rows, v)
        scale = v.div_(1 - beta2**step).sqrt_().add_(group["eps"])
        change = torch.div(m, scale).mul_(-rate / (1 - beta1**step))
        if decay and apart:
            change.add_(before, alpha=-rate * decay)
        parameter.index_copy_(0, rows, change.add_(before))


class RowsAdam(_Rows, torch.optim.Adam):
    """Adam of the rows that were seen."""


class RowsAdamW(_Rows, torch.optim.AdamW):
    """AdamW of the rows that were seen."""


KINDS: dict[tuple[str, str], Any] = {
    ("adam", "all"): torch.optim.Adam,
    ("adamw", "all"): torch.optim.AdamW,
    ("adam", "seen"): RowsAdam,
    ("adamw", "seen"): RowsAdamW,
}


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
    kind = KINDS[config.kind, config.rows]
    made: torch.optim.Optimizer = kind(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=all(p.device.type in ("cpu", "cuda", "mps") for p in trained),
    )
    return made
