"""Chunks: cut and counted by themselves they are what the library makes of the whole text."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tokenizers import Tokenizer as Library, models, pre_tokenizers, trainers

from regard.data import chunks, tokenizer_training
from regard.data.tokenizer_training import SPECIAL
from regard.data.tokenizers import Config, Tokenizer

TEXT = [
    "a red house, and the old man's dog", "the  old\u00a0house ", " leading", "tab\tin it", "",
    "ein rotes Haus; 1234 Häuser", "don't!! … «so» ǅ ß İ", "line\u2028apart \u3000wide", "x\x1c y",
]  # fmt: skip
CONFIGS = [
    Config(kind="bpe", vocabulary=320),
    Config(kind="bpe", vocabulary=320, split="whitespace"),
    Config(kind="bpe", vocabulary=320, lowercase=True),
    Config(kind="unigram", vocabulary=320),
    Config(kind="word", vocabulary=30),
    Config(kind="word", vocabulary=30, split="punctuation", lowercase=True),
    Config(kind="character", vocabulary=30),
    Config(kind="bytes"),
]
SPACES = " \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u1680\u180e\u2000\u200a\u200b\u2028\u2029\u202f\u205f"
texts = st.text(
    st.sampled_from("ab1!é'’ǅß\u0301\u200d\U0001f389  " + SPACES) | st.characters(codec="utf-8"),
    max_size=14,
)


@pytest.fixture(scope="module", params=CONFIGS, ids=lambda c: f"{c.kind}-{c.split}-{c.lowercase}")
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(request.param, TEXT * 3)


def plain(tokenizer: Tokenizer, lines: list[str]) -> list[list[int]]:
    """What the library makes of whole lines."""
    library = Library.from_str(tokenizer.json)
    prefix = " " if '"Sequence"' in tokenizer.json.split('"pre_tokenizer"')[1][:60] else ""
    return [library.encode(prefix + each, add_special_tokens=False).ids if each else []
            for each in lines]  # fmt: skip


@given(lines=st.lists(texts | st.sampled_from(TEXT), max_size=6))
@settings(max_examples=150, deadline=None)
def test_lines_are_encoded_as_the_library_does(tokenizer: Tokenizer, lines: list[str]):
    wanted = plain(tokenizer, lines)
    assert tokenizer.encode(lines) == wanted
    flat, lengths = tokenizer.encode_flat(lines)  # now that their chunks are known
    assert flat.tolist() == [token for row in wanted for token in row]
    assert lengths.tolist() == [len(row) for row in wanted]


@pytest.mark.parametrize("space", [*SPACES, "\u3000", "\ufeff"])
def test_whitespace_at_every_border(tokenizer: Tokenizer, space: str):
    around = [a + space + b for a in ("", "a", "!", "1", " ") for b in ("", "b", "!", "1", " ")]
    lines = [" ".join(pair) for pair in zip(around, around[3:] + around[:3], strict=True)] + around
    assert tokenizer.encode(lines) == plain(tokenizer, lines)


def test_a_full_table_is_begun_anew(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunks, "MOST", 5)
    lines = [f"w{n} a{n % 7}" for n in range(40)]
    wanted = plain(tokenizer, lines)

    def right(first: int) -> bool:
        return tokenizer.encode(lines[first : first + 9]) == wanted[first : first + 9]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(right, range(30)))
    assert len(tokenizer._encoded._known) <= 5 + 2 * 9


def test_long_chunks_are_not_remembered(tokenizer: Tokenizer):
    lines = ["a" * 61, "b " + "a!" * 40, "a" * 60]
    assert tokenizer.encode(lines) == plain(tokenizer, lines)
    assert max(map(len, tokenizer._encoded._known), default=0) <= 60


def test_a_large_vocabulary_has_wider_numbers():
    words = [f"w{n}" for n in range(66_000)]
    large = Tokenizer.train(Config(kind="word", vocabulary=70_000), words)
    flat, lengths = large.encode_flat(["w0 w65999", ""])
    assert flat.dtype == np.dtype("<u4") and lengths.tolist() == [2, 0]
    assert large.decode(flat.tolist()) == "w0 w65999"


@pytest.mark.parametrize("config", CONFIGS[:3])
@given(lines=st.lists(texts | st.sampled_from(TEXT), max_size=12))
@settings(max_examples=25, deadline=None)
def test_bpe_is_trained_as_the_library_does(config: Config, lines: list[str]):
    """On whole lines, each with a blank before it."""
    lines = [*lines, *TEXT]
    library: Any = tokenizer_training.around(models.BPE(), config)
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )  # fmt: skip
    library.train_from_iterator([" " + line for line in lines], trainer)
    wanted = tokenizer_training._without_added(library, config.vocabulary).to_str()
    assert Tokenizer.train(config, iter(lines)).json == wanted


def test_what_is_counted():
    lines = ["a b", "a  b ", "", "a\u00a0 b", "a\u00a0b"]
    assert chunks.counted(chunks.BLANKS, lines) == Counter(
        {"a": 2, "b": 3, "": 3, "a\u00a0": 1, "a\u00a0b": 1}
    )
    # Blanks belong to what follows them; what ends with other whitespace does not stand alone.
    assert chunks.counted(chunks.RUNS_OF_BLANKS, lines) == Counter(
        {"a": 2, "b": 1, " b": 1, "": 2, "a\u00a0 b": 1, "a\u00a0b": 1}
    )
    counts = Counter({"a": 3, "b c": 1})
    repeated = "".join(chunks.repeated(counts, str.split)).split()
    assert repeated == ["a", "a", "a", "b", "c"]


def test_very_many_chunks_are_repeated_in_proportion(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunks, "REPEATED", 100)
    counts = Counter({"a": 1500, "b": 500, "c": 1})
    repeated = Counter("".join(chunks.repeated(counts, str.split)).split())
    assert repeated == {"a": 74, "b": 24, "c": 1}
