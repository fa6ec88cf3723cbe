"""How much each input symbol had to do with an output: integrated gradients.

Sundararajan et al. 2017: with f the log-probability of an output, x the embeddings and x′ zero,

    a_i = (x_i − x′_i) · ∫₀¹ ∂f(x′ + α (x − x′)) / ∂x_i dα,        Σ_i a_i = f(x) − f(x′).

The integral is a Gauss–Legendre sum; that the sum on the right comes out (completeness) says how
good it is, and the number of points is doubled until it does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.model import Model
from regard.types import Batch, Sequence

Function = Callable[[Float[Tensor, "N L D"]], Float[Tensor, "N"]]
TOLERANCE, MOST = 0.01, 512


def integrated_gradients(
    function: Function, x: Float[Tensor, "L D"], baseline: Float[Tensor, "L D"], points: int = 32
) -> Float[Tensor, "L D"]:
    """a for a function that takes a batch of inputs and gives a value for each."""
    node, weight = np.polynomial.legendre.leggauss(points)  # on [−1, 1]
    alpha, share = (x.new_tensor(v)[:, None, None] for v in ((node + 1) / 2, weight / 2))
    path = (baseline + alpha * (x - baseline)).requires_grad_()
    (gradient,) = torch.autograd.grad(function(path).sum(), path)
    return (share * gradient).sum(0) * (x - baseline)


class Attribution(NamedTuple):
    """What the log-probability of one output symbol is made of."""

    source: Float[Tensor, "S"]
    """Of each symbol of the input."""
    target: Float[Tensor, "T"]
    """Of each symbol that the decoder has read; those after the output have none."""
    value: float
    """f(x) − f(x′): what they should add up to."""
    error: float
    """How far they are from that, relative to it."""


def attribute(model: Model, batch: Batch, position: int, symbol: int | None = None) -> Attribution:
    """Of the output at `position` of a batch of one; of another `symbol` in its place, if given.

    For a model without decoder the output is a label, and must be given.
    """
    source, target = embeddings(model, batch)
    x = torch.cat([source, target])
    if symbol is None:
        symbol = int(batch["target_out"][0, position])

    def value(path: Float[Tensor, "N L D"]) -> Float[Tensor, "N"]:
        logits = _logits(model, batch, path[:, : len(source)], path[:, len(source) :], position)
        return logits.log_softmax(-1)[:, symbol]

    baseline, points = torch.zeros_like(x), 16
    with torch.no_grad():
        full, empty = value(torch.stack([x, baseline])).tolist()
    while True:
        share = integrated_gradients(value, x, baseline, points).sum(-1)  # (L,)
        error = abs(float(share.sum()) - (full - empty)) / max(1e-6, abs(full - empty))
        if error < TOLERANCE or points >= MOST:
            parts = share[: len(source)], share[len(source) :]
            return Attribution(*parts, full - empty, error)
        points *= 2


def embeddings(model: Model, batch: Batch) -> tuple[Float[Tensor, "S D"], Float[Tensor, "T D"]]:
    """The vectors of what the encoder and the decoder read, of a batch of one."""
    decoder: Any = model.decoder
    with torch.no_grad():
        found = [
            model.input(batch).states[0] if model.input is not None else None,
            decoder.embedding(batch["target_in"])[0] if decoder is not None else None,
        ]
    dim = next(len(vectors[0]) for vectors in found if vectors is not None)
    nothing = torch.zeros(0, dim, device=model.device)
    source, target = (nothing if vectors is None else vectors for vectors in found)
    return source, target


def _logits(
    model: Model, batch: Batch, source: Tensor, target: Tensor, position: int
) -> Float[Tensor, "N V"]:
    """Of the output at `position`, with other vectors (N, S, D) and (N, T, D) in their places."""
    rows = len(source)
    many = repeated(batch, rows)
    with given(model.input, lambda made: Sequence(source, made.mask)):
        if model.decoder is None:
            sequence = model.encode(many)
            assert sequence is not None
            head: Any = model.head
            pooled = head.pool(sequence) if hasattr(head, "pool") else sequence.states[:, position]
            logits: Tensor = head.logits(pooled)
            return logits
        state = model.start(many)
    decoder: Any = model.decoder
    # What comes after the position has no influence: it need not be read.
    with given(decoder.embedding, lambda _: target[:, : position + 1]):
        hidden, _ = model.decode(many["target_in"][:, : position + 1], state)
    return model.head.logits(hidden[:, position])


def repeated(batch: Batch, rows: int) -> Batch:
    """A batch of one, `rows` times."""
    tensors = {name: t.expand(rows, *t.shape[1:]) for name, t in batch.tensors.items()}
    return replace(batch, tensors=tensors, ids=batch.ids * rows)


@contextmanager
def given(module: Any, change: Callable[[Any], Any]) -> Iterator[None]:
    """A module's output is what `change` makes of it."""
    if not isinstance(module, nn.Module):
        yield
        return
    hook = module.register_forward_hook(lambda _, inputs, output: change(output))
    try:
        yield
    finally:
        hook.remove()
