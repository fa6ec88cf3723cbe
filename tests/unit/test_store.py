"""The store: arrays come back as they were, over shards and kills; what is damaged is refused."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from regard.data import shards, store as module
from regard.data.shards import DTYPES
from regard.data.store import Column, Store, Writer, pad
from regard.errors import UserError
from regard.recipe import checked

PAIR = {"a": Column("u2"), "b": Column("f4", (2, 3))}
NUMBERS = {"a": Column("u2")}
Rows = Sequence[dict[str, Any]]


def some(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """Of all values of a type, some, the extreme ones among them."""
    kind, random = np.dtype(dtype), np.random.default_rng(seed)
    data = random.integers(0, 2 if dtype == "bool" else 256, (*shape, kind.itemsize), np.uint8)
    return data.view(kind).reshape(shape)


def written(folder: Path, rows: Rows, columns: dict[str, Column], **options: Any) -> Store:
    with Writer(folder, "x", columns, **options) as writer:
        writer.add(rows)
    return Store(folder, "x")


def pairs(lengths: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {"a": list(range(n, 2 * n)), "b": np.full((n % 3, 2, 3), n, np.float32)} for n in lengths
    ]


def assert_same(found: Store, rows: Rows) -> None:
    assert len(found) == len(rows)
    for example, row in zip(found, rows, strict=True):
        for name, column in found.columns.items():
            wanted = np.asarray(row[name], column.kind).reshape(-1, *column.shape)
            assert example[name].dtype == column.kind and example[name].shape == wanted.shape
            assert example[name].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 5)])
def test_every_type_and_shape_comes_back(tmp_path: Path, dtype: str, shape: tuple[int, ...]):
    rows = [{"x": some(dtype, (length, *shape), length)} for length in (7, 0, 1, 11)]
    found = written(tmp_path, rows, {"x": Column(dtype, shape)}, shard=64)
    assert_same(found, rows)
    whole = np.concatenate([row["x"] for row in rows])
    assert found.flat("x")[:].tobytes() == whole.tobytes()
    assert found.lengths("x").tolist() == [7, 0, 1, 11]


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 200), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_however_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], shard: int, block: int
):
    """Into shards, and into calls: the files are the same as of one call."""
    folder, other = tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("b")
    rows = pairs(lengths)
    found = written(folder, rows, PAIR, shard=shard)
    assert_same(found, rows)
    with Writer(other, "x", PAIR, shard=shard) as writer:
        for first in range(0, len(rows), block):
            writer.add(rows[first : first + block])
    assert contents(folder) == contents(other)
    flat = np.concatenate([np.empty(0, int), *(row["a"] for row in rows)])
    for first in range(0, len(flat) + 1, 3):
        assert found.flat("a")[first : first + 5].tolist() == flat[first : first + 5].tolist()
    assert found.sums("a").tolist() == [sum(row["a"]) for row in rows]
    assert found.flat("a").where(4).tolist() == np.flatnonzero(flat == 4).tolist()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_shard_ends_with_the_example_that_fills_it(tmp_path: Path):
    """An example takes 4 bytes and 2 for each token."""
    rows = [{"a": [1] * length} for length in (3, 3, 9, 1, 0)]
    written(tmp_path, rows, NUMBERS, shard=20)
    table = json.loads((tmp_path / "x.json").read_text())
    assert [shard["examples"] for shard in table["shards"]] == [2, 1, 2]
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"x.json"} | {
        f"x.a.0000{n}.{kind}" for n in range(3) for kind in ("values", "lengths")
    }


def test_nothing_at_all(tmp_path: Path):
    found = written(tmp_path, [], PAIR)
    assert len(found) == 0 and found.flat("b")[:].shape == (0, 2, 3)
    assert found.lengths("a").tolist() == [] and found.flat("a").where(1).tolist() == []
    found.check("a", values=range(1), longest=0, end=2)


def test_examples_by_number_alone(tmp_path: Path):
    found = written(tmp_path, pairs([1, 2]), PAIR)
    for number in (-1, 2):
        with pytest.raises(IndexError):
            found[number]
    assert [each.tolist() for each in found.read("a", [1, 0, 1])] == [[2, 3], [1], [2, 3]]


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        (NUMBERS, [{"a": [1 << 16]}]),
        (NUMBERS, [{"a": [-1]}]),
        (NUMBERS, [{"a": [1.5]}]),
        (NUMBERS, [{"a": np.array([1 << 16])}]),
        (NUMBERS, [{"a": np.array([0.5])}]),
        (NUMBERS, [{"a": np.zeros((2, 1), np.uint16)}]),
        ({"a": Column("f4", (2,))}, [{"a": np.zeros((2, 3), np.float32)}]),
        ({"a": Column("bool")}, [{"a": np.array([2])}]),
    ],
)
def test_what_has_no_place_in_a_column_is_refused(tmp_path: Path, columns: Any, rows: Any):
    with pytest.raises((ValueError, OverflowError)), Writer(tmp_path, "x", columns) as writer:
        writer.add(rows)
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"a": Column("O")},
        {"a": Column("u8")},
        {"a": Column(">u2")},
        {"a": Column("u2", (0,))},
        {"a": Column("u2", (-1,))},
        {"a": Column("u2", (1,) * 9)},
        {"a": Column("f8", (1 << 20, 1 << 20))},
        {"a.b": Column("u2")},
        {"../a": Column("u2")},
        {"": Column("u2")},
    ],
)
def test_columns_that_no_store_has(tmp_path: Path, columns: dict[str, Column]):
    with pytest.raises(ValueError, match=r"column|shape"):
        Writer(tmp_path / "new", "x", columns)
    assert not (tmp_path / "new").exists()


def test_many_examples_at_once(tmp_path: Path):
    with Writer(tmp_path, "x", NUMBERS) as writer:
        writer.add_columns({"a": (np.array([5, 6, 7]), [2, 0, 1])})
        for values, lengths in (([1, 2], [1]), ([1], [2, -1]), ([1], [])):
            with pytest.raises(ValueError, match="a: "):
                writer.add_columns({"a": (np.array(values), lengths)})
    assert [each["a"].tolist() for each in Store(tmp_path, "x")] == [[5, 6], [], [7]]
    with (
        pytest.raises(ValueError, match="not of the same examples"),
        Writer(tmp_path, "y", {"a": Column("u2"), "b": Column("u2")}) as writer,
    ):
        writer.add_columns({"a": (np.array([1]), [1]), "b": (np.array([1]), [1, 0])})


# Kills


ROWS = [{"a": [n] * (n % 5)} for n in range(40)]


def interrupted(folder: Path, after: int, **options: Any) -> None:
    """A try that ends after so many examples, as if it were killed."""

    def rows() -> Iterator[dict[str, Any]]:
        yield from ROWS[:after]
        raise InterruptedError

    with pytest.raises(InterruptedError), Writer(folder, "x", NUMBERS, **options) as writer:
        for row in rows():
            writer.add([row])


@pytest.mark.parametrize("after", range(0, 41, 4))
def test_whole_shards_of_an_interrupted_try_are_taken_over(tmp_path: Path, after: int):
    written(tmp_path / "whole", ROWS, NUMBERS, shard=50)
    interrupted(tmp_path / "x", after, shard=50)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "x").glob("*.values")}
    with Writer(tmp_path / "x", "x", NUMBERS, shard=50) as writer:
        assert after - 7 < writer.done <= after and not writer.complete
        writer.add(ROWS[writer.done :])
        done = writer.done
    assert contents(tmp_path / "x") == contents(tmp_path / "whole")
    kept = [path for path, when in before.items() if path.stat().st_mtime_ns == when]
    assert bool(kept) == (done > 0)


def test_a_killed_process(tmp_path: Path):
    """kill -9, in the middle of a shard: only what is whole is used."""
    program = f"""
import os, signal
from pathlib import Path
from regard.data.store import Column, Writer
with Writer(Path({str(tmp_path / "x")!r}), "x", {{"a": Column("u2")}}, shard=50) as writer:
    for n in range(23):
        writer.add([{{"a": [n] * (n % 5)}}])
    os.kill(os.getpid(), signal.SIGKILL)
"""
    if os.name == "nt":
        pytest.skip("Windows has no such signal")
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode == -signal.SIGKILL
    with Writer(tmp_path / "x", "x", NUMBERS, shard=50) as writer:
        assert 10 < writer.done <= 23
        writer.add(ROWS[writer.done :])
    written(tmp_path / "whole", ROWS, NUMBERS, shard=50)
    assert contents(tmp_path / "x") == contents(tmp_path / "whole")


def test_what_is_complete_is_left_as_it_is(tmp_path: Path):
    written(tmp_path, ROWS, NUMBERS, shard=50)
    before = contents(tmp_path)
    with Writer(tmp_path, "x", NUMBERS, shard=50) as writer:
        assert writer.complete and writer.done == len(ROWS)
        with pytest.raises(ValueError, match="complete"):
            writer.add(ROWS[:1])
    assert contents(tmp_path) == before


def flip(path: Path, place: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "kept"),
    [
        (lambda folder: flip(folder / "x.a.00001.values"), 1),
        (lambda folder: flip(folder / "x.a.00000.lengths"), 0),
        (lambda folder: (folder / "x.a.00001.values").unlink(), 1),
        (lambda folder: (folder / ".x.journal").unlink(), 0),
        (lambda folder: (folder / ".x.journal").write_bytes(b"\xff"), 0),
        (lambda folder: cut(folder / ".x.journal"), 1),
        (lambda folder: flip(folder / ".x.journal", 20), 0),
    ],
)
def test_of_a_damaged_try_what_is_whole_is_taken_over(tmp_path: Path, damage: Any, kept: int):
    written(tmp_path / "whole", ROWS, NUMBERS, shard=50)
    interrupted(tmp_path / "x", 18, shard=50)
    shard_examples = [shard.examples for shard in shards.read_index(tmp_path / "whole", "x").shards]
    damage(tmp_path / "x")
    with Writer(tmp_path / "x", "x", NUMBERS, shard=50) as writer:
        assert writer.done == sum(shard_examples[:kept])
        writer.add(ROWS[writer.done :])
    assert contents(tmp_path / "x") == contents(tmp_path / "whole")


def cut(journal: Path) -> None:
    """The last line was not written whole."""
    journal.write_bytes(journal.read_bytes()[:-30])


@pytest.mark.parametrize(
    ("columns", "shard"),
    [
        ({"a": Column("u4")}, 50),
        ({"a": Column("i2")}, 50),
        (NUMBERS, 51),
        ({"b": Column("u2")}, 50),
    ],
)
def test_a_try_of_another_form_is_dropped(tmp_path: Path, columns: dict[str, Column], shard: int):
    interrupted(tmp_path, 30, shard=50)
    with Writer(tmp_path, "x", columns, shard=shard) as writer:
        assert writer.done == 0
        writer.add([{next(iter(columns)): row["a"]} for row in ROWS])
    found = Store(tmp_path, "x")
    assert [each.tolist() for row in found for each in row.values()] == [r["a"] for r in ROWS]


def test_a_store_of_another_form_is_written_anew(tmp_path: Path):
    written(tmp_path, ROWS, NUMBERS, shard=50)
    with Writer(tmp_path, "x", {"b": Column("u2")}) as writer:
        assert writer.done == 0 and not (tmp_path / "x.json").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"x.json"}


# Reading


def test_several_threads_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Also where more files are read than are kept open."""
    monkeypatch.setattr(module, "OPEN", 2)
    found = written(tmp_path, ROWS, NUMBERS, shard=30)
    assert len(list(tmp_path.glob("*.values"))) > 4

    def right(seed: int) -> bool:
        order = np.random.default_rng(seed).integers(0, len(ROWS), 400).tolist()
        return all(found[n]["a"].tolist() == ROWS[n]["a"] for n in order)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(right, range(16)))
    assert len(found.flat("a")._open) <= 2


def test_what_is_cut_off_or_removed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = written(tmp_path, ROWS, NUMBERS, shard=50)
    path = tmp_path / "x.a.00000.values"
    with path.open("r+b") as file:
        file.truncate(6)
    with pytest.raises(UserError, match=r"x\.a\.00000\.values has been cut off while"):
        found[4]
    (tmp_path / "x.a.00001.values").unlink()
    assert [found[n]["a"].tolist() for n in (9, 12)] == [ROWS[n]["a"] for n in (9, 12)]
    monkeypatch.setattr(module, "OPEN", 1)
    found = written(tmp_path, ROWS, NUMBERS, shard=50)
    (tmp_path / "x.a.00001.values").unlink()
    with pytest.raises(UserError, match=r"x\.a\.00001\.values cannot be read.*--resume"):
        list(found)


@given(st.lists(st.text(max_size=9), max_size=9))
@settings(max_examples=30, deadline=None)
def test_texts_come_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str]):
    """Whatever is in them: newlines, nothing at all, signs of four bytes."""
    texts = [*texts, "", "a\n\r", "\x00\U0001f389"]
    rows = [{"text": np.frombuffer(text.encode(), np.uint8)} for text in texts]
    found = written(tmp_path_factory.mktemp("s"), rows, {"text": Column("u1")})
    assert found.texts("text") == texts


def test_texts_that_are_no_utf_8(tmp_path: Path):
    found = written(tmp_path, [{"text": [255]}], {"text": Column("u1")})
    with pytest.raises(UserError, match=r"x\.text: .*utf-8.*Start a new run"):
        found.texts("text")


def test_values_that_may_not_be_there_are_refused(tmp_path: Path):
    rows: Rows = [{"a": [5, 6, 2], "b": [0.5]}, {"a": [2], "b": [np.nan]}, {"a": [8, 2], "b": []}]
    found = written(tmp_path, rows, {"a": Column("u2"), "b": Column("f4")}, shard=20)
    found.check("a", values=range(2, 9), longest=3, end=2)
    found.check("b", missing=True)
    for wrong, said in (
        ({"values": range(2, 8)}, "not all are from 2 to 7"),
        ({"values": range(3, 9)}, "not all are from 3 to 8"),
        ({"longest": 2}, "more than 2"),
        ({"end": 8}, "do not end where"),
    ):
        with pytest.raises(UserError, match=rf"x\.a: .*{said}.*Start a new run"):
            found.check("a", **wrong)
    with pytest.raises(UserError, match=r"x\.b: not all are finite numbers"):
        found.check("b", finite=True)
    with pytest.raises(UserError, match=r"x\.c is missing"):
        found.check("c")
    infinite = written(tmp_path, [{"b": [np.inf]}], {"b": Column("f8")})
    with pytest.raises(UserError, match="not all are finite"):
        infinite.check("b", missing=True)


# Damage and forgery


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: flip(folder / "x.a.00000.values", 3), "00000.values is damaged"),
        (lambda folder: flip(folder / "x.b.00001.lengths", 1), "00001.lengths is damaged"),
        (lambda folder: (folder / "x.a.00000.values").write_bytes(b""), "0 bytes instead of"),
        (lambda folder: (folder / "x.b.00001.lengths").write_bytes(b""), "0 bytes instead of"),
        (lambda folder: (folder / "x.a.00001.values").unlink(), "x.a.00001.values"),
        (lambda folder: (folder / "x.json").unlink(), "x.json is missing"),
        (lambda folder: (folder / "x.json").write_text("{"), "x.json"),
        (lambda folder: (folder / "x.json").write_bytes(b"\xff"), "x.json"),
        (lambda folder: _swap(folder / "x.json", '"u2"', '"i2"'), "x.json: it is damaged"),
        (lambda folder: _swap(folder / "x.json", '"format": 1', '"format": 9'), "format 9, but"),
    ],
)
def test_damage_is_noticed(tmp_path: Path, damage: Any, said: str):
    written(tmp_path, pairs([3, 4, 5]), PAIR, shard=40)
    damage(tmp_path)
    with pytest.raises(UserError, match=rf"cannot be read: .*{said}.*Start a new run"):
        Store(tmp_path, "x")


def _swap(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def forge(path: Path, *keys: Any, value: Any) -> None:
    """Another value in an index, which is signed again."""
    table = json.loads(path.read_text())
    holder = table
    for key in keys[:-1]:
        holder = holder[key]
    holder[keys[-1]] = value
    path.write_text(json.dumps(checked.signed(table)))


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("columns",), {}),
        (("columns",), []),
        (("columns", "a", "dtype"), "O"),
        (("columns", "a", "dtype"), "u4"),
        (("columns", "a", "dtype"), 7),
        (("columns", "a", "shape"), [2]),
        (("columns", "a", "shape"), [0]),
        (("columns", "a", "shape"), [-1, 2]),
        (("columns", "a", "shape"), [2**31, 2**31]),
        (("columns", "a", "shape"), [1.0]),
        (("columns", "a", "more"), 1),
        (("columns", "../a"), {"dtype": "u2", "shape": []}),
        (("columns", "c"), {"dtype": "u2", "shape": []}),
        (("shards",), {}),
        (("shards",), [1]),
        (("shards", 0, "examples"), 0),
        (("shards", 0, "examples"), 2**62),
        (("shards", 0, "examples"), True),
        (("shards", 0, "columns", "a", "items"), 4),
        (("shards", 0, "columns", "a", "items"), -1),
        (("shards", 0, "columns", "a", "values"), "x"),
        (("shards", 0, "columns", "a", "values"), "0" * 64),
        (("shards", 0, "columns", "a", "lengths"), None),
        (("shards", 0, "columns", "a"), {}),
        (("shards", 0, "columns", "c"), {}),
        (("more",), 1),
        (("format",), "1"),
        (("format",), True),
    ],
)
def test_a_forged_index_is_refused(tmp_path: Path, keys: tuple[Any, ...], value: Any):
    written(tmp_path, pairs([3, 4, 5]), PAIR, shard=40)
    forge(tmp_path / "x.json", *keys, value=value)
    with pytest.raises(UserError, match=r"stored data cannot be read: .*Start a new run"):
        Store(tmp_path, "x")


def test_lengths_of_which_the_sum_is_right_but_not_the_hash(tmp_path: Path):
    written(tmp_path, [{"a": [1, 2]}, {"a": [3]}], NUMBERS)
    np.array([1, 2], "<u4").tofile(tmp_path / "x.a.00000.lengths")
    with pytest.raises(UserError, match=r"x\.a\.00000\.lengths is damaged"):
        Store(tmp_path, "x")


def test_truths_that_are_neither_true_nor_false(tmp_path: Path):
    written(tmp_path, [{"a": [1, 0]}], {"a": Column("u1")})
    forge(tmp_path / "x.json", "columns", "a", "dtype", value="bool")
    assert Store(tmp_path, "x")[0]["a"].tolist() == [True, False]
    written(tmp_path / "y", [{"a": [1, 2]}], {"a": Column("u1")})
    forge(tmp_path / "y" / "x.json", "columns", "a", "dtype", value="bool")
    with pytest.raises(UserError, match=r"x\.a: not all are true or false"):
        Store(tmp_path / "y", "x")


def test_padding():
    rows = [np.array([7, 8]), np.array([], np.int64), np.array([9])]
    table, mask = pad(rows, 0, start=[1], end=[2, 3])
    assert table.tolist() == [[1, 7, 8, 2, 3], [1, 2, 3, 0, 0], [1, 9, 2, 3, 0]]
    assert mask.tolist() == [[True] * 5, [True] * 3 + [False] * 2, [True] * 4 + [False]]
    table, mask = pad([], 0, end=[2])
    assert table.shape == mask.shape == (0, 0)
