"""What a training will cost: figures that a person can derive."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import cli
from regard.errors import RecipeError
from regard.model import build
from regard.plan import (
    assumed,
    counting,
    estimate,
    failures,
    hardware,
    layout,
    plan,
    subject,
    table,
)
from regard.plan.cost import Assumptions, Cost
from regard.plan.products import Product
from regard.plan.tracing import trace
from regard.recipe import config

RECIPES = sorted((Path(__file__).resolve().parents[2] / "recipes").glob("*.toml"))
SMALL: dict[str, Any] = {
    "task": "language_model",
    "unit": "stream",
    "data": {"train": ["nowhere.txt"]},
    "tokenizer": {"kind": "bpe", "vocabulary": 307},
    "stream": {"streams": 3, "length": 7, "documents": "line", "across": True},
    "model": {
        "dim": 8,
        "tie": "output",
        "decoder": {
            "kind": "transformer", "layers": 2, "heads": 2, "feedforward": 20,
            "position": "sinusoidal", "dropout": 0.0, "norm": "pre",
        },
        "head": {"bias": False, "smoothing": 0.0},
    },
    "train": {"updates": 10, "accumulate": 2},
}  # fmt: skip


def recurrent(cell: str) -> dict[str, Any]:
    decoder = {"kind": "rnn", "cell": cell, "layers": 1, "dropout": 0.0}
    return SMALL | {"model": {**SMALL["model"], "decoder": decoder}}


def step(table: dict[str, Any]) -> tuple[subject.Subject, counting.Step]:
    found = subject.of(table, read=False)
    return found, counting.step(found.recipe.model, found.sizes, found.batch, found.loss)


# Parameters


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_parameters_are_those_of_the_model(path: Path):
    """Of every recipe: parts sum up to all, a shared weight counts once."""
    recipe = config.load(path)
    found = assumed.assume(recipe, assumed.Options())
    counted = counting.parameters(recipe.model, found.sizes)
    with torch.device("meta"):
        model = build(recipe.model, found.sizes)
    different = {id(p): p.numel() for p in model.parameters()}
    assert counted.total == sum(different.values()) == sum(counted.parts.values())
    assert counted.embedding <= counted.total


def test_a_layer_of_a_transformer_by_hand():
    """4 D² + 4 D of attention, 2 D F + F + D of the feed-forward layer, 4 D of two norms."""
    dim, inner, vocabulary = 8, 20, 307
    layer = 4 * dim**2 + 4 * dim + 2 * dim * inner + inner + dim + 4 * dim
    found = subject.of(SMALL, read=False)
    counted = counting.parameters(found.recipe.model, found.sizes)
    assert counted.embedding == vocabulary * dim
    assert counted.total == 2 * layer + vocabulary * dim + 2 * dim  # and the last norm
    assert counted.largest == layer


def test_gpt_3_has_175_billion_parameters():
    recipe = config.load(Path("gpt-3"))
    sizes = assumed.assume(recipe, assumed.Options()).sizes
    counted = counting.parameters(recipe.model, sizes)
    d, layers = 12288, 96
    layer = 12 * d**2 + 13 * d
    assert counted.total == layers * layer + (50257 + 2048) * d + 2 * d
    assert counted.total == pytest.approx(175e9, rel=0.01)
    rule = 6 * counted.total * 300e9
    assert rule / estimate.PETAFLOP_DAY == pytest.approx(3640, rel=0.01)


def test_the_table_of_famous_models(monkeypatch: pytest.MonkeyPatch):
    """FLOPs, petaflop/s-days, device-hours and US$ as published, whatever our models count."""
    base = table.row(table.SOURCES[0])
    assert base.parameters == pytest.approx(65e6, rel=0.03)
    assert base.flops_model == pytest.approx(0.29 * 3.3e18, rel=0.02)
    assert base.utilisation == base.ratio == pytest.approx(0.29, rel=0.02)
    monkeypatch.setattr(table, "_per_token", lambda recipe, changes: (10**8, 6e8))
    rows = {row.name: row for row in table.table().rows}
    published = {
        "Transformer base": (3.3e18, 0.038, 96, 140),
        "Transformer big": (2.3e19, 0.27, 672, 981),
        "GPT-1": (8.2e19, 0.95, 5760, 6336),
        "BERT base": (2.5e20, 2.9, 1536, 1736),
        "GPT-2": (1.5e21, 17.4, 8469, 16938),
        "GPT-3": (3.1e23, 3640, 2117818, 5252189),
    }
    assert rows.keys() == published.keys()
    for name, (flops, days, hours, price) in published.items():
        row = rows[name]
        assert row.flops_published == pytest.approx(flops, rel=0.03)
        assert row.petaflop_s_days == pytest.approx(days, rel=0.03)
        assert row.device_hours == pytest.approx(hours, rel=1e-3)
        assert row.price_usd == pytest.approx(price, rel=1e-2)
    assert rows["GPT-3"].tokens == 300e9
    assert rows["GPT-2"].tokens == pytest.approx(1.5e21 / 6e8), "those that the FLOPs would do for"


# FLOPs


def test_flops_of_a_transformer_by_hand():
    """2 FLOPs for each weight of a product and token; attention's two products."""
    found, counted = step(SMALL)
    dim, inner, rows, length, vocabulary = 8, 20, 3, 7, 307
    tokens = rows * length
    weights = 2 * (4 * dim**2 + 2 * dim * inner)
    attention = 2 * 2 * 2 * tokens * length * dim  # layers, products, FLOPs
    logits = 2 * tokens * vocabulary * (dim + 2)  # the kernel has two columns more
    forward = 2 * tokens * weights + attention + logits
    assert counted.trace.forward_flops == forward
    gradients = 2 * (2 * tokens * weights + attention + 2 * tokens * vocabulary * dim)
    assert counted.trace.flops == pytest.approx(forward + gradients, rel=0.01)
    assert len(found.batch) == rows


@pytest.mark.parametrize(("cell", "gates"), [("lstm", 4), ("gru", 3)])
def test_flops_of_a_recurrent_layer_by_hand(cell: str, gates: int):
    _, counted = step(recurrent(cell))
    dim, tokens, vocabulary = 8, 21, 307
    recurrence = 2 * tokens * gates * dim * (dim + dim)
    logits = 2 * tokens * vocabulary * (dim + 2)
    assert counted.trace.forward_flops == pytest.approx(recurrence + logits, rel=0.02)


def test_a_deep_stack_is_extrapolated_exactly():
    deep = {**SMALL["model"], "decoder": {**SMALL["model"]["decoder"], "layers": 3}}
    found, fast = step(SMALL | {"model": deep})
    whole = trace(found.recipe.model, found.sizes, found.batch, found.loss, lambda model: None)
    assert fast.trace.flops == whole.flops
    assert fast.trace.forward_flops == whole.forward_flops
    assert fast.trace.kept_bytes == whole.kept_bytes
    assert fast.stacks["decoder"].layers == 3
    assert fast.stacks["decoder"].input_bytes == 4 * 21 * 8


def test_a_product():
    assert Product(2, 3, 5, 7, "float32").flops == 2 * 2 * 3 * 5 * 7


# Memory and layouts


def needs(**changes: Any) -> layout.Needs:
    usual = {
        "parameters": 1000, "trained": 1000, "largest_layer": 100, "rows": 8,
        "activations": 8000.0, "checkpointed": 800.0,
    }  # fmt: skip
    return layout.Needs(**(usual | changes))


def test_bytes_of_each_weight():
    found = needs(trained=600)
    assert (found.weights, found.gradients, found.optimizer) == (4000, 2400, 8 * 600)


def chosen(memory: float, devices: int = 1, update: int = 8, **changes: Any) -> Any:
    found = layout.choose(needs(**changes), devices, (memory + 1e-6) / layout.ROOM, update)
    return found and (found.kind, found.rows, found.accumulate, found.checkpointing)


def test_layouts_at_the_borders():
    assert chosen(16000 + 8000) == ("one device", 8, 1, False)
    assert chosen(16000 + 7999) == ("one device", 4, 2, False)
    assert chosen(16000 + 1000) == ("one device", 1, 8, False)
    assert chosen(16000 + 999) == ("one device", 8, 1, True)
    assert chosen(16000 + 100) == ("one device", 1, 8, True)
    assert chosen(16000 + 99) is None
    assert chosen(16000 + 4000, devices=2) == ("DDP", 4, 1, False)
    assert chosen(8000 + 800 + 4000, devices=2) == ("FSDP", 4, 1, False)
    assert chosen(8000 + 800 + 99, devices=2) is None
    assert chosen(16000 + 7999, divisible=False) == ("one device", 8, 1, True)


def test_what_would_fit_is_said():
    memory = (800 + 100 + 1000 + 1e-6) / layout.ROOM  # the rest, and a sixteenth of the state
    assert layout.fewest(needs(), memory, 64) == 16
    assert layout.fewest(needs(), 800 / layout.ROOM, 64) is None


def test_cost_by_hand():
    found = Cost(36_000.0, 8, Assumptions(0.5, 300.0, 2.0, pue=1.5, host=1.0))
    assert found.dollars == 8 * 2.0 * 10
    assert found.kilowatt_hours == pytest.approx(8 * 0.3 * 1.5 * 10)


# Hardware


@pytest.mark.parametrize(
    ("text", "name", "count"),
    [("H100x64", "H100", 64), ("tpu v3 x 16", "TPUv3", 16), ("P6000", "P6000", 1),
     ("here", "here", 1), ("b200×8", "B200", 8)],
)  # fmt: skip
def test_names_of_hardware(text: str, name: str, count: int):
    assert hardware.parse(text) == (name, count)


@pytest.mark.parametrize("text", ["H10x8", "H200", "A100x0", "herex2", ""])
def test_unknown_hardware_is_refused(text: str):
    with pytest.raises(RecipeError, match="--hardware"):
        hardware.parse(text)


def test_the_nearest_name_is_said():
    with pytest.raises(RecipeError, match="did you mean H100"):
        hardware.parse("H10x8")


# Failures


def settings(**changes: Any) -> failures.Settings:
    usual = {"nodes": 100, "work_hours": 1000.0, "mtbf_hours": 5000.0, "save_seconds": 60.0}
    return failures.Settings(**(usual | changes))


def test_young_and_daly():
    assert failures.young(2.0, 100.0) == 20.0
    assert failures.daly(2.0, 100.0) == pytest.approx(20 * (1 + 0.1 / 3 + 0.01 / 9) - 2)
    assert failures.daly(5.0, 2.0) == 2.0


def test_without_failures_the_simulation_is_its_closed_form():
    found = failures.simulate(settings(mtbf_hours=1e15, straggling=0.0, save_seconds=360), 1.0)
    assert found.goodput == pytest.approx(1 / 1.1)
    assert found.failures == 0


@pytest.mark.parametrize("interval", [0.3, 1.0, 5.0])
def test_with_failures_it_is_near_the_expected_value(interval: float):
    given = settings(straggling=0.0)
    found = failures.simulate(given, interval)
    assert found.goodput == pytest.approx(failures.expected(given, interval), rel=0.02)


def test_the_best_interval_is_near_the_rules():
    found = failures.point(settings())
    assert found.best.goodput >= found.by_daly.goodput >= found.best.goodput - 0.005
    assert 0.4 < found.best.interval_hours / found.young_hours < 2.5
    assert failures.point(settings()) == found  # the same seed, the same failures


def test_more_nodes_have_less_goodput():
    found = failures.sweep(settings(nodes=16))
    goodput = [each.best.goodput for each in found.points]
    assert goodput == sorted(goodput, reverse=True)
    assert [each.nodes for each in found.points] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert found.points[-1].slowdown > found.points[0].slowdown >= 1


def test_the_slowest_of_many():
    """Of two draws it is 1/√π deviations above the mean."""
    assert failures.slowdown(1, 0.0, 1) == 1.0
    assert failures.slowdown(2, 0.1, 1) == pytest.approx(1 + 0.1 / math.sqrt(math.pi), abs=0.006)


# The plan as a whole


def test_the_plan_of_a_small_recipe():
    found = plan(SMALL, hardware_name="A100x2", read=False).as_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["tokens_per_update"] == 42
    assert found["total_tokens"] == 10 * 2 * 21
    assert found["memory_bytes"]["optimizer"] == 8 * found["parameters"]
    flops = found["flops_per_token"]
    assert found["total_flops"] == pytest.approx(flops * 420)
    assert found["tokens_per_second"] == pytest.approx(2 * 312e12 * 0.4 / flops)
    assert found["cost"]["seconds"] == pytest.approx(420 / found["tokens_per_second"])
    assert found["layout"]["kind"] == "DDP"
    assert (
        plan(SMALL, hardware_name="A100", tokens=1e6, read=False).as_dict()["total_tokens"] == 1e6
    )


def test_data_that_is_there_is_read(tmp_path: Path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat\n" * 40)
    table = SMALL | {"data": {"train": [str(tmp_path / "text.txt")]}}
    table["tokenizer"] = {"kind": "word"}
    found = subject.of(table)
    assert found.source == "data"
    words = {"the", "cat", "sat", "on", "mat"}
    assert found.sizes.fields["target"]["tokens"] < len(words) + 10
    assert not found.notes


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        (SMALL, "nowhere.txt: there is no such file"),
        ("multi30k-en-de", "the data set multi30k is not there in"),
        ("etth1-linear", "the data set ett is not there in"),
        ("mnist-cnn", "the data set mnist is not there in"),
        ("gpt-1", "train.txt: there is no such file"),
    ],
)
def test_data_that_is_not_there_is_assumed(
    recipe: Any, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    found = subject.of(recipe)
    assert found.source == "assumed"
    assert found.notes[0].startswith("the data was not read (") and why in found.notes[0]


def test_what_is_wrong_with_data_that_is_there_is_not_assumed_away(tmp_path: Path):
    """A recipe whose keys contradict its data, beside one whose file cannot be read."""
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat\n" * 40)
    line = {"unit": "line", "data": {"train": [str(path)], "max_length": 2}}
    with pytest.raises(RecipeError, match=r"data.max_length: no example of data.train has ≤ 2"):
        subject.of(SMALL | line | {"stream": {}})
    path.write_bytes(b"")
    assert subject.of(SMALL | {"data": {"train": [str(path)]}}).source == "assumed"


def test_a_shipped_recipe_without_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """As docs/planning.md has it."""
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    cli.main(["plan", "gpt-3", "--hardware", "H100x64"])
    said = capsys.readouterr().out
    assert "the data was not read" in said and "train.txt: there is no such file" in said
    cli.main(["plan", "multi30k-en-de", "--hardware", "V100", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"] > 1e6 and found["flops_per_token"] > 0


def test_this_machine_is_measured():
    found = plan(SMALL, hardware_name="here", read=False)
    assert found.step_seconds is not None and 0 < found.step_seconds < 10
    assert found.peak_bytes is not None and found.peak_bytes > 1e6
    assert found.device.measured


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--hardware", "H10", "mnist-vit"], "did you mean H100"),
        (["mnist-vit", "--assume", "--hardware", "P100", "--precision", "bfloat16"], "--precision"),
        (["mnist-vit", "--hardware", "P100", "--utilisation", "2"], "--utilisation"),
        (["mnist-vit", "--hardware", "P100", "--price", "-1"], "--price"),
        (["mnist-vit", "--labels", "0"], "--labels"),
        (["mnist-vit", "model.dmi=3"], "model.dmi"),
        (["mnist-vit", "--plot", "x.png"], "--nodes"),
        (["mnist-vit", "--table"], "--table"),
        (["nonsense"], "no such recipe"),
        ([], "give a recipe"),
    ],
)
def test_what_is_wrong_is_named(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["plan", *arguments])
    assert stopped.value.code == 2
    assert says in capsys.readouterr().err


def test_goodput_is_drawn(tmp_path: Path):
    from regard.plots import drawing, goodput

    drawing.save(goodput.goodput(failures.sweep(settings(nodes=1)).curves()), tmp_path / "a.svg")
    assert "nodes" in (tmp_path / "a.svg").read_text()
