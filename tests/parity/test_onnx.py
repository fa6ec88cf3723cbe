"""Every task as ONNX: the exported folder says what the run says, where there is no regard."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pytest
from PIL import Image

from regard import cli, front
from regard.errors import RecipeError, UserError
from regard.fields import text
from regard.interop import onnx, shipping
from regard.interop.cost import cost
from regard.interop.shipments import Quality, tokenized
from regard.runs import Run
from tests import small_runs
from tests.exported import alone_program, code_lines

pytest.importorskip("onnx", reason="onnx is not installed (regard[onnx])")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (regard[onnx])")

BLOCKS = {"kind": "transformer", "layers": 1, "heads": 2, "feedforward": 16}
ROTARY = {**BLOCKS, "norm": "pre", "position": "rotary", "normalisation": "rms"}
HALVES = {**ROTARY, "rotary_layout": "halves", "rotary_base": 500.0}
GROUPED = {**HALVES, "key_value_heads": 1, "activation": "swiglu", "bias": False}
GROUPED |= {"query_key_value_bias": True, "rotary_scaling": "llama3", "rotary_original": 5}
PARALLEL = {**HALVES, "parallel": True, "rotary_fraction": 0.5, "activation": "gelu_tanh"}
RNN = {"kind": "rnn", "layers": 1}
GRU = {**RNN, "cell": "gru"}
SPELT = {"kind": "words", "size": 8, "characters": {"size": 8, "widths": [2, 3]}}
SUBWORDS = {"kind": "bpe", "vocabulary": 270}
ROLLED = {"look_back": 12, "horizon": 5, "block": 2, "normalise": "window"}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "classify": ("classify", {"encoder": {**RNN, "layers": 2}, "head": {"pooling": "ends"}}, {}),
    "classify-transformer": ("classify", {"encoder": ROTARY, "head": {"pooling": "attention"}}, {}),
    "classify-parallel": ("classify", {"encoder": {**PARALLEL, "embedding_norm": True}}, {}),
    "classify-spelt": (
        "classify",
        {"input": SPELT, "encoder": {"kind": "cnn", "widths": [2, 3]}, "head": {"pooling": "max"}},
        {"characters": True, "tokenizer": {"kind": "word", "lowercase": True}},
    ),
    "classify-several": (
        "classify",
        {"encoder": BLOCKS},
        {"labels": {"kind": "several", "separator": "|"}, "tokenizer": SUBWORDS},
    ),
    "tag": (
        "tag",
        {"input": {"kind": "tokens"}, "encoder": BLOCKS, "head": {"crf": False}},
        {"characters": False},
    ),
    "tag-parts-crf": (
        "tag",
        {"input": {"kind": "tokens"}, "encoder": BLOCKS, "head": {"crf": True}},
        {"characters": False, "tokenizer": SUBWORDS, "data": {"max_length": 12}},
    ),
    "tag-spelt-crf": (
        "tag",
        {
            "input": {"kind": "characters", "by": "rnn", "size": 8},
            "encoder": GRU,
            "head": {"crf": True},
        },
        {"characters": True},
    ),
    "forecast": (
        "forecast",
        {"input": {"patch": 3, "stride": 3}, "encoder": BLOCKS, "head": {"readout": "flatten"}},
        {},
    ),
    "forecast-rolled": ("forecast", {"encoder": RNN}, {"window": ROLLED}),
    "language_model": ("language_model", {"decoder": {**RNN, "layers": 2}}, {}),
    "language_model-transformer": (
        "language_model",
        {"decoder": BLOCKS},
        {"unit": "stream", "stream": {"length": 8}, "output": {"length": 20}},
    ),
    "language_model-grouped": ("language_model", {"decoder": GROUPED}, {"unit": "line"}),
    "translate": ("translate", {"encoder": RNN, "decoder": {**RNN, "input_feeding": True}}, {}),
    "translate-before": (
        "translate",
        {"encoder": GRU, "decoder": {**GRU, "attention": "additive", "order": "before"}},
        {},
    ),
    "translate-mixed": ("translate", {"encoder": RNN, "decoder": BLOCKS}, {}),
}
LINES = ["two dogs play", "", "a man sits in the unbelievably deep snow and runs", "snow", "  "]


@pytest.fixture(autouse=True)
def traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a graph is traced, sizes are tensors: no shape in a signature can be checked."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def made(name: str, folder: Path) -> Run:
    task, model, keys = CASES[name]
    return small_runs.create(task, model, folder, **keys)


@pytest.mark.parametrize("name", CASES)
def test_an_export_runs_alone_and_says_the_same(name: str, tmp_path: Path):
    run = made(name, tmp_path / "run")
    found = shipping.export(run, tmp_path / "shipped")
    assert found.same == found.inputs > 0
    assert found.difference < 1e-4
    assert code_lines((tmp_path / "shipped/run.py").read_text()) <= 12
    predictor, task = front.Predictor(run, engine="torch"), run.recipe.kind
    if task == "forecast":
        table = alone_program(tmp_path / "shipped", small_runs.SERIES)
        [wanted] = predictor.predict([small_runs.SERIES])
        rows = [[[*map(float, line.split(","))] for line in text.splitlines()[1:]]
                for text in (table, wanted)]  # fmt: skip
        assert table.splitlines()[0] == wanted.splitlines()[0]
        assert rows[0] == pytest.approx(np.array(rows[1]), rel=1e-4, abs=1e-4)
        return
    given = "".join(f"{line}\n" for line in LINES)
    greedy: dict[str, Any] = {"search": "greedy"} if task in ("language_model", "translate") else {}
    arguments = ["0"] if task == "language_model" else []
    said = alone_program(tmp_path / "shipped", given, *arguments).splitlines()
    outputs = list(predictor.predictions(LINES, **greedy))
    if task == "classify":
        cells = [line.split("\t") for line in said]
        said = [row[0] for row in cells]
        chances = [float(cell) for row in cells for cell in row[1:]]
        best = [p.probabilities[name] for p in outputs for name in p.tokens]
        assert chances == pytest.approx(best, abs=1e-4)
    assert said == [p.text.replace("\n", " ") for p in outputs]
    assert len({*said}) > 1, "one answer for all would hide much"


BLANKS = [
    "two [MASK] play",
    "",
    "[MASK] man sits in the [MASK] and runs",
    "a [MASK]!",
    "a dog runs [SEP] two dogs [MASK]",
    "nothing to fill in",
]


@pytest.mark.parametrize("kind", ["word", "bpe", "unigram", "character"])
@pytest.mark.parametrize("segments", [0, 2])
def test_blanks_are_filled_alone(kind: str, segments: int, tmp_path: Path):
    model = {"encoder": BLOCKS, "input": {"segments": segments}}
    keys: Any = {"tokenizer": {"kind": kind, "vocabulary": 300}}
    run = small_runs.create("masked_language_model", model, tmp_path / "run", **keys)
    found = shipping.export(run, tmp_path / "shipped")
    assert found.same == found.inputs > 0 and found.difference < 1e-4
    given = "".join(f"{line}\n" for line in BLANKS)
    said = alone_program(tmp_path / "shipped", given).split("\n")[:-1]
    outputs = list(front.Predictor(run).predictions(BLANKS))
    for line, made in zip(said, outputs, strict=True):  # a word may itself be "|" or ","
        blanks = [blank for blank in re.split(r"(?<= \d\.\d{3}) \| ", line) if blank]
        best = [re.split(r" \d\.\d{3}(?:, |$)", blank)[0] for blank in blanks]
        assert best == [words[0]["word"] for words in made.masks]


def test_a_folder_says_what_it_is(tmp_path: Path):
    run = made("classify", tmp_path / "run")
    found = shipping.export(run, tmp_path / "shipped")
    names = {"README.md", "model.onnx", "regard.json", "run.py", "tokenizer.json"}
    assert {*found.files} == names == {path.name for path in (tmp_path / "shipped").iterdir()}
    readme = (tmp_path / "shipped/README.md").read_text()
    assert (tmp_path / "shipped/run.py").read_text() in readme
    assert "the same output as the run for 64 of 64 inputs" in readme


def test_the_verb_takes_onnx_where_ctranslate2_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = made("tag", tmp_path / "run")
    cli.main(["export", str(run.folder), str(tmp_path / "shipped"), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["to"] == "onnx" and found["cost"] is None and found["warnings"] == []
    assert found["parity"]["difference"] < 1e-4


# What int8 costs


def test_int8_says_what_it_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = made("translate", tmp_path / "run")
    cli.main(["export", str(run.folder), str(tmp_path / "out"), "--quantization", "int8"])
    said = "".join(capsys.readouterr())  # as a warning, where it is much for a random model
    assert "int8 instead of float32: bleu" in said
    assert "on 4 examples of the validation part" in said
    card = json.loads((tmp_path / "out/regard.json").read_text())
    assert card["cost"]["metric"] == "bleu" and card["quantization"] == "int8"
    large, small = card["cost"]["megabytes"]
    assert small < large
    assert alone_program(tmp_path / "out", "two dogs play\n").count("\n") == 1


def test_without_a_validation_part_a_warning_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = made("classify", tmp_path / "run")
    cli.main(["export", str(run.folder), str(tmp_path / "out"), "--quantization", "int8"])
    assert "there is no validation part to say what int8 costs" in capsys.readouterr().err


def test_a_loss_is_more_than_noise_where_most_draws_show_it():
    right = np.array([100.0] * 90 + [0.0] * 10)
    one = np.ones(100)
    whole = Quality("accuracy", right, one, True)
    fewer = Quality("accuracy", np.where(np.arange(100) < 20, 0.0, right), one, True)
    found = cost(whole, fewer, (4.0, 1.0))
    assert found is not None and found.worse
    assert (found.float32, found.quantized, found.inputs) == (90.0, 70.0, 100)
    swapped = right.copy()
    swapped[[0, 99]] = swapped[[99, 0]]  # one more is wrong, and one is right
    assert not cost(whole, Quality("accuracy", swapped, one, True), (4.0, 1.0)).worse  # type: ignore[union-attr]
    lower = Quality("mse", right / 100, one, False)
    assert not cost(lower, Quality("mse", right / 200, one, False), (4.0, 1.0)).worse  # type: ignore[union-attr]
    for factor, worse in ((1.004, False), (1.006, True)):
        more = Quality("mse", factor * right / 100, one, False)
        assert cost(lower, more, (4.0, 1.0)).worse == worse  # type: ignore[union-attr]
    assert cost(None, whole, (4.0, 1.0)) is None


# What is refused, and what is said


def test_an_unfinished_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = small_runs.create(*CASES["tag"][:2], tmp_path / "run", updates=(7,))
    shutil.rmtree(run.folder / "model")
    cli.main(["export", str(run.folder), str(tmp_path / "out")])
    assert "update 7" in capsys.readouterr().err
    assert (tmp_path / "out/run.py").is_file()


def test_a_field_of_ones_own_is_refused():
    with pytest.raises(UserError, match="a field of its own; only text is shipped as ONNX"):
        tokenized(object(), text.Field, "text")


def test_an_export_never_writes_over_something(tmp_path: Path):
    run = made("classify", tmp_path / "run")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/mine.txt").write_text("mine")
    with pytest.raises(UserError, match="taken exists and is not empty"):
        shipping.export(run, tmp_path / "taken")
    with pytest.raises(UserError, match=r"mine\.txt exists and is no folder"):
        shipping.export(run, tmp_path / "taken/mine.txt")
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["mine.txt"]


def test_a_graph_that_is_not_the_original_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = made("classify", tmp_path / "run")
    session = onnx.Session.__call__

    def off(self: Any, arrays: Any) -> Any:
        return {name: each + 0.1 * (np.arange(each.shape[-1]) == 0) for name, each in
                session(self, arrays).items()}  # fmt: skip

    monkeypatch.setattr(onnx.Session, "__call__", off)
    with pytest.raises(UserError, match="the exported model is not the original: probabilities"):
        shipping.export(run, tmp_path / "new/shipped")
    assert not (tmp_path / "new").exists()


def test_without_the_library_a_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = made("classify", tmp_path / "run")
    monkeypatch.setattr(onnx, "missing", lambda: "onnx is not installed: pip install onnx")
    with pytest.raises(UserError, match=r"^export: onnx is not installed: pip install"):
        shipping.export(run, tmp_path / "shipped")
    assert not (tmp_path / "shipped").exists()


def test_forms_refuse_what_they_lack(tmp_path: Path):
    run = made("classify", tmp_path / "run")
    with pytest.raises(RecipeError, match="ONNX has float32 and int8 here, not int16"):
        shipping.ship(run, tmp_path / "a", "onnx", "int16")
    with pytest.raises(RecipeError, match="shortlist: only CTranslate2 has one"):
        shipping.ship(run, tmp_path / "a", "onnx", shortlist=True)
    with pytest.raises(UserError, match="exported to CTranslate2: the task is 'classify'"):
        shipping.ship(run, tmp_path / "a", "ctranslate2")
    assert not (tmp_path / "a").exists()


CNN = {"kind": "cnn", "stem": 4, "widths": [8], "groups": 4}
VIT = {
    "scale": False,
    "input": {"kind": "patches", "patch": 8},
    "encoder": {**small_runs.BLOCKS, "norm": "pre", "activation": "gelu", "position": "none"},
    "head": {"pooling": "class"},
}


def labelled_pictures(folder: Path) -> dict[str, Any]:
    """Sections of a recipe for a folder of two classes."""
    for n, name in enumerate(("dark", "light")):
        (folder / name).mkdir(parents=True)
        Image.new("RGB", (16, 16), (200 * n,) * 3).save(folder / name / "0.png")
    return {
        "data": {"train": [str(folder)]},
        "source": {"kind": "image", "size": [16, 16]},
    }


@pytest.mark.parametrize(
    ("task", "model", "instead"),
    [
        ("caption", small_runs.FAMILIES["describer"][1], "nor to huggingface: the task is 'ca"),
        ("transcribe", small_runs.FAMILIES["listener"][1], "nor to huggingface: the task is 'tr"),
        ("contrast", small_runs.FAMILIES["comparer"][1], "nor to huggingface: it has the shape of"),
        ("classify", {"input": CNN}, "nor to huggingface: no family there has a part of kind 'cnn"),
        ("classify", VIT, "take --to huggingface$"),
    ],
)
def test_what_reads_files_is_refused_and_told_where_it_can_go(
    tmp_path: Path, task: str, model: dict[str, Any], instead: str
):
    """A form is named where it takes the run, and nowhere else."""
    keys = labelled_pictures(tmp_path / "pictures") if task == "classify" else {}
    if keys:
        keys["tokenizer"] = {}
    run = small_runs.create(task, model, tmp_path / "run", **keys)
    with pytest.raises(UserError, match=rf"ONNX: it reads pictures or sounds; {instead}") as said:
        shipping.ship(run, tmp_path / "out")
    assert str(said.value).count(str(run.folder)) == 1
    if instead.startswith("take"):
        shipping.ship(run, tmp_path / "out", "huggingface")
        assert (tmp_path / "out" / "config.json").is_file()
    else:
        with pytest.raises(UserError, match="no family there"):
            shipping.ship(run, tmp_path / "out", "huggingface")
        assert not (tmp_path / "out").exists()
