"""What a page is made of: the same outputs as the model's own, and arrays that come back."""

import base64
import json
import math
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import cli, front
from regard.errors import UserError
from regard.inspect import report
from regard.inspect.blocks import Blocks
from regard.inspect.intervene import WithoutHead, intervene
from regard.inspect.views import read
from regard.runs import Run
from tests import small_runs

TEXT = "two dogs play in the snow"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("runs")
    return {kind: small_runs.make(kind, folder / kind, (5, 7)) for kind in small_runs.FAMILIES}


def reading(made: report.Report, run: int = 0, frame: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = made.runs[run]["frames"][frame]["readings"][0]
    return found


@pytest.mark.parametrize("kind", ["transformer", "lstm", "gru", "classifier", "tagger"])
def test_a_page_shows_the_models_own_output(kind: str, runs: dict[str, Run]):
    predictor = front.Predictor(runs[kind])
    (own,) = predictor.predictions([TEXT])
    shown = reading(report.build([runs[kind]], [TEXT]))
    assert shown["output"] == own.text
    assert shown["said"] == own.tokens
    found = [row["log_prob"] for row in shown["tokens"]["rows"]]
    if kind in ("classifier", "tagger"):
        assert found == pytest.approx(own.log_probs, abs=1e-4)
        return
    # Search leaves out what is forbidden; scoring does not.
    (scored,) = predictor.score([TEXT], [own.text])
    if shown["said"][-1] == "<end>":
        assert found == pytest.approx(scored["log_probs"], abs=1e-4)


def test_a_language_model_goes_on_from_its_text(runs: dict[str, Run]):
    made = report.build([runs["causal"]], ["a dog"], report.Options(length=3))
    shown = reading(made)
    assert shown["said"][:2] == ["a", "dog"] and shown["given"] == 2
    assert shown["read"][1:] == shown["said"][:-1]
    predictor = front.Predictor(runs["causal"])
    options: dict[str, Any] = {"search": "beam", "length": 3}
    (own,) = predictor.predictions(["a dog"], **options)
    assert shown["said"][2:] == own.tokens
    steps = [node["step"] for node in shown["beam"]]
    assert (min(steps), max(steps) + 1) == (0, len(own.tokens)), "of the prompt, there is no choice"
    (best,) = (node for node in shown["beam"] if node["fate"] == "best")
    assert best["score"] == pytest.approx(own.score, abs=1e-5)


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("loss", ["squared", "gaussian"])
def test_a_forecast_is_shown_in_the_unit_of_the_file(loss: str, independent: bool, tmp_path: Path):
    """What is looked into, the first block, is what `regard predict` says."""
    _, model = small_runs.FAMILIES["forecaster"]
    window = {"look_back": 12, "horizon": 4, "normalise": "window", "independent": independent}
    parts = {**model, "head": {"readout": "flatten", "loss": loss}}
    run = small_runs.create("forecast", parts, tmp_path / "run", window=window)
    predictor = front.Predictor(run)
    (own,) = predictor.predict([small_runs.SERIES])
    rows = [line.split(",") for line in own.splitlines()]
    expected = [float(row[rows[0].index("y")]) for row in rows[1:]]
    seen = read(
        run, run.task, predictor.model, small_runs.SERIES, report.search(run, report.Options())
    )
    assert seen.numbers is not None
    assert seen.numbers[-1]["mean"] == pytest.approx(expected, rel=1e-4)
    with torch.inference_mode():
        measured = seen.measured(predictor.model)[torch.arange(4), torch.tensor(seen.symbols)]
    assert measured.tolist() == pytest.approx(expected, rel=1e-4)
    assert seen.source == ["-11 … -9", "-8 … -6", "-5 … -3", "-2 … 0"]


def test_several_labels_are_questions_of_their_own(tmp_path: Path):
    _, model = small_runs.FAMILIES["classifier"]
    several = {"kind": "several", "separator": "|"}
    run = small_runs.create("classify", model, tmp_path / "run", labels=several)
    predictor = front.Predictor(run)
    (own,) = predictor.predictions([TEXT])
    shown = reading(report.build([run], [TEXT]))
    for row in shown["tokens"]["rows"]:
        assert row["p"] == pytest.approx(own.probabilities[row["piece"]], abs=1e-4)
    if own.text:
        assert shown["output"] == own.text
    given = reading(report.build([run], [TEXT], report.Options(target="good|bad")))
    assert given["said"] == ["good", "bad"]
    assert [row["p"] for row in given["tokens"]["rows"]] == pytest.approx(
        [own.probabilities[name] for name in ("good", "bad")], abs=1e-4
    )


def test_tags_may_be_given(runs: dict[str, Run]):
    options = report.Options(target="good bad good")
    shown = reading(report.build([runs["tagger"]], ["a dog runs"], options))
    assert shown["said"] == ["good", "bad", "good"] and shown["of"] == ["a", "dog", "runs"]
    with pytest.raises(UserError, match="3 words, but 1 tags"):
        report.build([runs["tagger"]], ["a dog runs"], report.Options(target="good"))


def test_a_given_target_is_read_instead(runs: dict[str, Run]):
    shown = reading(report.build([runs["lstm"]], [TEXT], report.Options(target="a man sits")))
    assert shown["said"] == ["a", "man", "sits", "<end>"]
    assert shown["given"] == 4 and "beam" not in shown


def test_the_tree_holds_the_result_and_says_why_others_lost(runs: dict[str, Run]):
    shown = reading(report.build([runs["transformer"]], [TEXT]))
    nodes = shown["beam"]
    path = [node for node in nodes if node["best"]]
    assert [node["piece"] for node in path] == shown["said"]
    assert math.fsum(node["log_prob"] for node in path) == pytest.approx(
        path[-1]["total"], abs=1e-4
    )
    assert [node["fate"] for node in nodes].count("best") == 1
    results = [node for node in nodes if node["fate"] in ("best", "finished")]
    assert max(results, key=lambda node: node["score"])["fate"] == "best"
    for node in nodes:
        assert node["why"]
        before = nodes[node["parent"]] if node["parent"] >= 0 else {"step": -1, "total": 0.0}
        assert node["step"] == before["step"] + 1
        assert node["total"] == pytest.approx(before["total"] + node["log_prob"], abs=1e-4)
    per_step = [sum(n["fate"] == "followed" for n in nodes if n["step"] == s) for s in range(3)]
    assert max(per_step) <= 3


def test_switching_a_head_off_changes_the_report_as_it_changes_the_model(runs: dict[str, Run]):
    run = runs["transformer"]
    made = report.build([run], [TEXT], report.Options(without_heads=("cross.1.0",)))
    assert made.runs[0]["frames"][0]["without"] == ["cross.1.0"]
    predictor = front.Predictor(run)
    with intervene(predictor.model, WithoutHead("cross", 1, 0)):
        assert reading(made)["output"] == predictor.predict([TEXT])[0]
    assert reading(made)["output"] != predictor.predict([TEXT])[0]
    plain = reading(report.build([run], [TEXT]))["tokens"]["total"]
    assert reading(made)["tokens"]["total"] != pytest.approx(plain, abs=1e-3)


def test_each_checkpoint_is_a_frame(runs: dict[str, Run]):
    made = report.build([runs["gru"]], ["a dog"], report.Options(replay=True, target="a dog"))
    frames = made.runs[0]["frames"]
    assert [frame["label"] for frame in frames] == ["update 5", "update 7"]
    first, second = (reading(made, frame=n)["tokens"]["total"] for n in (0, 1))
    assert first != second


def test_words_are_put_together_from_their_symbols(runs: dict[str, Run]):
    task: Any = runs["transformer"].task
    by = task.source.tokenizer
    symbols = by.encode(["a dog runs"])[0]
    assert by.groups([*symbols, by.end]) == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_an_empty_text_is_refused(runs: dict[str, Run]):
    run = runs["transformer"]
    with pytest.raises(UserError, match="the text is empty"):
        read(run, run.task, run.model(), "", report.search(run, report.Options()))
    with pytest.raises(UserError, match="give a text"):
        report.build([run], [])


def unpacked(text: str, shape: list[int]) -> Any:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(shape)


def test_arrays_come_back_within_a_level():
    blocks = Blocks()
    weights = torch.rand(2, 3, 5).softmax(-1).numpy()
    numbers = torch.randn(4, 7).numpy() * 9
    about = [blocks.weights(weights), blocks.signed(numbers), blocks.signed(numbers, power=0.5)]
    texts, levels = blocks.packed()
    assert levels == 255
    bytes_ = [unpacked(texts[a["block"]], a["shape"]).astype(float) for a in about]
    np.testing.assert_allclose((bytes_[0] / 255) ** 2, weights, atol=0.004)
    most = about[1]["most"]
    assert most == pytest.approx(float(np.abs(numbers).max()))
    np.testing.assert_allclose((bytes_[1] / 127 - 1) * most, numbers, atol=most / 250)
    shares = bytes_[2] / 127 - 1
    np.testing.assert_allclose(np.sign(shares) * shares**2 * most, numbers, atol=most / 120)


def test_a_page_that_would_be_too_large_has_fewer_levels():
    weights = np.random.default_rng(0).random((4, 64, 64), np.float32)
    whole = Blocks()
    whole.weights(weights)
    size = len(whole.packed()[0][0])
    small = Blocks(limit=size * 3 // 4)
    small.weights(weights)
    texts, levels = small.packed()
    assert levels < 255 and len(texts[0]) <= size * 3 // 4


def test_no_text_can_leave_its_place_in_the_page(runs: dict[str, Run]):
    hostile = " ".join(small_runs.HOSTILE)
    page = report.page(report.build([runs["transformer"]], [hostile]))
    assert page.count("</script>") == page.count("<script")
    assert "window.hacked" in page and "<script>window.hacked" not in page
    found = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    assert json.loads(found[1])["texts"] == [hostile]
    assert not re.search(r"\b(src|href)=[\"']?(https?:|//)", page)


def test_the_command_writes_the_page_and_pictures(
    runs: dict[str, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    output, figures = tmp_path / "page.html", tmp_path / "figures"
    cli.main(
        ["inspect", str(runs["causal"].folder), "a dog", "--output", str(output), "--length", "2",
         "--svg", str(figures), "--without-head", "1.0"]
    )  # fmt: skip
    assert capsys.readouterr().out.strip() == str(output)
    assert output.read_text(encoding="utf-8").startswith("<!doctype html>")
    names = {path.stem for path in figures.iterdir()}
    assert {"attention-decoder-layer-0", "attention-decoder-layer-1", "tokens", "attribution",
            "states-decoder-block-1-output", "positions-0"} <= names  # fmt: skip
    assert "head 1" in (figures / "attention-decoder-layer-0.svg").read_text(encoding="utf-8")
    with pytest.raises(SystemExit) as stopped:
        cli.main(["inspect", str(runs["lstm"].folder), "a dog", "--without-head", "0.0"])
    assert stopped.value.code == 1
    assert "none in this model" in capsys.readouterr().err
