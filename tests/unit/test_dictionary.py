"""What is whose translation, by pairs of sentences alone."""

import numpy as np
import pytest

from regard.data.dictionary import Dictionary


def test_a_dictionary_is_learnt_from_pairs_alone():
    """x is always y = 10 + x, in any order, beside a 30 that belongs to nothing."""
    dice = np.random.default_rng(0)
    sources = [dice.permutation(8)[:4].tolist() for _ in range(200)]
    targets = [[30, *(10 + x for x in reversed(source))] for source in sources]
    learnt = Dictionary.learn(sources, targets)
    to, share = learnt.links([1, 5, 2], [12, 11, 15, 30, 99])
    assert to[:3].tolist() == [2, 0, 1] and (share[:3] > 0.8).all()
    assert to[3] == -1  # 30 comes from none of them
    assert share[4] == pytest.approx(1 / 4)  # 99 was never seen: nothing is likelier than another


def test_one_round_of_the_dictionary_by_hand():
    """("a", "x"), ("a b", "x y"): after one round t(x | a) = (1/2 + 1/3) / (1/2 + 2/3)."""
    learnt = Dictionary.learn([[0], [0, 1]], [[5], [5, 6]], rounds=1)
    table = dict(zip(learnt.pairs.tolist(), learnt.chances.tolist(), strict=True))
    assert table[1 * learnt.size + 5] == pytest.approx((1 / 2 + 1 / 3) / (1 / 2 + 2 / 3))
    assert table[2 * learnt.size + 6] == pytest.approx(1 / 2)


def test_entries_have_the_likeliest_first():
    """0 is 20, 1 is 21, 2 is 22; what stands beside all of them is nobody's own."""
    sources, targets = [[0, 1], [0, 2], [1, 2]], [[20, 21, 30], [20, 22, 30], [21, 22, 30]]
    learnt = Dictionary.learn(sources, targets, rounds=20)
    best = {x: allowed.tolist() for x, allowed in learnt.entries(2)}
    assert {x: allowed[0] for x, allowed in best.items()} == {0: 20, 1: 21, 2: 22}
    assert {len(allowed) for allowed in best.values()} == {2}
    every = {x: set(allowed.tolist()) for x, allowed in learnt.entries(9)}
    assert every[0] == {20, 21, 22, 30}, "all that it was seen with"


def test_arrays_as_they_are_stored_will_do():
    sources, targets = [[65000], [65000, 1]], [[5], [5, 65000]]
    lists = Dictionary.learn(sources, targets)
    left, right = ([np.array(row, np.uint16) for row in side] for side in (sources, targets))
    arrays = Dictionary.learn(left, right)
    assert arrays.pairs.tolist() == lists.pairs.tolist()
    assert arrays.chances.tolist() == lists.chances.tolist()
