"""Many vectors become one: values a person can add up, and padding that has no say."""

import math

import pytest
import torch

from regard.layers.pooling import Kind, Pooling
from regard.layers.probe import watch
from regard.types import Sequence

KINDS: list[Kind] = ["last", "ends", "class", "mean", "max", "attention"]
STATES = torch.tensor(
    [[[1.0, -4.0], [3.0, -2.0], [100.0, 100.0]], [[5.0, 6.0], [7.0, 8.0], [9.0, 1.0]]]
)
MASK = torch.tensor([[True, True, False], [True, True, True]])  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("last", [[3, -2], [9, 1]]),
        ("class", [[1, -4], [5, 6]]),
        ("ends", [[1, -4, 3, -2], [5, 6, 9, 1]]),
        ("mean", [[2, -3], [7, 5]]),
        ("max", [[3, -2], [9, 8]]),
    ],
)
def test_values(kind, expected):
    pooling = Pooling(kind, 2)
    found = pooling(Sequence(STATES, MASK))
    assert found.tolist() == expected
    assert found.shape[1] == pooling.size


def test_attention_is_the_equation():
    pooling = Pooling("attention", 2)
    with torch.no_grad():
        pooling.project.weight.copy_(torch.eye(2))
        pooling.project.bias.zero_()
        pooling.query.copy_(torch.tensor([2.0, 0.0]))
    raw = [math.exp(2 * math.tanh(1.0)), math.exp(2 * math.tanh(3.0))]
    weights = [x / sum(raw) for x in raw]
    expected = [weights[0] * 1 + weights[1] * 3, weights[0] * -4 + weights[1] * -2]
    seen: dict[str, torch.Tensor] = {}
    with watch(lambda name, value: seen.setdefault(name, value)):
        found = pooling(Sequence(STATES, MASK))
    assert found[0].tolist() == pytest.approx(expected)
    assert seen["pooling"][0].tolist() == pytest.approx([*weights, 0.0])


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind):
    pooling = Pooling(kind, 7)
    states = torch.randn(3, 5, 7)
    mask = torch.ones(3, 5, dtype=torch.bool)
    longer = torch.cat([states, torch.full((3, 2, 7), 1e6)], 1)
    wide = torch.cat([mask, torch.zeros(3, 2, dtype=torch.bool)], 1)
    torch.testing.assert_close(pooling(Sequence(longer, wide)), pooling(Sequence(states, mask)))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_becomes_zeros_and_no_nan(kind):
    states = torch.randn(2, 3, 7, requires_grad=True)
    mask = torch.tensor([[False] * 3, [True] * 3])
    found = Pooling(kind, 7)(Sequence(states, mask))
    found.sum().backward()
    assert (found[0] == 0).all()
    assert states.grad is not None
    assert states.grad.isfinite().all()
