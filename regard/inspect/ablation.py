"""What it costs one text to be without each attention head.

    −log p of what was said rises by  Δ_h = log p(y | x) − log p(y | x, without head h)

in nats, over the whole output. Where numbers are said, Δ_h is the mean absolute change of them.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.inspect.intervene import WithoutHead, attentions, intervene
from regard.inspect.reading import Reading
from regard.model import Model

TOKENS = 2**18
"""Heads times positions that are computed at most: beyond, one text would take too long."""


def ablation(model: Model, reading: Reading) -> dict[str, Any] | None:
    """The cost of each head, switched off alone; None without heads, or for very long texts."""
    heads = [
        WithoutHead(kind, layer, head)
        for (kind, layer), module in attentions(model).items()
        for head in range(module.heads)
    ]
    length = len(reading.source) + len(reading.said)
    if not heads or len(heads) * length > TOKENS:
        return None
    whole = _said(model, reading)
    costs = []
    for head in heads:
        with intervene(model, head):
            costs.append(_cost(whole, _said(model, reading), reading.numbers is not None))
    return {
        "nll": 0.0 if reading.numbers is not None else -float(whole.sum()),
        "heads": [
            {"kind": head.kind, "layer": head.layer, "head": head.head, "cost": cost}
            for head, cost in zip(heads, costs, strict=True)
        ],
    }


def _said(model: Model, reading: Reading) -> Float[Tensor, "T"]:
    """log p of each output that is the model's own, or the numbers that are said."""
    places = torch.arange(len(reading.symbols)), torch.tensor(reading.symbols)
    with torch.no_grad():
        found = reading.measured(model).cpu()[places]
    own = reading.given if 0 < reading.given < len(found) else 0
    return found[own:].double()


def _cost(whole: Float[Tensor, "T"], without: Float[Tensor, "T"], numbers: bool) -> float:
    return float((whole - without).abs().mean() if numbers else (whole - without).sum())
