"""Recipes: what is wrong is refused before the first step, and said so that it can be mended."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from regard import cli
from regard.errors import RecipeError
from regard.recipe import config
from tests import corpus

SHIPPED = Path(__file__).resolve().parents[2] / "recipes"


class Mutant(NamedTuple):
    """A wrong recipe: its text, its overrides, and what the message must hold."""

    text: str
    overrides: tuple[str, ...]
    wanted: tuple[str, ...]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    corpus.write(folder)
    return folder


@pytest.fixture(scope="module")
def complete(folder: Path) -> str:
    """The recipe with every key that it may have, a line each."""
    written = config.dump(config.load(folder / "recipe.toml"))
    return re.sub(r"\[\n([^]]*)\]", lambda m: "[" + " ".join(m[1].split()) + "]", written)


def refused(mutant: Mutant, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What is not as it should be with the refusal; empty if all is well."""
    path = folder / "mutant.toml"
    path.write_text(mutant.text, encoding="utf-8")
    target = folder / "new" / "run"
    try:
        cli.main(["train", str(path), *mutant.overrides, "--to", str(target)])
    except SystemExit as stop:
        code = stop.code
    else:
        return f"{mutant.wanted}: not refused"
    output, message = capsys.readouterr()
    missing = [text for text in mutant.wanted if text.replace("FILE", str(path)) not in message]
    if code == 2 and not missing and not output and not target.parent.exists():
        return ""
    left = "; a folder is left behind" if target.parent.exists() else ""
    return f"wanted {missing}, exit {code}{left}: {message}"


def lines(text: str) -> Iterator[tuple[int, str, str, str]]:
    """(number, section, key, value) of each line `key = value`."""
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.fullmatch(r"\[(.*)\]", line):
            section = header[1] + "."
        elif pair := re.match(r"(\w+) = (.*)", line):
            yield number, section, pair[1], pair[2]


def replaced(text: str, number: int, line: str) -> str:
    rows = text.splitlines()
    rows[number - 1] = line
    return "\n".join(rows) + "\n"


def misspelt(text: str) -> Iterator[Mutant]:
    """Each key with its last letters in the wrong order; where that says nothing, one doubled."""
    for number, section, key, value in lines(text):
        turned = key[:-2] + key[-2:][::-1]
        wrong = turned if turned != key and turned.isalpha() else key + key[-1]
        place = f"FILE:{number}: {section}{wrong}: no such key"
        yield Mutant(replaced(text, number, f"{wrong} = {value}"), (), (place, f"mean '{key}'?"))


def mistyped(text: str) -> Iterator[Mutant]:
    """Each value of another type."""
    for number, section, key, value in lines(text):
        other = {bool: '"yes"', str: "3", int: '"many"', float: "true", list: '"one"'}
        wrong = other[type(tomllib.loads(f"x = {value}")["x"])]
        yield Mutant(
            replaced(text, number, f"{key} = {wrong}"), (), (f"FILE:{number}: {section}{key}: ",)
        )


def by_override(text: str) -> Iterator[Mutant]:
    """Values that are out of range, no choice, or impossible together with others."""
    for override, *wanted in OVERRIDES:
        key = override.split("=")[0].strip()
        yield Mutant(text, (override,), (f"command line, {override}: {key}", *wanted))


OVERRIDES: list[tuple[str, ...]] = [
    ("seed=-1", "must be ≥ 0"),
    ("seed=1099511627776",),
    ("seed=1.5", "an integer"),
    ("task=translat", "did you mean 'translate'?"),
    ("task=7",),
    ("data.train=[]", "names no file"),
    ("data.train=train.source", "a list"),
    ('data.train=["a", "b", "c"]', "one plain text file for each"),
    ("data.delimiter=tabs", "neither one of 'tab'"),
    ("data.columns=[1.5, 2]", "a string or an integer"),
    ('data.train=["a.tsv", "b.tsv"]',),
    ('data.train=["train.sorce", "train.target"]', "no such file", "did you mean 'train.source'?"),
    ('data.validation=["nowhere/a", "nowhere/b"]', "no such file"),
    ('data.test=["train.source", "missing"]', "no such file"),
    ("data.train=[1, 2]",),
    ("data.columns=[1]",),
    ('data.columns=["a"]', "2 sides"),
    ('data.columns=["a", "b", "c"]', "2 sides"),
    ("data.max_length=0",),
    ("data.on_bad_line=skipp", "did you mean 'skip'?"),
    ("data.on_empty=maybe",),
    ("data.on_too_long=cutt", "did you mean 'cut'?"),
    ("tokenizer.kind=bpee", "did you mean 'bpe'?"),
    ("tokenizer.kind=Word", "did you mean 'word'?"),
    ("tokenizer.vocabulary=0",),
    ("tokenizer.vocabulary=4", "too small"),
    ("tokenizer.min_frequency=0",),
    ("tokenizer.split=lines",),
    ("batch.tokens=0",),
    ("batch.tokens=-5",),
    ("batch.sentences=-1",),
    ("search.kind=beem", "did you mean 'beam'?"),
    ("search.beams=0",),
    ("search.beams=2.0",),
    ("search.nbest=9", "more than the 3"),
    ("search.length_penalty=-1",),
    ("search.length_penalty=nan",),
    ("search.min_length=-1",),
    ("search.patience=0",),
    ("output.factor=0",),
    ("output.factor=inf",),
    ("output.extra=-1",),
    ("evaluation.tokenize=13b", "did you mean '13a'?"),
    ("evaluation.lines=-1",),
    ("model.dim=0",),
    ("model.dim=wide",),
    ("model.tie=al", "did you mean 'all'?"),
    ("model.tie=all", "tokenizer.joint"),
    ("model.encoder.kind=transfomer", "did you mean 'transformer'?"),
    ("model.decoder.kind=gpt",),
    ("model.head.kind=vocabular", "did you mean 'vocabulary'?"),
    ("model.input.kind=token", "did you mean 'tokens'?"),
    ("model.encoder.heads=3", "does not divide model.dim = 16"),
    ("model.decoder.heads=32", "does not divide"),
    ("model.encoder.heads=0",),
    ("model.encoder.layers=0",),
    ("model.encoder.dropout=1",),
    ("model.encoder.dropout=-0.1",),
    ("model.decoder.feedforward_dropout=2",),
    ("model.decoder.dropout=nan",),
    ("model.encoder.norm=before",),
    ("model.encoder.activation=rello", "did you mean 'relu'?"),
    ("model.encoder.position=sinusoid", "did you mean 'sinusoidal'?"),
    ("model.head.smoothing=1.0",),
    ("model.head.bias=1",),
    ("train.updates=0",),
    ("train.updates=1e3", "an integer"),
    ("train.tokens=-1",),
    ("train.accumulate=0",),
    ("train.clip=-1",),
    ("train.clip=inf",),
    ("train.log_every=0",),
    ("train.validate_every=-1",),
    ("train.save_every=0",),
    ("train.keep=0",),
    ("train.average=6", "train.keep = 5"),
    ("train.average_of=first",),
    ("train.metric=blue", "bleu"),
    ("train.max_nonfinite=-1",),
    ("train.device=gpu", "auto, cpu"),
    ("train.precision=float64",),
    ("train.threads=-1",),
    ("train.optimizer.kind=adamm", "did you mean"),
    ("train.optimizer.learning_rate=0",),
    ("train.optimizer.learning_rate=fast",),
    ("train.optimizer.beta1=1.0",),
    ("train.optimizer.epsilon=0",),
    ("train.optimizer.weight_decay=-0.1",),
    ("train.schedule.kind=cosin", "did you mean 'cosine'?"),
    ("train.schedule.warmup=-1",),
    ("train.schedule.end=-1",),
    ("train.schedule.scale=0",),
    ("train.updtes=3", "did you mean 'updates'?"),
    ("train.optimizer.learning_rates=1", "did you mean 'learning_rate'?"),
    ("search.top_p=0.5", "known here"),
]
# What these say begins otherwise: the key is another than the override's, or there is none.
OTHERS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("train.updates",), ("'train.updates'", "wanted key=value")),
    (("=3",), ("'=3'", "wanted key=value")),
    (("train..updates=3",), ("wanted key=value",)),
    (("1=2",), ("wanted key=value",)),
    (("train.updates.first=3",), ("train.updates.first=3", "updates is a value")),
    (("train=3",), ("command line, train=3: train: 3", "a section of its own")),
    (("model.encoder=rnn",), ("command line, model.encoder=rnn: model.encoder: ",)),
    (("search=beam",), ("command line, search=beam: search: ",)),
    (("model.dim=17",), ("FILE:", "model.encoder.heads: 2 does not divide model.dim = 17")),
    (("model.dim=6", "model.encoder.position=rotary"), ("model.encoder.position: rotary",)),
    (("model.encoder.position=one_hot",), ("model.encoder.limit: one_hot needs limit ≤",)),
    (
        ("model.encoder.position=learned", "model.encoder.limit=20"),
        ("command line, model.encoder.limit=20: model.encoder.limit: 20", "ask for 21"),
    ),
    (
        ("model.decoder.position=learned", "model.decoder.limit=49"),
        ("model.decoder.limit: 49", "ask for 50"),
    ),
    (("train.metric=bleu", "evaluation.lines=0"), ("train.metric: 'bleu' needs evaluation.lines",)),
    (
        ("train.patience=2", "train.validate_every=0"),
        ("train.patience: ", "train.validate_every = 0"),
    ),
    (("train.patience=2", "data.validation=[]"), ("train.patience: ", "data.validation")),
    (
        ("tokenizer.kind=bpe", "tokenizer.vocabulary=259"),
        ("tokenizer.vocabulary: 259 is too small for bpe",),
    ),
    (("data.set=multi30k",), ("data.folder: give either",)),
    (("data.set=multi3k", "data.folder="), ("data.set: ", "did you mean 'multi30k'?")),
    (("trian.updates=3",), ("command line, trian.updates=3: trian: ", "did you mean 'train'?")),
    (
        ("model.encodr.heads=2",),
        ("command line, model.encodr.heads=2: model.encodr: ", "did you mean 'encoder'?"),
    ),
    (("search.kind=greedy",), ("search.beams: no such key",)),
    (("data.max_length=1", "tokenizer.kind=character"), ("data.max_length: ", "≤ 1 tokens")),
]
TEXTS: list[tuple[str, str, tuple[str, ...]]] = [
    ("[train]", "[trian]", ("trian: no such key; did you mean 'train'?",)),
    ("[model.encoder]", "[model.encodr]", ("model.encodr: no such key; did you mean 'encoder'?",)),
    ("[train.optimizer]", "[train.optimiser]", ("did you mean 'optimizer'?",)),
    ("[search]", "[serach]", ("serach: no such key; did you mean 'search'?",)),
    ("[train]", "[[train]]", ("FILE",)),
    ("[data]", "[dta]", ("dta: no such key; did you mean 'data'?",)),
    ('task = "translate"', 'tusk = "translate"', ("FILE:1: tusk: no such key; did you mean",)),
    ('task = "translate"', "", ("task: missing; one of ", "translate")),
    ("dim = 16", "dim = ", ("FILE: not TOML: ", "line")),
    ("dim = 16", "dim = 16\ndim = 32", ("FILE: not TOML: ",)),
    ("dim = 16", "dim = 2024-01-01", ("model.dim: ", "an integer")),
    ("train = [", "trains = [", ("data.trains: no such key; did you mean 'train'?",)),
]


def in_text(text: str) -> Iterator[Mutant]:
    for old, new, wanted in TEXTS:
        assert old in text
        yield Mutant(text.replace(old, new, 1), (), wanted)


def others(text: str) -> Iterator[Mutant]:
    return (Mutant(text, overrides, wanted) for overrides, wanted in OTHERS)


GROUPS = [misspelt, mistyped, by_override, others, in_text]


@pytest.mark.parametrize("group", GROUPS)
def test_mutants_are_refused(group: Any, complete: str, folder: Path, capsys):
    wrong = [complaint for m in group(complete) if (complaint := refused(m, folder, capsys))]
    assert not wrong, "\n".join(wrong)


def test_there_are_two_hundred_mutants(complete: str):
    assert sum(1 for group in GROUPS for _ in group(complete)) >= 200


def test_the_recipe_itself_is_fine(folder: Path, complete: str):
    """Or else the mutants would be refused for another reason."""
    path = folder / "complete.toml"
    path.write_text(complete, encoding="utf-8")
    assert config.load(path) == config.load(folder / "recipe.toml")


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_recipes_are_sound_and_misspellings_in_them_are_found(path: Path, tmp_path: Path):
    loaded = config.load(Path(path.stem))
    assert loaded == config.load(path)
    text = path.read_text(encoding="utf-8")
    for mutant in misspelt(text):
        wrong = tmp_path / path.name
        wrong.write_text(mutant.text, encoding="utf-8")
        with pytest.raises(RecipeError) as error:
            config.load(wrong)
        assert any(text.replace("FILE", str(wrong)) in str(error.value) for text in mutant.wanted)


def test_overrides_reach_the_recipe(folder: Path):
    changes = ("train.updates=7", "train.optimizer.learning_rate=1e-3", "model.tie=none", "seed=5")
    changed = config.load(folder / "recipe.toml", changes)
    assert (changed.train.updates, changed.train.optimizer.learning_rate) == (7, 0.001)
    assert (changed.model.tie, changed.seed) == ("none", 5)
    assert config.load(folder / "recipe.toml", ("seed=5", "seed=6")).seed == 6


def test_an_override_is_one_value(folder: Path):
    with pytest.raises(RecipeError, match=r"train\.updates"):
        config.load(folder / "recipe.toml", ("train.updates=1\nseed = 9",))


def test_a_resolved_recipe_reads_as_itself(folder: Path, tmp_path: Path):
    first = config.load(folder / "recipe.toml")
    again = tmp_path / "elsewhere.toml"
    again.write_text(config.dump(first), encoding="utf-8")
    assert config.load(again) == first
    assert config.dump(config.load(again)) == config.dump(first)


def test_a_whole_number_is_written_as_it_was_given(folder: Path):
    changes = ("train.schedule.warmup=4000", "train.clip=0.5")
    written = config.dump(config.load(folder / "recipe.toml", changes))
    assert "\nwarmup = 4000\n" in written and "\nclip = 0.5\n" in written


def test_a_table_is_a_recipe_too(folder: Path, monkeypatch: pytest.MonkeyPatch):
    table = tomllib.loads(corpus.RECIPE)
    before = tomllib.loads(corpus.RECIPE)
    monkeypatch.chdir(folder)
    loaded = config.from_table(table, ("train.updates=9",))
    assert loaded == config.load(folder / "recipe.toml", ("train.updates=9",))
    assert table == before, "the caller's table is not changed"
    with pytest.raises(RecipeError, match=r"recipe: model\.dmi: no such key; did you mean 'dim'"):
        config.from_table(table | {"model": {"dmi": 8}})


def test_paths_are_relative_to_where_they_are_written(folder: Path, monkeypatch, tmp_path: Path):
    """In a recipe to the recipe's folder, on the command line to the working folder."""
    corpus.write(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    loaded = config.load(folder / "recipe.toml")
    assert loaded.task.data.paths("train")[0] == folder / "train.source"
    here = config.load(folder / "recipe.toml", ("data.folder=mine",))
    assert here.task.data.paths("train")[0] == tmp_path / "mine" / "train.source"
    files = 'data.test=["mine/test.source", "mine/test.target"]'
    mixed = config.load(folder / "recipe.toml", (files,)).task.data
    assert mixed.paths("test")[0] == tmp_path / "mine" / "test.source"
    assert mixed.paths("train")[0] == folder / "train.source"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("multi30k-en-d", "did you mean 'multi30k-en-de'?"),
        ("nothing/of/the/kind.toml", "there is no such recipe; shipped: "),
        ("", "is a folder, not a recipe"),
    ],
)
def test_a_recipe_that_is_not_there(name: str, wanted: str, folder: Path):
    path = Path(name) if name else folder
    with pytest.raises(RecipeError, match=re.escape(wanted)):
        config.load(path)


def test_a_recipe_that_is_not_text(tmp_path: Path):
    path = tmp_path / "binary.toml"
    path.write_bytes(b"task = '\xff'")
    with pytest.raises(RecipeError, match="not UTF-8"):
        config.load(path)


def test_lines_are_found_in_every_way_to_write_a_key(tmp_path: Path):
    corpus.write(tmp_path)
    text = corpus.RECIPE.split("[model]")[0]
    path = tmp_path / "dotted.toml"
    path.write_text("model.dim = 0\n" + text, encoding="utf-8")
    with pytest.raises(RecipeError, match=r"dotted\.toml:1: model\.dim: 0 must be"):
        config.load(path)
    inline = text + "[model]\n# dim = 5\nencoder = {layers = 1, heads = 0}\n"
    path.write_text(inline, encoding="utf-8")
    number = inline.splitlines().index("encoder = {layers = 1, heads = 0}") + 1
    with pytest.raises(RecipeError, match=rf"dotted\.toml:{number}: model\.encoder\.heads: 0"):
        config.load(path)
