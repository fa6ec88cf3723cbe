"""Two systems on the same lines, and what stands behind a score."""

import numpy as np
import pytest

from regard.errors import UserError
from regard.metrics import Score
from regard.metrics.details import by_label, confident_errors, confused, short, worst
from regard.metrics.paired import differences, paired
from regard.metrics.statistic import Statistic, percent, ratio


def statistic(values: list[float], *, higher: bool = True) -> Statistic:
    score = Score(name="x", value=0.0, signature="", higher_is_better=higher)
    return ratio(score, values, np.ones(len(values)), percent)


def test_equal_systems_do_not_differ():
    found = paired("x", statistic([1, 0, 1, 1]), statistic([1, 0, 1, 1]))
    assert (found.low, found.high, found.p) == (0.0, 0.0, 1.0)
    assert not found.significant and not found.better


def test_the_same_mean_on_other_lines_is_no_difference():
    found = paired("x", statistic([1, 0] * 50), statistic([0, 1] * 50))
    assert found.value == found.other == 50.0 and found.p == 1.0


def test_a_large_difference_on_every_line_is_more_than_chance():
    found = paired("x", statistic([1.0] * 95 + [0.0] * 5), statistic([0.0] * 100), samples=200)
    assert found.value == 95.0 and found.other == 0.0
    assert found.p == pytest.approx(1 / 201) and found.significant and found.better
    assert found.low > 85 and found.high <= 100


def test_one_line_of_a_hundred_is_no_more_than_chance():
    found = paired("x", statistic([1.0] + [0.0] * 99), statistic([0.0] * 100))
    assert found.p > 0.3 and not found.significant and found.better


def test_lower_may_be_better():
    found = paired("x", statistic([1.0] * 9, higher=False), statistic([2.0] * 9, higher=False))
    assert found.better


def test_draws_are_the_same_each_time_and_other_lines_are_refused():
    random = np.random.default_rng(1)
    one, other = (statistic(random.random(30).tolist()) for _ in range(2))
    assert paired("x", one, other, 50) == paired("x", one, other, 50)
    with pytest.raises(UserError, match="x: 30 and 2 lines"):
        paired("x", one, statistic([1, 2]))


def test_one_line_says_nothing_of_others():
    found = paired("x", statistic([1.0]), statistic([0.0]))
    assert (found.value, found.other, found.p, found.significant) == (100.0, 0.0, 1.0, False)


def test_only_metrics_that_both_have_are_compared():
    one = statistic([1, 0])
    assert [d.name for d in differences({"a": one, "b": one}, {"b": one, "c": one}, 5)] == ["b"]


def test_figures_of_each_label_by_hand():
    # a: predicted 3 times, twice rightly, true 2 times; b: predicted once, true 2 times.
    pairs = [(["a"], ["a"]), (["a"], ["a"]), (["a"], ["b"]), (["b"], ["b"])]
    assert by_label(pairs).rows == (
        ("a", "66.7", "100.0", "80.0", "2"),
        ("b", "100.0", "50.0", "66.7", "2"),
    )


def test_a_label_that_nobody_predicts_has_no_precision():
    assert by_label([(["a"], ["b"])]).rows == (
        ("b", "–", "0.0", "0.0", "1"),
        ("a", "0.0", "–", "0.0", "0"),
    )


def test_confusion_has_true_rows_and_says_what_is_left_out():
    pairs = [("a", "a"), ("b", "a"), ("b", "b"), ("c", "c")]
    assert confused(pairs).rows == (
        ("a", "1", "1", "0"),
        ("b", "0", "1", "0"),
        ("c", "0", "0", "1"),
    )
    few = confused(pairs, most=2)
    assert few.header == ("", "a", "b") and "1 others are left out" in few.note


def test_the_surest_errors_come_first_with_their_line():
    found = confident_errors(["w", "x", "y"], ["p", "p", "n"], ["n", "p", "p"], [0.6, 0.99, 0.8])
    assert found.rows == (("80.0", "n", "p", "3", "y"), ("60.0", "p", "n", "1", "w"))
    assert found.note == "2 of 3 are wrong."


def test_the_worst_are_the_lowest_or_the_highest():
    for higher, first in ((True, "2"), (False, "1")):
        found = worst("t", ("v", "line", "text"), [3.0, 1.0], [("a",), ("b",)], higher=higher)
        assert found.rows[0][1] == first


def test_long_texts_are_cut_to_one_line():
    assert short("a\nb") == "a b" and len(short("x" * 500)) == 100
