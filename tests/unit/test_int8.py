"""Weights of 8 bits whose products fit on every processor."""

import numpy as np
import pytest
from numpy.typing import NDArray

from regard.interop.conversion import int8

CHANCE = np.random.default_rng(3)
WEIGHTS = {
    "normal": CHANCE.normal(size=(7, 64)),
    "heavy tails": CHANCE.standard_t(2, size=(11, 32)),
    "all alike": np.full((2, 6), 0.3),
    "alternating": np.tile([1.0, -1.0], (3, 8)),
    "odd": CHANCE.normal(size=(5, 13)),
    "nothing": np.zeros((2, 4)),
    "next to nothing": np.full((2, 4), 1e-42),
}


def in_16_bits(x: NDArray[np.int64], q: NDArray[np.int64]) -> NDArray[np.int64]:
    """Σ x q as processors without an instruction for it have it: neighbours are added first, and
    what has no room in 16 bits is cut off."""
    pairs = np.pad(x * q, ((0, 0), (0, q.shape[1] % 2))).reshape(len(q), -1, 2).sum(-1)
    sums: NDArray[np.int64] = np.clip(pairs, -32_768, 32_767).sum(-1)
    return sums


def worst(q: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The bytes that make the sums of neighbours largest, and smallest."""
    return [np.where(q > 0, 255, 0), np.where(q < 0, 255, 0)]


@pytest.mark.parametrize("name", WEIGHTS)
def test_no_sum_of_two_products_overflows(name: str):
    whole = int8(WEIGHTS[name].astype(np.float32))[0].astype(np.int64)
    for x in worst(whole):
        assert (in_16_bits(x, whole) == (x * whole).sum(-1)).all()


def test_the_usual_scale_does_overflow():
    weight = WEIGHTS["normal"]
    whole = np.rint(127 * weight / np.abs(weight).max(1, keepdims=True)).astype(np.int64)
    x = worst(whole)[0]
    assert (in_16_bits(x, whole) < (x * whole).sum(-1)).any()


@pytest.mark.parametrize("name", WEIGHTS)
def test_each_weight_is_rounded_to_the_nearest_step(name: str):
    weight = WEIGHTS[name].astype(np.float32)
    whole, scale = int8(weight)
    assert whole.dtype == np.int8 and scale.dtype == np.float32 and np.isfinite(scale).all()
    assert np.abs(weight * scale[:, None] - whole).max() <= 0.5


@pytest.mark.parametrize(
    ("row", "largest"),
    [
        ([1.0, -1.0, 1.0, -1.0], 127),  # of unlike signs: each sum has one of the two
        ([1.0, 0.0, 0.0, 1.0], 127),  # no neighbours
        ([0.0, 1.0, 1.0, 0.0], 127),  # neighbours, but not two that are added first
        ([1.0, 1.0, 0.0, 0.0], 64),  # 63.5 each
        ([-1.0, -1.0, 0.5, 0.0], 64),
    ],
)
def test_no_more_is_given_away_than_must_be(row: list[float], largest: int):
    whole, _ = int8(np.array([row], np.float32))
    assert np.abs(whole).max() == largest
