"""What each line adds to a score, and the intervals and tests that come of it."""

import math
from typing import Any

import numpy as np
import pytest

from regard.evaluated import plain
from regard.metrics import Score, bootstrap, by_line, labels
from regard.metrics.labels import Judged
from regard.metrics.paired import differences
from regard.metrics.statistic import Statistic, interval, percent, ratio, resampled
from regard.metrics.text import Evaluation

SAID = [["a"], ["b"], ["a"], []]
TRUE = [["a"], ["a"], ["b"], ["b"]]
CHANCES: list[dict[str, float]] = [
    {"a": 0.9, "b": 0.1}, {"a": 0.2, "b": 0.8}, {"a": 0.6, "b": 0.4}, {},
]  # fmt: skip


def score(value: float, *, higher: bool = True) -> Score:
    return Score(name="x", value=value, signature="", higher_is_better=higher)


def test_draws_have_as_many_lines_and_give_the_interval_of_a_mean():
    found = resampled(np.ones((7, 2)), 30)
    assert found.shape == (30, 2) and (found == 7).all()
    values = np.arange(20.0)
    made = ratio(score(9.5), values, np.ones(20))
    assert interval(made, 200) == pytest.approx(bootstrap(values, samples=200))


def test_many_lines_are_drawn_in_parts_as_at_once(monkeypatch: pytest.MonkeyPatch):
    rows = np.random.default_rng(1).random((11, 3))
    whole = resampled(rows, 20)
    monkeypatch.setattr("regard.metrics.statistic.CELLS", 30)
    assert np.allclose(resampled(rows, 20), whole)


def test_labels_by_hand():
    """a: predicted twice, once rightly, true twice: 50; b: never rightly: 0. −log p of the three
    that are not empty. Sure by 0.9 and right, by 0.8 and 0.6 and wrong."""
    values = {
        "accuracy": 25.0, "f1": 25.0, "f1.micro": 200 / 7, "f1:a": 50.0, "f1:b": 0.0,
        "nll": -(math.log(0.9) + math.log(0.2) + math.log(0.4)) / 3,
        "ece": 100 * (0.1 + 0.8 + 0.6) / 3,
    }  # fmt: skip
    scores = {name: score(value) for name, value in values.items()}
    found = by_line.labels(scores, SAID, TRUE, CHANCES, several=False)
    assert found.keys() == values.keys()
    for name, value in values.items():
        assert found[name].value() == pytest.approx(value)
    assert found["accuracy"].rows.tolist() == [[1, 1], [0, 1], [0, 1], [0, 1]]


def test_a_statistic_that_is_not_the_score_is_left_out():
    assert not by_line.labels({"accuracy": score(99)}, SAID, TRUE, CHANCES, several=False)


@pytest.mark.parametrize("several", [False, True])
def test_labels_are_scored_as_by_their_logits(several: bool):
    random = np.random.default_rng(2)
    names, logits = "abc", random.normal(size=(40, 3))
    truth = [sorted({*random.integers(3, size=1 + several).tolist()}) for _ in range(40)]
    judged = Judged(logits, truth, several)
    chances = [dict(zip(names, row, strict=True)) for row in np.exp(judged.log_probs()).tolist()]
    said = [[names[n] for n in row] for row in judged.chosen()]
    true = [[names[n] for n in row] for row in truth]
    scores = labels.f1(said, true, names) | judged.scores()
    found = by_line.labels(scores, said, true, chances, several=several)
    assert found.keys() == scores.keys()
    assert all(each.value() == pytest.approx(scores[name].value) for name, each in found.items())


def test_spans_and_classes_of_tags():
    said = [["B-X", "O", "B-Y"], ["O", "B-X"]]
    true = [["B-X", "O", "O"], ["O", "B-X"]]
    scores = labels.tags(said, true, ["O", "B-X", "B-Y", "I-X"]) | {"nll": score(0.5)}
    found = by_line.tags(scores, said, true, [[-0.5, -0.5, -1.0], [-0.25, -0.25]])
    assert found.keys() == scores.keys()
    assert found["f1"].rows.tolist() == [[1, 2, 1], [1, 1, 1]]
    assert found["precision"].value() == pytest.approx(200 / 3)
    words = labels.tags([["N", "V"]], [["N", "N"]], ["N", "V"])
    assert by_line.tags(words, [["N", "V"]], [["N", "N"]], []).keys() == words.keys()


def test_numbers_that_are_tags():
    scores = {"mse": score(5 / 3, higher=False), "mae": score(1.0, higher=False)}
    found = by_line.tags(scores, [["1", "2"], ["3", "7"]], [["1", "0"], ["4", "_"]], [])
    assert found["mse"].rows.tolist() == [[4, 2], [1, 1]]
    assert found["mae"].value() == 1.0


def test_texts_by_line():
    how = Evaluation(metrics=("exact", "line_error_rate", "nbest", "wer", "cer"))
    outputs, references = [["a b", "a c"], ["x"]], [["a c"], ["x", "y"]]
    scores = how.scores(outputs, references)
    found = by_line.texts(scores, how, outputs, references)
    assert found.keys() == {*how.metrics}
    assert found["exact"].rows.tolist() == [[0, 1], [1, 1]]
    assert found["nbest"].rows.tolist() == [[1, 1], [1, 1]]
    assert found["wer"].rows.tolist() == [[1, 2], [0, 1]]


def test_a_better_f1_on_every_line_is_more_than_chance():
    true = [["a"], ["b"]] * 30
    said: list[Any] = [true, [["a"]] * 60]
    made = [
        by_line.classes(labels.f1(each, true, "ab"), [[p] for p in zip(each, true, strict=True)])
        for each in said
    ]
    found = {each.name: each for each in differences(made[0], made[1], 200)}
    assert found["f1"].value == 100 and found["f1"].other == pytest.approx(100 / 3)
    assert all(each.significant and each.better for each in found.values())


def test_a_draw_without_a_score_does_not_count():
    made = ratio(score(50), [1, 0], [2, 0], percent)
    low, high = interval(made, 50)
    assert low == high == 50
    assert interval(Statistic(score(0), np.zeros((2, 2)), made.f), 9) == (None, None)


def test_a_signature_is_that_of_the_score_alone():
    assert plain("nrefs:1|bs:1000|seed:12345|case:lc") == "nrefs:1|case:lc"
