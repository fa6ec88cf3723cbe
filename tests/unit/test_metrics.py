"""Scores that a person can work out, and what must hold of any score."""

import logging
import math
import os

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings, strategies as st

from regard.errors import UserError
from regard.metrics import Score, accuracy, bootstrap, error_rate, paired_bootstrap, translation

LINES = [f"the {n} little dogs of house {n % 7} run to the {n % 5} red trees ." for n in range(60)]


def without(word: str, every: int) -> list[str]:
    """The lines, every so many of them without a word."""
    return [
        line.replace(f" {word}", "") if n % every == 0 else line for n, line in enumerate(LINES)
    ]


def test_what_is_right_is_perfect():
    scores = translation(LINES, LINES)
    assert list(scores) == ["bleu", "chrf", "ter", "exact"]
    assert [score.name for score in scores.values()] == ["BLEU", "chrF2", "TER", "exact"]
    assert [score.value for score in scores.values()] == pytest.approx([100, 100, 0, 100])
    assert [score.higher_is_better for score in scores.values()] == [True, True, False, True]
    assert all(score.low is None and score.high is None for score in scores.values())


def test_bleu_and_ter_by_hand():
    scores = translation(["a b c d e"], ["a b c d f"], tokenize="none")
    # 4 of 5 words, 3 of 4 pairs, 2 of 3 triples, 1 of 2 quadruples: their product is 1/5.
    assert scores["bleu"].value == pytest.approx(100 * 0.2**0.25)
    assert scores["ter"].value == pytest.approx(100 / 5)
    assert scores["exact"].value == 0
    short = translation(["a b c d"], ["a b c d e"], tokenize="none", metrics=["bleu"])
    assert short["bleu"].value == pytest.approx(100 * math.exp(1 - 5 / 4))


def test_scores_and_signatures_are_sacrebleus():
    hypotheses = without("little", 3)
    scores = translation(hypotheses, LINES, metrics=["chrf", "bleu"])
    assert list(scores) == ["chrf", "bleu"]
    assert scores["bleu"].value == sacrebleu.corpus_bleu(hypotheses, [LINES]).score
    assert scores["chrf"].value == sacrebleu.corpus_chrf(hypotheses, [LINES]).score
    version = f"version:{sacrebleu.__version__}"
    assert scores["bleu"].signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{version}"
    assert str(scores["bleu"]).startswith("BLEU|nrefs:1|")


def test_tokenizer_and_case_change_score_and_signature():
    hypotheses, references = ["The cat sat on a mat."], ["the cat sat on a mat ."]
    as_is = translation(hypotheses, references, metrics=["bleu", "exact"])
    folded = translation(hypotheses, references, metrics=["bleu", "exact"], lowercase=True)
    words = translation(hypotheses, references, metrics=["bleu"], lowercase=True, tokenize="none")
    assert as_is["bleu"].value < folded["bleu"].value == pytest.approx(100)
    assert words["bleu"].value < 100
    assert "case:lc" in folded["bleu"].signature and "tok:none" in words["bleu"].signature
    assert "case:mixed" in as_is["exact"].signature and "case:lc" in folded["exact"].signature


def test_exact_match_forgives_spaces_at_the_ends_alone():
    score = translation([" a b ", "a  b", "A b"], ["a b"] * 3, metrics=["exact"])["exact"]
    assert score.value == pytest.approx(100 / 3)
    assert score.signature == "nrefs:1|case:mixed|strip:yes|version:regard-1"
    folded = translation([" A B", "c"], ["a b", "c"], metrics=["exact"], lowercase=True)
    assert folded["exact"].value == 100


def test_alternatives_of_which_one_is_right():
    scores = translation(["e f g h", "a b c d"], [["a b c d", "e f g h"], ["a b c d", "x"]])
    assert scores["bleu"].value == pytest.approx(100)
    assert scores["exact"].value == 100
    assert "nrefs:2" in scores["bleu"].signature and "nrefs:2" in scores["exact"].signature
    uneven = translation(["e f g h", "a b c d"], [["a b c d", "e f g h"], ["a b c d"]])
    assert uneven["bleu"].value == pytest.approx(100)
    assert "nrefs:var" in uneven["bleu"].signature and "nrefs:var" in uneven["exact"].signature


def test_empty_lines_are_lines():
    scores = translation(["", "a b c d"], ["a b c d", "a b c d"])
    assert scores["exact"].value == 50
    assert scores["ter"].value == pytest.approx(100 * 4 / 8)
    assert scores["bleu"].value == pytest.approx(100 * math.exp(1 - 8 / 4))


def test_no_warning_about_tokenised_text(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        translation(LINES * 3, LINES * 3, tokenize="none", metrics=["bleu"])
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        sacrebleu.corpus_bleu(LINES * 3, [LINES * 3])
    assert caplog.records, "or the first half of this test could not fail"


@pytest.mark.parametrize(
    ("hypotheses", "references", "words"),
    [
        (["a"] * 3, ["a"] * 2, ["3 hypotheses", "2 references"]),
        ([], [], ["nothing to score"]),
        (["a", "b"], [["a"], []], ["line 2"]),
    ],
)
def test_mistakes_are_named(hypotheses, references, words):
    with pytest.raises(UserError) as error:
        translation(hypotheses, references)
    assert all(word in str(error.value) for word in words)


def test_intervals_surround_the_score():
    scores = translation(without("little", 3), LINES, metrics=["bleu", "exact"], samples=200)
    assert scores["exact"].value == pytest.approx(100 * 40 / 60)
    for score in scores.values():
        assert score.low is not None and score.high is not None
        assert score.low < score.value < score.high
        assert "bs:200|seed:12345" in score.signature


def test_paired_bootstrap_tells_worse_from_equal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    systems = {"base": without("red", 9), "worse": without("little", 2), "same": without("red", 9)}
    comparison = paired_bootstrap(systems, LINES, samples=300)
    base, worse, same = comparison.scores["bleu"]
    assert comparison.baseline == "base"
    assert [row.system for row in (base, worse, same)] == list(systems)
    assert base.p is None
    assert worse.p is not None and worse.p < 0.05
    assert same.p == 1.0
    assert base.score.value == sacrebleu.corpus_bleu(systems["base"], [LINES]).score
    assert base.score == same.score
    assert "bs:300|seed:12345" in base.score.signature
    assert os.environ["SACREBLEU_SEED"] == "7"


def test_paired_bootstrap_is_always_the_same(monkeypatch: pytest.MonkeyPatch):
    systems = {"a": without("red", 4), "b": without("little", 3)}
    once = paired_bootstrap(systems, LINES, samples=50)
    monkeypatch.setenv("SACREBLEU_SEED", "none")
    assert paired_bootstrap(systems, LINES, samples=50) == once


def test_table_says_all():
    systems = {"base": without("red", 9), "new system": without("little", 2)}
    comparison = paired_bootstrap(systems, LINES, samples=50, metrics=["bleu", "ter"])
    head, base, new, *notes = comparison.table().splitlines()
    assert " ".join(head.split()) == "system BLEU (mean ± 95 %) TER (mean ± 95 %)"
    assert base.startswith("base ") and f"{comparison.scores['bleu'][0].score.value:.2f} (" in base
    assert new.startswith("new system ") and new.count("p = ") == 2 and "p = " not in base
    assert new.index("p = ") > head.index("BLEU")
    assert any("against base" in note for note in notes)
    assert sum("bs:50|seed:12345" in note for note in notes) == 2


def test_intervals_stay_within_what_scores_can_be():
    """Three lines, of which two are right: the symmetric interval goes beyond 100, and below 0."""
    lines = [*LINES[:2], "none of this"]
    compared = paired_bootstrap({"": lines}, LINES[:3], samples=50, metrics=["bleu", "ter"]).scores
    [bleu], [ter] = compared["bleu"], compared["ter"]
    assert bleu.mean + bleu.half > 100 > ter.mean > 0 > ter.mean - ter.half
    assert (bleu.score.high, ter.score.low) == (100.0, 0.0)


def test_paired_bootstrap_names_the_short_system():
    with pytest.raises(UserError, match=r"59 hypotheses of new, but 60 references"):
        paired_bootstrap({"base": LINES, "new": LINES[1:]}, LINES)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "unit", "name", "rate"),
    [
        ("the cat sat", "the cat sat on", "word", "WER", 1 / 4),
        ("the  cat sat ", "the cat sat", "word", "WER", 0),
        ("sitting", "kitten", "character", "CER", 3 / 6),
        (" ab", "a b", "character", "CER", 1 / 3),
        ("HH AH L OW", "HH EH L OW", "phoneme", "PER", 1 / 4),
        ("a b c", "x", "phoneme", "PER", 3),
    ],
)
def test_error_rate_by_hand(hypothesis, reference, unit, name, rate):
    score = error_rate([hypothesis], [reference], unit)
    assert score.value == pytest.approx(100 * rate)
    assert score.name == name
    assert not score.higher_is_better
    assert f"unit:{unit}" in score.signature


def test_error_rate_is_a_micro_average():
    assert error_rate(["x", "a b c d e f g h i"], ["y", "a b c d e f g h i"], "word").value == 10
    assert error_rate(["x", "a b c"], ["", "a b c d"], "word").value == 50  # an insertion counts


@pytest.mark.parametrize(
    ("alternatives", "rate"),
    [
        (["a", "a b c"], 1 / 3),  # one edit each, but of three words
        (["x y", "a b"], 0),
        (["", "a x"], 1 / 2),
        (["x a b y", "a x"], 1 / 2),  # 2/4 and 1/2: equal rates
    ],
)
def test_the_alternative_with_the_smallest_rate_counts(alternatives, rate):
    assert error_rate(["a b"], [alternatives], "word").value == pytest.approx(100 * rate)


def test_error_rate_refuses_what_has_no_rate():
    with pytest.raises(UserError, match="empty"):
        error_rate(["a", ""], ["", " "], "word")
    with pytest.raises(UserError, match="1 hypotheses, but 2"):
        error_rate(["a"], ["a", "b"], "word")
    assert error_rate(["", "a"], ["", "a"], "word").value == 0


def plain_distance(a: str, b: str) -> int:
    """Wagner and Fischer's table."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        above, row = row, [i]
        for j, y in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (x != y)))
    return row[-1]


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(st.text("abc", max_size=9), st.text("abc", min_size=1, max_size=9)), min_size=1
    )
)
def test_error_rate_is_the_textbooks(pairs):
    hypotheses, references = (list(texts) for texts in zip(*pairs, strict=True))
    edits = sum(plain_distance(a, b) for a, b in pairs)
    rate = 100 * edits / sum(map(len, references))
    assert error_rate(hypotheses, references, "character").value == pytest.approx(rate)
    spaced = [[" ".join(text) for text in texts] for texts in (hypotheses, references)]
    assert error_rate(spaced[0], spaced[1], "phoneme").value == pytest.approx(rate)


def test_accuracy_of_anything_that_can_be_compared():
    assert accuracy([1, 2, 3, 4], [1, 2, 0, 0]).value == 50
    assert accuracy(np.array([1, 2]).tolist(), [1, 2]).value == 100
    assert accuracy(["pos", "neg"], ["neg", ["neg", "neutral"]]).value == 50
    assert accuracy(["a"] * 90 + ["b"] * 10, ["a"] * 100).value == 90
    with pytest.raises(UserError, match="2 hypotheses, but 1"):
        accuracy([1, 2], [1])


def test_bootstrap_interval_of_a_coin():
    values = [0.0, 1.0] * 200  # deviation of the mean: 0.5 / √400
    low, high = bootstrap(values)
    assert low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.006)
    assert high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.006)
    assert bootstrap(values) == (low, high)


def test_bootstrap_of_what_does_not_vary():
    assert bootstrap([3.0] * 5) == (3.0, 3.0)
    lengths = [1, 2, 3, 40]
    assert bootstrap([length / 2 for length in lengths], counts=lengths) == (0.5, 0.5)
    assert bootstrap([0.0, 1.0], counts=[0, 2]) == (0.5, 0.5)  # the draws without a count are void


def test_bootstrap_refuses_nonsense():
    for values, counts in ([], None), ([1.0], [1.0, 2.0]), ([1.0], [0.0]):
        with pytest.raises(ValueError, match="no bootstrap"):
            bootstrap(values, counts=counts)


def test_score_as_text():
    score = Score(
        name="X", value=12.345, signature="v:1", higher_is_better=True, low=1.0, high=20.0
    )
    assert str(score) == "X|v:1 = 12.35 [1.00, 20.00]"
