"""What the first view says: costs of heads, unknown words by their spelling, dates of forecasts."""

from pathlib import Path
from typing import Any

import pytest
import torch

from regard import cli
from regard.inspect.ablation import ablation
from regard.inspect.intervene import WithoutHead, intervene
from regard.inspect.report import Options, build, search
from regard.inspect.views import read
from regard.runs import Run
from tests import small_runs

TEXT = "two dogs play in the snow"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("runs")
    kinds = ("transformer", "lstm", "causal", "classifier", "tagger")
    return {kind: small_runs.make(kind, folder / kind) for kind in kinds}


def shown(run: Run, text: str, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = build([run], [text], Options(**options)).runs[0]["frames"][0]
    return dict(found["readings"][0])


def test_the_cost_of_a_head_is_what_the_output_loses(runs: dict[str, Run]):
    run = runs["transformer"]
    model, wanted = run.model(), ("cross", 1, 0)
    reading = read(run, run.task, model, TEXT, search(run, Options()), target="a dog runs")
    found = ablation(model, reading)
    assert found is not None and len(found["heads"]) == 3 * 2 * 2
    places = torch.arange(len(reading.symbols)), torch.tensor(reading.symbols)
    with torch.no_grad():
        whole = float(reading.measured(model)[places].sum())
        with intervene(model, WithoutHead(*wanted)):
            without = float(reading.measured(model)[places].sum())
    (cost,) = (h["cost"] for h in found["heads"] if (h["kind"], h["layer"], h["head"]) == wanted)
    assert found["nll"] == pytest.approx(-whole, abs=1e-4)
    assert cost == pytest.approx(whole - without, abs=1e-4) and cost != 0


def test_a_head_that_does_nothing_costs_nothing(runs: dict[str, Run]):
    run = runs["transformer"]
    model = run.model()
    projection = model.encoder.blocks[0].attention.output.weight  # (D, heads · K)
    with torch.no_grad():
        projection[:, : projection.shape[1] // 2] = 0  # of the first of two heads
    reading = read(run, run.task, model, TEXT, search(run, Options()), target="a dog runs")
    found = ablation(model, reading)
    assert found is not None
    costs = {(h["kind"], h["layer"], h["head"]): h["cost"] for h in found["heads"]}
    assert costs["encoder", 0, 0] == pytest.approx(0, abs=1e-6)
    assert abs(costs["encoder", 0, 1]) > 1e-4


def test_of_a_prompt_nothing_is_counted(runs: dict[str, Run]):
    found = shown(runs["causal"], "a dog", length=3)
    own = [row["log_prob"] for row in found["tokens"]["rows"][2:]]
    assert found["ablation"]["nll"] == pytest.approx(-sum(own), abs=1e-4)


def test_a_model_without_heads_has_no_costs(runs: dict[str, Run]):
    assert "ablation" not in shown(runs["lstm"], TEXT)


@pytest.mark.parametrize("kind", ["transformer", "classifier", "tagger"])
def test_unknown_words_are_spelt(kind: str, runs: dict[str, Run]):
    found = shown(runs[kind], "two zebras play <unknown> in")
    framed = 1 if found["source"][0] == "<start>" else 0
    assert found["source"][framed : framed + 5] == ["two", "zebras", "play", "<unknown>", "in"]
    assert found["unknown"] == [framed + 1, framed + 3]


def test_unknown_words_of_a_prompt_are_spelt_where_they_are_read_and_said(runs: dict[str, Run]):
    found = shown(runs["causal"], "a zebra runs", length=2)
    assert found["said"][:3] == ["a", "zebra", "runs"] == found["read"][1:4]
    assert found["unknown"] == [1]


def test_a_forecast_has_the_times_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rows = [f"2024-02-{1 + hour // 24:02} {hour % 24:02}:00,{hour % 24}" for hour in range(96)]
    monkeypatch.setattr(small_runs, "SERIES", "\n".join(["date,load", *rows]))
    window = {"look_back": 6, "horizon": 3, "normalise": "last"}
    table = {"data": {"file": "series.csv", "time": "date"}, "window": window}
    monkeypatch.setitem(small_runs.TASKS, "forecast", table)
    run = small_runs.make("forecaster", tmp_path / "dated")
    (panel,) = shown(run, "\n".join(["date,load", *rows[:50]]))["numbers"]
    assert len(panel["past"]) == 6 and len(panel["mean"]) == 3
    assert panel["times"][0] == "2024-02-02 20:00" and panel["times"][5] == "2024-02-03 01:00"
    assert panel["times"][6:] == [f"2024-02-03 0{hour}:00" for hour in (2, 3, 4)]


def test_a_run_among_the_texts_is_asked_about(
    runs: dict[str, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    one, other = str(runs["transformer"].folder), str(runs["lstm"].folder)
    page = str(tmp_path / "page.html")
    assert cli.main(["inspect", one, TEXT, other, "--output", page]) != 0
    assert f"--with {other}" in capsys.readouterr().err and not Path(page).exists()
    assert cli.main(["inspect", one, "--with", other, TEXT, "--output", page]) == 0
    assert '"name":"lstm"' in Path(page).read_text()
