"""Attention in chunks of queries is the equation, and so are its gradients."""

import pytest
import torch
from torch import Tensor

from regard.layers import documents
from regard.layers.attention import attention, causal_mask
from regard.layers.causal_attention import LONGEST, SHORTEST, causal_attention, suits

B, H, T, K = 3, 2, 229, 11


def parts() -> list[Tensor]:
    chance = torch.Generator().manual_seed(3)
    return [torch.randn(B, H, T, K, generator=chance).requires_grad_() for _ in range(3)]


@pytest.mark.parametrize("packed", [False, True])
def test_chunks_are_the_equation(packed: bool):
    query, key, value = parts()
    bias, mask = None, causal_mask(T, T, query.device)
    if packed:
        tokens = torch.full((B, T), 5)
        tokens[0, 100] = tokens[1, 3] = tokens[1, 200] = 2
        bias = documents.hidden(documents.positions(tokens, 2))
        mask = bias == 0
    assert suits(query)
    weight = torch.randn(B, H, T, K, generator=torch.Generator().manual_seed(5))
    wanted, _ = attention(query, key, value, mask)
    found = causal_attention(query, key, value, bias)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    each = torch.autograd.grad((wanted * weight).sum(), (query, key, value))
    same = torch.autograd.grad((found * weight).sum(), (query, key, value))
    for one, other in zip(same, each, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_it_is_taken_where_it_is_faster():
    query = parts()[0]
    assert not suits(query.detach())
    assert not suits(query[:, :, : SHORTEST - 1])
    assert not suits(query.new_zeros(1, 1, LONGEST + 1, 2).requires_grad_())
    with torch.no_grad():
        assert not suits(query)
