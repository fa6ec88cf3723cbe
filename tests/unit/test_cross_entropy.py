"""The fast cross-entropy against the equation, in value and in gradients."""

import math
from collections.abc import Iterable

import pytest
import torch
from torch import Tensor

from regard.layers.cross_entropy import cross_entropy, reference

N, D, V = 23, 7, 41
Inputs = tuple[Tensor, Tensor, Tensor | None]


def problem(
    dtype: torch.dtype = torch.float64, bias: bool = True, scale: float = 1.0
) -> tuple[Inputs, Tensor]:
    """Hidden vectors, weight and bias that want gradients, and targets, some of them repeated."""
    hidden = (scale * torch.randn(N, D, dtype=dtype)).requires_grad_()
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    offsets = torch.randn(V, dtype=dtype, requires_grad=True) if bias else None
    return (hidden, weight, offsets), torch.randint(V // 2, (N,))


def gradients(loss: Tensor, inputs: Iterable[Tensor | None]) -> list[Tensor]:
    return list(torch.autograd.grad(loss, [x for x in inputs if x is not None]))


def distance(a: Tensor, b: Tensor) -> float:
    """‖a − b‖ / ‖b‖"""
    a, b = a.detach().double(), b.detach().double()
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("chunk", [5, N, None])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equals_the_equation(smoothing: float, bias: bool, chunk: int | None) -> None:
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        inputs, targets = problem(dtype, bias)
        expected = reference(*inputs, targets, smoothing)
        got = cross_entropy(*inputs, targets, smoothing, precision=dtype, chunk=chunk)
        for a, b in zip(got, expected, strict=True):
            assert distance(a, b) < tolerance
        pairs = zip(gradients(got[0], inputs), gradients(expected[0], inputs), strict=True)
        for a, b in pairs:
            assert distance(a, b) < tolerance


def test_gradients_are_the_slopes() -> None:
    inputs = [torch.randn(*shape).double().requires_grad_() for shape in ((5, 2), (7, 2), (7,))]
    targets = torch.tensor([0, 6, 3, 3, 1])

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        total, _ = cross_entropy(
            hidden, weight, bias, targets, 0.1, precision=torch.float64, chunk=3
        )
        return total

    assert torch.autograd.gradcheck(loss, inputs)


def test_the_gradient_scales_with_what_follows() -> None:
    inputs, targets = problem()
    loss, _ = cross_entropy(*inputs, targets, 0.1, precision=torch.float64)
    once = gradients(loss, inputs)
    loss, _ = cross_entropy(*inputs, targets, 0.1, precision=torch.float64)
    for a, b in zip(gradients(loss * -3, inputs), once, strict=True):
        torch.testing.assert_close(a, -3 * b)


@pytest.mark.parametrize("bias", [True, False])
def test_bfloat16_products_err_by_less_than_a_hundredth(bias: bool) -> None:
    inputs, targets = problem(torch.float32, bias)
    expected, expected_nll = reference(*inputs, targets, 0.1)
    loss, nll = cross_entropy(*inputs, targets, 0.1, precision=torch.bfloat16, chunk=6)
    assert loss.dtype == nll.dtype == torch.float32
    assert distance(loss, expected) < 2e-3
    assert distance(nll, expected_nll) < 2e-3
    for a, b in zip(gradients(loss, inputs), gradients(expected, inputs), strict=True):
        assert a.dtype == torch.float32
        assert distance(a, b) < 0.01


def test_bfloat16_loses_nothing_where_the_model_is_sure() -> None:
    """p(y) = 1 / (1 + 6·e⁻⁸) with logits of 200: bf16, in steps of 1 there, could not tell it."""
    hidden = torch.tensor([[200.0, 1.0]])
    weight = torch.tensor([[1.0, 0.0]] + [[1.0, -8.0]] * 6)
    _, nll = cross_entropy(hidden, weight, None, torch.tensor([0]), 0.0, precision=torch.bfloat16)
    assert nll.item() == pytest.approx(math.log1p(6 * math.exp(-8)), rel=0.05)


def test_two_words_by_hand() -> None:
    """Logits (log 3, 0): p = (3/4, 1/4)."""
    hidden = torch.tensor([[math.log(3)]], requires_grad=True)
    weight = torch.tensor([[1.0], [0.0]], requires_grad=True)
    bias = torch.zeros(2, requires_grad=True)
    loss, nll = cross_entropy(hidden, weight, bias, torch.tensor([0]), 0.2)
    assert nll.item() == pytest.approx(math.log(4 / 3))
    assert loss.item() == pytest.approx(0.9 * math.log(4 / 3) + 0.1 * math.log(4))
    loss.backward()
    # p − (0.9, 0.1) is (−0.15, 0.15)
    assert bias.grad is not None and weight.grad is not None and hidden.grad is not None
    assert bias.grad.tolist() == pytest.approx([-0.15, 0.15])
    assert weight.grad[:, 0].tolist() == pytest.approx([-0.15 * math.log(3), 0.15 * math.log(3)])
    assert hidden.grad.item() == pytest.approx(-0.15)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e2, 1e4, 1e6])
def test_huge_logits(size: float, precision: torch.dtype) -> None:
    """Logits (size, −size, 0): certain and right, certain and wrong."""
    hidden = torch.tensor([[size], [size]], requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0], [0.0]], requires_grad=True)
    for target, expected in ((0, 0.0), (1, 2 * size), (2, size)):
        targets = torch.full((2,), target)
        loss, nll = cross_entropy(hidden, weight, None, targets, 0.0, precision=precision)
        assert nll.item() == pytest.approx(2 * expected, rel=0.01, abs=1e-6)
        by_hidden, by_weight = gradients(loss, [hidden, weight])
        slope = (0.0, 2.0, 1.0)[target]  # w₀ − w_target
        assert by_hidden.flatten().tolist() == pytest.approx([slope] * 2, abs=1e-6)
        assert by_weight.isfinite().all()


def test_many_large_logits_do_not_overflow() -> None:
    inputs, targets = problem(torch.float32, scale=50)
    loss, _ = cross_entropy(*inputs, targets, 0.1)
    expected, _ = reference(*inputs, targets, 0.1)
    assert distance(loss, expected) < 1e-5
    for a, b in zip(gradients(loss, inputs), gradients(expected, inputs), strict=True):
        assert distance(a, b) < 1e-4


def test_a_hidden_vector_that_is_not_a_number_makes_the_loss_not_a_number() -> None:
    (hidden, weight, bias), targets = problem(torch.float32)
    with torch.no_grad():
        hidden[3, 0] = math.nan
    assert cross_entropy(hidden, weight, bias, targets, 0.1)[0].isnan()


def test_no_rows_no_loss() -> None:
    (_, weight, bias), _ = problem()
    hidden = torch.zeros(0, D, dtype=torch.float64, requires_grad=True)
    none = torch.zeros(0, dtype=torch.int64)
    loss, nll = cross_entropy(hidden, weight, bias, none, 0.1, precision=torch.float64)
    assert loss.item() == nll.item() == 0
    by_hidden, by_weight, by_bias = gradients(loss, [hidden, weight, bias])
    assert by_hidden.shape == (0, D)
    assert not by_weight.any() and not by_bias.any()


def test_only_what_is_asked_for_is_differentiated() -> None:
    (hidden, weight, bias), targets = problem()
    assert bias is not None
    with torch.no_grad():
        quiet, _ = cross_entropy(hidden, weight, bias, targets, 0.1)
    loss, nll = cross_entropy(hidden, weight.detach(), bias.detach(), targets, 0.1)
    assert loss.requires_grad and not nll.requires_grad and not quiet.requires_grad
    assert quiet.item() == pytest.approx(loss.item())
    loss.backward()
    assert hidden.grad is not None and weight.grad is None and bias.grad is None


def test_autocast_leaves_the_precision_alone() -> None:
    inputs, targets = problem(torch.float32)
    plain, _ = cross_entropy(*inputs, targets, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = cross_entropy(*inputs, targets, 0.1)
    assert loss.item() == plain.item()


def test_hidden_vectors_in_bfloat16_get_their_gradient_in_bfloat16() -> None:
    (hidden, weight, bias), targets = problem(torch.float32)
    low = hidden.detach().bfloat16().requires_grad_()
    loss, _ = cross_entropy(low, weight, bias, targets, 0.1)
    expected, _ = reference(low.float(), weight, bias, targets, 0.1)
    assert distance(loss, expected) < 1e-5
    loss.backward()
    assert low.grad is not None and low.grad.dtype == torch.bfloat16
