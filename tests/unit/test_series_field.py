"""The field of series: parsed and shown, stored, cut into windows, named for the viewer."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.data import series, windows
from regard.data.batching import Draw
from regard.data.files import FileText
from regard.data.readers import Report
from regard.data.standard import Standard
from regard.data.store import Column, Store, Writer
from regard.decoding.forecasts import Forecaster, positions
from regard.errors import RecipeError, UserError
from regard.examples.series import Plan, Stored
from regard.fields.series import Field
from regard.heads.real import Config as HeadConfig, Head
from regard.inputs.series import Config as InputConfig, Input
from regard.metrics import forecasts as metrics
from regard.model import Model
from tests.field_sizes import series as series_sizes

ROWS = 20
PARTS = {"train": (0, 12), "validation": (12, 16), "test": (16, 20)}


def text(rows: int = ROWS, time: bool = True) -> str:
    """a is t, b is 10 t + 0.5."""
    header = ["t,a,b"] if time else ["a,b"]
    lines = [f"{t},{t},{10 * t + 0.5}" if time else f"{t},{10 * t + 0.5}" for t in range(rows)]
    return "\n".join(header + lines)


@pytest.fixture
def field(tmp_path: Path) -> Field:
    (tmp_path / "x.csv").write_text(text())
    keys: dict[str, Any] = {"train": 12, "validation": 4, "test": 4}
    data = series.Config(folder=str(tmp_path), file="x.csv", time="t", **keys)
    return Field("series", data, windows.Config(look_back=3, horizon=2))


def learnt(field: Field, mean: float = 0.0) -> Field:
    """With a standard that only takes off a mean."""
    means = np.full(2, mean)
    return replace(field, learnt=Standard(("a", "b"), means, np.ones(2), PARTS))


def plan_of(field: Field) -> Plan:
    return Plan({"past": field, "future": replace(field, ahead=True)})


def forecaster(window: windows.Config, **keys: Any) -> Forecaster:
    """Of one variable."""
    size = series_sizes(1, window.look_back, window.steps).of("series")
    reads = Input(InputConfig(**keys), size, 5, shared=None, scale=False)
    head: Any = Head(HeadConfig(), 5, window.steps, None)
    return Forecaster(Model(reads, None, None, head), window)


# One series


def test_what_is_shown_can_be_parsed(field: Field):
    found = field.parse(text(4))
    assert field.show(found) == text(4)
    assert field.show(series.Series(found.names, found.values)) == text(4, time=False)
    assert field.parse(text(4, time=False)).values.tolist() == found.values.tolist()
    with pytest.raises(UserError, match="no column “t”"):
        field.parse(text(4, time=False), timed=True)


def test_a_table_has_the_delimiter_that_is_read(field: Field):
    other = replace(field, data=replace(field.data, delimiter=";"))
    found = other.parse(text(4).replace(",", ";"))
    assert other.show(found) == text(4).replace(",", ";")


def test_a_run_reads_its_own_variables_and_step(field: Field):
    """Whatever the order of columns is, and whatever else there is."""
    found = learnt(field).parse("b,c,t,a\n7,8,1,9\n")
    assert (found.names, found.values.tolist()) == (("a", "b"), [[9, 7]])


def test_messages_call_a_series_by_its_file_or_its_name(field: Field):
    with pytest.raises(UserError, match=r"^the series:2: “b” is not a number"):
        field.parse("t,a,b\n1,2,x")
    with pytest.raises(UserError, match=r"^input 3:2: “b” is not a number"):
        field.parse("t,a,b\n1,2,x", "input 3")
    with pytest.raises(UserError, match=r"^in\.csv:2: “b” is not a number"):
        field.parse(FileText("t,a,b\n1,2,x", "in.csv"), "input 3")


def test_the_end_of_a_series_is_read(field: Field):
    assert field.last(field.parse(text(9)), "it")[:, 0].tolist() == [6, 7, 8]
    with pytest.raises(UserError, match="it: 2 rows, but the model looks back 3 steps"):
        field.last(field.parse(text(2)), "it")


def test_intervals_are_in_the_unit_of_the_file(field: Field):
    standard = Standard(("a", "b"), np.array([1.0, 10.0]), np.array([2.0, 4.0]), PARTS)
    made = replace(field, learnt=standard)
    mean, deviation = np.array([[0.0, 1.0]]), np.array([[1.0, 0.5]])
    middle, low, high = made.ends(mean, deviation, 2.0)
    assert (middle.tolist(), low.tolist(), high.tolist()) == ([[1, 14]], [[-3, 10]], [[5, 18]])
    found = made.parse("t,a,b\n1,0,0\n2,0,0")
    shown = made.show_forecast(found, middle, low, high)
    assert shown == "t,a,a.low,a.high,b,b.low,b.high\n3,1,-3,5,14,10,18"
    german = replace(made, data=replace(made.data, decimal=","))
    like = "t;a;b\n1;0,5;0\n2;0,5;0"
    shown = german.show_forecast(german.parse(like), middle / 4, low, high, like)
    assert shown == "t;a;a.low;a.high;b;b.low;b.high\n3;0,25;-3;5;3,5;10;18"


# What is learnt and stored


def test_the_file_is_read_once_for_the_doctor_and_the_store(
    field: Field, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    scans, scan = list[series.Config](), series.scanned

    def counted(config: series.Config) -> series.Scanned:
        scans.append(config)
        return scan(config)

    monkeypatch.setattr(series, "scanned", counted)
    plan, seen = plan_of(field), list[Any]()

    def check(raw: Any) -> None:
        assert raw == {} and not (tmp_path / "run" / "series.json").exists()
        seen.extend(found.code for each in plan.fields.values() for found in each.check([]))

    (tmp_path / "run").mkdir()
    report = plan.prepare(tmp_path / "run", None, check)
    assert seen.count("data.counts") == 1, "the future is checked with the past"
    assert (len(scans), report.used, plan.parts) == (1, ROWS, [])


def test_what_cannot_be_read_is_a_finding(field: Field, tmp_path: Path):
    (tmp_path / "x.csv").write_text("")
    assert [each.code for each in field.check([])] == ["data.unreadable"]
    missing = replace(field, data=replace(field.data, file="none.csv"))
    assert [each.code for each in missing.check([])] == ["data.unreadable"]


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        ("\n7,7,", "\n7,x,", {}),
        ("\n7,7,", "\n7,,", {}),
        ("\n7,7,70.5", "", {}),
        ("\n7,7,", "\n5,7,", {}),
        ("t,a,b", "t,a,a", {}),
        ("\n7,7,70.5", "\n7,,70.5\n3,9", {"missing": "fill"}),
    ],
)
def test_a_scan_refuses_what_the_reader_does(
    field: Field, tmp_path: Path, old: str, new: str, keys: dict[str, Any]
):
    (tmp_path / "x.csv").write_text(text().replace(old, new))
    data = replace(field.data, **keys)
    said = []
    for read in (series.read, lambda config, report: series.scanned(config).accepted(report)):
        with pytest.raises(UserError) as error:
            read(data, Report())
        said.append(str(error.value))
    assert said[0] == said[1]


def test_a_scan_reports_what_the_reader_does(field: Field, tmp_path: Path):
    (tmp_path / "x.csv").write_text(text().replace("\n7,7,70.5", "\n7,,").replace("\n9,9,90.5", ""))
    data = replace(field.data, missing="fill", gap="fill")
    straight, late = Report(), Report()
    first, second = series.read(data, straight), series.scanned(data).accepted(late)
    assert first.values.tolist() == second.values.tolist()
    assert (straight.counts, straight.used) == (late.counts, late.used)
    assert straight.used == ROWS - 1


def test_the_store_has_what_is_learnt_and_chosen_by(field: Field, tmp_path: Path):
    plan_of(field).prepare(tmp_path, None)
    store = Store(tmp_path / "store", "steps")
    assert (len(store), store.columns) == (1, {"series": Column("f8", (2,))})
    made = field.load(tmp_path)
    assert made.standard.parts == PARTS
    stored = Stored(tmp_path, made)
    assert stored.raw("train")[:, 0].tolist() == [*range(16)], "the test part is not in it"
    assert stored.raw("test")[:, 0].tolist() == [*range(20)]
    assert stored.values("train")[:12].mean(0) == pytest.approx([0, 0], abs=1e-6)
    assert stored.starts("train", 2).tolist() == [*range(3, 11)]
    assert stored.starts("validation", 2).tolist() == [12, 13, 14]
    with pytest.raises(UserError, match=r"data\.test: it has no row, or too few"):
        stored.starts("test", 5)


def test_a_second_try_takes_up_the_store_of_the_first(field: Field, tmp_path: Path):
    plan_of(field).prepare(tmp_path, None)
    before = {path.name: path.read_bytes() for path in (tmp_path / "store").iterdir()}
    (tmp_path / "series.json").unlink()  # it was killed before this was written
    plan_of(field).prepare(tmp_path, None)
    assert {path.name: path.read_bytes() for path in (tmp_path / "store").iterdir()} == before
    assert (tmp_path / "series.json").is_file()


def test_a_store_of_an_earlier_version_is_read(field: Field, tmp_path: Path):
    plan_of(field).prepare(tmp_path, None)
    stored = Stored(tmp_path, field.load(tmp_path))
    values = stored.raw("train")
    for path in (tmp_path / "store").iterdir():
        path.unlink()
    with pytest.raises(UserError, match=r"cannot be read: .*steps\.json is missing"):
        stored.raw("train")
    np.save(tmp_path / "store" / "series.npy", values)
    assert stored.raw("train").tolist() == values.tolist()


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        (Column("f8", (2,)), [np.zeros((15, 2))], "not one of 16 rows and 2 variables"),
        (Column("f8", (3,)), [np.zeros((16, 3))], "not one of 16 rows and 2 variables"),
        (Column("f4", (2,)), [np.zeros((16, 2), "f4")], "not one of 16 rows and 2 variables"),
        (Column("f8", (2,)), [np.zeros((8, 2))] * 2, "not one of 16 rows and 2 variables"),
        (Column("f8", (2,)), [np.full((16, 2), np.nan)], "not all are finite numbers"),
    ],
)
def test_a_forged_store_is_refused(
    field: Field, tmp_path: Path, column: Column, values: Any, said: str
):
    with Writer(tmp_path / "store", "steps", {"series": column}) as writer:
        writer.add({"series": each} for each in values)
    with pytest.raises(UserError, match=f"the stored data cannot be read: .*{said}"):
        Stored(tmp_path, learnt(field)).raw("train")


def test_a_model_that_is_trained_on_keeps_its_unit(field: Field, tmp_path: Path):
    base, folder = tmp_path / "base", tmp_path / "run"
    for place in (base, folder):
        place.mkdir()
    Standard(("a", "b"), np.array([5.0, 6.0]), np.array([7.0, 8.0]), PARTS).save(base)
    given = {"past": field.load(base)}
    shorter = replace(field, data=replace(field.data, train=10, validation=4, test=4))
    plan_of(shorter).prepare(folder, given)
    table = json.loads((folder / "series.json").read_text())
    assert (table["mean"], table["deviation"]) == ([5, 6], [7, 8])
    assert table["parts"]["validation"] == [10, 14], "the parts are this series' own"
    Standard(("a", "c"), np.zeros(2), np.ones(2), PARTS).save(base)
    with pytest.raises(RecipeError, match=r"data\.variables: a, b here, and a, c in the run"):
        plan_of(shorter).prepare(folder, {"past": field.load(base)})


# Windows


def collated(field: Field, steps: int = 2, starts: tuple[int, ...] = (3, 5)) -> dict[str, Any]:
    values = np.stack([np.arange(12), 10 * np.arange(12)], 1).astype(np.float32)
    rows = field.rows(values, np.array(starts), steps)
    sides = (field, replace(field, ahead=True))
    return {n: a for f in sides for n, a in f.collate(rows, starts, Draw()).items()}


def test_a_batch_by_hand(field: Field):
    made = learnt(replace(field, window=replace(field.window, normalise="last")))
    found = collated(made)
    assert found.keys() == {"series", "targets", "scale"}
    assert found["series"].tolist() == [[[-2, -20], [-1, -10], [0, 0]]] * 2
    assert found["targets"].tolist() == [[1, 10, 2, 20]] * 2, "step after step, all variables"
    assert found["scale"].tolist() == [[1] * 4] * 2
    assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}


def test_independent_variables_are_windows_of_their_own(field: Field):
    window = replace(field.window, normalise="window", independent=True)
    found = collated(learnt(replace(field, window=window)), starts=(3,))
    assert found["series"].shape == (2, 3, 1)
    spread = [math.sqrt(2 / 3 + 1e-5), math.sqrt(200 / 3 + 1e-5)]
    assert found["scale"] == pytest.approx(np.array([[s] * 2 for s in spread]))
    assert found["targets"][0] == pytest.approx(np.array([2, 3]) / spread[0])
    assert found["targets"][1] == pytest.approx(np.array([20, 30]) / spread[1])


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("normalise", ["none", "last", "window"])
def test_training_and_forecasting_read_the_same(field: Field, independent: bool, normalise: Any):
    """Batches are NumPy's, forecasts torch's; what the head is to say comes back as it was."""
    window = replace(field.window, normalise=normalise, independent=independent)
    values = np.random.default_rng(1).normal(4, 3, (12, 7)).astype(np.float32)
    made = replace(field, window=window)
    starts = np.array([3, 4, 5, 8, 9])
    rows = made.rows(values, starts, 2)
    arrays = made.collate(rows, [], Draw()) | replace(made, ahead=True).collate(rows, [], Draw())
    cut = torch.from_numpy(window.cut(values, starts, 2))
    past, future = cut[:, :3], cut[:, 3:]
    read = forecaster(window).batch(past)["series"].numpy()
    assert arrays["series"] == pytest.approx(read, abs=1e-5)
    centre, scale = windows.normaliser(past, normalise)
    said = windows.unfold(torch.from_numpy(arrays["targets"]), window, 7)
    assert torch.allclose(said * scale + centre, future, atol=1e-5)
    unit = windows.unfold(torch.from_numpy(arrays["scale"]), window, 7)
    assert torch.allclose(unit, scale.expand(-1, 2, -1), atol=1e-6)


def test_sizes_of_a_model(field: Field):
    assert learnt(field).size == {"variables": 2, "length": 3, "steps": 2, "outputs": 4}
    alone = learnt(replace(field, window=replace(field.window, independent=True, block=1)))
    assert alone.size == {"variables": 1, "length": 3, "steps": 1, "outputs": 1}


# Forecasts


def test_densities_of_each_step_after_the_first_ones():
    """The last block may be cut off; the true steps before a block are given."""
    by = forecaster(windows.Config(look_back=3, horizon=2))
    values = torch.randn(3 + 5, 1)
    found = list(by.log_densities(values))
    assert len(found) == 5
    for start in (0, 2, 4):
        with torch.no_grad():
            mean, deviation = (x[0, :, 0] for x in by.block(values[None, start : start + 3]))
        true = values[start + 3 :][:2, 0]
        normal = torch.distributions.Normal(mean[: len(true)], deviation[: len(true)])
        assert found[start : start + 2] == pytest.approx(normal.log_prob(true).tolist(), rel=1e-5)
    assert list(by.log_densities(values[:3])) == []


# Looking


@pytest.mark.parametrize(
    ("length", "keys", "spans", "names"),
    [
        (3, {}, [(0, 1), (1, 2), (2, 3)], ["-2", "-1", "0"]),
        (4, {"patch": 2}, [(0, 2), (2, 4)], ["-3 … -2", "-1 … 0"]),
        (5, {"patch": 3, "stride": 2}, [(0, 3), (2, 5)], ["-4 … -2", "-2 … 0"]),
        # The first patch has one step, which is repeated before itself.
        (7, {"patch": 3}, [(0, 1), (1, 4), (4, 7)], ["-6", "-5 … -3", "-2 … 0"]),
    ],
)
def test_positions_are_called_by_their_steps(
    field: Field, length: int, keys: dict[str, Any], spans: list[Any], names: list[str]
):
    assert InputConfig(**keys).spans(length) == spans
    made = replace(field, window=windows.Config(look_back=length, horizon=2))
    by = forecaster(made.window, **keys)
    assert positions(by, made.positions({})) == names
    assert replace(made, ahead=True).positions({}) == ["+1", "+2"]


# Scores


def test_scores_say_how_they_came_about():
    figures = {"mse": np.array([1.0, 3.0]), "coverage": np.array([0.5, 1.0])}
    found = metrics.scores(figures, look_back=3, horizon=2, level=0.9)
    about = "look_back:3|horizon:2|windows:2|values:standardised"
    assert found["mse"].signature == f"{about}|version:1"
    assert found["coverage"].signature == f"{about}|level:0.9|version:1"
    assert (found["mse"].value, found["coverage"].value) == (2, 0.75)
    assert not found["mse"].higher_is_better and found["coverage"].higher_is_better
