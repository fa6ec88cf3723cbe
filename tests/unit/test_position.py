"""Positions: values by hand, both layouts, beyond the table, and what turning leaves unchanged."""

from math import cos, sin

import pytest
import torch

from regard.errors import UserError
from regard.layers.position import (
    Kind,
    Layout,
    PositionalEncoding,
    Rotary,
    Slowing,
    grid_sinusoid,
    sinusoid,
)

B, H, T, D, LIMIT = 2, 3, 5, 7, 11


def test_the_sinusoid_by_hand() -> None:
    """D = 4: the rates are 1 and 10,000^(−2/4) = 1/100."""
    zero, one, two = sinusoid(3, 4).tolist()
    assert zero == [0.0, 1.0, 0.0, 1.0]
    assert one == pytest.approx([sin(1), cos(1), sin(0.01), cos(0.01)], abs=1e-7)
    assert two == pytest.approx([sin(2), cos(2), sin(0.02), cos(0.02)], abs=1e-7)


def test_all_sines_first_by_hand() -> None:
    zero, one = sinusoid(2, 4, "halves").tolist()
    assert zero == [0.0, 0.0, 1.0, 1.0]
    assert one == pytest.approx([sin(1), sin(0.01), cos(1), cos(0.01)], abs=1e-7)


def test_an_odd_dimension_has_one_more_sine() -> None:
    slow, slower = 10_000 ** (-2 / 5), 10_000 ** (-4 / 5)
    expected = [sin(1), cos(1), sin(slow), cos(slow), sin(slower)]
    assert sinusoid(2, 5)[1].tolist() == pytest.approx(expected, abs=1e-7)
    halves = [sin(1), sin(slow), sin(slower), cos(1), cos(slow)]
    assert sinusoid(2, 5, "halves")[1].tolist() == pytest.approx(halves, abs=1e-7)


def test_a_far_position_is_as_exact_as_a_near_one() -> None:
    """In float32, 99,999 · rate would already be off in the third digit."""
    row = sinusoid(100_000, 4)[-1].tolist()
    expected = [sin(99_999), cos(99_999), sin(999.99), cos(999.99)]
    assert row == pytest.approx(expected, abs=1e-6)


def test_a_place_of_a_grid_knows_its_row_and_its_column() -> None:
    """D = 7: four dimensions for the row (rates 1 and 1/10), three for the column."""
    found = grid_sinusoid(2, 3, 7).reshape(2, 3, 7)
    row = [sin(1), cos(1), sin(0.1), cos(0.1)]
    column = [sin(2), cos(2), sin(2 * 100 ** (-2 / 3))]
    assert found[1, 2].tolist() == pytest.approx(row + column, abs=1e-6)
    assert torch.equal(found[0, 2, 4:], found[1, 2, 4:])
    assert torch.equal(found[1, 0, :4], found[1, 2, :4])


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_sinusoidal_positions_reach_beyond_their_table(layout: Layout) -> None:
    position = PositionalEncoding("sinusoidal", D, LIMIT, layout)
    x = torch.randn(B, T, D)
    whole = sinusoid(31, D, layout)
    for start in (0, LIMIT - T, LIMIT - 2, LIMIT, 23):
        torch.testing.assert_close(position(x, start), x + whole[start : start + T])
    assert list(position.parameters()) == [] and position.state_dict() == {}


def test_learned_positions_are_rows_and_end_at_the_limit() -> None:
    position = PositionalEncoding("learned", D, LIMIT)
    (table,) = position.parameters()
    assert table.shape == (LIMIT, D)
    x = torch.randn(B, T, D)
    torch.testing.assert_close(position(x, LIMIT - T), x + table[-T:])
    with pytest.raises(UserError, match=r"position 12 is beyond the 11 .* model\.decoder\.limit"):
        position(x, LIMIT - T + 1)
    with pytest.raises(UserError, match="position 13 is beyond the 11"):
        position(torch.randn(B, 13, D))


def test_learned_positions_learn_only_where_they_were_used() -> None:
    position = PositionalEncoding("learned", D, LIMIT)
    position(torch.zeros(B, T, D), 3).sum().backward()
    (table,) = position.parameters()
    assert table.grad is not None
    assert table.grad[:, 0].tolist() == [0.0] * 3 + [float(B)] * T + [0.0] * 3


def test_one_hot_positions_are_unit_vectors() -> None:
    position = PositionalEncoding("one_hot", D, limit=D - 2)
    added = position(torch.zeros(B, 3, D), 2)[0]
    assert added.tolist() == [[float(t == d) for d in range(D)] for t in (2, 3, 4)]
    with pytest.raises(UserError, match="position 6 is beyond the 5"):
        position(torch.zeros(B, 3, D), 3)
    with pytest.raises(UserError, match="limit ≤ dim, not 8 > 7"):
        PositionalEncoding("one_hot", D, limit=8)


@pytest.mark.parametrize("kind", ["none", "rotary"])
def test_what_adds_nothing_gives_back_the_same_object(kind: Kind) -> None:
    x = torch.randn(B, T, D)
    assert PositionalEncoding(kind, D)(x, 3) is x


def test_positions_keep_the_precision_of_what_they_are_added_to() -> None:
    x = torch.randn(B, T, 6, dtype=torch.bfloat16)
    assert PositionalEncoding("sinusoidal", 6)(x).dtype == torch.bfloat16
    turned = Rotary(6)(x[:, None])
    assert turned.dtype == torch.bfloat16 and turned.shape == (B, 1, T, 6)


def test_turning_by_hand() -> None:
    """K = 4: at position t the first pair turns by t, the second by t / 100."""
    turned = Rotary(4)(torch.tensor([1.0, 0.0, 0.0, 1.0]).expand(1, 1, 3, 4))[0, 0].tolist()
    assert turned[0] == [1.0, 0.0, 0.0, 1.0]
    for t in (1, 2):
        expected = [cos(t), sin(t), -sin(t / 100), cos(t / 100)]
        assert turned[t] == pytest.approx(expected, abs=1e-6)


def test_turning_keeps_lengths_and_moves_a_start() -> None:
    rotary, x = Rotary(6, LIMIT), torch.randn(B, H, T, 6)
    torch.testing.assert_close(rotary(x).norm(dim=-1), x.norm(dim=-1))
    padded = torch.cat([torch.zeros(B, H, 3, 6), x], 2)
    torch.testing.assert_close(rotary(x, 3), rotary(padded)[:, :, 3:])


def test_a_product_depends_on_the_difference_of_positions_alone() -> None:
    """Also across the end of the table, which is at 11."""
    rotary, (query, key) = Rotary(6, LIMIT), torch.randn(2, 6)

    def product(t: int, s: int) -> float:
        q, k = query.view(1, 1, 1, 6), key.view(1, 1, 1, 6)
        return float((rotary(q, t) * rotary(k, s)).sum())

    for difference in (0, 1, 4, -2):
        expected = product(5 + difference, 5)
        for s in (2, 7, 10, 29):
            assert product(s + difference, s) == pytest.approx(expected, abs=1e-5)
    assert abs(product(6, 5) - product(7, 5)) > 1e-3
    assert abs(product(6, 5) - product(5, 6)) > 1e-3


def test_turning_needs_pairs() -> None:
    with pytest.raises(UserError, match="even dimension per head, not 7"):
        Rotary(7)


def test_turning_has_nothing_to_store() -> None:
    rotary = Rotary(6, LIMIT)
    assert list(rotary.parameters()) == [] and rotary.state_dict() == {}


def test_halves_turn_a_number_with_the_one_half_a_head_further() -> None:
    """K = 4: (x₀, x₂) turns by t, (x₁, x₃) by t/100; interleaved it is (x₀, x₁) and (x₂, x₃)."""
    x = torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 1, 1, 4)
    turned = Rotary(4, layout="halves")(x, 3).flatten().tolist()
    fast, slow = (cos(3), sin(3)), (cos(0.03), sin(0.03))
    expected = [
        1 * fast[0] - 3 * fast[1],
        2 * slow[0] - 4 * slow[1],
        1 * fast[1] + 3 * fast[0],
        2 * slow[1] + 4 * slow[0],
    ]
    assert turned == pytest.approx(expected, abs=1e-6)


def test_a_fraction_of_a_head_is_turned_by_rates_of_its_own() -> None:
    """K = 8, a half of it: R = 4 numbers turn, with the base as given, the others stay."""
    x = torch.arange(1.0, 9.0).view(1, 1, 1, 8)
    turned = Rotary(8, base=100.0, fraction=0.5)(x, 2).flatten()
    assert turned[4:].tolist() == [5.0, 6.0, 7.0, 8.0]
    expected = Rotary(4, base=100.0)(x[..., :4], 2).flatten()
    torch.testing.assert_close(turned[:4], expected)
    assert float(turned[2]) == pytest.approx(3 * cos(0.2) - 4 * sin(0.2), abs=1e-6)


def test_rates_are_slowed_down_by_hand() -> None:
    """L = 2π · 10 positions turn 10, 2.5 and 0.5 times at rates 1, 1/4 and 1/20: the first stays,
    the last is divided by f = 4, the middle one is half way between (s = (2.5 − 1) / 3)."""
    rates = torch.tensor([1.0, 0.25, 0.05])
    length = 2 * torch.pi * 10
    slowed = Slowing("llama3", 4.0, length)(rates).tolist()
    assert slowed == pytest.approx([1.0, 0.5 * 0.25 / 4 + 0.5 * 0.25, 0.05 / 4])
    assert Slowing("linear", 4.0, 1)(rates).tolist() == pytest.approx([0.25, 0.0625, 0.0125])
    x = torch.randn(1, 1, 1, 6)
    linear = Rotary(6, slowing=Slowing("linear", 3.0, 1))(x, 6)
    torch.testing.assert_close(linear, Rotary(6)(x, 2), rtol=1e-5, atol=1e-6)
