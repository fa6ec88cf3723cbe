"""Values that no recipe should have: each is refused with its key, its place and its limit."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import RecipeError, UserError
from regard.model import build
from regard.recipe import config, toml, values
from regard.recipe.values import Range, check, shown
from regard.tasks import check_texts
from tests import corpus, small_runs
from tests.field_sizes import series

DIGITS = "9" * 5000


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus.write(tmp_path_factory.mktemp("values"))


LIMITS = [
    ("train.threads=1025", "1025 must be ≥ 0 and ≤ 1,024"),
    ("train.workers=65", "65 must be ≥ 0 and ≤ 64"),
    ("tokenizer.vocabulary=10000001", "10000001 must be ≥ 1 and ≤ 10,000,000"),
    ("evaluation.lines=1000001", "1000001 must be ≥ 0 and ≤ 1,000,000"),
    ("train.updates=9223372036854775808", "9223372036854775808 must be ≥ 1 and ≤ 1,000,000,000"),
    ("model.dim=131073", "131073 must be ≥ 1 and ≤ 131,072"),
    ("search.beams=10001", "10001 must be ≥ 1 and ≤ 10,000"),
    ("train.accumulate=10001", "10001 must be ≥ 1 and ≤ 10,000"),
    ("data.max_length=1.5", "1.5 (float) given, wanted: an integer ≥ 1 and ≤ 10,000,000"),
    ("train.optimizer.learning_rate=inf", "inf must be > 0 and ≤ 1,000"),
    ("train.optimizer.learning_rate=nan", "nan must be > 0 and ≤ 1,000"),
    ("train.optimizer.epsilon=2", "2.0 must be > 0 and ≤ 1"),
    ("output.factor=-inf", "-inf must be > 0 and ≤ 1,000"),
]


@pytest.mark.parametrize(("override", "wanted"), LIMITS)
def test_limits(override: str, wanted: str, recipe: Path):
    key = override.split("=")[0]
    with pytest.raises(RecipeError) as refused:
        config.load(recipe, (override,))
    assert str(refused.value) == f"command line, {override}: {key}: {wanted}"


def test_a_limit_itself_is_allowed(recipe: Path):
    changes = ("train.threads=1024", "train.workers=64", "tokenizer.vocabulary=10000000")
    train = config.load(recipe, changes).train
    assert (train.threads, train.workers) == (1024, 64)


def test_what_is_too_many(recipe: Path):
    changes = ["model.encoder={kind='cnn'}", f"model.encoder.widths={[1] * 33}"]
    with pytest.raises(RecipeError, match=r"widths: 33 items; wanted: at most 32 items"):
        config.load(recipe, changes)


OVERRIDES = [
    (f"model.dim={DIGITS}", "model.dim: a number has more than 4,300 digits"),
    ("model.dim=0x" + "f" * 5000, "model.dim: a number of more than 4,300 digits must be ≥ 1"),
    ("train.clip=1" + "0" * 400, "wanted: a number ≥ 0 and ≤ 1,000,000,000"),
    ("data.train=" + "[" * 5000, "data.train: it is nested too deeply"),
    ("x=" + "[" * 5000, "x: it is nested too deeply"),
    ("data.folder=a\0b", r"data.folder: 'a\x00b' is no path"),
    ("data.folder=~nosuchuser/x", "data.folder: '~nosuchuser/x' is no path"),
    ("model.input.vectors=~nosuchuser", "model.input.vectors: '~nosuchuser' is no path"),
    (r'data.train=["\u0000", "b"]', r"data.train[0]: '\x00' has '\x00', which no text may have"),
    ("output.choices=\ud800", r"output.choices: '\ud800' has '\ud800', which no text may have"),
    ("train.metric=" + "x" * 5000, "train.metric: "),
    ("model.encoder.kind=" + "z" * 5000, "model.encoder.kind: 'zzz"),
    ("model." + "a." * 3000 + "b=1", "model.a: no such key"),
]


@pytest.mark.parametrize(("override", "wanted"), OVERRIDES)
def test_changes_beyond_sense(override: str, wanted: str, recipe: Path):
    with pytest.raises(RecipeError) as refused:
        config.load(recipe, (override,))
    text = str(refused.value)
    assert text.startswith("command line, ") and wanted in text
    assert text.isprintable() and len(text) < 1000


def test_a_file_whose_name_is_no_path(recipe: Path):
    """Which is looked at when the data is."""
    data = config.load(recipe, ('data.train=["~nosuchuser/a", "b"]',)).task.data
    with pytest.raises(RecipeError, match=r"data\.train: '~nosuchuser/a' is no path: "):
        data.paths("train")
    long = config.load(recipe, (f'data.train=["{"x" * 5000}", "b"]',)).task.data
    with pytest.raises(RecipeError, match=r"data\.train: 'xxx.* is no path: .*File name too long"):
        long.paths("train")


def test_only_files_are_looked_for_on_the_command_line(recipe: Path, monkeypatch):
    """A column may be called as a file is."""
    monkeypatch.chdir(recipe.parent)
    changes = ('data.columns=["train.source", "x"]', 'data.train=["train.source", "train.target"]')
    data = config.load(recipe, changes).task.data
    assert data.columns == ("train.source", "x")
    assert data.train[0] == str(recipe.parent / "train.source")


FILES = [
    (f"seed = {DIGITS}\n", "FILE: not TOML: seed: a number has more than 4,300 digits (at line 2)"),
    ("seed = " + "[" * 5000, "FILE: not TOML: it is nested too deeply"),
    ('"" = 1\n', "FILE:1: '': no such key"),
    ('"a\\nb" = 1\n', r"FILE:1: 'a\nb': no such key"),
    (f'"{"k" * 5000}" = 1\n', "FILE:1: kkkk"),
    ('[data]\nfolder = "a\\u0000"\n', r"FILE:3: data.folder: 'a\x00' is no path"),
    ("a" + " " * 200_000 + "\n", "FILE: not TOML: "),
    ("# \u2028\n[model]\ndim = 0\n", "FILE:4: model.dim: 0 must be"),
]


@pytest.mark.parametrize(("text", "wanted"), FILES)
def test_files_beyond_sense(text: str, wanted: str, tmp_path: Path):
    path = tmp_path / "recipe.toml"
    files = '[data]\ntrain = ["a", "b"]\n' if "[data]" not in text and "[model]" in text else ""
    path.write_text(f'task = "translate"\n{text}{files}', encoding="utf-8")
    with pytest.raises(RecipeError) as refused:
        config.load(path)
    assert str(refused.value).startswith(wanted.replace("FILE", str(path)))
    assert str(refused.value).isprintable() and len(str(refused.value)) < 1000


def test_a_mark_at_the_beginning_of_a_recipe(recipe: Path, tmp_path: Path):
    """Some editors mark UTF-8 so; others write UTF-16."""
    marked = recipe.with_name("marked.toml")
    marked.write_bytes(b"\xef\xbb\xbf" + recipe.read_bytes())
    assert config.load(marked) == config.load(recipe)
    marked.write_bytes(recipe.read_text(encoding="utf-8").encode("utf-16"))
    with pytest.raises(RecipeError, match="not UTF-8 but UTF-16: save it as UTF-8"):
        config.load(marked)


def test_a_file_that_is_no_recipe(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(RecipeError, match="more than 4 MB: this is no recipe"):
        config.load(path)


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


TABLES: list[tuple[dict[Any, Any], str]] = [
    ({"seed": 10**5000}, "recipe: seed: a number of more than 4,300 digits must be ≥ 0"),
    ({"seed": np.int64(3)}, "recipe: seed: np.int64(3) (int64) given, wanted: an integer"),
    ({"seed": nested(100_000)}, "recipe: it is nested too deeply"),
    ({3: 4}, "recipe: 3: no such key"),
    ({"model": {"tie": np.arange(3)}}, "recipe: model.tie: array([0, 1, 2]) is not one of"),
    ({"train": {"clip": 10**400}}, "recipe: train.clip: 10000"),
    ({"model": None}, "recipe: model: None (NoneType) given"),
]


@pytest.mark.parametrize(("table", "wanted"), TABLES)
def test_tables_beyond_sense(table: dict[Any, Any], wanted: str):
    with pytest.raises(RecipeError) as refused:
        config.from_table({"task": "translate", "data": {"train": ["a", "b"]}} | table)
    assert str(refused.value).startswith(wanted)


def test_derived_types_become_plain():
    """Or else a recipe.toml would hold np.float64(0.5)."""

    class Name(str):
        __slots__ = ()

    data = {"train": [Name("a"), "b"]}
    made = config.from_table(
        {"task": "translate", "data": data, "train": {"clip": np.float64(0.5)}}
    )
    assert type(made.train.clip) is float and type(made.task.data.train[0]) is str
    assert "clip = 0.5\n" in config.dump(made)


def test_ranges_in_words():
    assert str(Range(1, 10**9)) == "≥ 1 and ≤ 1,000,000,000"
    assert str(Range(0, 0.25, open_low=True, open_high=True)) == "> 0 and < 0.25"
    assert str(Range(0, 2**63 - 1)) == "≥ 0 and ≤ 9,223,372,036,854,775,807"
    assert shown("x" * 500) == f"'{'x' * 37}...{'x' * 38}'"


def test_options_have_limits_too():
    check("beams", np.int64(3), values.Few)
    for value, wanted in (
        (0, "0 must be ≥ 1 and ≤ 10,000"),
        (10**30, "must be ≥ 1 and ≤ 10,000"),
        (10**5000, "a number of more than 4,300 digits must be ≥ 1"),
        (2.0, "2.0 is not an integer"),
        (True, "True is not an integer"),
        ("3", "'3' is not an integer"),
    ):
        with pytest.raises(RecipeError, match=re.escape(wanted)):
            check("beams", value, values.Few)


@pytest.mark.parametrize("kind", ["transformer", "causal", "classifier", "tagger"])
def test_half_a_character_is_no_text(kind: str, tmp_path: Path):
    """Only Python can hold it."""
    predictor = regard.load(small_runs.make(kind, tmp_path / "run").folder)
    wanted = re.escape(r"[1]: 'a \ud800' has '\ud800', which is half of a character")
    texts = ["a", "a \ud800"]
    with pytest.raises(UserError, match="inputs" + wanted):
        predictor.predict(texts)
    for number, side in enumerate(predictor.sides):
        given = [texts if n == number else ["a", "b"] for n in range(len(predictor.sides))]
        with pytest.raises(UserError, match=side + wanted):
            predictor.score(*given)
    if kind == "transformer":
        with pytest.raises(UserError, match="prefixes" + wanted):
            predictor.predict(["a", "b"], prefixes=texts)
        with pytest.raises(UserError, match="choices" + wanted):
            regard.load(predictor.run.folder, choices=texts)
    with pytest.raises(UserError, match=r"no checkpoint '²'|has no whole checkpoint"):
        regard.load(predictor.run.folder, checkpoint="²")


def test_what_is_no_text_at_all():
    with pytest.raises(UserError, match=r"inputs\[1\]: 3 is not a text"):
        check_texts("inputs", ["a", 3])


@pytest.mark.parametrize("name", ["²", "٣", "9" * 5000, "1e2", "-1", "", "+100", " 100"])
def test_names_of_checkpoints(name: str):
    from regard.runs import Run

    with pytest.raises(UserError, match="has no checkpoint"):
        Run(corpus.trained()).find(name)


def test_pythons_own_limit():
    """What the messages above count on."""
    assert sys.get_int_max_str_digits() == 4300
    with pytest.raises(ValueError, match="a number has more than 4,300 digits"):
        toml.parse(f"x = {DIGITS}")


@pytest.mark.parametrize("encoder", [{"kind": "attention", "scale": True}, {"kind": "bag"}])
def test_a_head_sees_as_many_positions_as_the_encoder_gives(
    encoder: dict[str, Any], tmp_path: Path
):
    """12 steps of 16 numbers, and one variable for each of 4 steps."""
    model = {"input": {}, "encoder": encoder, "head": {"readout": "flatten"}}
    recipe = config.from_table(small_runs.table("forecast", model, tmp_path))
    head: Any = build(recipe.model, series(1, 12, 4)).head
    assert tuple(head.project.weight.shape) == (4, 12 * 16)
