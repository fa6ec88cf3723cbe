"""A softmax of drawn words: its sum is right on average, and its loss is the equation's."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.layers.cross_entropy import cross_entropy, reference
from regard.layers.draws import seeded
from regard.layers.sampled_softmax import NEVER, draw, inclusion

V, D, N = 53, 5, 7


def test_chances_are_those_of_zipfs_law():
    once = inclusion(torch.arange(V), V, 1)
    assert float(once.sum()) == pytest.approx(1, rel=1e-6)
    assert float(once[0]) == pytest.approx(math.log(2) / math.log(V + 1))
    twice = inclusion(torch.arange(V), V, 2)
    torch.testing.assert_close(twice, 1 - (1 - once) ** 2)


def test_words_are_drawn_as_often_as_said():
    targets = torch.tensor([V - 1, 3, V - 1])
    times, samples = 2000, 20
    counts = torch.zeros(V)
    for seed in range(times):
        with seeded(seed):
            drawn = draw(targets, V, samples)
        inside = drawn.words[drawn.offset > NEVER]
        counts[inside] += 1
        assert {V - 1, 3} <= {*drawn.words.tolist()} and len(drawn.words.unique()) == len(drawn[0])
        assert torch.equal(drawn.words[drawn.places], targets)
        chances = inclusion(inside, V, samples)
        torch.testing.assert_close(drawn.offset[drawn.offset > NEVER], -chances.log())
    wanted = inclusion(torch.arange(V), V, samples)
    deviation = (wanted * (1 - wanted) / times).sqrt()
    assert bool(((counts / times - wanted).abs() < 5 * deviation + 1e-9).all())


def problem() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    hidden, weight, bias = torch.randn(N, D), torch.randn(V, D), torch.randn(V)
    return hidden, weight, bias, torch.randint(V, (N,))


def test_the_sum_is_right_on_average():
    """E Ẑ = Z for every row, by the loss that is trained: Ẑ = exp(loss + ℓ_y)."""
    hidden, weight, bias, targets = (each.double() for each in problem())
    targets = targets.long()
    logits = hidden @ weight.t() + bias
    own = logits.gather(1, targets[:, None])[:, 0]
    found = []
    for seed in range(400):
        with seeded(seed):
            words, offset, places = draw(targets, V, 40)
        row = [
            cross_entropy(
                hidden[n : n + 1], weight[words], bias[words], places[n : n + 1], 0.0,
                offset=offset.double(), precision=torch.float64,
            )[0]
            for n in range(N)
        ]  # fmt: skip
        found.append((torch.stack(row) + own).exp())
    sums = torch.stack(found)  # (draws, N)
    spread = sums.std(0) / math.sqrt(len(sums))
    assert bool(((sums.mean(0) - logits.exp().sum(1)).abs() < 4 * spread).all())


@pytest.mark.parametrize("precision", [torch.float64, torch.float32])
def test_the_loss_is_the_equation(precision: torch.dtype):
    """log(exp ℓ_y + Σ_{v≠y} exp(ℓ_v + o_v)) − ℓ_y, in value and in gradients."""
    hidden, weight, bias, targets = problem()
    inputs = [each.to(precision).requires_grad_() for each in (hidden, weight, bias)]
    offset = torch.where(torch.rand(V) < 0.5, NEVER, 3 * torch.rand(V)).to(precision)
    logits = torch.nn.functional.linear(*inputs)
    others = torch.where(torch.arange(V) == targets[:, None], 0, offset)
    wanted = torch.nn.functional.cross_entropy(logits + others, targets, reduction="sum")
    options: Any = {"offset": offset, "precision": precision, "chunk": 3}
    x, w, b = inputs
    loss, nll = cross_entropy(x, w, b, targets, 0.0, **options)
    torch.testing.assert_close(loss, wanted)
    torch.testing.assert_close(nll, wanted)
    pairs = zip(torch.autograd.grad(loss, inputs), torch.autograd.grad(wanted, inputs), strict=True)
    for got, expected in pairs:
        torch.testing.assert_close(got, expected)


def test_without_offsets_it_is_the_softmax():
    hidden, weight, bias, targets = problem()
    loss, _ = cross_entropy(hidden, weight, bias, targets, 0.0, offset=torch.zeros(V))
    torch.testing.assert_close(loss, reference(hidden, weight, bias, targets, 0.0)[0])
