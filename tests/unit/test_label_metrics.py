"""Scores of labels and tags, with values that can be counted by hand."""

import math

import numpy as np
import pytest

from regard.errors import UserError
from regard.metrics.labels import Judged, confusion, errors, f1, marks_spans, span_f1, spans, tags


def test_f1_of_single_labels():
    said = [[x] for x in "aabbc"]
    true = [[x] for x in "abbba"]
    found = f1(said, true, ["a", "b", "c", "d"])
    # a: 1 of 2 said, of 2 true: 1/2. b: 2 of 2, of 3: 4/5. c: 1 said, 0 true: 0. d: nowhere.
    assert found["f1:a"].value == pytest.approx(50)
    assert found["f1:b"].value == pytest.approx(80)
    assert found["f1:c"].value == 0
    assert "f1:d" not in found
    assert found["f1"].value == pytest.approx(130 / 3)
    assert found["f1.micro"].value == pytest.approx(60)  # the accuracy
    assert found["f1"].signature.startswith("average:macro|classes:3|n:5|version:")


def test_f1_of_sets():
    found = f1([{"a", "b"}, set()], [{"a"}, {"b"}], ["a", "b"])
    assert found["f1:a"].value == 100
    assert found["f1:b"].value == 0
    assert found["f1.micro"].value == pytest.approx(50)


def test_confusion_has_a_row_for_what_is_true():
    assert confusion([("b", "a"), ("b", "b"), ("b", "a")], ["a", "b"]).tolist() == [[0, 2], [0, 1]]


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ("B-X I-X O B-X", [("X", 0, 1), ("X", 3, 3)]),
        ("B-X B-X I-X", [("X", 0, 0), ("X", 1, 2)]),
        ("I-X I-X O", [("X", 0, 1)]),  # an I that nothing began begins one
        ("B-X I-Y I-Y", [("X", 0, 0), ("Y", 1, 2)]),  # and so does one of another type
        ("B-X I-X E-X S-Y O", [("X", 0, 2), ("Y", 3, 3)]),
        ("B-X L-X U-Y U-Y", [("X", 0, 1), ("Y", 2, 2), ("Y", 3, 3)]),
        ("E-X I-X", [("X", 0, 0), ("X", 1, 1)]),
        ("O O", []),
        ("", []),
    ],
)
def test_spans(sequence, expected):
    assert [span[1:] for span in spans(sequence.split())] == expected


def test_spans_are_right_as_a_whole_or_not_at_all():
    true = [["B-X", "I-X", "O", "B-Y"], ["B-X"]]
    said = [["B-X", "I-X", "O", "B-X"], ["O"]]
    found = span_f1(said, true)  # 2 said, 3 true, 1 right
    assert found["precision"].value == pytest.approx(50)
    assert found["recall"].value == pytest.approx(100 / 3)
    assert found["f1"].value == pytest.approx(40)


@pytest.mark.parametrize(
    ("true", "said", "wrong", "missed"),
    [
        # What is said of an unknown place, or beside it, may be right or wrong.
        ("O _ O O", "O B-X O O", 0, 0),
        ("B-X _ I-X O", "B-X I-X I-X O", 0, 0),
        ("B-X _ O O", "B-X O O O", 0, 0),
        ("O _ B-X O", "O O B-X O", 0, 0),
        ("_ _ _ O B-Y", "B-X I-X O B-X O", 0, 1),
        # What is apart from it counts as ever.
        ("_ O B-X O", "B-X O O O", 0, 1),
        ("_ O O B-X", "O O B-X O", 1, 1),
        ("_ O O O", "O O B-X I-X", 1, 0),
    ],
)
def test_spans_beside_an_unknown_tag_count_on_neither_side(true, said, wrong, missed):
    """Each sentence stands beside one whose span is right."""
    found = span_f1([said.split(), ["B-X"]], [true.split(), ["B-X"]])
    assert found["precision"].value == pytest.approx(100 / (1 + wrong))
    assert found["recall"].value == pytest.approx(100 / (1 + missed))
    assert found["f1"].value == pytest.approx(200 / (2 + wrong + missed))
    assert f"|unknown:{true.split().count('_')}|" in found["f1"].signature


def test_unknown_tags_are_of_their_own_sentence():
    found = span_f1([["B-X", "O"], ["B-X", "O"]], [["B-X", "_"], ["B-X", "O"]])
    assert (found["f1"].value, found["f1"].signature.split("|")[0]) == (100, "spans:1")
    assert "unknown" not in span_f1([["B-X"]], [["B-X"]])["f1"].signature
    # The accuracy is over the three words that are known.
    every = tags([["B-X", "O"], ["B-X", "B-X"]], [["B-X", "_"], ["B-X", "O"]], ["O", "B-X"])
    assert every["accuracy"].value == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["O", "B-X", "I-X"], True),
        (["O", "S-X", "B-X", "E-X"], True),
        (["NOUN", "VERB"], False),
        (["B-X", "I-X"], False),
        (["O", "B", "I"], False),
        (["O", "ADJ-X"], False),
    ],
)
def test_which_tags_mark_spans(names, expected):
    assert marks_spans(names) is expected


def test_tags_count_where_they_are_known():
    found = tags([["N", "V", "N"]], [["N", "N", "_"]], ["N", "V"])
    assert found["accuracy"].value == pytest.approx(50)
    assert found["f1"].value == pytest.approx((200 / 3 + 0) / 2)
    assert tags([["B-X"]], [["B-X"]], ["O", "B-X"])["f1"].value == 100
    with pytest.raises(UserError, match="nothing to score"):
        tags([["N"]], [["_"]], ["N", "V"])


def test_errors_leave_out_what_is_not_known():
    found = errors(np.array([1.0, -3.0, math.nan]))
    assert (found["mse"].value, found["mae"].value) == (5.0, 2.0)
    assert not found["mse"].higher_is_better


def judged(chances, truth) -> Judged:
    return Judged(np.log(np.array(chances)), truth)


def test_likelihood_of_one_label_and_of_several():
    assert judged([[0.8, 0.2], [0.5, 0.5]], [[0], [1]]).nll() == pytest.approx(
        -(math.log(0.8) + math.log(0.5)) / 2
    )
    assert judged([[0.8, 0.2], [0.5, 0.5]], [[0], [-1]]).nll() == pytest.approx(-math.log(0.8))
    logits = np.array([[math.log(3), -math.log(4)]])  # p = 3/4, 1/5
    several = Judged(logits, [[0]], several=True)
    assert several.nll() == pytest.approx(-math.log(0.75) - math.log(0.8))
    assert several.chosen() == [[0]]


def test_where_no_label_was_ever_seen_there_is_no_likelihood():
    assert set(judged([[0.8, 0.2]], [[-1]]).scores()) == {"ece"}
    assert set(judged([[0.8, 0.2]] * 2, [[-1], [0]]).scores()) == {"nll", "ece"}


def test_calibration_error_is_the_gap_in_each_bin():
    # Four times 80 % sure and three times right; once 60 % sure, and wrong.
    chances = [[0.8, 0.2]] * 4 + [[0.4, 0.6]]
    found = judged(chances, [[0], [0], [0], [1], [0]])
    gaps = abs(3 - 4 * 0.8) + abs(0 - 0.6)
    assert found.calibration_error() == pytest.approx(100 * gaps / 5)


@pytest.mark.parametrize("several", [False, True])
def test_temperature_undoes_what_was_multiplied(several):
    random = np.random.default_rng(0)
    logits = random.normal(size=(4000, 3)) * 2
    if several:
        true = random.random((4000, 3)) < 1 / (1 + np.exp(-logits))
        truth = [np.flatnonzero(row).tolist() for row in true]
    else:
        truth = [[int(n)] for n in (logits + random.gumbel(size=logits.shape)).argmax(1)]
    found = Judged(logits * 3, truth, several)
    assert found.temperature() == pytest.approx(3, rel=0.06)
    calm = Judged(logits * 3 / found.temperature(), truth, several)
    assert calm.nll() < found.nll()
    assert calm.calibration_error() < 2 < found.calibration_error()


def test_temperature_is_not_carried_away_by_a_few_right_ones():
    right = judged([[0.9, 0.1]] * 8, [[0]] * 8)
    calm = Judged(right.logits / right.temperature(), right.truth)
    assert 0.9 < math.exp(-calm.nll()) < 0.96  # 8 of 8, and half a doubt more: 0.95
