"""The forecast, from CSV to CSV: learns what can be known, says how sure it is, goes on exactly."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from regard import cli, front
from regard.decoding.intervals import conformal
from regard.errors import RecipeError, UserError
from regard.front import Predictor
from regard.metrics import forecasts as forecast_metrics
from regard.model import build
from regard.recipe.config import recipe
from regard.recipe.parts import Part
from regard.runs import Run
from regard.tasks.forecast import Task
from regard.train.checkpoint import Checkpoint
from regard.types import Position

LINEAR = {"dim": 1, "input": {"project": False}, "encoder": {"kind": "linear", "window": 3}}
FLAT = {"readout": "flatten"}
NONE = Part("none", None)
PHI = 0.8

Write = Callable[..., dict[str, Any]]


class Stopped(Exception):
    pass


@pytest.fixture(scope="module", autouse=True)
def no_pictures() -> Iterator[None]:
    """They take longer to draw than these models to train."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.runs.finishing.draw", lambda folder, records: None)
        patch.setattr("regard.tasks.forecast.Task._draw", lambda *_: None)
        yield


def autoregressive(rows: int, variables: int = 1) -> NDArray[np.float64]:
    """x_t = φ x_{t−1} + e_t with e_t ~ N(0, 1): nothing predicts it better than φ x_{t−1}."""
    noise = np.random.default_rng(1).normal(size=(rows + 50, variables))
    for t in range(1, len(noise)):
        noise[t] += PHI * noise[t - 1]
    return noise[50:]


def waves(rows: int) -> NDArray[np.float64]:
    """Sines of two periods on a trend."""
    t = np.arange(rows)[:, None]
    found: NDArray[np.float64] = np.sin(2 * math.pi * t / np.array([8, 12])) + 0.02 * t
    return found


@pytest.fixture
def table(tmp_path: Path) -> Write:
    def make(values: NDArray[np.float64], head: dict[str, Any] | None = None, **sections: Any):
        """A recipe for a series; `sections` add to its own."""
        names = [chr(ord("a") + n) for n in range(values.shape[1])]
        rows = [f"{t},{','.join(map(repr, row))}\n" for t, row in enumerate(values.tolist())]
        (tmp_path / "x.csv").write_text("".join([",".join(["t", *names]) + "\n", *rows]))
        made: dict[str, Any] = {
            "task": "forecast",
            "data": {"folder": str(tmp_path), "file": "x.csv", "time": "t"},
            "window": {"look_back": 12, "horizon": 4, "independent": True},
            "model": {**LINEAR, "head": FLAT | (head or {})},
            "train": {
                "updates": 200,
                "log_every": 1000,
                "validate_every": 50,
                "save_every": 50,
                "metric": "mse",
                "threads": 1,
                "precision": "float32",
                "optimizer": {"learning_rate": 0.02},
                "schedule": {"kind": "cosine", "warmup": 5},
            },
        }
        for name, value in sections.items():
            made[name] = made.get(name, {}) | value
        return made

    return make


def prepared(made: dict[str, Any], to: Path) -> Task:
    task: Any = Run.create(to, recipe(made)).task
    return task  # type: ignore[no-any-return]


def scores(predictor: Predictor, part: str = "test") -> dict[str, float]:
    return {name: score.value for name, score in predictor.evaluate(part)[0].items()}


# Windows


def test_windows_are_counted(table: Write, tmp_path: Path):
    values = np.arange(20.0)[:, None]
    made = table(
        values,
        data={"train": 10, "validation": 5, "test": 4},
        window={"look_back": 4, "horizon": 2},
        batch={"windows": 100},
    )
    task = prepared(made, tmp_path / "run")
    assert len(task.batches(1).at(Position())) == 10 - 4 - 2 + 1
    assert [len(task.stored.starts(part, 2)) for part in ("validation", "test")] == [4, 3]
    sides = task.references("validation")
    assert sides == (["a\n6\n7\n8\n9", "a\n8\n9\n10\n11"], ["a\n10\n11", "a\n12\n13"])


def test_training_sees_nothing_but_its_part(table: Write, tmp_path: Path):
    values = autoregressive(60)
    spoilt = values.copy()
    spoilt[42:] = 1e6
    first, second = (
        prepared(table(v), tmp_path / name) for name, v in (("one", values), ("two", spoilt))
    )
    assert first.past.standard.mean == second.past.standard.mean
    assert first.past.standard.mean == pytest.approx(values[:42].mean(0))
    assert first.past.standard.deviation == pytest.approx(values[:42].std(0))
    batches = [task.batches(3).at(Position(0, 0)) for task in (first, second)]
    assert torch.equal(*(batch["series"] for batch in batches))
    assert torch.equal(*(batch["targets"] for batch in batches))


def test_all_windows_of_the_hourly_series_count(shared_data, tmp_path: Path):
    data: dict[str, Any] = {"folder": str(shared_data("ett")), "file": "ETTh1.csv", "time": "date"}
    data |= {"train": 8640, "validation": 2880, "test": 2880}
    made = {"task": "forecast", "data": data, "model": {"dim": 8}}
    task = prepared(made, tmp_path / "run")
    counts = [len(task.stored.starts(part, 96)) for part in ("train", "validation", "test")]
    assert counts == [8640 - 336 - 96 + 1, 2880 - 96 + 1, 2880 - 96 + 1]
    assert task.past.standard.names == ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
    learnt = torch.from_numpy(task.stored.values("train")[:8640])
    assert torch.allclose(learnt.mean(0), torch.zeros(7), atol=1e-5)
    assert torch.allclose(learnt.std(0, correction=0), torch.ones(7), atol=1e-5)


# Learning


def test_sines_on_a_trend_are_learnt(table: Write, tmp_path: Path):
    made = table(waves(200), window={"look_back": 24, "normalise": "last"})
    found = scores(front.train(made, "train.updates=400", to=tmp_path / "run"))
    assert found["mse"] < 1e-3


def test_nothing_is_better_than_what_can_be_known(table: Write, tmp_path: Path):
    """The error of the true φ on the same windows is the bound."""
    values = autoregressive(1500)
    made = table(values, window={"look_back": 4, "horizon": 1}, batch={"windows": 128})
    predictor = front.train(made, to=tmp_path / "run")
    found = scores(predictor)
    task: Any = predictor.task
    start, end = task.past.standard.parts["test"]
    errors = values[start:end] - PHI * values[start - 1 : end - 1]
    best = float((errors**2).mean() / task.past.standard.deviation[0] ** 2)
    assert best == pytest.approx(1 - PHI**2, rel=0.2)
    assert found["mse"] == pytest.approx(best, rel=0.05)
    assert found["coverage"] == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize(
    "encoder",
    [
        {"kind": "rnn", "cell": "gru", "layers": 1, "bidirectional": False, "dropout": 0.0},
        {
            "kind": "transformer",
            "layers": 1,
            "heads": 2,
            "feedforward": 32,
            "norm": "pre",
            "dropout": 0,
        },
    ],
    ids=["rnn", "transformer"],
)
@pytest.mark.parametrize("independent", [False, True], ids=["together", "independent"])
def test_other_encoders_learn(encoder, independent: bool, table: Write, tmp_path: Path):
    model = {"dim": 16, "encoder": encoder, "head": {"readout": "last"}}
    model["input"] = {"patch": 4, "stride": 2} if encoder["kind"] == "transformer" else {}
    window = {"normalise": "last", "independent": independent}
    made = table(waves(120), model=model, window=window)
    made["train"] |= {"updates": 80, "optimizer": {"learning_rate": 0.01}}
    run = Run.create(tmp_path / "run", recipe(made))
    task: Any = run.task
    untrained = build(run.recipe.model, task.sizes)
    before = task.validate(untrained)["mse"]
    assert scores(front.train(resume=tmp_path / "run"), "validation")["mse"] < before / 4


# Autoregressive forecasts


def test_a_block_of_the_whole_horizon_is_direct(table: Write, tmp_path: Path):
    values = autoregressive(120, 2)
    found = []
    for block in (0, 1):
        made = table(values, window={"horizon": 1, "block": block})
        made["train"]["updates"] = 5
        predictor = front.train(made, to=tmp_path / str(block))
        found.append(scores(predictor) | {"size": predictor.model.size()})
    assert found[0] == found[1]


def test_what_was_predicted_is_read(table: Write, tmp_path: Path):
    made = table(autoregressive(120, 2), window={"horizon": 5, "block": 2})
    run = Run.create(tmp_path / "run", recipe(made))
    task: Any = run.task
    model = build(run.recipe.model, task.sizes).eval()
    past = torch.randn(3, 12, 2)
    with torch.no_grad():
        mean, deviation = task.by(model).forecast(past, 5, paths=3)
        first, _ = task.by(model).block(past)
        second, _ = task.by(model).block(torch.cat([past[:, 2:], first], 1))
        third, _ = task.by(model).block(torch.cat([past[:, 4:], first, second], 1))
        alone, apart = task.by(model).forecast(past[1:2], 5, paths=3)
    assert mean.shape == deviation.shape == (3, 5, 2)
    assert torch.allclose(mean, torch.cat([first, second, third[:, :1]], 1), atol=1e-6)
    assert torch.allclose(alone, mean[1:2], atol=1e-6)
    assert torch.allclose(apart, deviation[1:2], atol=1e-5)


def test_uncertainty_grows_as_it_must(table: Write, tmp_path: Path):
    """σ_k² = 1 + φ² + … + φ^(2k−2) for k steps ahead, in units of the noise."""
    window = {"look_back": 4, "horizon": 6, "block": 1}
    made = table(autoregressive(1500), window=window, batch={"windows": 128})
    predictor = front.train(made, "intervals.paths=400", to=tmp_path / "run")
    task: Any = predictor.task
    with torch.no_grad():
        _, deviation = task.by(predictor.model).forecast(torch.zeros(1, 4, 1), 6, 400)
    found = deviation[0, :, 0].numpy() * task.past.standard.deviation[0]
    expected = np.sqrt(np.cumsum(PHI ** (2 * np.arange(6))))
    assert found == pytest.approx(expected, rel=0.12)


def test_gaussian_intervals_hold_what_they_promise(table: Write, tmp_path: Path):
    """Noise whose deviation changes with what is seen: only a predicted variance can follow."""
    random = np.random.default_rng(2)
    loud = (np.arange(2400) // 8 % 2).astype(float)
    values = np.stack([random.normal(size=2400) * (0.5 + 2 * loud), loud], 1)
    window = {"look_back": 8, "horizon": 1, "independent": False}
    model = {"dim": 2, "head": FLAT | {"loss": "gaussian"}}
    made = table(values, window=window, model=model, batch={"windows": 128})
    made["train"] |= {"metric": "nll", "updates": 250}
    made["data"]["variables"] = ["a", "b"]
    predictor = front.train(made, to=tmp_path / "run")
    task: Any = predictor.task
    found = task.judge(predictor.model, "test", 1)
    inside = (found.distance().abs() <= task.config.intervals.reach)[..., 0].double()
    assert float(inside.mean()) == pytest.approx(0.9, abs=0.05)
    widths = found.deviation[:, 0, 0]
    # A step after four quiet ones is quiet, one in the midst of loud ones is loud.
    starts = task.stored.starts("test", 1)
    cut = torch.from_numpy(task.window.cut(task.stored.values("test"), starts, 1))
    before = cut[:, -5:-1, 1]
    quiet, noisy = (before < 0).all(1), (before > 0).all(1)
    assert float(widths[noisy].mean()) > 1.5 * float(widths[quiet].mean())


# Runs


def test_resume_is_exact(table: Write, tmp_path: Path):
    model = {"dim": 8, "encoder": {"kind": "rnn", "layers": 1, "dropout": 0.2}, "input": {}}
    made = table(waves(100), model=model)
    made["train"] |= {"updates": 9, "log_every": 1, "save_every": 3, "validate_every": 4}
    front.train(made, to=tmp_path / "straight")

    def stop(record: dict[str, Any]) -> None:
        if record["kind"] == "train" and record["update"] == 5:
            raise Stopped

    with pytest.raises(Stopped):
        front.train(made, to=tmp_path / "stopped", callback=stop)
    (tmp_path / "x.csv").unlink()  # all that training needs is in the run
    resumed = front.train(resume=tmp_path / "stopped")
    straight = front.load(tmp_path / "straight")
    for name, weight in straight.model.state_dict().items():
        assert torch.equal(weight, resumed.model.state_dict()[name]), name
    last = [Checkpoint(tmp_path / n / "checkpoints" / "00000009") for n in ("straight", "stopped")]
    one, two = (checkpoint.optimizer() for checkpoint in last)
    assert one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)


def test_variables_that_share_a_model_are_calibrated_each_by_itself(table: Write, tmp_path: Path):
    """In validation and test the second variable is three times as loud as it was."""
    values = autoregressive(400, 2)
    values[200:, 1] *= 3
    made = table(values, intervals={"width": "window"})
    run = tmp_path / "run"
    predictor = front.train(made, "train.updates=50", to=run)
    head, task = cast("Any", predictor.model.head), cast("Any", predictor.task)
    reach = torch.full((1, 4, 2), task.config.intervals.reach).double()
    assert head.deviation.shape == (2 * 4,)
    far = task.judge(predictor.model, "validation", 4).distance().abs()
    assert torch.allclose(conformal(far, 0.9, shared=False), reach, rtol=1e-4)
    # The head may serve one variable alone: what validation decides is decided anew.
    alone, weights = (
        table(values[:, :1], intervals={"width": "window"}),
        f"model.head.weights={run}",
    )
    begun = front.train(alone, "train.updates=1", weights, to=tmp_path / "alone")
    assert cast("Any", begun.model.head).deviation.shape == (4,)


def test_calibration_is_saved_with_the_model(table: Write, tmp_path: Path):
    made = table(autoregressive(200))
    predictor = front.train(made, "train.updates=50", to=tmp_path / "run")
    head: Any = predictor.model.head
    assert head.deviation.shape == (4,) and not torch.equal(head.deviation, torch.ones(4))
    task: Any = predictor.task
    # What was decided is a fixed point: done again, it changes nothing.
    far = conformal(
        task.judge(predictor.model, "validation", 4).distance().abs(), 0.9, shared=True
    ).flatten()
    assert torch.allclose(far, torch.full((4,), task.config.intervals.reach).double(), rtol=1e-4)


# Using it


@pytest.fixture
def trained(table: Write, tmp_path: Path) -> Predictor:
    made = table(waves(100), window={"look_back": 24, "normalise": "last"})
    return front.train(made, "train.updates=60", to=tmp_path / "run")


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_in_csv_out(trained: Predictor, tmp_path: Path, capsys):
    text = (tmp_path / "x.csv").read_text()
    short, empty, longer = trained.predictions([text, "", text])
    rows = rows_of(short.text)
    assert list(rows[0]) == ["t", "a", "a.low", "a.high", "b", "b.low", "b.high"]
    assert [row["t"] for row in rows] == ["100", "101", "102", "103"]
    assert all(float(r["a.low"]) < float(r["a"]) < float(r["a.high"]) for r in rows)
    assert (empty.text, empty.status) == ("", "empty")
    assert longer == short
    [more] = trained.predict([text], length=9)
    assert len(rows_of(more)) == 9 and rows_of(more)[3]["a"] == rows[3]["a"]
    cli.main(["predict", str(tmp_path / "run"), str(tmp_path / "x.csv")])
    assert capsys.readouterr().out == short.text + "\n"


def test_order_and_surplus_of_columns_do_not_matter(trained: Predictor, tmp_path: Path):
    text = (tmp_path / "x.csv").read_text()
    lines = [line.split(",") for line in text.splitlines()]
    turned = "\n".join(",".join([b, "x", a, t]) for t, a, b in lines)
    assert trained.predict([turned]) == trained.predict([text])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t,a,b\n1,2,3\n", "input 1: 1 rows, but the model looks back 24"),
        ("t,a\n1,2\n", "input 1:1: the header has no column “b”"),
        ("t,a,b\n1,2,x\n", "input 1:2: “b” is not a number"),
    ],
)
def test_an_input_that_cannot_be_read_is_named(trained: Predictor, text: str, message: str):
    with pytest.raises(UserError, match=message):
        trained.predict([text])


def backwards(text: str) -> str:
    """The same with its newest row first."""
    header, *rows = text.splitlines()
    return "\n".join([header, *rows[::-1]])


def split(text: str, at: int) -> tuple[str, str]:
    """The rows up to one, and those that follow."""
    header, *rows = text.splitlines()
    return "\n".join([header, *rows[:at]]), "\n".join([header, *rows[at:]])


def test_an_input_with_its_newest_row_first_is_refused(trained: Predictor, tmp_path: Path):
    text = (tmp_path / "x.csv").read_text()
    past, future = split(text, 90)
    with pytest.raises(UserError, match="input 1:3: the time goes back: “98 after 99”"):
        trained.predict([backwards(text)])
    with pytest.raises(UserError, match="input 1:3: the time goes back: “88 after 89”"):
        trained.score([backwards(past)], [future])
    with pytest.raises(UserError, match="output 1:3: the time goes back"):
        trained.score([past], [backwards(future)])
    with pytest.raises(UserError, match="input 1:3: the time goes back"):
        forecast_reading(trained, backwards(past))
    with pytest.raises(UserError, match="target:3: the time goes back"):
        forecast_reading(trained, past, backwards(future))


def forecast_reading(trained: Predictor, text: str, target: str | None = None) -> Any:
    task: Any = trained.task
    return task.look(trained.model, text, NONE, target, 0)


def test_rows_are_sorted_where_the_recipe_says_so(table: Write, tmp_path: Path):
    made = table(waves(100), window={"look_back": 24, "normalise": "last"})
    text = (tmp_path / "x.csv").read_text()
    straight = front.train(made, "train.updates=5", to=tmp_path / "straight")
    right = scores(straight)
    (tmp_path / "x.csv").write_text(backwards(text))
    made["data"]["order"] = "sort"
    turned = front.train(made, "train.updates=5", to=tmp_path / "turned")
    assert turned.predict([backwards(text)]) == turned.predict([text]) == straight.predict([text])
    assert scores(turned) == right
    past, future = split(text, 90)
    assert turned.score([backwards(past)], [backwards(future)]) == straight.score([past], [future])


def test_what_came_must_follow_what_was_read(trained: Predictor, tmp_path: Path):
    text = (tmp_path / "x.csv").read_text()
    past, future = split(text, 90)
    plain = [
        "\n".join(row.partition(",")[2] for row in side.split("\n")) for side in (past, future)
    ]
    [found] = trained.score([past], [future])
    assert len(found["log_probs"]) == 10
    assert trained.score(*([side] for side in plain)) == [found], "times may be left out"
    message = "output 1: 91 does not follow 89, the last time of input 1, by a step of 1"
    with pytest.raises(UserError, match=message):
        trained.score([past], [split(text, 91)[1]])
    with pytest.raises(UserError, match="90 does not follow 94"):
        trained.score([split(text, 95)[0]], [future])


def test_an_input_has_the_step_that_was_learnt(trained: Predictor, tmp_path: Path):
    header, *rows = (tmp_path / "x.csv").read_text().splitlines()
    twice = [header, *(f"{2 * n},{row.partition(',')[2]}" for n, row in enumerate(rows))]
    with pytest.raises(UserError, match=r"input 1:3: steps are left out \(one is 1\)"):
        trained.predict(["\n".join(twice)])
    dates = [header, *(f"2020-01-01 {n % 24:02d}:00,1,2" for n in range(24))]
    with pytest.raises(UserError, match="input 1: its times are of another kind"):
        trained.predict(["\n".join(dates)])


def test_one_row_is_enough_to_know_what_follows(table: Write, tmp_path: Path):
    made = table(waves(100), window={"look_back": 1, "horizon": 2}, data={"time": "t"})
    made["model"]["encoder"]["window"] = 1
    header, *rows = (tmp_path / "x.csv").read_text().splitlines()
    days = [f"2020-01-{n:02d},{row.partition(',')[2]}" for n, row in enumerate(rows[:28], 1)]
    (tmp_path / "x.csv").write_text("\n".join([header, *days]))
    predictor = front.train(made, "train.updates=1", "data.validation=0.1", to=tmp_path / "run")
    [found] = predictor.predict([f"{header}\n{days[-1]}"])
    assert [row["t"] for row in rows_of(found)] == ["2020-01-29", "2020-01-30"]


def test_marks_and_ends_of_lines_of_other_systems(trained: Predictor, tmp_path: Path):
    text = (tmp_path / "x.csv").read_text()
    other = "\ufeff" + text.replace("\n", "\r\n")
    assert trained.predict([other]) == trained.predict([text])


def test_what_is_wrong_with_a_file_is_said_by_its_name(trained: Predictor, tmp_path: Path, capsys):
    text, odd = (tmp_path / "x.csv").read_text(), tmp_path / "odd.csv"
    past, future = tmp_path / "past.csv", tmp_path / "future.csv"
    for path, side in zip((past, future), split(text, 90), strict=True):
        path.write_text(side)

    def said(*words: object) -> str:
        with pytest.raises(SystemExit):
            cli.main([words[0], str(tmp_path / "run"), *map(str, words[1:])])  # type: ignore[list-item]
        return str(capsys.readouterr().err).strip()

    odd.write_bytes(text.encode().replace(b"\n50,", b"\n\xff50,"))
    assert said("predict", odd).endswith(f"{odd}:52: not UTF-8")
    odd.write_text(backwards(text))
    assert f"{odd}:3: the time goes back" in said("predict", odd)
    assert f"{odd}:3: the time goes back" in said("score", odd, future)
    assert f"{odd}:3: the time goes back" in said("inspect", odd)
    assert f"{future}: 90 does not follow 99, the last time of {tmp_path}/x.csv" in said(
        "score", tmp_path / "x.csv", future
    )
    odd.write_text("t,a,b\n1,2,3\n")
    assert f"{odd}: 1 rows, but the model looks back 24 steps" in said("predict", odd)
    odd.write_text(text.replace("\n50,", "\n50,1e300,", 1))
    assert f"{odd}:52: 4 columns instead of 3" in said("predict", odd)


def test_a_file_that_was_changed_is_not_scored(trained: Predictor, tmp_path: Path):
    """A row that is put in before others would move what was learnt into the test part."""
    before = scores(trained)
    header, *rows = (tmp_path / "x.csv").read_text().splitlines()
    (tmp_path / "x.csv").write_text("\n".join([header, *rows, f"100,{rows[0].partition(',')[2]}"]))
    assert scores(trained) == before, "what is added at the end changes nothing"
    moved = [f"{n},{row.partition(',')[2]}" for n, row in enumerate([rows[0], *rows])]
    (tmp_path / "x.csv").write_text("\n".join([header, *moved]))
    with pytest.raises(UserError, match=r"x\.csv:3: not what it was when the run began"):
        trained.evaluate("test")


def test_numbers_keep_their_digits_on_a_high_level(table: Write, tmp_path: Path):
    values = 1e9 + waves(100)
    made = table(values, window={"look_back": 24, "normalise": "last"})
    predictor = front.train(made, "train.updates=60", to=tmp_path / "run")
    task: Any = predictor.task
    pasts, _ = task.references("test")
    read = [[float(cell) for cell in row.split(",")] for row in pasts[0].split("\n")[1:]]
    assert read == values[80 - 24 : 80].tolist()
    found = rows_of(predictor.predict([(tmp_path / "x.csv").read_text()])[0])
    last = values[-1, 0]
    assert all(abs(float(row["a"]) - last) < 3 for row in found)
    assert len({row["a"] for row in found}) == 4 and found[0]["a"] != f"{last:.8g}"


def test_scores_have_signatures_and_predictions(trained: Predictor):
    found, predictions = trained.evaluate("test")
    assert set(found) == {"mse", "mae", "nll", "coverage"}
    assert "look_back:24|horizon:4|windows:17" in found["mse"].signature
    assert "level:0.9" in found["coverage"].signature
    assert len(predictions) == 5  # at 0, 4, 8, 12 and 16 of 17
    assert trained.evaluate("test", batch=3)[0]["mse"].value == pytest.approx(found["mse"].value)
    assert found["mse"].low is None


def test_windows_that_share_a_future_are_drawn_together():
    """Eleven blocks of four windows: each block is all 1 or all 3, six of them 1."""
    values = np.repeat([1.0, 3.0] * 5 + [1.0], 4)
    low, high = forecast_metrics.interval(values, 4, 500)
    assert low is not None and high is not None
    deviation = 2 * math.sqrt(6 * 5) / 11 / math.sqrt(11)  # of the mean of eleven blocks
    assert high - low == pytest.approx(2 * 1.96 * deviation, rel=0.15)
    assert forecast_metrics.interval(values, 4, 0) == (None, None)
    assert forecast_metrics.interval(values, 5, 500) == (None, None), "eight blocks are too few"


def test_density_of_given_futures(trained: Predictor, capsys):
    pasts, futures = trained.task.references("test")
    results = trained.score(pasts, futures)
    assert len(results) == 5 and all(len(line["log_probs"]) == 4 for line in results)
    task: Any = trained.task
    found = task.judge(trained.model, "test", 4)
    expected = -float(found.nll()[0].sum()) - 4 * math.log(math.prod(task.past.standard.deviation))
    assert results[0]["log_prob"] == pytest.approx(expected, rel=1e-3)
    cli.main(["score", str(trained.run.folder), "--format", "jsonl"])
    lines = capsys.readouterr().out.splitlines()
    assert json.loads(lines[0])["log_prob"] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.metric=bleu", "train.metric"),
        ("window.block=9", "window.block"),
        ("model.dim=2", "model.dim"),
        ("model.head.kind=vocabulary", "model.head"),
        ("model.input.kind=tokens", "model.input"),
        ("intervals.level=1.5", "intervals.level"),
        ("data.train=0.1", "data.train: 10 rows are too few"),
        ("data.test=5000", "data.test"),
        ("data.validation=0.001", "data.validation: 0 rows are too few"),
        ("data.variabels=1", "did you mean 'variables'"),
    ],
)
def test_a_wrong_recipe_is_refused(table: Write, tmp_path: Path, override: str, message: str):
    made = table(waves(100))
    if override.startswith("model.head"):
        made["model"]["head"] = {}
    if override.startswith("model.input"):
        made["model"]["input"] = {}
    with pytest.raises(RecipeError, match=message):
        front.train(made, override, to=tmp_path / "run")


def test_a_series_on_a_trained_model_keeps_its_unit(trained: Predictor, table: Write, tmp_path):
    made = table(5 * waves(100) + 7, window={"look_back": 24, "normalise": "last"})
    again = front.train(
        made, "train.updates=1", to=tmp_path / "again", start_from=trained.run.folder
    )
    tasks: list[Any] = [trained.task, again.task]
    assert tasks[0].past.standard.mean.tolist() == tasks[1].past.standard.mean.tolist()
