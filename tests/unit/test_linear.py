"""Products in bfloat16 stay near the plain ones, and only training takes them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.layers.linear import FEW, LARGE, Linear, prepared_product


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


def test_the_bias_is_added_as_by_addmm():
    """To the bit: a training is what it was."""
    for rows, inputs, outputs in ((13, 211, 307), (130, 320, 961), (1, 512, 64)):
        layer = Linear(inputs, outputs)
        layer.precision = torch.bfloat16
        nn.init.normal_(layer.bias)
        x = torch.randn(rows, inputs)
        weight, bias = layer.weight.bfloat16(), layer.bias.bfloat16()
        assert torch.equal(layer.narrow(x), torch.addmm(bias, x.bfloat16(), weight.t()))


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("rows", [1, 5, FEW, FEW + 1])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("size", [(LARGE // 64 + 3, 64), (64, LARGE // 64 + 3)])
def test_a_prepared_weight_gives_the_same_product(rows, biased, size, threads):
    weight, x = torch.nn.Parameter(torch.randn(size)), torch.randn(rows, size[1])
    bias = torch.randn(len(weight)) if biased else None
    with torch.inference_mode():
        found, wanted = prepared_product(x, weight, bias), F.linear(x, weight, bias)
    assert relative(found, wanted) < 1e-6 and found.shape == wanted.shape


@pytest.mark.parametrize("rows", [1, 5])
def test_a_weight_that_has_changed_is_prepared_again(rows, threads):
    weight, x = torch.nn.Parameter(torch.randn(LARGE // 64, 64)), torch.randn(rows, 64)
    for change in (lambda: None, lambda: weight.mul_(2), lambda: setattr(weight, "data", -weight)):
        with torch.no_grad():
            change()
        with torch.inference_mode():
            wanted = F.linear(x, weight)
            torch.testing.assert_close(
                prepared_product(x, weight, None), wanted, atol=1e-4, rtol=1e-4
            )


def test_without_onednn_the_product_is_the_plain_one(monkeypatch):
    def missing(*args):
        raise RuntimeError("no such operator")

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", missing, raising=False)
    weight, x = torch.nn.Parameter(torch.randn(LARGE // 64, 64)), torch.randn(5, 64)
    with torch.inference_mode():
        assert torch.equal(prepared_product(x, weight, None), F.linear(x, weight))


def test_a_product_with_gradients_is_the_plain_one():
    weight, x = torch.nn.Parameter(torch.randn(LARGE // 64, 64)), torch.randn(5, 64)
    prepared_product(x, weight, None).sum().backward()
    torch.testing.assert_close(weight.grad, x.sum(0).expand_as(weight))
