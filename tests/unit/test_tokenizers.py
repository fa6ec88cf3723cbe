"""Tokenizers: nothing is lost, nothing in a text is special, training is repeatable."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.data.tokenizer_training import APART, SPECIAL, words_of
from regard.data.tokenizers import Config, Tokenizer
from regard.errors import RecipeError, UserError
from tests.fault.forger import EXPLOSIVE, dumped

LINES = [
    "the cat sees the dog .",
    "the dog sees the cat , the cat sleeps .",
    "Straße, größer: 1234 – naïve café",
    "ΟΔΟΣ 東京 ",
] * 3
PAD, START, END, UNKNOWN = Tokenizer.pad, Tokenizer.start, Tokenizer.end, Tokenizer.unknown
LOSSLESS = ["bpe", "unigram", "bytes"]
KINDS = [*LOSSLESS, "word", "character"]
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
HOSTILE = [
    "",
    " ",
    "   two  blanks   ",
    "\t\n\r\x00\x7f",
    "<end> <pad> <start> <unknown>",
    " <end>",
    "Ġ Ċ ▁ Â",
    "\ufeff\u200b\u2028\u0085\ufffd",
    "👩‍👩‍👧‍👦 e\u0301 \u202eabc",
    "a" * 5000,
]


def make(kind: Any, lines: list[str] = LINES, **options: Any) -> Tokenizer:
    return Tokenizer.train(Config(kind=kind, **{"vocabulary": 300} | options), lines)


@pytest.fixture(scope="module")
def made() -> dict[str, Tokenizer]:
    return {kind: make(kind) for kind in KINDS}


@pytest.fixture(scope="module")
def blanks() -> dict[str, Tokenizer]:
    return {kind: make(kind, split="whitespace") for kind in ("bpe", "unigram")}


@pytest.mark.parametrize("kind", LOSSLESS)
@given(text=ANY_TEXT)
@settings(max_examples=200, deadline=None)
def test_any_text_comes_back_unchanged(kind: str, made: dict[str, Tokenizer], text: str):
    (symbols,) = made[kind].encode([text])
    assert made[kind].decode(symbols) == text
    assert all(UNKNOWN < symbol < len(made[kind]) for symbol in symbols)
    assert (symbols == []) == (text == "")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@given(text=ANY_TEXT)
@settings(max_examples=50, deadline=None)
def test_text_split_at_blanks_comes_back_unchanged(kind: str, blanks: Any, text: str):
    assert blanks[kind].decode(blanks[kind].encode([text])[0]) == text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text(kind: str, text: str, made: dict[str, Tokenizer]):
    tokenizer = made[kind]
    (symbols,) = tokenizer.encode([text])
    assert not {PAD, START, END} & set(symbols), "a text spelt a special symbol"
    assert all(symbol < len(tokenizer) for symbol in symbols)
    assert len(tokenizer.pieces(symbols)) == len(symbols)
    if kind in LOSSLESS:
        assert tokenizer.decode(symbols) == text
    elif kind == "character":
        assert len(symbols) == len(text)
    else:
        assert len(symbols) == len(text.split())


@given(text=st.text(alphabet="abc xyz", max_size=30))
@settings(max_examples=50, deadline=None)
def test_known_characters_come_back(text: str):
    tokenizer = make("character", ["abc xyz"])
    assert tokenizer.decode(tokenizer.encode([text])[0]) == text


@pytest.mark.parametrize("kind", KINDS)
def test_many_lines_are_encoded_as_each_alone(kind: str, made: dict[str, Tokenizer]):
    together = made[kind].encode([*LINES, "", "the"])
    assert together == [made[kind].encode([line])[0] for line in [*LINES, "", "the"]]


def test_what_was_not_seen_is_unknown(made: dict[str, Tokenizer]):
    (symbols,) = made["word"].encode(["the zebra sees"])
    assert [symbol == UNKNOWN for symbol in symbols] == [False, True, False]
    assert made["word"].decode(symbols) == "the <unknown> sees"
    (symbols,) = made["character"].encode(["thQe"])
    assert made["character"].decode(symbols) == "th<unknown>e"


@pytest.mark.parametrize("kind", KINDS)
def test_special_symbols_are_not_text(kind: str, made: dict[str, Tokenizer]):
    (symbols,) = made[kind].encode(["the cat"])
    assert made[kind].decode([START, *symbols, END, PAD]) == "the cat"
    assert made[kind].pieces([PAD, START, END, UNKNOWN]) == [name.strip() for name in SPECIAL]


def test_pieces_are_readable(made: dict[str, Tokenizer]):
    (symbols,) = made["bpe"].encode(["the cat"])
    assert "".join(made["bpe"].pieces(symbols)) == "▁the▁cat"
    (symbols,) = made["bytes"].encode(["é "])
    assert made["bytes"].pieces(symbols) == ["<C3>", "<A9>", "▁"]


@pytest.mark.parametrize("kind", ["bpe", "word", "character", "bytes"])
def test_the_same_training_gives_the_same_tokenizer(kind: str, made: dict[str, Tokenizer]):
    assert make(kind).hash == made[kind].hash


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_is_the_same(kind: str, made: dict[str, Tokenizer], tmp_path: Path):
    made[kind].save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (loaded.hash, len(loaded)) == (made[kind].hash, len(made[kind]))
    assert loaded.encode(LINES) == made[kind].encode(LINES)
    assert make("bytes").hash != make("character").hash


def test_other_text_gives_another_hash():
    assert make("bpe").hash != make("bpe", [*LINES, "zebra zebra zebra"]).hash


@pytest.mark.parametrize(("text", "message"), [("{}", "not a tokenizer"), ("\xff", "not a token")])
def test_a_damaged_tokenizer_is_named(text: str, message: str, tmp_path: Path):
    path = tmp_path / "source.tokenizer.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=rf"source\.tokenizer\.json: {message}"):
        Tokenizer.load(path)
    with pytest.raises(UserError, match=r"missing\.json"):
        Tokenizer.load(tmp_path / "missing.json")


# Vocabulary


def test_words_by_falling_frequency_then_by_alphabet():
    tokenizer = make("word", ["b a", "c b", "d"])
    assert tokenizer.pieces(range(4, len(tokenizer))) == ["b", "a", "c", "d"]
    assert tokenizer.encode(["d c b a"]) == [[7, 6, 4, 5]]


def test_rare_words_and_characters_are_left_out():
    words = make("word", ["b a", "c b", "c"], min_frequency=2)
    assert words.pieces(range(4, len(words))) == ["b", "c"]
    assert words.encode(["a b"]) == [[UNKNOWN, 4]]
    assert len(make("character", ["aab"], min_frequency=2)) == 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [262, 270, 280])
def test_a_vocabulary_is_not_larger_than_asked(kind: str, size: int):
    text = [f"{a}{b}{a} {b}{a}{b}" for a in "abcdefgh" for b in "ijklmnop"]
    tokenizer = make(kind, text, vocabulary=size)
    assert len(tokenizer) <= size
    if kind in ("bpe", "unigram"):
        assert len(tokenizer) == size, "there is enough to learn"
    if kind in LOSSLESS:
        assert tokenizer.decode(tokenizer.encode(["é zebra"])[0]) == "é zebra"


@pytest.mark.parametrize(("kind", "size"), [("bpe", 259), ("unigram", 1), ("word", 4)])
def test_a_vocabulary_without_room_is_refused(kind: Any, size: int):
    with pytest.raises(RecipeError, match=f"vocabulary: {size} is too small for {kind}"):
        Config(kind=kind, vocabulary=size)
    assert Config(kind="bytes", vocabulary=1).vocabulary == 1


@pytest.mark.parametrize("kind", KINDS)
def test_lower_case_is_folded_everywhere_alike(kind: str):
    """A final sigma, too, which the alphabet has a letter of its own for."""
    tokenizer = make(kind, lowercase=True)
    (upper,), (lower,) = tokenizer.encode(["THE CAT ΟΔΟΣ"]), tokenizer.encode(["the cat οδοσ"])
    assert upper == lower
    assert UNKNOWN not in upper
    assert tokenizer.decode(upper) == "the cat οδοσ"


def test_pieces_do_not_cross_words():
    tokenizer = make("bpe", ["ab.cd ab.cd"] * 50, vocabulary=400)
    assert all("." not in piece.strip("▁.") for piece in tokenizer.pieces(range(4, len(tokenizer))))
    whole = make("bpe", ["ab.cd ab.cd"] * 50, vocabulary=400, split="whitespace")
    assert len(whole.encode(["ab.cd"])[0]) == 1


def test_special_symbols_are_no_added_tokens(made: dict[str, Tokenizer], tmp_path: Path):
    """The library would find added tokens in any text."""
    for tokenizer in made.values():
        tokenizer.save(tmp_path / "t.json")
        tree = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
        assert tree["added_tokens"] == []


# What somebody else wrote

FORGED: dict[str, Any] = {
    "a number twice": lambda tree: tree["model"]["vocab"].update({"zz": 5}),
    "a number too many": lambda tree: tree["model"]["vocab"].update({"zz": 10**6}),
    "a negative number": lambda tree: tree["model"]["vocab"].update({"the": -1}),
    "a huge number": lambda tree: tree["model"]["vocab"].update({"the": 2**63}),
    "true for one": lambda tree: tree["model"]["vocab"].update({" <start>": True}),
    "a fraction": lambda tree: tree["model"]["vocab"].update({"the": 4.0}),
    "no number": lambda tree: tree["model"]["vocab"].update({"the": None}),
    "no end": lambda tree: tree["model"]["vocab"].pop(" <end>"),
    "another order": lambda tree: tree["model"]["vocab"].update({" <pad>": 1, " <start>": 0}),
    "a piece of two words": lambda tree: _rename(tree, "the", "t he"),
    "a line's end": lambda tree: _rename(tree, "the", "t\nhe"),
    "half a pair": lambda tree: _rename(tree, "the", "\ud800"),
    "an empty piece": lambda tree: _rename(tree, "the", ""),
    "a list": lambda tree: tree["model"].update(vocab=list(tree["model"]["vocab"])),
    "none": lambda tree: tree["model"].update(vocab=None),
    "another model": lambda tree: tree["model"].update(type="BPE"),
    "another unknown": lambda tree: tree["model"].update(unk_token="the"),
    "no model": lambda tree: tree.pop("model"),
    "no cut": lambda tree: tree.pop("pre_tokenizer"),
    "one more key": lambda tree: tree.update(extra=1),
}


def _rename(tree: Any, old: str, new: str) -> None:
    tree["model"]["vocab"][new] = tree["model"]["vocab"].pop(old)


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED.keys())
def test_a_forged_vocabulary_is_refused(change: Any, made: dict[str, Tokenizer]):
    tree = json.loads(made["word"].json)
    change(tree)
    with pytest.raises(UserError, match="not a tokenizer"):
        Tokenizer(json.dumps(tree))


BYTEWISE: dict[str, Any] = {
    "a byte less": lambda model: model["vocab"].pop("Ā"),
    "no byte's glyph": lambda model: _rename({"model": model}, "Ā", "東"),
    "merges that make nothing": lambda model: model["merges"].append(["Ā", "Ā"]),
    "merges of three": lambda model: model["merges"].append(["a", "b", "c"]),
    "merges of numbers": lambda model: model["merges"].append([1, 2]),
    "merges that are no list": lambda model: model.update(merges={"a": "b"}),
    "a merge less": lambda model: model["merges"].pop(),
    "dropout": lambda model: model.update(dropout=0.5),
    "an affix": lambda model: model.update(end_of_word_suffix="x" * 10**6),
}


@pytest.mark.parametrize("change", BYTEWISE.values(), ids=BYTEWISE.keys())
def test_a_forged_bpe_is_refused(change: Any, made: dict[str, Tokenizer]):
    tree = json.loads(made["bpe"].json)
    change(tree["model"])
    with pytest.raises(UserError, match="not a tokenizer"):
        Tokenizer(json.dumps(tree))


@pytest.mark.parametrize("score", ["NaN", "1e999", "0.5", "null", '"x"', "[]", "9" * 4000])
def test_a_forged_log_probability_is_refused(score: str, made: dict[str, Tokenizer]):
    text = json.dumps(json.loads(made["unigram"].json) | {})
    entry = json.loads(text)["model"]["vocab"][40]
    forged = text.replace(json.dumps(entry), f"[{json.dumps(entry[0])}, {score}]", 1)
    assert forged != text
    with pytest.raises(UserError, match="not a tokenizer"):
        Tokenizer(forged)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", KINDS)
def test_parts_that_training_does_not_make_never_reach_the_library(
    kind: str, made: dict[str, Tokenizer]
):
    """Expressions that take for ever, texts that double forty times, megabytes before a line."""
    for key, parts in EXPLOSIVE.items():
        for part in parts:
            tree = json.loads(made[kind].json)
            if tree[key] != part:
                tree[key] = part
                with pytest.raises(UserError, match="not a tokenizer"):
                    Tokenizer(dumped(tree)).encode(["a" * 60])


SETTINGS: list[Any] = [
    {"kind": kind, "split": split, "lowercase": lowercase}
    for kind in KINDS
    for split in ("words", "whitespace", *APART)
    for lowercase in (False, True)
    if kind == "word" or split not in APART
]


@pytest.fixture(scope="module")
def every() -> list[tuple[Config, str]]:
    configs = [Config(vocabulary=300, **settings) for settings in SETTINGS]
    return [(config, Tokenizer.train(config, LINES).json) for config in configs]


@pytest.mark.parametrize("number", range(len(SETTINGS)), ids=lambda n: str(SETTINGS[n]))
def test_what_a_setting_makes_passes_for_no_other(number: int, every: list[tuple[Config, str]]):
    config, text = every[number]
    assert Tokenizer(text).json == Tokenizer(text, config).json
    for other, made in every:
        if other.kind != config.kind or _bare(made) != _bare(text):
            with pytest.raises(UserError, match=r"not those that the recipe's|not one of kind"):
                Tokenizer(text, other)


def _bare(text: str) -> str:
    tree = json.loads(text)
    return json.dumps([tree["normalizer"], tree["pre_tokenizer"], tree["model"]["type"]])


def test_what_an_older_version_of_the_library_leaves_out_is_off(made: dict[str, Tokenizer]):
    tree = json.loads(made["bpe"].json)
    for key in ("ignore_merges", "byte_fallback", "dropout"):
        del tree["model"][key]
    assert Tokenizer(json.dumps(tree)).encode(LINES) == made["bpe"].encode(LINES)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "character", "bytes"])
def test_further_special_tokens(kind: Any, tmp_path: Path):
    """They follow those that every vocabulary has, stand for no text, and come back."""
    config = Config(kind=kind, vocabulary=300)
    plain, made = (Tokenizer.train(config, LINES, also) for also in ((), ("mask", "class")))
    assert made.named == plain.named | {"mask": 4, "class": 5}
    assert made.special == {*range(6)}
    assert made.pieces([4, 5]) == ["<mask>", "<class>"]
    assert made.decode([4, *made.encode(["<mask> a"])[0], 5]) == made.decode(
        made.encode(["<mask> a"])[0]
    )
    assert made.special.isdisjoint({*made.encode(LINES[:1])[0]} - {made.unknown})
    assert {4, 5} <= {*made.unwritten}
    made.save(tmp_path / "x.json")
    assert Tokenizer.load(tmp_path / "x.json", config).named == made.named


# Words as treebanks have them

TREEBANK = {
    "I don't think they'll stop.": "I do n't think they 'll stop .",
    "You can't, won’t and cannot": "You ca n't , wo n’t and can not",
    "John's dog isn't Mary's": "John 's dog is n't Mary 's",
    "the Joneses' 'quoted' word": "the Joneses ' ' quoted ' word",
    "Mr. Smith paid $3.50, 1,200 or 50%!!!": "Mr. Smith paid $ 3.50 , 1,200 or 50 % !!!",
    "the 2nd of the 1980s at 5:30pm on 9/11": "the 2nd of the 1980s at 5:30 pm on 9/11",
    "in the U.S. (e.g. Texas)...": "in the U.S. ( e.g. Texas ) ...",
    "see http://a.b/c?d=e, or me@x.org.": "see http://a.b/c?d=e , or me@x.org .",
    "a well-known :) :-( --- end": "a well - known :) :-( --- end",
    "NOT can notable canning": "NOT can notable canning",
}


@pytest.mark.parametrize(("text", "wanted"), TREEBANK.items())
def test_words_as_treebanks_have_them(text: str, wanted: str):
    by = make("word", [text], split="treebank")
    assert by.words(text) == wanted.split()
    assert by.words(wanted) == wanted.split(), "cut again, it stays as it is"
    assert by.decode(by.encode([text])[0]) == wanted


def test_most_words_of_a_treebank_are_found(shared_data: Any):
    """Of the words of ud-ewt's sentences, from their plain texts; 96 % by punctuation alone."""
    found = {"treebank": [0, 0, 0], "punctuation": [0, 0, 0]}
    file = shared_data("ud-ewt") / "en_ewt-ud-dev.conllu"
    for sentence in file.read_text(encoding="utf-8").split("\n\n"):
        lines = sentence.split("\n")
        text = "".join(line[9:] for line in lines if line.startswith("# text = "))
        cells = (line.split("\t") for line in lines if line[:1].isdigit())
        true = [row[1].replace(" ", "") for row in cells if row[0].isdigit()]
        for split, counts in found.items():
            said = [word for word, _ in words_of(split).pre_tokenize_str(text)]
            places = [{*zip(np.cumsum([0, *map(len, w)]), w, strict=False)} for w in (said, true)]
            counts[:] = [
                n + more
                for n, more in zip(
                    counts, (len(places[0] & places[1]), len(said), len(true)), strict=True
                )
            ]
    recall = {split: counts[0] / counts[2] for split, counts in found.items()}
    assert recall["treebank"] > 0.985 > 0.97 > recall["punctuation"]
    assert found["treebank"][0] / found["treebank"][1] > 0.975


def test_words_of_hostile_texts_come_apart_in_time():
    """No text takes longer than its length: an endless one of what begins an address, say."""
    by = make("word", ["a"], split="treebank")
    for piece in ("a.", "a@", "a-", "http://", "n't", "1,", "canno", "'s", "a._+"):
        text = piece * 20_000
        assert "".join(by.words(text)) == text
