"""Graphs that take one step after the other, from steps that a person can follow."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.interop.loops import ALL, Series, Text

onnx = pytest.importorskip("onnx", reason="onnx is not installed (regard[onnx])")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (regard[onnx])")

TOKENS, END = 12, 2
HEAD = '<ir_version: 8, opset_import: ["" : 18]>'


def saved(path: Path, text: str) -> Path:
    onnx.save(onnx.parser.parse_model(f"{HEAD} {text}"), path)
    return path


def counting(path: Path) -> Path:
    """The next token is the number of those that are read."""
    return saved(
        path,
        """step (int64[1, n] tokens, int64[k] places) => (float[1, k, 12] scores)
        <int64 size = {12}, float[2] values = {0.0, 1.0}> {
            count = Shape <start = 1, end = 2> (tokens)
            asked = Gather <axis = 1> (tokens, places)
            none = Sub (asked, asked)
            numbers = Add (none, count)
            scores = OneHot <axis = 2> (numbers, size, values)
        }""",
    )


def remembering(path: Path, *, source: bool = False) -> Path:
    """The next token is the sum of all that are read one after the other, and of the memory."""
    reads = ", int64[1, s] source, float[1, s, 1] memory" if source else ""
    also = "ReduceSum <keepdims = 0> (memory)" if source else "Sub (sum, sum)"
    return saved(
        path,
        f"""step (int64[1, 1] tokens{reads}, float[1, 1] sum)
            => (float[1, 1, 12] scores, float[1, 1] next_sum)
        <int64 size = {{12}}, float[2] values = {{0.0, 1.0}}> {{
            token = Cast <to = 1> (tokens)
            next_sum = Add (sum, token)
            remembered = {also}
            said = Add (next_sum, remembered)
            number = Cast <to = 7> (said)
            scores = OneHot <axis = 2> (number, size, values)
        }}""",
    )


def text(step: Path, stop: int = END, **state: int) -> Text:
    return Text(step=step, state=state, tokens=TOKENS, never=[0, 1], stop=stop)


def asked(path: Path, tokens: list[int], **given: Any) -> list[int]:
    session = runtime.InferenceSession(path)
    if "temperature" in [each.name for each in session.get_inputs()]:
        given = {"temperature": [0.0], **given}
    [written] = session.run(["written"], {"tokens": [tokens], **given})
    return list(written)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.onnx"


def test_a_full_window_goes_on_with_its_last_half(tmp_path: Path, path: Path):
    made = text(counting(tmp_path / "step.onnx"), stop=-1)
    made.continued(path, length=8, window=6)
    assert asked(path, [9, 9]) == [2, 3, 4, 5, 6, 4, 5, 6]
    assert asked(path, [9] * 30) == [4, 5, 6, 4, 5, 6, 4, 5], "a long prompt begins with a half"


def test_a_text_ends_where_its_token_is_chosen(tmp_path: Path, path: Path):
    made = text(counting(tmp_path / "step.onnx"), stop=5)
    made.continued(path, length=8, window=ALL)
    assert asked(path, [9, 9]) == [2, 3, 4]
    assert asked(path, [9] * 5) == []
    assert asked(path, [9] * 7) == [7, 8, 9, 10, 11, 2, 2, 2], "what no score tells, the first"


def test_a_state_is_handed_on_through_the_prompt(tmp_path: Path, path: Path):
    made = text(remembering(tmp_path / "step.onnx"), stop=-1, sum=1)
    made.continued(path, length=2, window=ALL)
    assert asked(path, [3]) == [3, 6]
    assert asked(path, [1, 1, 1]) == [3, 6], "the prompt itself is not written"
    stops = text(remembering(tmp_path / "step.onnx"), stop=6, sum=1)
    stops.continued(path, length=2, window=ALL)
    assert asked(path, [6, -3, 1]) == [4, 8], "inside a prompt nothing ends"


def test_a_temperature_draws_by_the_softmax(tmp_path: Path, path: Path):
    """Of 10 tokens that may be written one has the score 1, the others 0."""
    made = text(counting(tmp_path / "step.onnx"), stop=-1)
    made.continued(path, length=4000, window=2)  # always two are read
    assert {*asked(path, [9, 9])} == {2}
    counts = np.bincount(asked(path, [9, 9], temperature=[0.5]), minlength=TOKENS)
    chances = np.exp([2.0, *[0.0] * 9]) / (np.exp(2.0) + 9)
    assert not counts[:2].any()
    assert counts[2:] / 4000 == pytest.approx(chances, abs=0.04)


def test_a_translation_is_as_long_as_its_source_allows(tmp_path: Path, path: Path):
    reader = saved(
        tmp_path / "reader.onnx",
        """read (int64[1, s] tokens) => (float[1, s, 1] memory, float[1, 1] sum)
        <int64[1] last = {2}, float[1, 1] zero = {0.0}> {
            real = Cast <to = 1> (tokens)
            whole = Unsqueeze (real, last)
            memory = Sub (whole, whole)
            sum = Identity (zero)
        }""",
    )
    made = text(remembering(tmp_path / "step.onnx", source=True), stop=-1, sum=1)
    made.translated(reader, path, start=3, factor=1.5, extra=0)
    assert asked(path, [7, END]) == [3], "⌊1.5 · 1⌋"
    assert asked(path, [7, 7, 7, END]) == [3, 6, 2, 2], "⌊1.5 · 3⌋"
    assert asked(path, [END]) == [], "nothing for nothing"
    made.translated(reader, path, start=3, factor=0.5, extra=0)
    assert asked(path, [7, END]) == [3], "at least one"


BLOCK = """block (double[k, 2, 1] past) => (double[k, 2, 1] mean, double[k, 2, 1] deviation)
<int64[1] first = {1}, int64[1] end = {2}, double[1] one = {1.0}> {
    last = Slice (past, first, end, first)
    next = Add (last, one)
    mean = Concat <axis = 1> (next, next)
    nothing = Sub (mean, mean)
    deviation = Add (nothing, one)
}"""
"""The next two are one more than the last, give or take one."""


def series(block: Path, path: Path, name: str, noise: Any, **keys: Any) -> None:
    given = {"look_back": 2, "horizon": 3, "least": np.array([1e-6]), "reach": 2.0, **keys}
    Series(names=[name], noise=np.array(noise, float), **given).write(block, path)


@pytest.mark.parametrize("name", ["x", "past", "forecast", "<b>ü</b> 1"])
def test_a_series_goes_on_block_after_block(name: str, tmp_path: Path, path: Path):
    """From 5: 6, 6, then 7. One draw is 1 above it at first, and 1 below what follows then."""
    noise = [[[[0], [0]], [[1], [1]]], [[[0], [0]], [[-1], [0]]]]  # blocks, draws, steps, variable
    series(saved(tmp_path / "block.onnx", BLOCK), path, name, noise)
    session = runtime.InferenceSession(path)
    assert [each.name for each in session.get_inputs()] == [name]
    columns, forecast = session.run(None, {name: [0.0, 1.0, 4.0, 5.0]})
    assert [*columns] == [name, f"{name}.low", f"{name}.high"]
    # The draw: 7, 7, then 8 − 1 = 7; the deviations from 6, 6, 7 are 1, 1, 0.
    assert forecast[:2] == pytest.approx(np.array([[6, 4, 8], [6, 4, 8]]))
    assert forecast[2] == pytest.approx([7, 7, 7], abs=1e-5)


def test_of_a_single_block_the_deviation_is_its_own(tmp_path: Path, path: Path):
    block = saved(tmp_path / "block.onnx", BLOCK)
    series(block, path, "x", [[[[0], [0]]]], horizon=2, reach=0.5)
    [_, forecast] = runtime.InferenceSession(path).run(None, {"x": [4.0, 5.0]})
    assert forecast == pytest.approx(np.array([[6, 5.5, 6.5]] * 2))
