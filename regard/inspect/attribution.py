"""How much each input token had to do with an output: integrated gradients.

Sundararajan et al. 2017: with f the log-probability of an output (or a number that is said), x the
embeddings and x′ zero,

    a_i = (x_i − x′_i) · ∫₀¹ ∂f(x′ + α (x − x′)) / ∂x_i dα,        Σ_i a_i = f(x) − f(x′).

The integral is a Gauss–Legendre sum over intervals of α. On each, the sum on the right must come
out (completeness): where it does not, a kink of f is inside, and the interval is halved.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.inspect.reading import Measure, logits
from regard.model import Model
from regard.types import Batch, Sequence, float64

Function = Callable[[Float[Tensor, "N L D"]], Float[Tensor, "N"]]
TOLERANCE, MOST = 0.01, 64
"""Relative error that is aimed at, and the number of intervals at which no more are halved."""


def integrated_gradients(
    function: Function,
    x: Float[Tensor, "L D"],
    baseline: Float[Tensor, "L D"],
    points: int = 32,
    low: float = 0.0,
    high: float = 1.0,
) -> Float[Tensor, "L D"]:
    """a, or the part of it from α = low to high, of a function that takes a batch of inputs."""
    node, weight = np.polynomial.legendre.leggauss(points)  # on [−1, 1]
    half = (high - low) / 2
    alpha, share = (
        x.new_tensor(v)[:, None, None] for v in (low + half * (node + 1), half * weight)
    )
    path = (baseline + alpha * (x - baseline)).requires_grad_()
    (gradient,) = torch.autograd.grad(function(path).sum(), path)
    return (share * gradient).sum(0) * (x - baseline)


def adaptive(
    function: Function, x: Float[Tensor, "L D"], points: int = 12
) -> tuple[Float[Tensor, "L"], float]:
    """a of each vector against zero, and f(x) − f(0); the worst interval is halved first."""
    baseline = torch.zeros_like(x)

    def part(low: float, high: float) -> tuple[float, float, float, Tensor]:
        share = integrated_gradients(function, x, baseline, points, low, high).sum(-1)
        with torch.no_grad():
            ends = float64(function(torch.stack([low * x, high * x])))
        return abs(float(share.sum()) - float(ends[1] - ends[0])), low, high, share

    with torch.no_grad():
        empty, full = function(torch.stack([baseline, x])).tolist()
    parts = [part(0.0, 1.0)]
    # Errors may cancel: halving goes on until even their sum is small.
    while len(parts) < MOST and sum(p[0] for p in parts) > TOLERANCE * abs(full - empty):
        worst = max(range(len(parts)), key=lambda n: parts[n][0])
        _, low, high, _ = parts.pop(worst)
        parts += [part(low, (low + high) / 2), part((low + high) / 2, high)]
    return torch.stack([p[3] for p in parts]).sum(0), full - empty


class Attribution(NamedTuple):
    """What the log-probability of one output token, or a number, is made of."""

    source: Float[Tensor, "S"]
    """Of each token of the input."""
    target: Float[Tensor, "T"]
    """Of each token that the decoder has read; those after the output have none."""
    value: float
    """f(x) − f(x′): what they should add up to."""
    error: float
    """How far they are from that, relative to it."""


def attribute(
    model: Model, batch: Batch, position: int, symbol: int, measure: Measure
) -> Attribution:
    """Of an output at `position` of a batch of one: a token, a label, a tag, a variable."""
    source, target = embeddings(model, batch)
    x = torch.cat([source, target])

    def value(path: Float[Tensor, "N L D"]) -> Float[Tensor, "N"]:
        said = _said(model, batch, path[:, : len(source)], path[:, len(source) :], position)
        return measure(said)[:, position, symbol]

    share, total = adaptive(value, x)
    error = abs(float(share.sum()) - total) / max(1e-6, abs(total))
    return Attribution(share[: len(source)], share[len(source) :], total, error)


def embeddings(model: Model, batch: Batch) -> tuple[Float[Tensor, "S D"], Float[Tensor, "T D"]]:
    """The vectors of what the encoder and the decoder read, of a batch of one."""
    decoder: Any = model.decoder
    with torch.no_grad():
        source = None if model.input is None else model.input(batch).states[0]
        target: Any = None if decoder is None else decoder.embedding(batch["target_in"])[0]
    if source is None:
        return target[:0], target
    return source, source[:0] if target is None else target


def _said(model: Model, batch: Batch, source: Tensor, target: Tensor, position: int) -> Tensor:
    """What the head says, with other vectors (N, S, D) and (N, T, D) in their places."""
    many = repeated(batch, len(source))
    with given(model.input, lambda made: Sequence(source, made.mask)):
        if model.decoder is None:
            return logits(model, many)
        state = model.start(many)
    decoder: Any = model.decoder
    # What comes after the position has no influence: it need not be read.
    with given(decoder.embedding, lambda _: target[:, : position + 1]):
        hidden, _ = model.decode(many["target_in"][:, : position + 1], state)
    return model.head.logits(hidden)


def repeated(batch: Batch, rows: int) -> Batch:
    """A batch of one, `rows` times."""
    tensors = {name: t.expand(rows, *t.shape[1:]) for name, t in batch.tensors.items()}
    return replace(batch, tensors=tensors, ids=batch.ids * rows)


def given(module: Any, change: Callable[[Any], Any]) -> AbstractContextManager[Any]:
    """A module's output is what `change` makes of it; in other threads it is what it was."""
    if not isinstance(module, nn.Module):
        return nullcontext()
    own = get_ident()
    hook: AbstractContextManager[Any] = module.register_forward_hook(
        lambda _, inputs, output: change(output) if get_ident() == own else None
    )
    return hook
