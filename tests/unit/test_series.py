"""Series: what is read from CSV, what is refused and where; patches, trends, windows, densities."""

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.data import series, windows
from regard.data.readers import Report
from regard.data.standard import Standard, earlier_rows
from regard.decoding.forecasts import Forecasts
from regard.encoders.linear import Config as LinearConfig, Encoder, moving_average
from regard.errors import RecipeError, UserError
from regard.heads.real import Config as HeadConfig, Head
from regard.inputs.series import Config as InputConfig, Input
from regard.plots.series import forecast
from regard.types import Batch, Sequence
from tests.field_sizes import series as series_sizes

TABLE = """date,a,b
2020-01-01 00:00:00,1,10
2020-01-01 01:00:00,2,20
2020-01-01 02:00:00,3,30
2020-01-01 03:00:00,4,40
"""


def config(tmp_path: Path, text: str = TABLE, **keys: Any) -> series.Config:
    (tmp_path / "x.csv").write_text(text, encoding="utf-8")
    return series.Config(**{"folder": str(tmp_path), "file": "x.csv", "time": "date"} | keys)


# Reading


def test_columns_become_variables(tmp_path):
    report = Report()
    found = series.read(config(tmp_path), report)
    assert found.names == ("a", "b")
    assert found.values.tolist() == [[1, 10], [2, 20], [3, 30], [4, 40]]
    assert (found.first, found.last) == ("2020-01-01 00:00:00", "2020-01-01 03:00:00")
    assert (str(found.step), report.used, found.lines.tolist()) == ("1:00:00", 4, [2, 3, 4, 5])
    assert found.after(2) == ["2020-01-01 04:00:00", "2020-01-01 05:00:00"]


def test_chosen_variables_in_their_order_and_no_times(tmp_path):
    found = series.read(config(tmp_path, time="", variables=("b", "a")))
    assert found.values[0].tolist() == [10, 1]
    assert found.after(2) == ["1", "2"]


def test_gzip_byte_order_mark_and_windows_lines(tmp_path):
    text = "\ufeff" + TABLE.replace("\n", "\r\n") + "\r\n"
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(text.encode()))
    packed = series.Config(folder=str(tmp_path), file="x.csv.gz", time="date")
    assert series.read(packed).values[:, 0].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2,20", "2,zwanzig", r"x\.csv:3: “b” is not a number: “zwanzig”"),
        ("2,20", "2,inf", r"x\.csv:3: “b” is not a number"),
        ("2,20", "2,1_0", r"x\.csv:3: “b” is not a number"),
        ("2,20", "2,", r"x\.csv:3: no value of “b”.*data\.missing"),
        ("2,20", "2,NaN", r"x\.csv:3: no value of “b”"),
        ("2,20", "2", r"x\.csv:3: 2 columns instead of 3"),
        ("2,20", '2,"20', r"x\.csv:3: not CSV"),
        ("date,a,b", "date,a,a", r"x\.csv:1: the header has two columns “a”"),
        ("date,a,b", "day,a,b", r"x\.csv:1: the header has no column “date”"),
        ("2020-01-01 01", "2020-01-01 00", r"x\.csv:3: a repeated time.*data\.repeated"),
        ("2020-01-01 01", "2019-01-01 00", r"x\.csv:3: the time goes back"),
        ("2020-01-01 03", "2020-01-01 05", r"x\.csv:5: steps are left out.*data\.gap"),
        ("2020-01-01 03:00", "2020-01-01 03:30", r"x\.csv:5: no whole number of steps"),
        ("2020-01-01 01:00:00", "noon", r"x\.csv:3: not a time"),
        ("2020-01-01 01:00:00", "7", r"x\.csv:3: not a time"),
        ("2,20", "2,2\x000", r"x\.csv:3: control character"),
        ("2,20", "2,1e999", r"x\.csv:3: “b” is not a number"),
        ("2,20", "2,-1e101", r"x\.csv:3: “b” is beyond 1e\+100: “-1e101”"),
        (
            "2,20",
            '2,"1,5"',
            r"x\.csv:3: “b” is not a number; with data\.decimal = ',' it is one: “1,5”",
        ),
        ("2,20", "2,1,5", r"x\.csv:3: 4 columns instead of 3"),
        ("2,20", "2,1.234,56", r"x\.csv:3: 4 columns instead of 3"),
        ("2,20", "2,1 234", r"x\.csv:3: “b” is not a number"),
        ("date,a,b", "date,date,b", r"x\.csv:1: the header has two columns “date”"),
        ("date,a,b", "date,,b", r"x\.csv:1: column 2 has no name.*data\.variables"),
        ("date,a,b", "date;a;b", r"x\.csv:1: .*no column “date”.*data\.delimiter = 'semicolon'"),
    ],
)
def test_what_is_wrong_is_refused_with_file_and_line(tmp_path, old, new, message):
    with pytest.raises(UserError, match=message):
        series.read(config(tmp_path, TABLE.replace(old, new)))


def test_a_column_without_a_name_is_neither_learnt_nor_left_out_in_silence(tmp_path):
    text = ",a\n0,5\n1,6\n"
    with pytest.raises(UserError, match=r"x\.csv:1: column 1 has no name.*data\.variables"):
        series.read(config(tmp_path, text, time=""))
    found = series.read(config(tmp_path, text, time="", variables=("a",)))
    assert found.values.tolist() == [[5], [6]]


def test_names_that_are_numbers_are_a_row_without_names(tmp_path):
    bare = "1.5,2\n3,4\n5,6\n"
    with pytest.raises(UserError, match=r"x\.csv:1: .*first line must name the columns"):
        series.read(config(tmp_path, bare, time=""))
    found = series.read(config(tmp_path, bare, time="", variables=("1.5",)))
    assert found.values[:, 0].tolist() == [3, 5]


@pytest.mark.parametrize(
    ("text", "separator"), [("a\n1\n\n3\n\n\n", ","), ("a\tb\n1\t1\n\t\n3\t3\n", "\t")]
)
def test_an_empty_cell_is_no_step_less(tmp_path, text, separator):
    """A row whose cells are all empty is a line with nothing but separators, if any."""
    keys: dict[str, Any] = {"time": "", "delimiter": separator}
    with pytest.raises(UserError, match=r"x\.csv:3: no value of “a”"):
        series.read(config(tmp_path, text, **keys))
    found = series.read(config(tmp_path, text, missing="fill", **keys))
    assert found.values[:, 0].tolist() == [1, 1, 3]
    assert found.lines.tolist() == [2, 3, 4]


def test_empty_lines_around_and_between_rows(tmp_path):
    text = "\n" + TABLE.replace("2020-01-01 02", "\n2020-01-01 02") + "\n\n"
    found = series.read(config(tmp_path, text))
    assert found.values[:, 0].tolist() == [1, 2, 3, 4]
    assert found.lines.tolist() == [3, 4, 6, 7]


def test_nothing_to_read_is_refused(tmp_path):
    with pytest.raises(UserError, match="no row follows"):
        series.read(config(tmp_path, "date,a,b\n"))
    with pytest.raises(UserError, match="no column"):
        series.read(config(tmp_path, ""))
    with pytest.raises(RecipeError, match=r"y\.csv: there is no such file; did you mean 'x\.csv'"):
        series.read(config(tmp_path, file="y.csv"))


def test_a_missing_value_is_the_one_before_it(tmp_path):
    report = Report()
    text = TABLE.replace("2,20", ",20").replace("3,30", "NA,30")
    found = series.read(config(tmp_path, text, missing="fill"), report)
    assert found.values[:, 0].tolist() == [1, 1, 1, 4]
    assert report.counts == {"no value of “a”": 2}
    with pytest.raises(UserError, match=r"x\.csv:2: .*none before it"):
        series.read(config(tmp_path, TABLE.replace("1,10", ",10"), missing="fill"))


def test_a_gap_is_filled_with_the_row_before(tmp_path):
    text = TABLE.replace("2020-01-01 03", "2020-01-01 05")
    filled = series.read(config(tmp_path, text, gap="fill"))
    assert filled.values[:, 0].tolist() == [1, 2, 3, 3, 3, 4]
    assert series.read(config(tmp_path, text, gap="ignore")).values[:, 0].tolist() == [1, 2, 3, 4]
    far = TABLE.replace("2020-01-01 03", "2920-01-01 03")
    with pytest.raises(UserError, match="more rows would be filled in than there are"):
        series.read(config(tmp_path, far, gap="fill"))


def test_the_first_of_repeated_times_is_taken(tmp_path):
    text = TABLE.replace("2020-01-01 02", "2020-01-01 01").replace("2020-01-01 03", "2020-01-01 02")
    found = series.read(config(tmp_path, text, repeated="first"))
    assert found.values[:, 0].tolist() == [1, 2, 4]


@pytest.mark.parametrize(
    ("times", "after"),
    [
        (["2020-02-27", "2020-02-28"], "2020-02-29"),
        (["2020-02-27T22:00", "2020-02-27T23:00"], "2020-02-28T00:00"),
        (["2020-01-01 00:00:00+02:00", "2020-01-01 00:15:00+02:00"], "2020-01-01 00:30:00+02:00"),
        (["0.1", "0.2", "0.3"], "0.4"),
        (["7", "14"], "21"),
    ],
)
def test_times_go_on_as_they_are_written(tmp_path, times, after):
    text = "date,a\n" + "".join(f"{time},1\n" for time in times)
    assert series.read(config(tmp_path, text)).after(1) == [after]


# Parts and standardisation


def test_parts_are_numbers_of_rows_or_shares(tmp_path):
    counted = config(tmp_path, train=5, validation=2, test=2)
    assert counted.bounds(10) == {"train": (0, 5), "validation": (5, 7), "test": (7, 9)}
    shared = config(tmp_path, train=0.6, validation=0.2, test=0.2)
    assert shared.bounds(11) == {"train": (0, 7), "validation": (7, 9), "test": (9, 11)}
    with pytest.raises(RecipeError, match=r"want 9 rows, but x\.csv has 8"):
        counted.bounds(8)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"train": 0.9, "validation": 0.1, "test": 0.1}, "fractions of train"),
        ({"train": 100.5}, "neither a fraction nor a whole number"),
        ({"variables": ("date",)}, "column of times"),
        ({"variables": ("a", "a")}, "only once"),
        ({"delimiter": ", "}, "one character"),
        ({"delimiter": '"'}, "one character"),
        ({"time": "", "order": "sort"}, r"order: .*data\.time"),
        ({"set": "et", "folder": ""}, "did you mean"),
    ],
)
def test_a_wrong_section_is_refused(tmp_path, keys, message):
    with pytest.raises(RecipeError, match=message):
        config(tmp_path, **keys)


def test_the_training_part_alone_standardises(tmp_path):
    values = np.array([[1.0, 5], [3, 5], [1, 5], [3, 5], [900, 900]])
    parts = {"train": (0, 4), "validation": (4, 4), "test": (4, 5)}
    found = Standard.fit(series.Series(("a", "b"), values), parts)
    assert found.mean.tolist() == [2, 5]
    assert found.deviation.tolist() == [1, 1], "what never changes is divided by nothing"
    assert found.apply(values)[[0, 4]].tolist() == [[-1, 0], [898, 895]]
    assert np.allclose(found.undo(found.apply(values)), values)
    found.save(tmp_path)
    again = Standard.load(tmp_path)
    assert (again.names, again.parts) == (found.names, found.parts)
    assert (again.mean == found.mean).all() and (again.deviation == found.deviation).all()
    assert again.step is None
    for step in ({"unit": "weeks", "length": "1"}, {"unit": "seconds", "length": "x"}, "1"):
        table = json.loads((tmp_path / "series.json").read_text()) | {"step": step}
        (tmp_path / "series.json").write_text(json.dumps(table))
        with pytest.raises(UserError, match=r"series\.json cannot be read"):
            Standard.load(tmp_path)
    for odd, said in (({"mean": [1]}, "mean has 1"), ({"deviation": [1, 0]}, "a deviation")):
        found.save(tmp_path)
        table = json.loads((tmp_path / "series.json").read_text()) | odd
        (tmp_path / "series.json").write_text(json.dumps(table))
        with pytest.raises(UserError, match=rf"series\.json cannot be read: {said}"):
            Standard.load(tmp_path)
    (tmp_path / "series.json").write_text("{}")
    with pytest.raises(UserError, match=r"series\.json cannot be read"):
        Standard.load(tmp_path)


def test_numbers_that_are_far_away():
    values = np.array([[-1e100], [1e100], [-1e100], [1e100]])
    found = Standard.fit(series.Series(("a",), values), {"train": (0, 4)})
    assert found.deviation.tolist() == [1e100]
    assert found.apply(values)[:, 0].tolist() == [-1, 1, -1, 1]
    small = Standard.fit(series.Series(("a",), values / 1e100), {"train": (0, 4)})
    with pytest.raises(UserError, match=r"input 1: “a”: -1e\+100 is too far from what was learnt"):
        small.apply(values, "input 1")
    assert small.apply(np.array([[1e30]])).tolist() == [[np.float32(1e30)]]


def test_a_level_far_above_the_variation_is_no_constant():
    values = np.array([[1e9 - 1], [1e9 + 1]] * 2)
    found = Standard.fit(series.Series(("a",), values), {"train": (0, 4)})
    assert found.apply(values)[:, 0].tolist() == [-1, 1, -1, 1]
    flat = Standard.fit(series.Series(("a",), np.full((4, 1), 0.1)), {"train": (0, 4)})
    assert flat.deviation.tolist() == [1]


GOOD = {
    "variables": ["a", "b"],
    "mean": [1.0, 2.0],
    "deviation": [1.0, 0.5],
    "parts": {"train": [0, 7], "validation": [7, 8], "test": [8, 10]},
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"variables": ["a", "a"]}, "each once"),
        ({"variables": []}, "there must be one"),
        ({"variables": ["a", None]}, "a variable is no text"),
        ({"variables": ["a", "b\n"]}, "a line break"),
        ({"mean": [1.0]}, "mean has 1 values instead of 2"),
        ({"mean": [1.0, 2.0, 3.0]}, "mean has 3 values"),
        ({"mean": [[1.0], [2.0]]}, "a mean is no number"),
        ({"mean": [1.0, float("nan")]}, "a mean is no finite number"),
        ({"mean": [1.0, True]}, "a mean is no number"),
        ({"mean": 1.0}, "mean is no list"),
        ({"deviation": [1.0]}, "deviation has 1 values"),
        ({"deviation": [1.0, 0.0]}, "a deviation is no finite number above 0"),
        ({"deviation": [1.0, -1.0]}, "a deviation is no finite number above 0"),
        ({"deviation": [1.0, float("inf")]}, "a deviation is no finite number"),
        ({"deviation": [1.0, None]}, "a deviation is no number"),
        ({"parts": {"train": [0, 7], "test": [7, 9]}}, "parts has no 'validation'"),
        ({"parts": {"train": [0, 7], "validation": [6, 8], "test": [8, 9]}}, "the beginning of"),
        ({"parts": {"train": [0, 0], "validation": [0, 8], "test": [8, 9]}}, "the end of train"),
        ({"parts": {"train": [0, 7], "validation": [7, 2**63], "test": [8, 9]}}, "the end of"),
        ({"parts": {"train": [0, 7, 7], "validation": [7, 8], "test": [8, 9]}}, "3 values"),
        ({"parts": []}, "parts is no object"),
        ({"more": 1}, "unknown key"),
    ],
)
def test_a_forged_scaler_is_refused(tmp_path, change, said):
    (tmp_path / "series.json").write_text(json.dumps(GOOD))
    assert Standard.load(tmp_path).names == ("a", "b")
    (tmp_path / "series.json").write_text(json.dumps(GOOD | change))
    with pytest.raises(UserError, match=rf"series\.json cannot be read: .*{said}"):
        Standard.load(tmp_path)


def test_forged_rows_are_refused_before_memory_is_taken(tmp_path):
    path, values = tmp_path / "series.npy", np.arange(12.0).reshape(6, 2)
    np.save(path, values)
    assert earlier_rows(path, 6, 2).tolist() == values.tolist()
    good = path.read_bytes()
    huge = good.replace(b"(6, 2), }" + b" " * 12, b"(600000000000, 2), } ")
    forged = {
        "another shape": good.replace(b"(6, 2)", b"(2, 6)"),
        "a huge shape": huge,
        "another type": good.replace(b"<f8", b"<i8"),
        "objects": good.replace(b"'<f8'", b"'|O'  "),
        "cut off": good[:-1],
        "longer": good + b"x",
        "no header": good[:9],
        "another format": b"PK" + good[2:],
        "code": good.replace(b"False", b"f(1) "),
        "no number": good[:-8] + np.array([np.nan]).tobytes(),
    }
    for what, data in forged.items():
        assert data != good, what
        path.write_bytes(data)
        with pytest.raises(UserError, match=r"cannot be read: .*series\.npy"):
            earlier_rows(path, 6, 2)
    path.write_bytes(good)
    with pytest.raises(UserError, match=r"series\.npy: \(6, 2\) numbers"):
        earlier_rows(path, 7, 2)


# Windows


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_windows_are_normalised_by_their_past(kind: Any):
    past = kind([[[1.0], [3.0]]])
    centre, scale = windows.normaliser(past, "last")
    assert (centre.item(), scale.item()) == (3.0, 1.0)
    centre, scale = windows.normaliser(past, "window")
    assert centre.item() == 2.0
    assert scale.item() == pytest.approx(math.sqrt(1 + 1e-5))
    centre, scale = windows.normaliser(past, "none")
    assert (centre.item(), scale.item()) == (0.0, 1.0)


@pytest.mark.parametrize("normalise", ["none", "last", "window"])
def test_arrays_and_tensors_are_normalised_alike(normalise: str):
    past = np.random.default_rng(1).normal(3, 2, (5, 11, 7)).astype(np.float32)
    for array, tensor in zip(
        windows.normaliser(past, normalise),
        windows.normaliser(torch.from_numpy(past), normalise),
        strict=True,
    ):
        assert isinstance(array, np.ndarray) and array.dtype == np.float32
        assert isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float32
        assert array.shape == (5, 1, 7)
        assert array == pytest.approx(tensor.numpy(), rel=1e-6)


def test_windows_begin_where_a_past_stands_before_them():
    window = windows.Config(look_back=4, horizon=2)
    assert window.starts((0, 10), 2).tolist() == [4, 5, 6, 7, 8]
    assert window.starts((10, 15), 2).tolist() == [10, 11, 12, 13]
    assert window.starts((10, 11), 2).tolist() == []
    cut = window.cut(np.arange(20.0)[:, None], np.array([4, 9]), 2)
    assert cut[..., 0].tolist() == [[0, 1, 2, 3, 4, 5], [5, 6, 7, 8, 9, 10]]


def test_figures_by_hand():
    found = Forecasts(
        torch.tensor([[[0.0, 3.0]]]), torch.tensor([[[1.0, 1.0]]]), torch.tensor([[[1.0, 2.0]]])
    )
    figures = found.figures(0.99)
    assert figures["mse"] == 2.5 and figures["mae"] == 1.5
    assert figures["coverage"] == 0.0 and found.figures(1.01)["coverage"] == 1.0
    nll = 0.5 * math.log(2 * math.pi) + (0 + math.log(2)) / 2 + 0.5
    assert figures["nll"] == pytest.approx(nll)


# Parts of the model


def reads(values: torch.Tensor, dim: int, **keys: Any) -> tuple[Input, Sequence]:
    size = series_sizes(values.shape[2], values.shape[1]).of("series")
    made = Input(InputConfig(**keys), size, dim, shared=None, scale=False)
    return made, made(Batch(tensors={"series": values}, ids=(0,), targets=0))


def test_values_themselves():
    values = torch.randn(1, 5, 3)
    _, found = reads(values, 3, project=False)
    assert torch.equal(found.states, values) and found.mask.all()
    with pytest.raises(RecipeError, match="number of variables"):
        reads(values, 4, project=False)


def test_patches_end_with_the_last_step():
    values = torch.arange(1.0, 8.0).view(1, 7, 1)
    made, found = reads(values, 5, patch=3, stride=2)
    assert made.patches(values).tolist() == [[[1, 2, 3], [3, 4, 5], [5, 6, 7]]]
    assert found.states.shape == (1, 3, 5)
    made, _ = reads(values, 5, patch=3)
    assert made.patches(values).tolist() == [[[1, 1, 1], [2, 3, 4], [5, 6, 7]]]
    assert InputConfig(patch=16, stride=8).positions(336) == 41
    assert InputConfig().positions(336) == 336


def test_a_patch_holds_all_variables_of_its_steps():
    values = torch.tensor([[[1.0, 10], [2, 20], [3, 30], [4, 40]]])
    made, _ = reads(values, 5, patch=2)
    assert made.patches(values).tolist() == [[[1, 10, 2, 20], [3, 30, 4, 40]]]


def test_strides_that_leave_out_steps_are_refused():
    with pytest.raises(RecipeError, match="stride"):
        InputConfig(patch=2, stride=3)
    with pytest.raises(RecipeError, match="project"):
        InputConfig(patch=2, project=False)


def test_trend_by_hand_and_padding_changes_nothing():
    x = torch.tensor([[[3.0], [6.0], [9.0], [0.0], [99.0]]])
    mask = torch.tensor([[True, True, True, True, False]])
    trend = moving_average(x, mask, 3)[0, :4, 0]
    assert torch.allclose(trend, torch.tensor([4.5, 6.0, 5.0, 4.5]))
    short = moving_average(x[:, :4], mask[:, :4], 3)[0, :, 0]
    assert torch.allclose(trend, short)


def test_trend_and_remainder_add_up():
    x, mask = torch.randn(2, 11, 3), torch.ones(2, 11, dtype=torch.bool)
    encoder = Encoder(LinearConfig(window=5), 3)
    states, real = encoder(Sequence(x, mask))
    assert states.shape == (2, 22, 3) and real.shape == (2, 22)
    assert encoder.resized(5) == 10
    assert torch.allclose(states[:, :11] + states[:, 11:], x, atol=1e-6)
    assert torch.equal(Encoder(LinearConfig(window=1), 3)(Sequence(x, mask)).states, x)
    with pytest.raises(RecipeError, match="odd"):
        LinearConfig(window=4)


@pytest.mark.parametrize("loss", ["squared", "gaussian"])
def test_loss_is_that_of_the_unscaled_values(loss):
    head = Head(HeadConfig(loss=loss, readout="flatten"), 3, 5, None, positions=2)
    hidden, mask = torch.randn(7, 2, 3), torch.ones(7, 2, dtype=torch.bool)
    targets, scale = torch.randn(7, 5), torch.rand(7, 5) + 0.5
    terms = head.loss(hidden, targets, mask, scale)
    mean, deviation = head.normal(head.pool(Sequence(hidden, mask)))
    normal = torch.distributions.Normal(mean * scale, deviation * scale)
    expected = -normal.log_prob(targets * scale).sum()
    assert terms["nll"].sum.item() == pytest.approx(expected.item(), rel=1e-5)
    squares = ((targets - mean) * scale).square().sum()
    assert terms["mse"].sum.item() == pytest.approx(squares.item(), rel=1e-5)
    assert {name for name, term in terms.items() if term.weight} == {
        "nll" if loss == "gaussian" else "mse"
    }
    assert all(term.count == 35 for term in terms.values())


def test_squared_error_has_the_deviation_that_validation_gave():
    head = Head(HeadConfig(), 3, 2, None)
    head.deviation.data = torch.tensor([2.0, 5.0])
    _, deviation = head.normal(torch.randn(4, 3))
    assert deviation.tolist() == [[2.0, 5.0]] * 4
    assert not head.deviation.requires_grad


def test_a_picture_has_a_panel_for_each_variable():
    past, ahead = np.zeros((9, 3)), np.ones((4, 3))
    figure = forecast("abc", past, ahead, ahead, ahead - 1, ahead + 1, title="t")
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title(loc="left") for ax in shown] == ["a", "b", "c"]
    assert [len(ax.get_lines()) for ax in shown] == [4, 4, 4]
    with pytest.raises(UserError, match="no values"):
        forecast("", past, None, ahead[:0], ahead, ahead, title="t")
