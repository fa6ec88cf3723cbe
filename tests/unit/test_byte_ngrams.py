"""Models that count bytes: by hand, and as probabilities."""

import math

import numpy as np
import pytest

from bench.byte_ngrams import MOST, Level, bits, strings


def test_strings_are_numbers_that_end_with_the_last_byte():
    found = strings(np.frombuffer(b"abca", np.uint8), 2)
    assert found.tolist() == [ord("a"), *(256 * a + b for a, b in (b"ab", b"bc", b"ca"))]


def test_discounts_are_those_of_counts_of_counts():
    counts = np.array([1] * 6 + [2] * 3 + [3] * 2 + [4] * 1 + [9])
    level = Level.of(np.arange(len(counts), dtype=np.uint64), counts)
    share = 6 / (6 + 2 * 3)  # 1/2
    wanted = [0, 1 - 2 * share * 3 / 6, 2 - 3 * share * 2 / 3, 3 - 4 * share * 1 / 2]
    assert level.discounts.tolist() == pytest.approx(wanted)


def test_one_level_by_hand():
    """“ab” twice, “ac” once, “bc” three times, “bd” once: without discounts, shares of counts."""
    keys = np.array([256 * a + b for a, b in (b"ab", b"ac", b"bc", b"bd")], np.uint64)
    level = Level.of(keys, np.array([2, 1, 3, 1]))._replace(discounts=np.zeros(4))
    asked = np.array([256 * a + b for a, b in (b"ab", b"ac", b"bd", b"ba", b"ca")], np.uint64)
    found = level.interpolate(asked, np.full(5, 1 / 256))
    assert found.tolist() == pytest.approx([2 / 3, 1 / 3, 1 / 4, 0, 1 / 256])
    halved = level._replace(discounts=np.array([0, 0.5, 0.5, 0.5]))
    found = halved.interpolate(asked, np.full(5, 1 / 256))
    gamma = (0.5 + 0.5) / 3
    assert found[0] == pytest.approx((2 - 0.5) / 3 + gamma / 256)
    assert found[3] == pytest.approx((0.5 + 0.5) / 4 / 256)
    assert found[4] == pytest.approx(1 / 256)


@pytest.mark.parametrize("order", range(1, MOST + 1))
def test_probabilities_of_all_bytes_sum_to_one(order: int):
    chance = np.random.default_rng(3)
    train = bytes(chance.choice(list(b"aaabbc d"), 400).tolist())
    for context in (b"ab", b"caab", b"zz"):
        chances = [
            2 ** -(len(text) * bits(train, text, range(1, order + 1))[order])
            / (
                2 ** -(len(context) * bits(train, context, range(1, order + 1))[order])
                if context
                else 1
            )
            for text in (context + bytes([byte]) for byte in range(256))
        ]
        assert math.fsum(chances) == pytest.approx(1)


def test_a_longer_memory_finds_what_repeats():
    train = b"the cat sat on the mat and the dog lay on the log. " * 40
    found = bits(train, b"the cat sat on the mat and the dog", range(1, MOST + 1))
    assert found[1] > found[3] > found[6]
    assert found[8] < 0.1
