"""Attention: the lecture's example by hand, and that the fast path is the equation."""

import math
from collections.abc import Iterator

import pytest
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.layers.attention import (
    MultiHeadAttention,
    attend_to,
    attention,
    attention_weights,
    causal_mask,
)
from regard.layers.cache import Past

B, H, T, S, K, E = 2, 3, 5, 11, 7, 13  # all different: a swapped axis cannot pass
D = H * K


def test_the_lectures_example() -> None:
    """Three inputs, one question, worked out on paper."""
    e1, e2 = torch.eye(4)[:2]
    x = torch.stack([e1, e2, e1])
    y = torch.tensor([[1.0, -1.0, 0.0]])
    to_value = torch.tensor([[1.0, 0, 0, 0], [0, 1, 1, 0]])
    to_query = torch.tensor([[0.0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, -1]])
    z, weights = attention(y @ to_query.T, x @ torch.eye(4), x @ to_value.T)
    low, high = math.exp(-1 / 2), math.exp(1 / 2)
    total = 2 * low + high
    torch.testing.assert_close(weights, torch.tensor([[low, high, low]]) / total)
    torch.testing.assert_close(z, torch.tensor([[2 * low, high]]) / total)


def test_the_weights_are_a_softmax_over_keys() -> None:
    query, key, value = torch.randn(B, T, K), torch.randn(B, S, K), torch.randn(B, S, E)
    mask = torch.rand(B, T, S) < 0.6
    mask[:, :, 0] = True
    z, weights = attention(query, key, value, mask)
    for b in range(B):
        for t in range(T):
            scores = [math.exp(float(query[b, t] @ key[b, s]) / math.sqrt(K)) for s in range(S)]
            total = sum(score for s, score in enumerate(scores) if mask[b, t, s])
            for s in range(S):
                expected = scores[s] / total if mask[b, t, s] else 0.0
                assert float(weights[b, t, s]) == pytest.approx(expected, abs=1e-6)
            mean = sum(float(weights[b, t, s]) * value[b, s] for s in range(S))
            torch.testing.assert_close(z[b, t], mean)


def test_rows_sum_to_one_and_what_is_masked_weighs_nothing() -> None:
    mask = torch.rand(B, H, T, S) < 0.5
    mask[..., 0] = True
    weights = attention_weights(torch.randn(B, H, T, K), torch.randn(B, H, S, K), mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, T))
    assert weights[~mask].count_nonzero() == 0
    assert bool((weights[mask] > 0).all())


def test_a_query_that_may_look_at_nothing_gives_zeros() -> None:
    query = torch.randn(T, K, requires_grad=True)
    mask = torch.ones(T, S, dtype=torch.bool)
    mask[3] = False
    z, weights = attention(query, torch.randn(S, K), torch.randn(S, E), mask)
    assert z[3].count_nonzero() == weights[3].count_nonzero() == 0
    torch.testing.assert_close(weights.sum(-1), torch.tensor([1.0, 1, 1, 0, 1]))
    (grad,) = torch.autograd.grad(z.sum(), query)
    assert grad[3].count_nonzero() == 0 and bool(grad.isfinite().all())


def test_huge_scores_do_not_overflow() -> None:
    weights = attention_weights(torch.tensor([[1e4]]), torch.tensor([[1.0], [2.0]]))
    assert weights.tolist() == [[0.0, 1.0]]


# Many heads: the module against the equation, head by head. Short and long sequences may take
# different kernels.

LENGTHS = pytest.mark.parametrize(("length", "keys"), [(T, S), (139, 149)])


def projections(layer: MultiHeadAttention) -> Iterator[tuple[Tensor, ...]]:
    """(W^Q, b^Q, W^K, b^K, W^V, b^V) of each head, cut from the weights by its rows."""
    linears = [layer.query, layer.key_value] if layer.cross else [layer.query_key_value]
    weight = torch.cat([linear.weight for linear in linears])
    bias = torch.cat([linear.bias for linear in linears])
    for head in range(layer.heads):
        rows = [slice(n * D + head * K, n * D + (head + 1) * K) for n in range(3)]
        yield tuple(block for r in rows for block in (weight[r], bias[r]))


def equation(
    layer: MultiHeadAttention,
    x: Float[Tensor, "B T D"],
    y: Float[Tensor, "B S D"],
    mask: Bool[Tensor, "#B #T S"] | None,
) -> Float[Tensor, "B T D"]:
    """z = [head_1; …; head_H] W^O, with head_i by the pure function."""
    heads = [
        attention(x @ wq.T + bq, y @ wk.T + bk, y @ wv.T + bv, mask)[0]
        for wq, bq, wk, bk, wv, bv in projections(layer)
    ]
    return torch.cat(heads, -1) @ layer.output.weight.T + layer.output.bias


def make(*, cross: bool = False) -> MultiHeadAttention:
    layer = MultiHeadAttention(D, H, cross=cross)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.2)  # biases, too
    return layer


def states(length: int) -> Float[Tensor, "B {length} D"]:
    return torch.randn(B, length, D, requires_grad=True)


def padding(length: int) -> Bool[Tensor, "B {length}"]:
    """Two sentences: a whole one, and one that ends three positions earlier."""
    mask = torch.ones(B, length, dtype=torch.bool)
    mask[1, -3:] = False
    return mask


def assert_same(
    layer: MultiHeadAttention, fast: Tensor, slow: Tensor, inputs: tuple[Tensor, ...]
) -> None:
    """Values, and gradients by all inputs and weights."""
    torch.testing.assert_close(fast, slow, rtol=1e-5, atol=1e-5)
    weights = torch.randn_like(fast)
    wanted = (*inputs, *layer.parameters())
    by_fast = torch.autograd.grad(fast, wanted, weights)
    by_slow = torch.autograd.grad(slow, wanted, weights)
    for a, b in zip(by_fast, by_slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
        assert b.count_nonzero() > 0


@LENGTHS
@pytest.mark.parametrize("padded", [False, True])
def test_self_attention_is_the_equation(length: int, keys: int, padded: bool) -> None:
    layer, x = make(), states(keys)
    mask = padding(keys) if padded else None
    fast, _ = layer(x, None if mask is None else mask[:, None, None])
    slow = equation(layer, x, x, None if mask is None else mask[:, None])
    assert_same(layer, fast, slow, (x,))


@LENGTHS
def test_causal_self_attention_is_the_equation(length: int, keys: int) -> None:
    layer, x = make(), states(keys)
    triangle = torch.tensor([[t >= s for s in range(keys)] for t in range(keys)])
    fast, _ = layer(x, None, causal=True)
    assert_same(layer, fast, equation(layer, x, x, triangle[None]), (x,))


@LENGTHS
def test_self_attention_with_a_past_is_the_equation(length: int, keys: int) -> None:
    layer, whole = make(), states(keys)
    old, new = whole.split([keys - length, length], 1)
    _, read = layer(old, None, causal=True)
    past, bias = Past(B, B, keys - length, None, (read,)).grown(length)
    fast, cache = layer.extend(new, past, 0, bias)
    assert [tuple(part.shape) for part in cache] == [(B, H, keys, K)] * 2
    triangle = torch.ones(keys, keys, dtype=torch.bool).tril()
    slow = equation(layer, whole, whole, triangle[None])[:, -length:]
    assert_same(layer, fast, slow, (whole,))


@LENGTHS
@pytest.mark.parametrize("padded", [False, True])
def test_cross_attention_is_the_equation(length: int, keys: int, padded: bool) -> None:
    layer, x, y = make(cross=True), states(length), states(keys)
    mask = padding(keys) if padded else None
    fast = layer.look(x, layer.project(y), None if mask is None else mask[:, None, None])
    slow = equation(layer, x, y, None if mask is None else mask[:, None])
    assert_same(layer, fast, slow, (x, y))


@LENGTHS
def test_the_rows_of_one_sentence_look_at_one_memory(length: int, keys: int) -> None:
    layer, beams = make(cross=True), 3
    x, y, mask = torch.randn(B * beams, length, D), states(keys), padding(keys)[:, None, None]
    together = layer.look(x, layer.project(y), mask)
    copied = layer.look(
        x, layer.project(y.repeat_interleave(beams, 0)), mask.repeat_interleave(beams, 0)
    )
    torch.testing.assert_close(together, copied, rtol=1e-5, atol=1e-5)


@LENGTHS
def test_heads_may_have_one_dimension(length: int, keys: int) -> None:
    """Their outputs come in another order of memory, of which rows cannot be cut without a copy."""
    layer, own, beams = MultiHeadAttention(H, H, cross=True), MultiHeadAttention(H, H), 3
    x, y, start = torch.randn(B * beams, length, H), torch.randn(B, keys, H), torch.randn(B, 2, H)
    with torch.inference_mode():
        together = layer.look(x, layer.project(y), None)
        alone = layer.look(x, layer.project(y.repeat_interleave(beams, 0)), None)
        torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)
        _, read = own(start, None, causal=True)
        past, bias = Past(B, B * beams, 2, None, (read,)).grown(length)
        together, _ = own.extend(x, past, 0, bias)
        for beam in range(beams):
            past, bias = Past(B, B, 2, None, (read,)).grown(length)
            alone, _ = own.extend(x[beam::beams], past, 0, bias)
            torch.testing.assert_close(together[beam::beams], alone, rtol=1e-5, atol=1e-5)


@LENGTHS
def test_a_sentence_with_nothing_to_look_at_gets_the_bias_alone(length: int, keys: int) -> None:
    """The fast path, too, gives zeros for every head, and no NaN on the way back."""
    mask = torch.ones(B, keys, dtype=torch.bool)
    mask[1] = False
    layer, x, y = make(cross=True), states(length), states(keys)
    seen = layer.look(x, layer.project(y), mask[:, None, None])
    torch.testing.assert_close(seen[1], layer.output.bias.expand(length, D))
    grads = torch.autograd.grad(seen.square().sum(), (x, y, *layer.parameters()))
    assert all(bool(grad.isfinite().all()) for grad in grads)
    assert grads[0][1].count_nonzero() == grads[1][1].count_nonzero() == 0
    alone = make()
    own, _ = alone(y, mask[:, None, None])
    torch.testing.assert_close(own[1], alone.output.bias.expand(keys, D))


def test_each_projection_starts_glorot_uniform_with_zero_bias() -> None:
    """Each D × D block by itself: the bound is √(6 / 2D), whatever it is fused with."""
    bound = math.sqrt(6 / (2 * D))
    for cross in (False, True):
        layer = MultiHeadAttention(D, H, cross=cross)
        for name, parameter in layer.named_parameters():
            if name.endswith("bias"):
                assert parameter.count_nonzero() == 0
            else:
                largest = float(parameter.detach().abs().max())
                assert 0.9 * bound < largest <= bound


def test_heads_must_divide_the_dimension() -> None:
    with pytest.raises(ValueError, match="21 is not a multiple of heads 5"):
        MultiHeadAttention(21, 5)


def test_masks_by_hand() -> None:
    device = torch.device("cpu")
    assert causal_mask(3, 3, device).int().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert causal_mask(2, 5, device).int().tolist() == [[[[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]]]
    assert attend_to(torch.ones(B, S, dtype=torch.bool)) is None
    mask = attend_to(padding(S))
    assert mask is not None and mask.shape == (B, 1, 1, S) and mask[:, 0, 0].equal(padding(S))
