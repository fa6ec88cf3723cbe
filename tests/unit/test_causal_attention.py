"""Attention in chunks of queries is the equation, and so are its gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.layers import causal_attention as chunks, documents
from regard.layers.attention import MultiHeadAttention, attention, causal_mask
from regard.layers.causal_attention import LONGEST, SHORTEST, causal_attention, suits
from regard.layers.position import Rotary

B, H, T, K = 3, 2, 229, 11


def parts() -> list[Tensor]:
    chance = torch.Generator().manual_seed(3)
    return [torch.randn(B, H, T, K, generator=chance).requires_grad_() for _ in range(3)]


def seen(packed: bool) -> tuple[Tensor | None, Tensor]:
    """What is added to scores, and the mask that it stands for."""
    if not packed:
        return None, causal_mask(T, T, torch.device("cpu"))
    tokens = torch.full((B, T), 5)
    tokens[0, 100] = tokens[1, 3] = tokens[1, 200] = 2
    bias = documents.hidden(documents.positions(tokens, 2))
    return bias, bias == 0


def both(packed: bool, dtype: torch.dtype) -> list[list[Tensor]]:
    """Z and its gradients by chunks in this precision, and by the equation in float32."""
    bias, mask = seen(packed)
    given = [part.detach().to(dtype).requires_grad_() for part in parts()]
    exact = [part.detach().float().requires_grad_() for part in given]
    (q, k, v), (query, key, value) = given, exact
    assert suits(q)
    weight = torch.randn(B, H, T, K, generator=torch.Generator().manual_seed(5))
    found, wanted = causal_attention(q, k, v, bias), attention(query, key, value, mask)[0]
    return [
        [z.detach(), *torch.autograd.grad((z * weight).sum(), each)]
        for z, each in ((found, given), (wanted, exact))
    ]


@pytest.mark.parametrize("packed", [False, True])
def test_chunks_are_the_equation(packed: bool):
    (found, *same), (wanted, *each) = both(packed, torch.float32)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    for one, other in zip(same, each, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("packed", [False, True])
def test_in_bfloat16_they_are_the_equation_up_to_half_a_per_cent(packed: bool):
    found, wanted = both(packed, torch.bfloat16)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == torch.bfloat16
        assert float((one.float() - other).norm() / other.norm()) < 0.006


@pytest.mark.parametrize("packed", [False, True])
def test_in_bfloat16_nothing_comes_from_what_is_hidden(packed: bool):
    """A gradient of exactly zero for every key and value that the asking place does not see."""
    bias, mask = seen(packed)
    query, key, value = (part.detach().bfloat16().requires_grad_() for part in parts())
    z = causal_attention(query, key, value, bias)
    for place in (1, 57, 130, T - 1):
        given = torch.autograd.grad(z[1, :, place].sum(), (key, value), retain_graph=True)
        hidden = ~mask.expand(B, 1, T, T)[1, 0, place]
        assert all(not each[1][:, hidden].any() for each in given)
        assert all(not each[0].any() for each in given)  # of another text
        assert all(each[1][:, ~hidden].any() for each in given)


@pytest.mark.parametrize("rotary", [False, True])
def test_a_layer_that_learns_in_bfloat16_takes_them(rotary: bool, monkeypatch):
    """Its projections are rounded, too: together that is about a per cent."""
    torch.manual_seed(7)
    layer, turn = MultiHeadAttention(192, 3), Rotary(64, T) if rotary else None
    x = torch.randn(2, T, 192)
    found = {}
    for precision in (torch.float32, torch.bfloat16):
        layer.query_key_value.precision = layer.output.precision = precision
        asked: list[torch.dtype] = []

        def spied(query: Tensor, *rest: Any, asked: list[torch.dtype] = asked) -> Tensor:
            asked.append(query.dtype)
            return causal_attention(query, *rest)

        monkeypatch.setattr(chunks, "causal_attention", spied)
        given = x.clone().requires_grad_()
        z, _ = layer(given, None, rotary=turn, causal=True)
        grads = torch.autograd.grad(z.square().sum(), [given, *layer.parameters()])
        found[precision] = [z.detach(), *grads]
        assert asked == [precision] and all(
            each.dtype == torch.float32 for each in found[precision]
        )
    for one, other in zip(found[torch.bfloat16], found[torch.float32], strict=True):
        assert float((one - other).norm() / other.norm()) < 0.015


def test_it_is_taken_where_it_is_faster():
    query = parts()[0]
    assert not suits(query.detach())
    assert not suits(query[:, :, : SHORTEST - 1])
    assert not suits(query.new_zeros(1, 1, LONGEST + 1, 2).requires_grad_())
    with torch.no_grad():
        assert not suits(query)
