"""Frames become fewer vectors, and padding changes nothing."""

from typing import Any

import pytest
import torch

from regard.inputs import mel
from regard.types import Batch, FieldSize


def made(convolutions: int, bands: int = 11) -> mel.Input:
    torch.manual_seed(2)
    config = mel.Config(convolutions=convolutions, channels=5)
    size = FieldSize("source", {"mels": bands, "hop": 10_000})
    return mel.Input(config, size, 7, shared=None, scale=False).eval()


def batch(frames: torch.Tensor, lengths: list[int]) -> Batch:
    mask = torch.arange(frames.shape[1]) < torch.tensor(lengths)[:, None]
    return Batch(
        tensors={"source": frames, "source_mask": mask}, ids=tuple(range(len(lengths))), targets=0
    )


@pytest.mark.parametrize("convolutions", [1, 2, 3])
def test_padding_changes_nothing(convolutions: int):
    part, frames = made(convolutions), torch.randn(3, 23, 11)
    lengths = [23, 9, 1]
    whole = part(batch(frames, lengths))
    assert whole.mask.sum(1).tolist() == [part_positions(convolutions, n) for n in lengths]
    for row, length in enumerate(lengths):
        alone = part(batch(frames[row : row + 1, :length], [length]))
        assert torch.allclose(whole.states[row][whole.mask[row]], alone.states[0], atol=1e-5)


def part_positions(convolutions: int, length: int) -> int:
    for _ in range(convolutions):
        length = (length + 1) // 2
    assert mel.Config(convolutions=convolutions).positions(length) >= 1
    return length


def test_one_convolution_is_its_equation():
    part, frames = made(1, bands=4), torch.randn(1, 5, 4)
    found = part(batch(frames, [5])).states[0]
    filters: Any = part.filters[0]
    weight, bias = filters.weight.detach(), filters.bias.detach()
    padded = torch.zeros(7, 6)
    padded[1:6, 1:5] = frames[0]
    for t in range(3):
        y = torch.zeros(5, 2)
        for m in range(2):
            window = padded[2 * t : 2 * t + 3, 2 * m : 2 * m + 3]
            y[:, m] = torch.relu(bias + (weight[:, 0] * window).sum((1, 2)))
        assert torch.allclose(found[t], part.project(y.flatten()), atol=1e-5)
