"""JSON that somebody may have forged: what is not of the form that is wanted is a ValueError."""

import json
import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.recipe import checked


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expecting value"),
        ("[1]", "it is no object: list"),
        ("7", "it is no object: 7"),
        ('{"a": 1, "a": 2}', "a key stands in it twice"),
        ('{"a": {"b": 1, "b": 1}}', "a key stands in it twice"),
        ('{"a": ' + "9" * 5000 + "}", "a number of 5,000 digits"),
        ('{"a": -' + "9" * 40 + "}", "a number of 41 digits"),
        ('{"a": ' * 20_000, "nested too deeply"),
        ('{"a": ' + "[" * 20_000, "nested too deeply"),
    ],
)
def test_what_is_no_object(text: str, said: str):
    with pytest.raises(ValueError, match=said):
        checked.parse(text)


@pytest.mark.parametrize("piece", ["[],", "0,", "{},"])
def test_a_small_file_takes_little_memory(piece: str, tmp_path: Path):
    """Seven megabytes of commas would be half a gigabyte of objects."""
    path = tmp_path / "x.json"
    path.write_text('{"a": [' + piece * (7_000_000 // len(piece)) + "0]}")
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"x\.json: it has more values"):
        checked.read(path)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def test_a_file_is_named(tmp_path: Path):
    path = tmp_path / "x.json"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ValueError, match=r"x\.json: 'utf-8' codec"):
        checked.read(path)
    path.write_text(json.dumps({"a": "x" * 100}))
    with pytest.raises(ValueError, match=r"x\.json is larger than 50 bytes"):
        checked.read(path, 50)
    assert checked.read(path, 200) == {"a": "x" * 100}


NO_COUNT: list[Any] = [True, None, -1, 2**63, 1.0, "1", [1], float("nan")]
NO_NUMBER: list[Any] = [True, None, "1", [], float("nan"), float("inf"), -float("inf")]
NO_TRUTH: list[Any] = [0, 1, None, "true"]
NO_TABLE: list[Any] = [None, [], 1]
NO_LIST: list[Any] = [None, {}, "ab", 1]
NO_LINE: list[Any] = [None, 1, ["a"], "a\nb", "a\rb", "a\0b", "\ud800"]
WRONG: list[tuple[Callable[..., Any], Any]] = [
    *((checked.whole, value) for value in NO_COUNT),
    *((checked.number, value) for value in NO_NUMBER),
    *((checked.text, value) for value in NO_LINE),
    *((checked.truth, value) for value in NO_TRUTH),
    *((checked.table, value) for value in NO_TABLE),
    *((checked.items, value) for value in NO_LIST),
]


@pytest.mark.parametrize(("check", "value"), WRONG)
def test_values_of_another_kind(check: Callable[..., Any], value: Any):
    with pytest.raises(ValueError, match=r"\bx\b|surrogates"):
        check(value, "x")


def test_values_out_of_range():
    assert checked.whole(-1, "x", -1) == -1
    assert checked.number(0, "x", 0.0) == 0.0
    assert checked.number(1e-300, "x", above=0.0) == 1e-300
    for call in (
        lambda: checked.whole(5, "x", 6),
        lambda: checked.whole(5, "x", 0, 4),
        lambda: checked.number(-1e-9, "x", 0.0),
        lambda: checked.number(0.0, "x", above=0.0),
        lambda: checked.number(-0.0, "x", above=0.0),
        lambda: checked.items([1], "x", 2),
        lambda: checked.keys({"a": 1}, "x", {"a", "b"}),
        lambda: checked.keys({"a": 1, "b": 2}, "x", {"a"}),
    ):
        with pytest.raises(ValueError, match="x "):
            call()
    assert checked.keys({"a": 1}, "x", set(), {"a", "b"}) == {"a": 1}


def test_what_is_written_is_json_whatever_the_numbers_are():
    value = {"a": [1.5, math.nan, {"b": -math.inf}], "c": (math.inf, 2, True, None, "é"), "d": 0.0}
    text = checked.written(value)
    assert text == '{"a": [1.5, null, {"b": null}], "c": [null, 2, true, null, "é"], "d": 0.0}'

    def refused(name: str) -> None:
        raise AssertionError(name)

    assert json.loads(text, parse_constant=refused)["d"] == 0
    assert checked.written({"a": 1.5}, indent=1) == json.dumps({"a": 1.5}, indent=1)
