"""How wide forecasts are: quantiles of residuals, in units of what each window lets one expect."""

import pytest
import torch

from regard.decoding.intervals import SMALLEST, Intervals, conformal, restlessness


def test_a_line_is_as_restless_as_it_rises_and_deviates():
    line = torch.arange(4.0)[None, :, None]  # 0 1 2 3: halves' means 0.5 and 2.5
    deviation = (1.25) ** 0.5
    assert float(restlessness(line)) == pytest.approx(deviation + 2 * 2.0 + SMALLEST)


def test_flat_windows_and_single_steps_keep_a_width():
    assert float(restlessness(torch.ones(1, 5, 1))) == pytest.approx(SMALLEST)
    assert float(restlessness(torch.ones(1, 1, 1))) == pytest.approx(SMALLEST)


def test_restlessness_is_of_each_window_and_variable():
    past = torch.randn(3, 7, 2)
    scaled = past * torch.tensor([1.0, 5.0])
    one, other = restlessness(past) - SMALLEST, restlessness(scaled) - SMALLEST
    assert one.shape == (3, 1, 2)
    assert torch.allclose(other, one * torch.tensor([1.0, 5.0]), rtol=1e-4)


def test_recent_windows_count_more_and_one_more_counts_as_the_largest():
    # Weights ¼ ½ ¾ 1, sum 2.5, and 1 for the unknown one: 0.5 · 3.5 = 1.75 is wanted.
    distances = torch.tensor([4.0, 1.0, 2.0, 3.0])[:, None, None]
    # In order of size: 1 (½), 2 (1¼), 3 (2¼), 4 (2½).
    assert float(conformal(distances, 0.5, shared=False)) == 3.0
    assert float(conformal(distances, 0.3, shared=False)) == 2.0
    # 0.9 · 3.5 is more than all of them have: the largest that is known.
    assert float(conformal(distances, 0.9, shared=False)) == 4.0


def test_steps_have_their_own_quantiles_and_variables_may_share_them():
    one = torch.arange(1.0, 51.0)[:, None] * torch.tensor([1.0, 10.0, 100.0])  # (N, T)
    distances = torch.stack([one, 2 * one], 2)
    alone = conformal(distances, 0.9, shared=False)
    together = conformal(distances, 0.9, shared=True)
    assert alone.shape == (1, 3, 2) and together.shape == (1, 3, 1)
    assert torch.equal(alone[..., 1], 2 * alone[..., 0])
    assert (alone[..., 0] < together[..., 0]).all() and (together[..., 0] < alone[..., 1]).all()
    assert torch.equal(together[0, :, 0] / together[0, 0, 0], torch.tensor([1.0, 10, 100]).double())


def test_the_quantile_covers_its_level():
    random = torch.Generator().manual_seed(3)
    known, new = torch.randn(2, 20_000, 1, 1, generator=random).abs()
    far = conformal(known, 0.9, shared=False)
    assert float((new <= far).double().mean()) == pytest.approx(0.9, abs=0.01)


def test_the_reach_is_the_normal_quantile():
    assert Intervals(level=0.95).reach == pytest.approx(1.96, abs=1e-3)
