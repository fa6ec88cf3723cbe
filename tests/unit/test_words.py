"""Texts and words in numbers, and back from the store."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.labels import Labels
from regard.data.spelling import LONGEST
from regard.data.store import Writer
from regard.data.tokenizers import Config, Tokenizer
from regard.errors import RecipeError, UserError
from regard.examples.stored import Stored
from regard.fields import Draw, Field, Row, labels, tags, text, words

LINES = ["a bcd ef", "ef gh a a"]
SENTENCES = [line.split() for line in LINES]
UNKNOWN = Tokenizer.unknown


@pytest.fixture
def texts() -> text.Tokenised:
    return text.Field("source", Config(kind="word"), "framed", spelt=True).fit(LINES)


@pytest.fixture
def sentences() -> text.Tokenised:
    return words.Field("source", Config(kind="word"), spelt=True).fit(SENTENCES)


def numbers(field: text.Field, *given: str) -> list[int]:
    return [field.tokenizer.encode([word])[0][0] for word in given]


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


def test_texts_have_a_spelling_for_each_word(texts):
    [row] = texts.encode(["ef zz a"])
    assert row["source"] == [*numbers(texts, "ef"), UNKNOWN, *numbers(texts, "a")]
    assert row["source_letters"] == [2, 2, 1]
    assert len(row["source_characters"]) == 5
    assert row["source_characters"][2:4] == [UNKNOWN, UNKNOWN]  # no word has a z
    assert texts.size.keys() == {"tokens", "characters"}


def test_without_spelling_there_are_symbols_alone():
    field = text.Field("source", Config(kind="bpe", vocabulary=270), "framed").fit(LINES)
    [row] = field.encode(["ef a"])
    assert row.keys() == field.columns.keys() == {"source"}
    assert field.size == {"tokens": len(field.tokenizer)}
    named = labels.Field("labels", labels.Config()).fit([[name] for name in "abcde"])
    assert named.size == {"outputs": 5}


def test_words_that_are_given_stay_words(sentences):
    [row] = sentences.encode([["ef", "x y", "a"]])
    assert len(row["source"]) == len(row["source_pieces"]) == len(row["source_letters"]) == 3
    pieces = words.Field("source", Config(kind="character")).fit(SENTENCES)
    [row] = pieces.encode([["ef", "a", "bcd"]])
    assert row["source_pieces"] == [2, 1, 3]
    assert len(row["source"]) == 6


def test_long_words_are_read_at_both_ends(texts):
    word = "a" * 20 + "b" * 20
    [row] = texts.encode([word])
    [[first, last]] = texts.spelling.characters.encode(["ab"])
    half = LONGEST // 2
    assert row["source_characters"] == [first] * half + [last] * half


def test_collate_pads_words_and_their_characters(texts, sentences):
    by = texts.tokenizer
    found = texts.collate(texts.encode(["ef a", "bcd"]), [0, 1], Draw())
    assert found["source"].shape == (2, 4)
    assert found["source"][:, 0].tolist() == [by.start] * 2
    assert (found["source"][0, 3], found["source"][1, 2]) == (by.end, by.end)
    assert found["source_mask"].tolist() == [[True] * 4, [True, True, True, False]]
    assert found["source_characters"].shape == (2, 4, 3)
    lengths = (found["source_characters"] > 0).sum(-1)
    assert lengths.tolist() == [[0, 2, 1, 0], [0, 3, 0, 0]]
    assert "source_first" not in found
    given = sentences.collate(sentences.encode([["ef", "a"], ["bcd"]]), [0, 1], Draw())
    assert given["source_first"].tolist() == [[0, 1], [0, 0]]
    assert given["source_word_mask"].tolist() == [[True, True], [True, False]]


def row_of(tokens: list[int], pieces: list[int], characters: list[int], letters: list[int]) -> Row:
    return {
        "source": tokens,
        "source_pieces": pieces,
        "source_characters": characters,
        "source_letters": letters,
    }


def test_parts_and_windows_keep_words_whole(texts, sentences):
    row = row_of([1, 2, 3, 4, 5, 6], [2, 1, 3], [7, 8, 9], [1, 0, 2])
    assert sentences.part(row, 1, 3) == row_of([3, 4, 5, 6], [1, 3], [8, 9], [0, 2])

    def windows(longest: int) -> list[Any]:
        return [each["source_pieces"] for each in sentences.windows(row, longest)]

    assert windows(3) == [[2, 1], [3]]
    assert windows(2) == [[2], [1], [2]], "the first symbol stands for it"
    assert sentences.windows(row, 6) == [row]
    spelt = {name: row[name] for name in texts.columns} | {"source": [1, 2, 3]}
    assert texts.cut(spelt, 2) == {
        "source": [1, 2],
        "source_characters": [7],
        "source_letters": [1, 0],
    }
    plain = text.Field("source", Config(kind="word")).fit(LINES)
    assert plain.cut({"source": [1, 2, 3]}, 2) == {"source": [1, 2]}


# Stored


GIVEN = [["ef", "a"], ["bcd"], ["a", "zz", "a"]]
TAGS = [["N", "V"], ["_"], ["X", "X", "N"]]
"""Stored as 1, 2; 0; 3, 3, 1."""


def tagged() -> tags.Field:
    return tags.Field("tags", tags.Config()).fit([["N", "V", "X"]])


def put(folder: Path, columns: Any, rows: Iterable[Row]) -> None:
    """The store of the training part, anew."""
    for path in (folder / "store").glob("*"):
        path.unlink()
    with Writer(folder / "store", "train", columns) as writer:
        writer.add(rows)


def joined(fields: list[Field], *values: Any) -> list[dict[str, Any]]:
    coded = [field.encode(each) for field, each in zip(fields, values, strict=True)]
    return [dict(pair for row in rows for pair in row.items()) for rows in zip(*coded, strict=True)]


def columns_of(fields: list[Field]) -> dict[str, Any]:
    return {name: column for field in fields for name, column in field.columns.items()}


def test_what_is_stored_comes_back(tmp_path, sentences):
    fields = [sentences, tagged()]
    rows = joined(fields, GIVEN, TAGS)
    put(tmp_path, columns_of(fields), rows)
    stored = Stored(tmp_path, "train", {"words": fields[0], "tags": fields[1]})
    assert len(stored) == 3
    assert stored.lengths.tolist() == [[2], [1], [3]]
    assert [row["tags"].tolist() for row in stored.rows()] == [[1, 2], [0], [3, 3, 1]]
    for given, found in zip(rows, stored.rows(), strict=True):
        assert {name: array.tolist() for name, array in found.items()} == given


def test_stores_that_are_not_of_the_same_words_are_refused(tmp_path, sentences):
    fields = [sentences, tagged()]
    rows, columns = joined(fields, GIVEN, TAGS), columns_of(fields)
    sides = {"words": fields[0], "tags": fields[1]}
    put(tmp_path, columns, rows)
    assert len(Stored(tmp_path, "train", sides)) == 3
    fewer = tags.Field("tags", tags.Config()).fit([["N", "V"]])
    with pytest.raises(UserError, match=r"train\.tags: not all are from 0 to 2"):
        Stored(tmp_path, "train", {**sides, "tags": fewer})
    with pytest.raises(UserError, match=r"train\.source: a sequence has more than 2 tokens"):
        Stored(tmp_path, "train", sides, longest=2)
    whole = labels.Field("tags", labels.Config(), Labels(("N", "V", "X"), (1, 1, 1), 3))
    put(tmp_path, columns, joined(fields, GIVEN, [["N", "V"], ["N"], ["X", "X", "N"]]))
    with pytest.raises(UserError, match="not of the same texts"):
        Stored(tmp_path, "train", {**sides, "tags": whole})
    changes = {
        "tags": [[1], [0], [3, 3, 1]],
        "source_pieces": [[1, 2], [1], [1, 1, 1]],
        "source_letters": [[2, 2], [3], [1, 2, 1]],
        "source": [[4, 5], [4], [4, 5]],
    }
    for name, forged in changes.items():
        changed = [{**row, name: new} for row, new in zip(rows, forged, strict=True)]
        put(tmp_path, columns, changed)
        with pytest.raises(UserError, match="not of the same texts"):
            Stored(tmp_path, "train", sides)


def test_a_label_to_learn_that_nobody_saw_is_refused(tmp_path, texts):
    """In the other parts it is one that counts as wrong."""
    known = labels.Field("labels", labels.Config()).fit([["good"], ["bad"]])
    several = replace(known, config=labels.Config(kind="several"))
    rows = joined([texts, known], LINES, [["good"], ["odd"]])
    assert [row["labels"] for row in rows] == [[2], [0]]
    for part in ("train", "validation"):
        with Writer(tmp_path / "store", part, columns_of([texts, known])) as writer:
            writer.add(rows)
    assert len(Stored(tmp_path, "validation", {"text": texts, "label": known})) == 2
    assert len(Stored(tmp_path, "train", {"text": texts, "label": several})) == 2
    with pytest.raises(UserError, match=r"train\.labels: not all are from 1 to 2"):
        Stored(tmp_path, "train", {"text": texts, "label": known})


def test_a_lexicon_comes_back(tmp_path, texts, sentences):
    for field, values in ((texts, ["ef zz"]), (sentences, [["ef", "zz"]])):
        field.save(tmp_path)
        again = type(field)("source", field.config, spelt=True).load(tmp_path)
        assert again.encode(values) == field.encode(values)
        assert again.size == field.size


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


REAL = tags.Field("tags", tags.Config(kind="real"))


@pytest.mark.parametrize(
    "content", ['{"mean": 1, "mean": 2, "deviation": 1}', "{}", "[]", "{" * 9999]
)
def test_forged_scales_are_refused(tmp_path, content):
    (tmp_path / "labels.json").write_text(content)
    with pytest.raises(UserError, match=r"labels\.json: no mean and deviation"):
        REAL.load(tmp_path)


@pytest.mark.parametrize("deviation", [0, -1, float("nan"), float("inf"), None, True, "1", 10**30])
def test_a_deviation_is_above_zero_and_finite(tmp_path, deviation):
    (tmp_path / "labels.json").write_text(json.dumps({"mean": 1.5, "deviation": deviation}))
    with pytest.raises(UserError, match=r"labels\.json: no mean and deviation"):
        REAL.load(tmp_path)
    (tmp_path / "labels.json").write_text(json.dumps({"mean": deviation, "deviation": 2}))
    if deviation not in (0, -1):
        with pytest.raises(UserError, match=r"labels\.json: no mean and deviation"):
            REAL.load(tmp_path)


def test_names_of_tags_and_those_not_known(tmp_path):
    scale = tags.Field("tags", tags.Config()).fit([["N", "V"], ["_", "N"]])
    scale.save(tmp_path)
    assert tags.Field("tags", tags.Config()).load(tmp_path) == scale
    assert scale.size == {"outputs": 2}
    [stored] = scale.encode([["V", "_", "N"]])
    assert stored == {"tags": [2, 0, 1]}
    assert scale.numbers([stored, {"tags": [1]}]).tolist() == [[1, -1, 0], [0, -1, -1]]
    assert scale.texts([1, -1, 0]) == ["V", "_", "N"]
    with pytest.raises(UserError, match="here: the label 'X' was never seen"):
        scale.refuse(["X"], "here")
    scale.refuse(["X"], "here", "wrong")
    assert scale.encode([["X"]]) == [{"tags": [0]}]


def test_numbers_keep_their_value_in_units_of_their_spread(tmp_path):
    scale = REAL.fit([["10", "20"], ["_", "30"]])
    scale.save(tmp_path)
    assert REAL.load(tmp_path) == scale
    [stored] = scale.encode([["20", "_", "30"]])
    [row] = scale.numbers([stored])
    assert row[0] == 0
    assert np.isnan(row[1])
    assert row[2] == pytest.approx(10 / np.std([10, 20, 30]))
    assert scale.texts([float(row[2]), 0.0]) == ["30", "20"]
    short = {"tags": stored["tags"][:1]}
    assert np.isnan(scale.numbers([stored, short])[1]).tolist() == [False, True, True]
    with pytest.raises(UserError, match="all the same"):
        REAL.fit([["1", "1"]])
