"""The best of several runs, and a page about one."""

from typing import Any

import numpy as np
import pytest

from regard.compare import _at
from regard.metrics import Score
from regard.metrics.details import Table
from regard.metrics.statistic import ratio, windowed
from regard.metrics.verdict import Verdict, beside, best, by_statistics, by_texts
from regard.verbs.report import page


def score(value: float, low: float | None = None, high: float | None = None, **keys) -> Score:
    how: dict[str, Any] = {"name": "x", "signature": "s", "higher_is_better": True} | keys
    return Score(value=value, low=low, high=high, **how)


def test_the_best_is_the_highest_or_the_lowest_or_nobody():
    assert best({"a": score(1), "b": score(2)}) == "b"
    lower = {run: score(v, higher_is_better=False) for run, v in (("a", 1), ("b", 2))}
    assert best(lower) == "a"
    assert best({"a": score(2), "b": score(2), "c": score(1)}) is None


@pytest.mark.parametrize(
    ("mine", "yours", "p", "clear"),
    [
        (score(3), score(2), 0.01, True),
        (score(3), score(2), 0.5, False),
        (score(3, 2.5, 3.5), score(2, 1.5, 2.4), None, True),
        (score(3, 2.5, 3.5), score(2, 1.5, 2.6), None, False),
        (score(3), score(2, 1.5, 2.6), None, None),
    ],
)
def test_what_is_more_than_noise(mine: Score, yours: Score, p: float | None, clear: bool | None):
    assert beside("b", mine, yours, p).clear is clear


def test_nothing_is_said_where_lines_differ_or_no_test_fits():
    one = ratio(score(1), np.ones(3), np.ones(3))
    other = ratio(score(1), np.ones(4), np.ones(4))
    assert by_statistics(one, other, "x", 10) is None and by_statistics(one, None, "x", 10) is None
    assert by_texts(["a"], ["b"], [["a"]], "exact", 10) is None


def test_a_verdict_names_the_winner():
    found = Verdict(quality="bleu", winner="a", beside=(beside("b", score(2), score(1), 0.01),))
    assert found.lines() == ["winner by bleu: a", "  beside b: more than noise (p = 0.0100)"]


def test_a_run_has_no_value_where_it_never_got():
    assert _at(([10, 20], [3.0, 2.0]), 15) == 3
    assert _at(([10, 20], [3.0, 2.0]), 20) == 2
    assert _at(([10, 20], [3.0, 2.0]), 21) is None
    assert _at(([10, 20], [3.0, 2.0]), 5) is None


def test_windows_that_share_a_future_are_one_draw():
    found = windowed({"mse": score(0)}, {"mse": np.arange(6.0)}, 3)["mse"]
    assert found.rows.tolist() == [[3.0, 3.0], [12.0, 3.0]]
    assert windowed({"mse": score(0)}, {"mse": np.arange(5.0)}, 3) == {}


def test_a_page_escapes_what_it_shows_and_needs_nothing_else():
    table = Table(title="<b>", header=("<i>",), rows=(("<script>alert(1)</script>",),))
    heat = Table(title="c", header=("", "a"), rows=(("a", "1,000"),), heat=True)
    text = page("<run>", "test", {"accuracy": score(50, 40, 60)}, [table, heat], ["<p>"])
    assert "<script" not in text and "&lt;script&gt;" in text and "<b>" not in text
    assert "http" not in text and "prefers-color-scheme: dark" in text
    assert "rgba(var(--accent), 0.60)" in text and "<svg" in text
