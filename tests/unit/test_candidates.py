"""The best continuations, found by groups, against a plain sort of all."""

import pytest
import torch

from regard.search.beam import LONG, _candidates


@pytest.mark.parametrize("symbols", [3, 9, LONG, LONG + 1, 6000, 16 * 400 + 15])
def test_no_better_continuation_is_left_out(symbols: int) -> None:
    size, width = 7, 5
    log_probs = torch.randn(size, width, symbols).log_softmax(-1)
    log_probs[:, :, 1] = -torch.inf  # a forbidden token
    totals = 3 * torch.randn(size, width)
    totals[:3, 1:] = -torch.inf  # copies that cannot be
    sums, chances, places = _candidates(totals, log_probs)
    origins, found = places // symbols, places % symbols

    everything = (totals[..., None] + log_probs).flatten(1)
    expected = everything.sort(descending=True).values[:, : 2 * width]
    assert torch.equal(sums, expected)
    rows = torch.arange(size)[:, None]
    assert torch.equal(chances, log_probs[rows, origins, found])
    assert torch.equal(sums, totals[rows, origins] + chances)
    for row in places.tolist():
        assert len(set(row)) == len(row)
