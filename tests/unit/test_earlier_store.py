"""Stores as earlier versions wrote them: sequences come back as they were, damage is noticed."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.data.store import Store
from regard.data.tokenizers import Config
from regard.errors import UserError
from regard.examples.preparation import watched
from regard.fields import text
from tests.earlier_stores import write, write_texts

ROWS = [([5, 6, 7], [1]), ([], [2, 3]), ([8], []), ([], [])]


def written(folder: Path, size: int = 10) -> Store:
    write(folder, ["x.a", "x.b"], size, ROWS)
    return Store(folder, "x")


@given(st.lists(st.lists(st.integers(0, 2**16 - 1), max_size=9), min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_sequences_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[list[int]]):
    folder = tmp_path_factory.mktemp("store")
    write(folder, ["x.a"], 2**16, ([row] for row in rows))
    store = Store(folder, "x")
    assert [row["a"].tolist() for row in store] == rows
    assert store.lengths("a").tolist() == [len(row) for row in rows]


@pytest.mark.parametrize(("size", "width"), [(2**16, 2), (2**16 + 1, 4)])
def test_integers_are_as_wide_as_the_vocabulary_needs(tmp_path: Path, size: int, width: int):
    write(tmp_path, ["x.a"], size, [([size - 1, 0],)])
    assert Store(tmp_path, "x")[0]["a"].tolist() == [size - 1, 0]
    assert (tmp_path / "x.a.tokens").stat().st_size == 2 * width


def test_what_is_cut_off_later_is_noticed_when_it_is_read(tmp_path: Path):
    store = written(tmp_path)
    with (tmp_path / "x.a.tokens").open("r+b") as file:
        file.truncate(6)
    assert store[0]["a"].tolist() == [5, 6, 7]
    with pytest.raises(UserError, match=r"a\.tokens has been cut off while it was in use"):
        store[2]


def test_what_is_removed_later_can_still_be_read(tmp_path: Path):
    store = written(tmp_path)
    (tmp_path / "x.a.tokens").unlink()
    assert store[2]["a"].tolist() == [8]


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: flip(folder / "x.a.tokens", 3),
        lambda folder: flip(folder / "x.a.offsets", 8),
        lambda folder: (folder / "x.a.tokens").write_bytes(b""),
        lambda folder: (folder / "x.a.tokens").write_bytes(b"x" * 9),
        lambda folder: (folder / "x.a.offsets").write_bytes(b""),
        lambda folder: (folder / "x.a.tokens").unlink(),
        lambda folder: (folder / "x.a.offsets").unlink(),
        lambda folder: (folder / "x.b.sha256").replace(folder / "x.a.sha256"),
    ],
)
def test_damage_is_noticed(damage, tmp_path: Path):
    written(tmp_path)
    damage(tmp_path)
    with pytest.raises(UserError, match=r"a\.(tokens|offsets).*Start a new run"):
        Store(tmp_path, "x")


def test_a_wrong_length_is_noticed_without_sums(tmp_path: Path):
    """As in a store that was written before there were any."""
    written(tmp_path)
    (tmp_path / "x.a.sha256").unlink()
    assert Store(tmp_path, "x")[0]["a"].tolist() == [5, 6, 7]
    (tmp_path / "x.a.tokens").write_bytes(b"x" * 9)
    with pytest.raises(UserError, match=r"a\.tokens has not the 4 tokens"):
        Store(tmp_path, "x")


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
    np.array(offsets, "<i8").tofile(tmp_path / "x.a.offsets")
    (tmp_path / "x.a.sha256").unlink()
    with pytest.raises(UserError, match=said):
        Store(tmp_path, "x")


def test_what_a_column_may_not_hold_is_refused(tmp_path: Path):
    store = written(tmp_path)  # 5 to 8
    store.check("a", values=range(5, 9), longest=3)
    store.check("b", values=range(1, 4))
    for known in (range(5, 8), range(6, 9)):
        with pytest.raises(UserError, match=r"x\.a: not all are from"):
            store.check("a", values=known)
    with pytest.raises(UserError, match=r"x\.a: a sequence has more than 2 tokens"):
        store.check("a", longest=2)


def test_lines_that_end_elsewhere_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("regard.data.store.BLOCK", 3)  # the last piece is not whole
    rows = [([5, 6, 2], [5, 6, 2], [5, 2, 2], [5, 6]), ([2], [2, 7], [2], [2])]
    write(tmp_path, ["x.a", "x.b", "x.c", "x.d"], 10, rows)
    store = Store(tmp_path, "x")
    store.check("a", end=2)
    assert store.flat("a").where(2).tolist() == [2, 3]
    for name in "bcd":
        with pytest.raises(UserError, match=rf"x\.{name}: its lines do not end where"):
            store.check(name, end=2)


def test_the_sum_of_each_sequence(tmp_path: Path):
    store = written(tmp_path)
    assert store.sums("a").tolist() == [18, 0, 8, 0]
    assert store.sums("b").tolist() == [1, 5, 0, 0]


FIELDS = {side: text.Field(side, Config()) for side in ("source", "target")}
"""Of pairs, whose texts were kept as validation.SIDE.text; those of lines as validation.text."""
NAMES = ["validation.source.text", "validation.target.text"]


def test_texts_come_back(tmp_path: Path):
    """Whatever is in them: nothing at all, signs of four bytes."""
    assert watched(tmp_path, FIELDS) is None
    rows = [("a b", "c"), ("", "\x00\U0001f389")]
    write_texts(tmp_path / "store", NAMES, rows)
    assert watched(tmp_path, FIELDS) == rows
    alone = {"target": FIELDS["target"]}
    assert watched(tmp_path, alone) is None
    write_texts(tmp_path / "store", ["validation.text"], [("x",), ("y",)])
    assert watched(tmp_path, alone) == [("x",), ("y",)]


@pytest.mark.parametrize("name", [f"{NAMES[0]}.tokens", f"{NAMES[1]}.offsets"])
def test_damaged_texts_are_noticed(tmp_path: Path, name: str):
    write_texts(tmp_path / "store", NAMES, [("one", "two")])
    flip(tmp_path / "store" / name, 2)
    with pytest.raises(UserError, match="stored data cannot be read"):
        watched(tmp_path, FIELDS)
    (tmp_path / "store" / name).unlink()
    with pytest.raises(UserError, match="stored data cannot be read"):
        watched(tmp_path, FIELDS)


def test_it_opens_as_the_columns_that_are_there(tmp_path: Path):
    """Texts have names of their own beside the tokens'."""
    write(tmp_path, ["train.a", "train.b"], 10, ROWS)
    write(tmp_path, ["trainer.a", "train"], 10, [([1], [2])])
    write_texts(tmp_path, ["train.a.text"], [("é",)])
    store = Store(tmp_path, "train")
    assert {name: column.dtype for name, column in store.columns.items()} == {"a": "u2", "b": "u2"}
    assert [(row["a"].tolist(), row["b"].tolist()) for row in store] == ROWS
    assert store.lengths("a").tolist() == [3, 0, 1, 0]
    assert store.flat("b")[1:].tolist() == [2, 3]
    assert Store(tmp_path, "train.a").texts("text") == ["é"]


def test_columns_that_are_not_of_the_same_examples(tmp_path: Path):
    write(tmp_path, ["train.a"], 10, [([1],)])
    write(tmp_path, ["train.b"], 10, [([1],), ([2],)])
    with pytest.raises(UserError, match=r"train\.\* are not of the same examples.*Start a new run"):
        Store(tmp_path, "train")


@pytest.mark.parametrize("kind", ["tokens", "offsets"])
def test_a_column_of_which_a_file_is_gone(tmp_path: Path, kind: str):
    write(tmp_path, ["train.a", "train.b"], 10, ROWS)
    (tmp_path / f"train.b.{kind}").unlink()
    with pytest.raises(UserError, match=rf"train\.b\.{kind}.*Start a new run"):
        Store(tmp_path, "train")
