"""CIDEr-D by its paper's equation, on captions whose n-grams can be counted by hand."""

import math

import pytest

from regard.metrics import cider
from regard.metrics.text import Evaluation

RIGHT = [["a red dog"], ["a blue cat"]]


def test_what_is_exactly_right():
    """“a” is in both pictures: log 2/2 = 0. The others are alike in 1-, 2- and 3-grams: 10 each;
    of 4-grams there is none: ¼ (10 + 10 + 10 + 0)."""
    assert cider.by_line(["a red dog", "a blue cat"], RIGHT).tolist() == pytest.approx([7.5, 7.5])
    assert cider.score(["a red dog", "A blue cat."], RIGHT).value == pytest.approx(750)


def test_half_of_the_words():
    """“a red cat” for “a red dog”: g_c = (red, cat), g = (red, dog), each log 2: cosine ½ of words.
    Of the bigrams “a red” alone is shared: ½; no trigram is."""
    [found, _] = cider.by_line(["a red cat", "x"], RIGHT)
    assert found == pytest.approx(10 * (0.5 + 0.5) / 4)


def test_longer_captions_count_less():
    """“a red dog dog”: counts are clipped, (red 1, dog 2) against (1, 1): 2 / (√5 √2) of words, and
    so on; all times exp(−1 / 72) for the one word more."""
    [found, _] = cider.by_line(["a red dog dog", "x"], RIGHT)
    one = 2 / (math.sqrt(5) * math.sqrt(2))  # words
    two = 2 / (math.sqrt(3) * math.sqrt(2))  # a red, red dog, dog dog
    three = 1 / (math.sqrt(2) * 1)  # a red dog, red dog dog
    assert found == pytest.approx(10 * (one + two + three) / 4 * math.exp(-1 / 72))


def test_several_references_are_a_mean():
    right = [["a red dog", "x y"], ["a blue cat"]]
    [found, _] = cider.by_line(["a red dog", "x"], right)
    assert found == pytest.approx(7.5 / 2)


def test_clipped_counts_against_several_references():
    """“red dog dog” for “red dog” and “dog dog dog”, each n-gram of one picture of two: log 2 all.

    words    (red 1, dog 2): against (1, 1) 1 + min(2, 1) = 2 of √5 √2; against (0, 3) 6 of √5 3
    bigrams  (red dog 1, dog dog 1): against (1, 0) 1 of √2; against (0, 2) min(1, 2) · 2 of √2 2
    longer   none in common

    and exp(−1 / 72) for the one word more than in the first one; the mean of both.
    """
    found, _ = cider.by_line(["red dog dog", "x"], [["red dog", "dog dog dog"], ["blue cat"]])
    first = (2 / math.sqrt(10) + 1 / math.sqrt(2)) * math.exp(-1 / 72)
    second = 2 / math.sqrt(5) + 1 / math.sqrt(2)
    assert found == pytest.approx(10 / 4 * (first + second) / 2)
    assert found == pytest.approx(3.6533, abs=1e-4)


def test_one_picture_has_no_rare_words():
    assert cider.by_line(["a red dog"], [["a red dog"]]).tolist() == [0.0]


def test_as_a_score_of_a_recipe():
    how = Evaluation(metrics=("cider", "exact"))
    found = how.scores([["a red dog"], ["a blue cat"]], RIGHT, samples=20)
    assert found["cider"].value == pytest.approx(750)
    assert found["cider"].low == pytest.approx(750)
    values, counts = how.by_line([["a red dog"], ["x"]], RIGHT)["cider"]
    assert values == pytest.approx([7.5, 0.0])
    assert counts == [1.0, 1.0]
    assert how.watched["cider"] == "higher"
