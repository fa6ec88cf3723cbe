"""Tokenizers that do for a program what regard does around its own."""

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Library

from regard.data import tokenizers
from regard.data.spelling import Spelling
from regard.data.tokenizers import Tokenizer
from regard.interop.alone import alone, characters

TEXT = ["a dog runs", "two dogs play", "a man sits"] * 3
BPE: dict[str, Any] = {"kind": "bpe", "vocabulary": 280}
KINDS: list[dict[str, Any]] = [
    BPE,
    {"kind": "unigram", "vocabulary": 280},
    {"kind": "word"},
    {"kind": "character"},
    {"kind": "bytes"},
]


def made(config: dict[str, Any], path: Path, **keys: Any) -> tuple[Tokenizer, Library]:
    ours = Tokenizer.train(tokenizers.Config(**config), TEXT)
    alone(ours, path, **keys)
    return ours, Library.from_file(str(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokenizer.json"


@pytest.mark.parametrize("config", KINDS, ids=lambda config: config["kind"])
def test_tokens_stand_around_a_text_and_the_longest_is_cut(config: dict[str, Any], path: Path):
    ours, theirs = made(config, path, before=[1], after=[2], longest=2)
    [tokens] = ours.encode(["a dog runs"])
    assert theirs.encode("a dog runs").ids == [1, *tokens[:2], 2]
    assert theirs.encode("").ids == [1, 2]


@pytest.mark.parametrize("blank", ["  ", "\t", "\u3000", "\x1c \x1f", "\u00a0"])
def test_whitespace_alone_may_be_no_text(blank: str, path: Path):
    assert not blank.strip()
    _, theirs = made(BPE, path, after=[2], blank=False)
    assert theirs.encode(blank).ids == [2]
    assert len(theirs.encode(f"{blank}a").ids) > 2
    ours, theirs = made(BPE, path)
    assert theirs.encode(blank).ids == ours.encode([blank])[0] != []


@pytest.mark.parametrize("config", KINDS, ids=lambda config: config["kind"])
def test_lines_end_by_a_token(config: dict[str, Any], path: Path):
    ours, theirs = made(config, path, line="\n")
    tokens = [[*tokens, ours.end] for tokens in ours.encode(["a dog", "", "two dogs"])]
    flat = [token for row in tokens for token in row]
    assert theirs.decode(flat) == "a dog\n\ntwo dogs\n"
    assert theirs.decode(flat[-2:]) == ours.decode(flat[-2:-1]) + "\n"
    alone(ours, path)
    assert Library.from_file(str(path)).decode(tokens[0]) == "a dog", "elsewhere it is left out"


def test_words_are_tokens_of_their_own(path: Path):
    ours, theirs = made(BPE, path)
    words = ["two", "dogs,", "xyz"]
    pieces = ours.encode(words)
    found = theirs.encode(words, is_pretokenized=True)
    assert found.ids == [token for piece in pieces for token in piece]
    assert found.word_ids == [n for n, piece in enumerate(pieces) for _ in piece]


def test_characters_are_those_of_both_ends_of_a_word(path: Path):
    spelling = Spelling.train(["abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba"])
    characters(spelling, path)
    library = Library.from_file(str(path))
    words = ["abc", "", "abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwx", "é"]
    [(flat, lengths)] = spelling.encode([words])
    assert lengths == [3, 0, 24, 24, 1]
    found = [each.ids for each in library.encode_batch(words)]
    assert {len(row) for row in found} == {24}
    assert [n for row in found for n in row if n] == flat


def test_characters_are_folded_as_words_are(path: Path):
    folded = Tokenizer.train(tokenizers.Config(kind="word", lowercase=True), TEXT)
    spelling = Spelling.train(["abc", "cba"])
    characters(spelling, path, folded=folded)
    library = Library.from_file(str(path))
    assert library.encode("ABC").ids == library.encode("abc").ids
    assert Tokenizer.unknown not in library.encode("ABC").ids
