"""The kernel for short sequences is the equation, in values and gradients."""

import pytest
import torch

from regard.layers.attention import MultiHeadAttention, attention, causal_mask
from regard.layers.probe import watch
from regard.layers.short_attention import (
    LONGEST,
    NARROW,
    cross_attention,
    hide,
    self_attention,
    suits,
)

BATCH, HEADS, TARGET, SOURCE, DIM = 5, 3, 7, 11, 13  # DIM is that of a head


def heads_of(x):
    return x.view(*x.shape[:2], HEADS, DIM).transpose(1, 2)


def joined(z):
    return z.transpose(1, 2).flatten(2)


def padding():
    mask = torch.ones(BATCH, 1, 1, SOURCE, dtype=torch.bool)
    mask[1, ..., -4:] = False
    mask[3, ..., 1:] = False
    return mask


def gradients(function, *inputs):
    leaves = [x.clone().requires_grad_() for x in inputs]
    z = function(*leaves)
    generator = torch.Generator().manual_seed(3)
    z.backward(torch.randn(z.shape, generator=generator))
    return [z.detach(), *(x.grad for x in leaves)]


def assert_same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_self_attention(causal):
    packed = torch.randn(BATCH, TARGET, 3 * HEADS * DIM)
    mask = causal_mask(TARGET, TARGET, packed.device) if causal else None

    def plain(x):
        query, key, value = (heads_of(part) for part in x.chunk(3, -1))
        return joined(attention(query, key, value, mask)[0])

    def fast(x):
        return self_attention(x, HEADS, None if mask is None else hide(mask))

    assert_same(gradients(fast, packed), gradients(plain, packed))


@pytest.mark.parametrize("mask", [None, padding()])
def test_cross_attention(mask):
    query = torch.randn(BATCH, TARGET, HEADS * DIM)
    key, value = torch.randn(2, BATCH, HEADS, SOURCE, DIM)

    def plain(q, k, v):
        return joined(attention(heads_of(q), k, v, mask)[0])

    def fast(q, k, v):
        return cross_attention(q, k, v, None if mask is None else hide(mask))

    assert_same(gradients(fast, query, key, value), gradients(plain, query, key, value))


def test_large_scores_stay_finite():
    packed = 1e3 * torch.randn(BATCH, TARGET, 3 * HEADS * DIM)
    assert torch.isfinite(self_attention(packed, HEADS, None)).all()


def test_bfloat16_comes_in_and_its_gradient_goes_out():
    packed = torch.randn(BATCH, TARGET, 3 * HEADS * DIM).bfloat16().requires_grad_()
    z = self_attention(packed, HEADS, None)
    z.sum().backward()
    assert z.dtype == torch.float32
    assert packed.grad is not None and packed.grad.dtype == torch.bfloat16
    wide = self_attention(packed.detach().float(), HEADS, None)
    torch.testing.assert_close(z.detach(), wide)


def test_long_sequences_and_other_types_take_the_general_kernel():
    assert suits(torch.zeros(1), LONGEST)
    assert not suits(torch.zeros(1), LONGEST + 1)
    assert not suits(torch.zeros(1, dtype=torch.float64), 1)


@pytest.mark.parametrize("length", [TARGET, LONGEST + 1])
def test_watched_and_unwatched_agree_on_both_sides_of_the_border(length):
    layer = MultiHeadAttention(HEADS * DIM, HEADS).eval()
    x = torch.randn(2, length, HEADS * DIM)
    quick, _ = layer(x, None, causal=True)
    with watch(lambda name, value: value):
        plain, _ = layer(x, None, causal=True)
    torch.testing.assert_close(quick, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_products_of_bfloat16(causal):
    length = NARROW + 3
    packed = torch.randn(BATCH, length, 3 * HEADS * DIM)
    mask = causal_mask(length, length, packed.device) if causal else None
    bias = None if mask is None else hide(mask)
    exact = gradients(lambda x: self_attention(x, HEADS, bias), packed)
    found = gradients(lambda x: self_attention(x.bfloat16(), HEADS, bias).float(), packed)
    for a, b in zip(found, exact, strict=True):
        assert (a - b).norm() < 0.015 * b.norm()
    assert self_attention(packed.bfloat16().requires_grad_(), HEADS, bias).dtype == torch.bfloat16
