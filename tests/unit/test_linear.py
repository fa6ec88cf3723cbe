"""Products in bfloat16 stay near the plain ones, and only training takes them."""

import pytest
import torch
from torch import nn

from regard.layers.linear import Linear


def pair(inputs=211, outputs=307, bias=True):
    narrow = Linear(inputs, outputs, bias=bias)
    narrow.precision = torch.bfloat16
    plain = nn.Linear(inputs, outputs, bias=bias)
    plain.load_state_dict(narrow.state_dict())
    return narrow, plain


def relative(found, wanted):
    return float((found - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_are_within_one_percent(bias):
    narrow, plain = pair(bias=bias)
    x = torch.randn(7, 13, 211)
    grad = torch.randn(7, 13, 307)
    results = []
    for layer in (narrow, plain):
        states = x.clone().requires_grad_()
        y = layer(states)
        y.backward(grad)
        results.append([y.detach(), states.grad, *(p.grad for p in layer.parameters())])
    for found, wanted in zip(*results, strict=True):
        assert found.dtype == torch.float32
        assert relative(found, wanted) < 0.01
        assert not torch.equal(found, wanted) or found.ndim == 1  # the bias's is a plain sum


def test_prediction_is_in_full_precision():
    narrow, plain = pair()
    x = torch.randn(5, 211)
    narrow.eval()
    assert torch.equal(narrow(x), plain(x))
    with torch.no_grad():
        assert torch.equal(narrow.train()(x), plain(x))


def test_a_small_weight_is_left_alone():
    narrow, plain = pair(11, 13)
    x = torch.randn(5, 11)
    assert torch.equal(narrow(x), plain(x))


def test_narrow_hands_on_bfloat16_and_takes_it():
    first, _ = pair(211, 307)
    second, _ = pair(307, 211)
    x = torch.randn(5, 211, requires_grad=True)
    inner = first.narrow(x)
    assert inner.dtype == torch.bfloat16
    output = second(inner)
    assert output.dtype == torch.float32
    output.sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.float32
    assert first.weight.grad is not None and first.weight.grad.dtype == torch.float32
