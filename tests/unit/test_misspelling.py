"""Made-up misspellings: slips found by hand, chances that can be counted."""

import pytest

from regard.data.misspelling import Misspeller, slips


@pytest.mark.parametrize(
    ("misspelling", "word", "found"),
    [
        ("acommodate", "accommodate", [(1, 2, "")]),
        ("recieve", "receive", [(3, 5, "ie")]),
        ("absorbsion", "absorption", [(5, 7, "bs")]),
        ("acomadate", "accommodate", [(1, 2, ""), (5, 7, "a")]),
        ("word", "word", []),
    ],
)
def test_slips_are_where_the_two_differ(
    misspelling: str, word: str, found: list[tuple[int, int, str]]
):
    assert slips(misspelling, word) == found


def test_a_slip_is_as_likely_as_it_was_seen():
    """b is lost between a and c in one of two pairs, doubled there in the other."""
    misspell = Misspeller([("ac", "abc"), ("abbc", "abc")])
    # count / (times that the place was seen + 3), for both places of a slip
    assert misspell.likely["a", "b", "c"] == [("", 1 / 5)]
    assert misspell.likely["b", "", "c"] == [("b", 1 / 5)]
    # Seen fewer than three times, a slip stays where its neighbours are.
    assert not any(place[0] == "" for place in misspell.likely)
    assert misspell.many == {1: 2}
    made = misspell("abc", 1000, seed=1)
    assert set(made) == {"ac", "abbc"} and 400 < made.count("ac") < 600
    assert set(misspell("xabcx", 50, seed=1)) == {"xacx", "xabbcx"}
    assert misspell("xyz", 3, seed=1) == ["xyz"] * 3


def test_what_was_seen_often_happens_elsewhere_too():
    misspell = Misspeller([("rythm", "rhythm")] * 3)
    # "h" stands twice in the word: 0.1 × 3 / (2 × 3 + 3); between r and y once: 3 / (3 + 3)
    assert misspell.likely["r", "h", "y"] == [("", 3 / 6)]
    assert misspell.likely["", "h", ""] == [("", 0.1 * 3 / 9)]
    assert set(misspell("ghost", 20, seed=1)) == {"gost"}
    assert misspell("h", 5, seed=1) == ["h"] * 5, "no word may vanish"


def test_as_many_slips_as_real_misspellings_have():
    misspell = Misspeller([("xyb", "axyb"), ("axy", "axyb"), ("xy", "axyb")])
    made = misspell("axyb", 900, seed=1)
    # A third is meant to have both slips; half the time they are the same one twice.
    assert set(made) == {"xyb", "axy", "xy"} and 100 < made.count("xy") < 200


def test_the_same_seed_makes_the_same():
    misspell = Misspeller([("recieve", "receive"), ("recive", "receive"), ("receve", "receive")])
    first = misspell("deceive", 20, seed=1)
    assert first == misspell("deceive", 20, seed=1) != misspell("deceive", 20, seed=2)


def test_another_word_teaches_nothing():
    assert not Misspeller([("something", "other words"), ("same", "same")]).many
