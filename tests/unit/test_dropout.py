"""Dropout by bytes: how much it keeps, by how much it scales, and that backward knows the mask."""

import math
import subprocess
import sys

import pytest
import torch

from regard.layers.allocator import keep_pages
from regard.layers.dropout import Dropout, bytes_below, dropout, dropout_add, threshold


def test_the_threshold_is_the_nearest_byte() -> None:
    assert [threshold(p) for p in (0.0, 0.001, 0.1, 0.5, 0.999, 1.0)] == [256, 256, 230, 128, 1, 1]


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_keeps_its_share_and_scales_it_exactly(p: float) -> None:
    count = 200_003
    y = dropout(torch.ones(count), p, training=True)
    keep = threshold(p) / 256
    assert set(y.tolist()) == {0.0, torch.tensor(1 / keep).item()}
    deviation = math.sqrt(count * keep * (1 - keep))
    assert abs(int(y.count_nonzero()) - count * keep) < 5 * deviation


def test_each_of_the_eight_bytes_of_a_word_is_uniform() -> None:
    """Also the last one, which holds the sign."""
    words = 40_000
    for t in (64, 128, 192):
        kept = bytes_below(t, torch.Size([words, 8])).sum(0, dtype=torch.int64)
        deviation = math.sqrt(words * t / 256 * (1 - t / 256))
        assert (kept - words * t / 256).abs().max() < 5 * deviation


def test_the_seed_decides_the_mask() -> None:
    x = torch.ones(31, 37)
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(dropout(x, 0.5, training=True))
    assert masks[0].equal(masks[1])
    assert not masks[0].equal(masks[2])
    assert not masks[2].equal(dropout(x, 0.5, training=True))  # the next draw is another one


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_backward_uses_the_mask_of_forward(dtype: torch.dtype) -> None:
    x = torch.ones(13, 17, dtype=dtype, requires_grad=True)
    y = Dropout(0.3)(x)
    weights = torch.randn_like(y)
    (grad,) = torch.autograd.grad(y, x, weights)
    assert y.dtype == grad.dtype == dtype
    assert 0 < int(y.count_nonzero()) < y.numel()
    torch.testing.assert_close(grad, weights * y.detach())


@pytest.mark.parametrize("p", [0.0, 0.1])
def test_identity_when_nothing_is_dropped(p: float) -> None:
    x, residual = torch.randn(2, 5, 7)
    state = torch.get_rng_state()
    assert Dropout(p).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert Dropout(0.001)(x) is x
    assert dropout_add(x, residual, p, training=False).equal(residual + x)
    assert state.equal(torch.get_rng_state())


def test_dropout_add_is_the_residual_plus_dropout() -> None:
    x = torch.randn(11, 19, requires_grad=True)
    residual = torch.randn(11, 19, requires_grad=True)
    weights = torch.randn(11, 19)
    torch.manual_seed(3)
    fused = dropout_add(x, residual, 0.25, training=True)
    by_x, by_residual = torch.autograd.grad(fused, (x, residual), weights)
    torch.manual_seed(3)
    apart = residual + dropout(x, 0.25, training=True)
    torch.testing.assert_close(fused, apart)
    for a, b in zip(
        (by_x, by_residual), torch.autograd.grad(apart, (x, residual), weights), strict=True
    ):
        torch.testing.assert_close(a, b)


def test_dropout_add_of_mixed_precision() -> None:
    x = torch.ones(11, 19, dtype=torch.bfloat16, requires_grad=True)
    residual = torch.zeros(11, 19, requires_grad=True)
    y = dropout_add(x, residual, 0.5, training=True)
    y.sum().backward()
    assert y.dtype == torch.float32 and set(y.tolist()[0]) <= {0.0, 2.0}
    assert x.grad is not None and x.grad.dtype == torch.bfloat16
    assert x.grad.float().equal(y.detach())


def test_a_transposed_tensor_and_an_empty_one() -> None:
    x = torch.randn(6, 4, requires_grad=True)
    y = dropout(x.t(), 0.5, training=True)
    kept = y != 0
    torch.testing.assert_close(y[kept], 2 * x.t()[kept])
    assert dropout(torch.zeros(0, 3), 0.5, training=True).shape == (0, 3)


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5])
def test_refuses_what_is_no_probability(p: float) -> None:
    with pytest.raises(ValueError, match="probability"):
        Dropout(p)


FAULTS = """
import resource, torch
from regard.layers.allocator import keep_pages
assert keep_pages()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
for _ in range(40):  # until the heap has a hole that is large enough for the alignment, too
    faults()
print(max(faults() for _ in range(3)) * resource.getpagesize())
"""


def test_keeping_pages_ends_the_page_faults() -> None:
    """A tensor of 64 MiB, over glibc's largest own threshold, made and dropped again and again; in
    a new process, since the heap of an old one may have no room to grow in one piece."""
    pytest.importorskip("resource")
    if not keep_pages():
        pytest.skip("this C library has no such switch")
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 2**26 / 100
