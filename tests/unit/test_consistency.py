"""The loss of two readings against its equation, in value and in gradients."""

import pytest
import torch
from torch import Tensor

from regard.layers.consistency import reference, twin_cross_entropy
from regard.layers.cross_entropy import cross_entropy
from tests.unit.test_cross_entropy import D, Inputs, N, V, distance, gradients


def problem(dtype: torch.dtype, bias: bool = True) -> tuple[Inputs, Tensor]:
    """Two readings of N places that differ somewhat, and the places' targets, twice."""
    once = torch.randn(N, D, dtype=dtype)
    hidden = torch.cat([once, once + 0.3 * torch.randn(N, D, dtype=dtype)]).requires_grad_()
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    offsets = torch.randn(V, dtype=dtype, requires_grad=True) if bias else None
    return (hidden, weight, offsets), torch.randint(V, (N,)).repeat(2)


@pytest.mark.parametrize("chunk", [5, N, None])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equals_the_equation(smoothing: float, bias: bool, chunk: int | None) -> None:
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        inputs, targets = problem(dtype, bias)
        expected = reference(*inputs, targets, smoothing, 2.5)
        got = twin_cross_entropy(*inputs, targets, smoothing, 2.5, precision=dtype, chunk=chunk)
        for a, b in zip(got, expected, strict=True):
            assert distance(a, b) < tolerance
        pairs = zip(gradients(got[0], inputs), gradients(expected[0], inputs), strict=True)
        for a, b in pairs:
            assert distance(a, b) < tolerance


def test_gradients_are_the_slopes() -> None:
    shapes = ((6, 2), (7, 2), (7,))
    inputs = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    targets = torch.tensor([0, 6, 3]).repeat(2)

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return twin_cross_entropy(
            hidden, weight, bias, targets, 0.1, 1.5, precision=torch.float64, chunk=2
        )[0]

    assert torch.autograd.gradcheck(loss, inputs)


def test_equal_readings_are_not_apart() -> None:
    inputs, targets = problem(torch.float64)
    once = inputs[0][:N].detach()
    both, weights = torch.cat([once, once]), inputs[1:]
    loss, nll, gap = twin_cross_entropy(both, *weights, targets, 0.1, 9.0, precision=torch.float64)
    alone, plain = cross_entropy(once, *weights, targets[:N], 0.1, precision=torch.float64)
    assert abs(float(gap)) < 1e-12
    torch.testing.assert_close((loss, nll), (alone, plain))


def test_large_logits_stay_finite() -> None:
    """Where an exponent leaves its range, a row's maximum is taken off."""
    inputs, targets = problem(torch.float32)
    far = (40 * inputs[0]).detach().requires_grad_(), *inputs[1:]
    got = twin_cross_entropy(*far, targets, 0.1, 1.0)
    expected = reference(*far, targets, 0.1, 1.0)
    for a, b in zip(got, expected, strict=True):
        assert distance(a, b) < 1e-5
    pairs = zip(gradients(got[0], far), gradients(expected[0], far), strict=True)
    for a, b in pairs:
        assert distance(a, b) < 1e-4


def test_bfloat16_products_err_by_a_few_hundredths() -> None:
    inputs, targets = problem(torch.float32)
    expected = reference(*inputs, targets, 0.1, 2.5)
    got = twin_cross_entropy(*inputs, targets, 0.1, 2.5, precision=torch.bfloat16, chunk=6)
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == torch.float32
        assert distance(a, b) < 1e-2
    pairs = zip(gradients(got[0], inputs), gradients(expected[0], inputs), strict=True)
    for a, b in pairs:
        assert distance(a, b) < 3e-2
