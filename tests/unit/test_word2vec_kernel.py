"""word2vec's arithmetic: values that a person can derive."""

import math

import numpy as np
import pytest

from regard.word2vec import draws, huffman, kernel
from regard.word2vec.settings import Settings
from regard.word2vec.training import targets

LOG = math.log


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def engine(
    tokens, inputs, outputs, chosen, longest, *, window=1, negatives=1, cbow=False, rate=0.5
):
    """One sentence, of which nothing is left out. The engine is that for 8 dimensions, the last of
    which are 0: each dimension takes some seconds to compile."""
    keep = draws.parts(np.ones(len(inputs)))
    wide = [np.pad(table, ((0, 0), (0, 8 - table.shape[1]))) for table in (inputs, outputs)]
    pairs = kernel.piece(8)(
        np.array(tokens, np.int32), np.array([len(tokens)]), np.array([rate], np.float32),
        *wide, keep, chosen, longest, window, negatives, cbow, draws.state(1, 0, 0),
    )  # fmt: skip
    for table, made in zip((inputs, outputs), wide, strict=True):
        table[:] = made[:, : table.shape[1]]
    return pairs


def always(word: int, size: int) -> kernel.Targets:
    """Draws one word, whatever the state."""
    empty = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    return kernel.Targets(np.zeros(size, np.uint32), np.full(size, word, np.int32), *empty)


def step(x, u, label, rate):
    """(g u, g x) with g = rate (label − σ(x·u)), as on paper."""
    g = rate * (label - sigmoid(float(np.dot(x, u))))
    return g * u, g * x


def test_one_pair_of_skip_gram_by_hand():
    """“a b” with window 1 is the pair b → a, then the pair a → b; c is drawn for both."""
    inputs = np.array([[1, 0], [0, 1], [5, 5]], np.float32)
    outputs = np.array([[0.5, 1], [1, -1], [-1, 0.5]], np.float32)
    v, u = inputs.astype(float), outputs.astype(float)
    for near, word in ((1, 0), (0, 1)):
        x = v[near].copy()
        (right, up), (wrong, down) = step(x, u[word], 1, 0.5), step(x, u[2], 0, 0.5)
        v[near] += right + wrong
        u[word] += up
        u[2] += down
    assert engine([0, 1], inputs, outputs, always(2, 3), 2) == 2
    np.testing.assert_allclose(inputs, v, atol=0.004)  # σ is of a table of 1,024
    np.testing.assert_allclose(outputs, u, atol=0.004)
    # The first step in numbers: x = (0, 1), x·u_a = 1, x·u_c = 0.5.
    assert v[1][0] == pytest.approx(0.5 * (1 - 0.7310586) * 0.5 + 0.5 * -0.6224593 * -1, abs=1e-6)


def test_cbow_gives_each_word_near_the_whole_step_of_their_mean():
    """“a b a”, from the place of b: x = (v_a + v_a)/2, and v_a takes the step twice."""
    inputs = np.array([[1, 2], [0, 0], [0, 0]], np.float32)
    outputs = np.array([[0, 0], [0.25, 0.5], [0, 0]], np.float32)
    before = inputs[0].astype(float)
    # Places 0 and 2 have u_a = 0 and v_b = 0 for targets and inputs: no step of theirs moves v_a.
    to, _ = step(before, outputs[1].astype(float), 1, 0.5)
    engine([0, 1, 0], inputs, outputs, always(2, 3), 2, cbow=True)
    np.testing.assert_allclose(inputs[0], before + 2 * to, atol=0.004)


def test_a_drawn_word_that_is_the_word_itself_is_left_out():
    inputs = np.array([[1, 0], [0, 1]], np.float32)
    outputs = np.zeros((2, 2), np.float32)
    engine([0, 0], inputs, outputs, always(0, 2), 2)
    # Two pairs a → a, each with label 1 alone: x·u = 0, then 0.25 with x = (1, 0): both rise.
    second = 0.5 * (1 - sigmoid(0.25))
    assert outputs[0, 0] == pytest.approx(0.25 + second * 1.0, abs=0.01)
    assert inputs[0, 0] == pytest.approx(1 + second * 0.25, abs=0.01)


def test_beyond_six_only_what_is_wrong_is_changed():
    outputs = np.array([[7, 0], [0, 0], [7, 0]], np.float32)
    inputs = np.array([[0, 0], [1, 0], [0, 0]], np.float32)
    engine([0, 1], inputs, outputs, always(2, 3), 2, rate=0.1)
    assert outputs[0].tolist() == [7, 0]  # σ(7) is taken for 1, and its label is 1
    # x = (1, 0) was drawn c: σ(7) is taken for 1, and its label is 0.
    assert outputs[2, 0] == pytest.approx(6.9, abs=1e-5)


def test_hierarchical_softmax_takes_the_nodes_of_the_path():
    """Two words have one inner node: left is the less frequent one."""
    counts = np.array([3, 1])
    chosen, longest = targets(counts, Settings(loss="hierarchical"))
    assert longest == 1
    inputs = np.array([[1, 0], [0, 2]], np.float32)
    outputs = np.zeros((2, 2), np.float32)
    engine([0, 1], inputs, outputs, chosen, longest)
    # b → a: a is right (0), x = (0, 2): g = 0.5 (0 − ½); a → b: b is left (1): g = 0.5 (1 − ½).
    assert outputs[0] == pytest.approx([0.25, -0.5], abs=0.004)
    assert outputs[1].tolist() == [0, 0]


def test_the_codes_of_five_words():
    """15, 7, 6, 6, 5 (the textbook's example): the first word has one turn, all others three."""
    found = huffman.paths([15, 7, 6, 6, 5])
    codes = [found.code(word) for word in range(5)]
    assert sorted(map(len, codes)) == [1, 3, 3, 3, 3]
    assert len(codes[0]) == 1
    assert sum(n * len(code) for n, code in zip((15, 7, 6, 6, 5), codes, strict=True)) == 87
    for one in codes:  # no code begins another
        assert [other for other in codes if other.startswith(one)] == [one]
    assert found.longest == 3
    assert {int(found.nodes[found.starts[w]]) for w in range(5)} == {3}  # all begin at the root


def test_the_tree_is_a_distribution():
    """Σ_w p(w | x) = 1 for any x, whatever the counts."""
    draw = np.random.default_rng(1)
    counts = np.sort(draw.integers(1, 1000, 37))[::-1]
    found, u, x = huffman.paths(counts), draw.normal(size=(36, 5)), draw.normal(size=5)
    total = 0.0
    for word in range(37):
        path = slice(found.starts[word], found.starts[word + 1])
        z = u[found.nodes[path]] @ x
        signs = np.where(found.labels[path] == 1, 1, -1)
        total += float(np.prod(1 / (1 + np.exp(-signs * z))))
    assert total == pytest.approx(1)


def test_the_chance_of_frequent_words_to_stay():
    """f = 0.9 and 0.1 with t = 0.001: √(t/f) + t/f."""
    found = draws.keep(np.array([900, 100]), 1e-3)
    assert found[0] == pytest.approx(math.sqrt(1 / 900) + 1 / 900)
    assert found[1] == pytest.approx(0.11)
    assert draws.keep(np.array([900, 100]), 0).tolist() == [1, 1]
    assert draws.keep(np.array([1, 10**6]), 1e-3)[0] == 1  # a rare one always does
    assert draws.parts(np.array([0.0, 0.5, 1.0])).tolist() == [0, 2**31, 2**32]


def test_the_alias_table_has_the_weights():
    """Column i gives i with its threshold, and its other with the rest: exactly n^¾ in all."""
    counts = np.array([1000, 81, 16, 16, 1])
    weights = counts**0.75
    threshold, other = draws.alias(weights)
    chance = np.zeros(5)
    for column in range(5):
        own = threshold[column] / 2**32
        chance[column] += own / 5
        chance[other[column]] += (1 - own) / 5
    np.testing.assert_allclose(chance, weights / weights.sum(), atol=1e-9)
    assert weights[1] / weights[2] == pytest.approx(27 / 8)


def test_words_are_drawn_by_the_table():
    """100,000 draws of three words with weights 6, 3, 1: within four deviations."""
    threshold, other = draws.alias(np.array([6.0, 3.0, 1.0]))
    state, seen = draws.state(7, 0, 0), np.zeros(3)
    following, drawn = kernel.following.py_func, kernel.drawn.py_func
    with np.errstate(over="ignore"):
        for _ in range(100_000):
            state = following(state)
            seen[drawn(state, threshold, other)] += 1
    for count, p in zip(seen, (0.6, 0.3, 0.1), strict=True):
        assert abs(count - 1e5 * p) < 4 * math.sqrt(1e5 * p * (1 - p))


def test_a_state_is_a_function_of_seed_epoch_and_piece():
    one = draws.state(1, 0, 0)
    assert one == draws.state(1, 0, 0)
    others = {int(draws.state(*key)) for key in ((1, 0, 1), (1, 1, 0), (2, 0, 0), (0, 0, 0))}
    assert len(others | {int(one)}) == 5


def test_left_out_words_make_windows_wider():
    """“a x b” where x never stays: a and b are neighbours, as in word2vec."""
    inputs = np.eye(3, 8, dtype=np.float32)
    outputs = np.zeros((3, 8), np.float32)
    keep = draws.parts(np.array([1.0, 0.0, 1.0]))
    pairs = kernel.piece(8)(
        np.array([0, 1, 2], np.int32), np.array([3]), np.array([0.1], np.float32), inputs, outputs,
        keep, always(1, 3), 2, 1, 1, False, draws.state(1, 0, 0),
    )  # fmt: skip
    assert pairs == 2
    assert outputs[0, 2] > 0 and outputs[2, 0] > 0
