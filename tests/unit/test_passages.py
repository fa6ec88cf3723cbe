"""Windows of documents, and pairs of passages."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from regard.data.pairs_of_passages import NEXT, OTHER, Pairs
from regard.data.passages import Documents, Letters, Windows, windows
from regard.data.store import Column, Store, Writer

LENGTHS = np.array([5, 0, 13, 3, 7])
END = 2


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@pytest.fixture
def documents(tmp_path: Path) -> Documents:
    """Document n has the tokens 100 n, 100 n + 1, …"""
    rows = [{"source": 100 * n + np.arange(size)} for n, size in enumerate(LENGTHS)]
    with Writer(tmp_path, "train", {"source": Column("u2")}) as writer:
        writer.add(rows)
    return Documents(Store(tmp_path, "train").flat("source"), END)


def read(documents: Documents, first: np.ndarray, end: np.ndarray) -> list[list[int]]:
    return [
        documents.read(a, b).tolist() for a, b in zip(first.tolist(), end.tolist(), strict=True)
    ]


def test_a_document_that_fits_is_one_window_and_a_longer_one_is_cut_evenly(documents):
    # 13 tokens are three windows of 6 with 5 places to spare, of which 2 are taken off the first.
    found = read(documents, *windows(LENGTHS, 6, crosses=False))
    assert [len(each) for each in found] == [5, 4, 6, 3, 3, 4, 3]
    assert found[0] == [0, 1, 2, 3, 4]
    assert [*chain(*found[1:4])] == list(range(200, 213))


@pytest.mark.parametrize("seed", range(20))
def test_every_token_is_in_one_window_wherever_it_is_cut(documents, seed: int):
    first, end = windows(LENGTHS, 6, crosses=False, random=generator(seed))
    sizes = end - first
    assert sizes.min() >= 1 and sizes.max() <= 6
    assert len(sizes) == 1 + 0 + 3 + 1 + 2
    every = [100 * n + k for n, size in enumerate(LENGTHS) for k in range(size)]
    assert [*chain(*read(documents, first, end))] == every


@pytest.mark.parametrize("seed", range(20))
def test_windows_that_cross_documents_are_full_and_mark_their_borders(documents, seed: int):
    first, end = windows(LENGTHS, 6, crosses=True, random=generator(seed))
    assert (end - first)[1:-1].tolist() == [6] * (len(first) - 2)
    whole = [*chain(*read(documents, first, end))]
    wanted: list[int] = []
    for n, size in enumerate(LENGTHS):
        wanted += [*range(100 * n, 100 * n + size), END]
    assert whole == wanted


def test_windows_of_an_epoch_are_a_function_of_seed_and_epoch():
    one, again, other = (Windows(LENGTHS, 4, False, seed, 2) for seed in (1, 1, 2))
    for epoch in (3, 0, 1, 3):
        for left, right in zip(one.of(epoch), again.of(epoch), strict=True):
            assert np.array_equal(left, right)
    drawn = {tuple(one.of(epoch)[0].tolist()) for epoch in range(12)}
    assert len(drawn) > 3
    assert any(not np.array_equal(one.of(n)[0], other.of(n)[0]) for n in range(4))
    first, end = one.of(5)
    assert one.sizes(5)[:, 0].tolist() == (end - first + 2).tolist()


@pytest.fixture
def pairs(documents: Documents) -> Pairs:
    tokens = np.arange(500)
    return Pairs(documents, tokens % 100 == 4, tokens % 2 == 1, END, 0.5)


def test_a_passage_that_follows_goes_on_after_a_sentence(pairs):
    # Document 2 stands at places 7 … 19; its sentence ends with token 204, and 205 begins a word.
    found = [pairs.cut(7, 20, generator(seed)) for seed in range(40)]
    following = [pair for pair in found if pair.label == NEXT]
    assert 10 < len(following) < 30
    for pair in following:
        assert pair.tokens.tolist() == [*range(200, 205), END, *range(205, 213)]
        assert pair.segments.tolist() == [0] * 6 + [1] * 8


def test_any_other_passage_is_of_another_document_and_no_longer(pairs):
    found = [pairs.cut(7, 20, generator(seed)) for seed in range(40)]
    for pair in (pair for pair in found if pair.label == OTHER):
        border = pair.tokens.tolist().index(END)
        assert pair.tokens[:border].tolist() == list(range(200, 205))
        second = pair.tokens[border + 1 :]
        assert len(second) <= 8 and {*(second // 100).tolist()}.isdisjoint({2})
        assert len({*(second // 100).tolist()}) <= 1
        assert (np.diff(second.astype(int)) == 1).all()


def test_without_an_end_of_a_sentence_a_word_is_the_border(pairs):
    # Document 3 has tokens 300, 301, 302: only 301 begins a word.
    for seed in range(8):
        pair = pairs.cut(21, 24, generator(seed))
        assert pair.tokens[:2].tolist() == [300, END]


@pytest.mark.parametrize("crosses", [False, True])
def test_the_characters_of_a_window_are_those_of_its_words(tmp_path: Path, crosses: bool):
    """Word k of document n has k % 3 characters, each n; an end has none."""
    letters = [np.arange(size) % 3 for size in LENGTHS]
    rows = [
        {"letters": sizes, "characters": np.full(sizes.sum(), n)} for n, sizes in enumerate(letters)
    ]
    with Writer(tmp_path, "train", {"letters": Column("u2"), "characters": Column("u2")}) as writer:
        writer.add(rows)
    store = Store(tmp_path, "train")
    spelt = Letters(store.flat("letters"), store.flat("characters"))
    whole = np.concatenate([[*sizes, 0] for sizes in letters])  # by places
    of = np.repeat(np.arange(len(LENGTHS)), LENGTHS + 1)
    first, end = windows(LENGTHS, 6, crosses=crosses, random=generator(3))
    for a, b in zip(first.tolist(), end.tolist(), strict=True):
        sizes, characters = spelt.read(a, b)
        assert sizes.tolist() == whole[a:b].tolist()
        assert characters.tolist() == np.repeat(of[a:b], whole[a:b]).tolist()
