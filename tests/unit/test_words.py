"""Texts and words in numbers, and back from the store."""

import json

import numpy as np
import pytest

from regard.data import tags
from regard.data.labels import Labels
from regard.data.store import TokenStore
from regard.data.tokenizers import END, START, UNKNOWN, Config, Tokenizer
from regard.data.words import LONGEST, EncodedText, LabelledStore, Lexicon, collate
from regard.errors import RecipeError, UserError

LINES = ["a bcd ef", "ef gh a a"]


@pytest.fixture
def lexicon() -> Lexicon:
    return Lexicon.train(Config(kind="word"), LINES, spelling=True)


def numbers(lexicon: Lexicon, *words: str) -> list[int]:
    return [lexicon.symbols.encode([word])[0][0] for word in words]


def test_punctuation_can_part_from_words():
    line = "I don't like it!!! <br />It's 10/10... «naïve» n’est"
    tokenizer = Tokenizer.train(Config(kind="word", split="punctuation", lowercase=True), [line])
    expected = ["i", "don't", "like", "it", "!!!", "<", "br", "/", ">", "it's", "10", "/", "10"]
    expected += ["...", "«", "naïve", "»", "n’est"]
    assert tokenizer.words(line) == expected
    [symbols] = tokenizer.encode([line])
    assert tokenizer.pieces(symbols) == expected
    with pytest.raises(RecipeError, match=r"split: 'punctuation' is for kind = 'word', not 'bpe'"):
        Config(kind="bpe", split="punctuation")


def test_texts_have_a_spelling_for_each_word(lexicon):
    [row] = lexicon.texts(["ef zz a"])
    assert row.symbols == [*numbers(lexicon, "ef"), UNKNOWN, *numbers(lexicon, "a")]
    assert row.letters == [2, 2, 1]
    assert len(row.characters) == 5
    assert row.characters[2:4] == [UNKNOWN, UNKNOWN]  # no word has a z


def test_without_spelling_there_are_symbols_alone():
    lexicon = Lexicon.train(Config(kind="bpe", vocabulary=270), LINES, spelling=False)
    [row] = lexicon.texts(["ef a"])
    assert (row.pieces, row.characters, row.letters) == ((), (), ())
    sizes = lexicon.sizes("labels", 5)
    assert sizes.fields == {"source": {"tokens": len(lexicon.symbols)}, "labels": {"outputs": 5}}
    assert (sizes.reads, sizes.writes) == ("source", "labels")


def test_words_that_are_given_stay_words(lexicon):
    [row] = lexicon.sentences([["ef", "x y", "a"]])
    assert len(row.symbols) == len(row.pieces) == len(row.letters) == 3
    pieces = Lexicon.train(Config(kind="character"), LINES, spelling=False)
    [row] = pieces.sentences([["ef", "a", "bcd"]])
    assert row.pieces == [2, 1, 3]
    assert len(row.symbols) == 6


def test_long_words_are_read_at_both_ends(lexicon):
    word = "a" * 20 + "b" * 20
    [row] = lexicon.texts([word])
    first, last = numbers_of_characters(lexicon, "ab")
    half = LONGEST // 2
    assert row.characters == [first] * half + [last] * half


def numbers_of_characters(lexicon: Lexicon, text: str) -> list[int]:
    assert lexicon.characters is not None
    return lexicon.characters.encode([text])[0]


def test_collate_pads_words_and_their_characters(lexicon):
    rows = lexicon.texts(["ef a", "bcd"])
    found = collate(rows, start=[START], end=[END])
    assert found["source"].shape == (2, 4)
    assert found["source_mask"].tolist() == [[True] * 4, [True, True, True, False]]
    assert found["source_characters"].shape == (2, 4, 3)
    lengths = (found["source_characters"] > 0).sum(-1)
    assert lengths.tolist() == [[0, 2, 1, 0], [0, 3, 0, 0]]
    assert "source_first" not in found
    sentences = collate(lexicon.sentences([["ef", "a"], ["bcd"]]))
    assert sentences["source_first"].tolist() == [[0, 1], [0, 0]]
    assert sentences["source_word_mask"].tolist() == [[True, True], [True, False]]


def test_parts_and_windows_keep_words_whole():
    row = EncodedText([1, 2, 3, 4, 5, 6], [2, 1, 3], [7, 8, 9], [1, 0, 2])
    assert row.part(1, 3) == EncodedText([3, 4, 5, 6], [1, 3], [8, 9], [0, 2])
    assert [w.pieces for w in row.windows(3)] == [[2, 1], [3]]
    assert [w.pieces for w in row.windows(2)] == [[2], [1], [2]], "the first symbol stands for it"
    assert row.windows(6) == [row]
    assert EncodedText([1, 2, 3], (), (), ()).part(0, 2).symbols == [1, 2]


def test_what_is_stored_comes_back(tmp_path, lexicon):
    rows = lexicon.sentences([["ef", "a"], ["bcd"], ["a", "zz", "a"]])
    labels = [[1, 2], [0], [3, 3, 1]]
    LabelledStore.write(tmp_path, "train", 99, zip(rows, labels, strict=True))
    store = LabelledStore(tmp_path, "train")
    assert len(store) == 3
    assert store.lengths.tolist() == [2, 1, 3]
    for n in range(3):
        assert [list(map(int, column)) for column in store[n]] == [list(c) for c in rows[n]]
        assert store.labels(n).tolist() == labels[n]


def test_stores_that_are_not_of_the_same_words_are_refused(tmp_path, lexicon):
    rows = lexicon.sentences([["ef", "a"], ["bcd"], ["a", "zz", "a"]])
    labels = [[1, 2], [0], [3, 3, 1]]
    LabelledStore.write(tmp_path, "train", 99, zip(rows, labels, strict=True))
    assert len(LabelledStore(tmp_path, "train", lexicon, range(4), "word")) == 3
    with pytest.raises(UserError, match=r"train\.labels\.tokens: not all are from 0 to 2"):
        LabelledStore(tmp_path, "train", lexicon, range(3), "word")
    with pytest.raises(UserError, match="not of the same texts"):
        LabelledStore(tmp_path, "train", lexicon, range(4), "text")
    changes = {
        "labels": [[1], [0], [3, 3, 1]],
        "pieces": [[1, 2], [1], [1, 1, 1]],
        "letters": [[2, 2], [3], [1, 2, 1]],
        "symbols": [[4, 5], [4]],
    }
    for name, forged in changes.items():
        LabelledStore.write(tmp_path, "train", 99, zip(rows, labels, strict=True))
        TokenStore.write(tmp_path, [f"train.{name}"], 99, ([row] for row in forged))
        with pytest.raises(UserError, match="not of the same texts"):
            LabelledStore(tmp_path, "train", None, range(4), "word")


def test_a_lexicon_comes_back(tmp_path, lexicon):
    lexicon.save(tmp_path)
    again = Lexicon.load(tmp_path)
    assert again.texts(["ef zz"]) == lexicon.texts(["ef zz"])
    assert again.sizes("tags", 2) == lexicon.sizes("tags", 2)


# Labels and tags


def test_labels_are_counted_and_found(tmp_path):
    labels = Labels.count(["b", "a", "b"], 3)
    labels.save(tmp_path)
    assert Labels.load(tmp_path) == labels == Labels(("a", "b"), (1, 2), 3)
    assert labels.number("b", "here") == 1
    with pytest.raises(UserError, match=r"x.tsv:3: the label 'c' was never seen in training"):
        labels.number("c", "x.tsv:3")
    with pytest.raises(UserError, match="at least two labels, but there is 'a' alone"):
        Labels.count(["a", "a"], 2)
    with pytest.raises(UserError, match=r"labels.json: not a list of labels"):
        Labels.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"names": ["a", None]}, "a name is no text: None"),
        ({"names": ["a", 3]}, "a name is no text: 3"),
        ({"names": ["a", "a"]}, "each once, in order"),
        ({"names": ["b", "a"]}, "each once, in order"),
        ({"names": ["a"], "counts": [1]}, "two at least"),
        ({"names": ["a", "b\nc"]}, "a name has a line break"),
        ({"names": ["a", "\ud800"]}, "surrogates"),
        ({"names": "ab"}, "names is no list"),
        ({"names": {"a": 1, "b": 2}}, "names is no list"),
        ({"counts": [1]}, "counts has 1 values instead of 2"),
        ({"counts": [1, 0]}, "a count is no whole number from 1"),
        ({"counts": [1, True]}, "a count is no whole number"),
        ({"counts": [1, 2.0]}, "a count is no whole number"),
        ({"counts": [1, 2**63]}, "a count is no whole number|digits"),
        ({"texts": float("nan")}, "texts is no whole number"),
        ({"texts": 1}, "not a list of labels"),
        ({"more": 1}, "unknown key, 'more'"),
    ],
)
def test_forged_labels_are_refused(tmp_path, change, said):
    table = {"names": ["a", "b"], "counts": [1, 2], "texts": 3} | change
    (tmp_path / "labels.json").write_text(json.dumps(table))
    with pytest.raises(UserError, match=rf"labels\.json.*({said})"):
        Labels.load(tmp_path)


@pytest.mark.parametrize("text", ['{"mean": 1, "mean": 2, "deviation": 1}', "{}", "[]", "{" * 9999])
def test_forged_scales_are_refused(tmp_path, text):
    (tmp_path / "labels.json").write_text(text)
    with pytest.raises(UserError, match=r"labels\.json: no mean and deviation"):
        tags.load("real", tmp_path)


@pytest.mark.parametrize("deviation", [0, -1, float("nan"), float("inf"), None, True, "1", 10**30])
def test_a_deviation_is_above_zero_and_finite(tmp_path, deviation):
    (tmp_path / "labels.json").write_text(json.dumps({"mean": 1.5, "deviation": deviation}))
    with pytest.raises(UserError, match=r"labels\.json: no mean and deviation"):
        tags.load("real", tmp_path)
    (tmp_path / "labels.json").write_text(json.dumps({"mean": deviation, "deviation": 2}))
    if deviation not in (0, -1):
        with pytest.raises(UserError, match=r"labels\.json: no mean and deviation"):
            tags.load("real", tmp_path)


def test_names_of_tags_and_those_not_known(tmp_path):
    scale = tags.count("tags", ["N", "V", "_", "N"])
    scale.save(tmp_path)
    assert tags.load("tags", tmp_path) == scale
    assert scale.outputs == 2
    stored = scale.stored(["V", "_", "N"], "here")
    assert stored == [2, 0, 1]
    assert scale.targets([stored, [1]]).tolist() == [[1, -1, 0], [0, -1, -1]]
    assert scale.texts([1, -1, 0]) == ["V", "_", "N"]
    with pytest.raises(UserError, match="here: the label 'X' was never seen"):
        scale.stored(["X"], "here")
    assert scale.stored(["X"], "here", "wrong") == [0]


def test_numbers_keep_their_value_in_units_of_their_spread(tmp_path):
    scale = tags.count("real", ["10", "20", "_", "30"])
    scale.save(tmp_path)
    assert tags.load("real", tmp_path) == scale
    stored = scale.stored(["20", "_", "30"], "here")
    [row] = scale.targets([np.array(stored)])
    assert row[0] == 0
    assert row[1].isnan()
    assert row[2] == pytest.approx(10 / np.std([10, 20, 30]))
    assert scale.texts([float(row[2]), 0.0]) == ["30", "20"]
    assert scale.targets([stored, stored[:1]])[1].isnan().tolist() == [False, True, True]
    with pytest.raises(UserError, match="all the same"):
        tags.count("real", ["1", "1"])
