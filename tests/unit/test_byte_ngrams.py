"""Models that count bytes: by hand, and as probabilities."""

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest

from bench.byte_ngrams import MOST, Level, bits


def test_discounts_are_those_of_counts_of_counts():
    counts = np.array([1] * 6 + [2] * 3 + [3] * 2 + [4] * 1 + [9])
    level = Level.of(np.arange(len(counts), dtype=np.int64), counts)
    share = 6 / (6 + 2 * 3)  # 1/2
    wanted = [0, 1 - 2 * share * 3 / 6, 2 - 3 * share * 2 / 3, 3 - 4 * share * 1 / 2]
    assert level.discounts.tolist() == pytest.approx(wanted)


def test_one_level_by_hand():
    """“ab” twice, “ac” once, “bc” three times, “bd” once: without discounts, shares of counts."""
    keys = np.array([256 * a + b for a, b in (b"ab", b"ac", b"bc", b"bd")], np.int64)
    level = Level.of(keys, np.array([2, 1, 3, 1]))._replace(discounts=np.zeros(4))
    asked = np.array([256 * a + b for a, b in (b"ab", b"ac", b"bd", b"ba", b"ca")], np.int64)
    found = level.interpolate(asked, np.full(5, 1 / 256))
    assert found.tolist() == pytest.approx([2 / 3, 1 / 3, 1 / 4, 0, 1 / 256])
    halved = level._replace(discounts=np.array([0, 0.5, 0.5, 0.5]))
    found = halved.interpolate(asked, np.full(5, 1 / 256))
    gamma = (0.5 + 0.5) / 3
    assert found[0] == pytest.approx((2 - 0.5) / 3 + gamma / 256)
    assert found[3] == pytest.approx((0.5 + 0.5) / 4 / 256)
    assert found[4] == pytest.approx(1 / 256)


def discounts(counts: Iterable[int]) -> list[float]:
    kinds = [0, *([*counts].count(k) for k in range(1, 5))]
    found = [0.0]
    for k in (1, 2, 3):
        value = 0.0
        if kinds[k]:
            value = k - (k + 1) * kinds[1] / (kinds[1] + 2 * kinds[2]) * kinds[k + 1] / kinds[k]
        found.append(value if 0 < value <= k else k / 2)
    return found


def plain(train: bytes, order: int, highest: int, before: bytes, byte: int) -> float:
    """p by the equations, string by string."""
    if order == 0:
        return 1 / 256
    places = Counter(train[n - order : n] for n in range(order, len(train) + 1))
    if order < highest:
        longer = {train[n - order - 1 : n] for n in range(order + 1, len(train) + 1)}
        places = Counter(each[1:] for each in longer)
    history = before[len(before) - order + 1 :] if order > 1 else b""
    lower = plain(train, order - 1, highest, before, byte)
    follow = [count for string, count in places.items() if string[:-1] == history]
    if not follow:
        return lower
    d = discounts(places.values())
    taken = sum(d[min(count, 3)] for count in follow)
    count = places[history + bytes([byte])]
    return (count - d[min(count, 3)] + taken * lower) / sum(follow)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_searches_find_what_the_equations_say(order: int):
    chance = np.random.default_rng(5)
    train = bytes(chance.choice(list(b"aaabbcd"), 300).tolist())
    test = b"abcadab"
    whole = train + test
    wanted = [
        plain(train, order, order, whole[: len(train) + n], test[n]) for n in range(len(test))
    ]
    found = bits(train, test, range(1, order + 1))[order]
    assert found == pytest.approx(-sum(map(math.log2, wanted)) / len(test), rel=1e-9)


@pytest.mark.parametrize("order", [1, 2, 5, MOST])
def test_probabilities_of_all_bytes_sum_to_one(order: int):
    chance = np.random.default_rng(3)
    train = bytes(chance.choice(list(b"aaabbc d"), 400).tolist())

    def likelihood(text: bytes) -> float:
        return float(2 ** -(len(text) * bits(train, text, range(1, order + 1))[order]))

    for context in (b"ab", b"caab", b"zz"):
        joint = math.fsum(likelihood(context + bytes([byte])) for byte in range(256))
        assert joint / likelihood(context) == pytest.approx(1)


def test_a_longer_memory_finds_what_repeats():
    train = b"the cat sat on the mat and the dog lay on the log. " * 40
    found = bits(train, b"the cat sat on the mat and the dog", range(1, MOST + 1))
    assert found[1] > found[3] > found[6]
    assert found[MOST] < 0.1
