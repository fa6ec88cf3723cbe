"""Stores as earlier versions wrote them: sequences come back as they were, damage is noticed."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.data.store import Store, TokenStore, read_texts, write_texts
from regard.errors import UserError

ROWS = [([5, 6, 7], [1]), ([], [2, 3]), ([8], []), ([], [])]


def written(folder: Path, size: int = 10) -> list[TokenStore]:
    TokenStore.write(folder, ["a", "b"], size, ROWS)
    return [TokenStore(folder, "a"), TokenStore(folder, "b")]


@given(st.lists(st.lists(st.integers(0, 2**16 - 1), max_size=9), max_size=12))
@settings(max_examples=50, deadline=None)
def test_sequences_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[list[int]]):
    folder = tmp_path_factory.mktemp("store")
    TokenStore.write(folder, ["x"], 2**16, ([row] for row in rows))
    store = TokenStore(folder, "x")
    assert [store[n].tolist() for n in range(len(store))] == rows
    assert store.lengths.tolist() == [len(row) for row in rows]


def test_parallel_sequences_stay_together_empty_ones_too(tmp_path: Path):
    a, b = written(tmp_path)
    assert len(a) == len(b) == 4
    assert [(a[n].tolist(), b[n].tolist()) for n in range(4)] == [tuple(row) for row in ROWS]


@pytest.mark.parametrize(("size", "width"), [(2**16, 2), (2**16 + 1, 4)])
def test_integers_are_as_wide_as_the_vocabulary_needs(tmp_path: Path, size: int, width: int):
    TokenStore.write(tmp_path, ["x"], size, [([size - 1, 0],)])
    assert TokenStore(tmp_path, "x")[0].tolist() == [size - 1, 0]
    assert (tmp_path / "x.tokens").stat().st_size == 2 * width


def test_what_is_cut_off_later_is_noticed_when_it_is_read(tmp_path: Path):
    store, _ = written(tmp_path)
    with (tmp_path / "a.tokens").open("r+b") as file:
        file.truncate(6)
    assert store[0].tolist() == [5, 6, 7]
    with pytest.raises(UserError, match=r"a\.tokens has been cut off while it was in use"):
        store[2]


def test_what_is_removed_later_can_still_be_read(tmp_path: Path):
    store, _ = written(tmp_path)
    (tmp_path / "a.tokens").unlink()
    assert store[2].tolist() == [8]


def test_nothing_at_all(tmp_path: Path):
    TokenStore.write(tmp_path, ["x"], 10, [])
    assert len(TokenStore(tmp_path, "x")) == 0
    TokenStore.write(tmp_path, ["y"], 10, [([],)])
    assert TokenStore(tmp_path, "y")[0].tolist() == []


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: flip(folder / "a.tokens", 3),
        lambda folder: flip(folder / "a.offsets", 8),
        lambda folder: (folder / "a.tokens").write_bytes(b""),
        lambda folder: (folder / "a.tokens").write_bytes(b"x" * 9),
        lambda folder: (folder / "a.offsets").write_bytes(b""),
        lambda folder: (folder / "a.tokens").unlink(),
        lambda folder: (folder / "a.offsets").unlink(),
        lambda folder: (folder / "b.sha256").replace(folder / "a.sha256"),
    ],
)
def test_damage_is_noticed(damage, tmp_path: Path):
    written(tmp_path)
    damage(tmp_path)
    with pytest.raises(UserError, match=r"a\.(tokens|offsets).*Start a new run"):
        TokenStore(tmp_path, "a")


def test_a_wrong_length_is_noticed_without_sums(tmp_path: Path):
    """As in a store that was written before there were any."""
    written(tmp_path)
    (tmp_path / "a.sha256").unlink()
    assert TokenStore(tmp_path, "a")[0].tolist() == [5, 6, 7]
    (tmp_path / "a.tokens").write_bytes(b"x" * 9)
    with pytest.raises(UserError, match=r"a\.tokens has not the 4 tokens"):
        TokenStore(tmp_path, "a")


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ([0, 3, 2, 4, 4], "does not count from 0"),
        ([1, 3, 3, 4, 4], "does not count from 0"),
        ([0, -3, 3, 4, 4], "does not count from 0"),
        ([0, 2**63 - 1, -(2**63), 4, 4], "does not count from 0"),
        ([0, 3, 3, 4, 2**62], "has not the"),
        ([0, 3, 3, 4, 3], "does not count from 0"),
        ([0, 0, 0, 0, 0], "has not the 0 tokens"),
    ],
)
def test_forged_borders_are_refused(tmp_path: Path, offsets: list[int], said: str):
    written(tmp_path)
    np.array(offsets, "<i8").tofile(tmp_path / "a.offsets")
    (tmp_path / "a.sha256").unlink()
    with pytest.raises(UserError, match=said):
        TokenStore(tmp_path, "a")


def test_symbols_that_there_are_not_are_refused(tmp_path: Path):
    store, _ = written(tmp_path)  # 5 to 8
    assert TokenStore(tmp_path, "a", range(5, 9), 3).lengths.tolist() == store.lengths.tolist()
    for known in (range(5, 8), range(6, 9)):
        with pytest.raises(UserError, match=r"a\.tokens: not all are from"):
            TokenStore(tmp_path, "a", known)
    with pytest.raises(UserError, match=r"a\.offsets: a sequence has more than 2 tokens"):
        TokenStore(tmp_path, "a", longest=2)
    assert len(TokenStore(tmp_path, "b", range(1, 4))) == 4


def test_lines_that_end_elsewhere_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.data.store.BLOCK", 3)  # the last piece is not whole
    TokenStore.write(tmp_path, ["a", "b", "c", "d"], 10, [([5, 6, 2], [5, 6, 2], [5, 2, 2], [5, 6]),
                                                     ([2], [2, 7], [2], [2])])  # fmt: skip
    assert TokenStore(tmp_path, "a", end=2).tokens.where(2).tolist() == [2, 3]
    for name in "bcd":
        with pytest.raises(UserError, match=rf"{name}\.offsets: its lines do not end where those"):
            TokenStore(tmp_path, name, end=2)
    TokenStore.write(tmp_path, ["e"], 10, [])
    assert len(TokenStore(tmp_path, "e", end=2)) == 0


def test_the_sum_of_each_sequence(tmp_path: Path):
    a, b = written(tmp_path)
    assert a.sums().tolist() == [18, 0, 8, 0]
    assert b.sums().tolist() == [1, 5, 0, 0]


@given(st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=9))
@settings(max_examples=50, deadline=None)
def test_texts_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]):
    """Whatever is in them: newlines, nothing at all, signs of four bytes."""
    folder, names = tmp_path_factory.mktemp("store"), ["a.text", "b.text"]
    assert read_texts(folder, names) is None
    write_texts(folder, names, [*rows, ("a\n\r", "\x00\U0001f389")])
    assert read_texts(folder, names) == [*rows, ("a\n\r", "\x00\U0001f389")]


@pytest.mark.parametrize("name", ["a.text.tokens", "b.text.offsets", "b.text.tokens"])
def test_damaged_texts_are_noticed(tmp_path: Path, name: str):
    write_texts(tmp_path, ["a.text", "b.text"], [("one", "two")])
    flip(tmp_path / name, 2)
    with pytest.raises(UserError, match="stored data cannot be read"):
        read_texts(tmp_path, ["a.text", "b.text"])
    (tmp_path / name).unlink()
    with pytest.raises(UserError, match="stored data cannot be read"):
        read_texts(tmp_path, ["a.text", "b.text"])


def test_it_opens_as_the_columns_that_are_there(tmp_path: Path):
    """Texts have names of their own beside the tokens'."""
    TokenStore.write(tmp_path, ["train.a", "train.b"], 10, ROWS)
    TokenStore.write(tmp_path, ["trainer.a", "train"], 10, [([1], [2])])
    write_texts(tmp_path, ["train.a.text"], [("é",)])
    store = Store(tmp_path, "train")
    assert {name: column.dtype for name, column in store.columns.items()} == {"a": "u2", "b": "u2"}
    assert [(row["a"].tolist(), row["b"].tolist()) for row in store] == ROWS
    assert store.lengths("a").tolist() == [3, 0, 1, 0]
    assert store.flat("b")[1:].tolist() == [2, 3]
    assert Store(tmp_path, "train.a").texts("text") == ["é"]


def test_columns_that_are_not_of_the_same_examples(tmp_path: Path):
    TokenStore.write(tmp_path, ["train.a"], 10, [([1],)])
    TokenStore.write(tmp_path, ["train.b"], 10, [([1],), ([2],)])
    with pytest.raises(UserError, match=r"train\.\* are not of the same examples.*Start a new run"):
        Store(tmp_path, "train")


@pytest.mark.parametrize("kind", ["tokens", "offsets"])
def test_a_column_of_which_a_file_is_gone(tmp_path: Path, kind: str):
    TokenStore.write(tmp_path, ["train.a", "train.b"], 10, ROWS)
    (tmp_path / f"train.b.{kind}").unlink()
    with pytest.raises(UserError, match=rf"train\.b\.{kind}.*Start a new run"):
        Store(tmp_path, "train")
