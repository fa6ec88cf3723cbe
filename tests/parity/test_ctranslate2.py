"""CTranslate2 finds what our own search finds, and an exported folder stands on its own."""

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Library

from regard import config, front, parts
from regard.config import Recipe
from regard.data import tokenizers
from regard.data.tokenizers import END, PAD, START, UNKNOWN, Tokenizer
from regard.errors import UserError
from regard.interop import conversion, ctranslate2, export, shortlist
from regard.interop.ctranslate2 import Engine
from regard.model import Model, build
from regard.parts import Part, module
from regard.search import Hypothesis, Request, beam, greedy, sample
from regard.tasks.translate import collate
from regard.types import Sizes

pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (regard[ctranslate2])")

SOURCES, TARGETS = 29, 31
FORBIDDEN = (PAD, START, UNKNOWN)
Found = list[list[Hypothesis]]


def recipe_of(*overrides: str, **part: Any) -> Recipe:
    """A tiny Transformer; `part` is for encoder and decoder alike."""
    table: dict[str, Any] = {
        "task": "translate",
        "data": {"train": ["a", "b"], "longest": 20},
        "output": {"factor": 1.5, "extra": 3},
        "tokenizer": {"joint": False},
        "model": {
            "dim": 16,
            "tie": "output",
            "encoder": {"layers": 2, "heads": 2, "inner": 24} | part,
            "decoder": {"layers": 3, "heads": 4, "inner": 20} | part,
        },
    }
    for override in overrides:
        config._override(table, override)
    return config.recipe(table)


def random_model(recipe: Recipe, seed: int = 0) -> Model:
    """Weights large enough that distributions have peaks, and biases and norms that matter."""
    torch.manual_seed(seed)
    shared = recipe.task.tokenizer.joint
    sizes = Sizes(source=TARGETS if shared else SOURCES, target=TARGETS, shared=shared)
    model = build(recipe.model, sizes).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn_like(parameter)
            parameter.copy_(0.4 * noise if parameter.ndim > 1 else parameter + 0.3 * noise)
    return model


def converted(model: Model, recipe: Recipe, folder: Path, **options: Any) -> Engine:
    folder.mkdir(exist_ok=True)
    ctranslate2.convert(model, recipe, folder)
    return Engine(folder, **{"workers": 1, **options})


def random_rows(symbols: int, *lengths: int) -> list[list[int]]:
    chance = np.random.default_rng(7)
    return [chance.integers(UNKNOWN + 1, symbols, n).tolist() for n in lengths]


def ask(caps: list[int], **options: Any) -> Request:
    return Request(
        START, END, caps, forbidden=FORBIDDEN, numbers=tuple(range(len(caps))), **options
    )


def native(model: Model, sources: list[list[int]], request: Request, search: Part) -> Found:
    with torch.inference_mode():
        batch = collate(sources, [[] for _ in sources], range(len(sources)))
        found: Found = module("search", search.kind).search(
            model.step, model.start(batch), request, search.config
        )
    return found


def teacher_forced(
    model: Model, sources: list[list[int]], targets: list[list[int]]
) -> list[list[float]]:
    """log p of each target's symbols and its end, the forbidden ones left out."""
    with torch.inference_mode():
        batch = collate(sources, targets, range(len(sources)))
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
        logits = model.head.logits(hidden).index_fill(-1, torch.tensor(FORBIDDEN), -torch.inf)
        chosen = logits.log_softmax(-1).gather(-1, batch["target_out"][..., None])[..., 0]
    return [row[: len(target) + 1].tolist() for row, target in zip(chosen, targets, strict=True)]


def assert_same(theirs: Found, ours: Found, tolerance: float = 2e-5) -> None:
    assert [[h.tokens for h in best] for best in theirs] == [[h.tokens for h in b] for b in ours]
    for a, b in zip(chain(*theirs), chain(*ours), strict=True):
        assert a.finished == b.finished
        assert a.score == pytest.approx(b.score, abs=tolerance)
        assert a.log_probs == pytest.approx(b.log_probs, abs=tolerance)


VARIANTS = {
    "the paper's": recipe_of(),
    "shared by all": recipe_of("tokenizer.joint=true", "model.tie=all", norm="pre"),
    "untied, unscaled": recipe_of("model.tie=none", "model.scale=false", "model.head.bias=true"),
    "gelu, rms": recipe_of(activation="gelu", normalisation="rms", norm="pre", bias=False),
    "silu, halves": recipe_of(activation="silu", layout="halves", normalisation="rms"),
    "swiglu, rotary": recipe_of(activation="swiglu", position="rotary", norm="pre"),
    "learned": recipe_of(position="learned", limit=34),
    "one-hot": recipe_of("data.longest=8", position="one_hot", limit=16),
    "no positions": recipe_of(position="none"),
    "unlike halves": recipe_of(
        "model.encoder.normalisation=rms",
        "model.encoder.norm=pre",
        "model.decoder.activation=swiglu",
        "model.decoder.position=rotary",
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_scores_and_searches_alike(name: str, tmp_path: Path):
    recipe = VARIANTS[name]
    model = random_model(recipe)
    engine = converted(model, recipe, tmp_path)
    longest = recipe.task.data.longest
    sources = random_rows(SOURCES, 1, 2, 5, 5, min(13, longest), longest)
    targets = random_rows(TARGETS, 3, 1, 0, 9, 6, longest)
    for theirs, ours in zip(
        engine.score(sources, targets), teacher_forced(model, sources, targets), strict=True
    ):
        assert theirs == pytest.approx(ours, abs=2e-5)
    request = ask([int(1.5 * len(source)) + 3 for source in sources])
    search = Part("beam", beam.Config(beams=5, nbest=5))
    assert_same(engine.find(sources, request, search), native(model, sources, request, search))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Engine]:
    recipe = recipe_of(norm="pre")
    model = random_model(recipe, seed=3)
    return model, converted(model, recipe, tmp_path_factory.mktemp("tiny"))


SEARCHES = {
    "greedy": Part("greedy", greedy.Config()),
    "greedy with a minimum": Part("greedy", greedy.Config(minimum=3)),
    "one beam": Part("beam", beam.Config(beams=1, length_penalty=0.7)),
    "no length penalty": Part("beam", beam.Config(beams=4, nbest=3, length_penalty=0.0)),
    "some length penalty": Part("beam", beam.Config(beams=3, nbest=3, length_penalty=0.6)),
    "a minimum": Part("beam", beam.Config(beams=4, nbest=4, minimum=4)),
    "a minimum beyond some caps": Part("beam", beam.Config(beams=3, nbest=2, minimum=10)),
    "patience": Part("beam", beam.Config(beams=4, nbest=4, patience=2.0)),
    "impatience": Part("beam", beam.Config(beams=4, nbest=2, patience=0.5)),
    "many beams": Part("beam", beam.Config(beams=27, nbest=9)),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_finds_the_same(name: str, tiny: tuple[Model, Engine]):
    model, engine = tiny
    sources = random_rows(SOURCES, 4, 9, 2, 9, 1, 17, 6)
    request = ask([9, 2, 0, 16, 1, 30, 9])
    ours = native(model, sources, request, SEARCHES[name])
    assert len({h.finished for best in ours for h in best}) == 2, "ends and caps should both occur"
    assert_same(engine.find(sources, request, SEARCHES[name]), ours, tolerance=5e-5)


def test_batches_and_workers_change_nothing(tiny: tuple[Model, Engine], tmp_path: Path):
    model, engine = tiny
    sources = random_rows(SOURCES, *[1 + n * 5 % 17 for n in range(40)])
    request = ask([len(source) + 4 for source in sources])
    search = Part("beam", beam.Config(nbest=2))
    expected = engine.find(sources, request, search)
    other = converted(model, recipe_of(norm="pre"), tmp_path, workers=2, batch=3)
    assert_same(other.find(sources, request, search), expected)
    alone = [engine.find([s], ask([len(s) + 4]), search)[0] for s in sources]
    assert_same(alone, expected)


def test_log_probs_can_be_done_without(tiny: tuple[Model, Engine]):
    _, engine = tiny
    sources, request = random_rows(SOURCES, 5, 8), ask([9, 9])
    search = SEARCHES["some length penalty"]
    whole = engine.find(sources, request, search)
    bare = engine.find(sources, request, search, log_probs=False)
    assert [[h._replace(log_probs=()) for h in best] for best in whole] == bare


def test_nothing_to_read_gives_nothing(tiny: tuple[Model, Engine]):
    _, engine = tiny
    found = engine.find([[], [5]], ask([7, 5]), SEARCHES["greedy"])
    assert found[0][0].tokens == () and found[0][0].finished
    assert engine.find([], ask([]), SEARCHES["greedy"]) == []


@pytest.fixture(scope="module")
def reverser() -> tuple[Model, Recipe]:
    """Has learnt to write three to six symbols backwards, more or less."""
    torch.manual_seed(1)
    shared = ("tokenizer.joint=true", "model.tie=all", "model.dim=32")
    recipe = recipe_of(*shared, dropout=0.0, norm="pre", layers=2)
    model = build(recipe.model, Sizes(source=12, target=12, shared=True))
    steps = torch.optim.Adam(model.parameters(), 6e-3)
    chance = np.random.default_rng(2)
    for _ in range(200):
        rows = [chance.integers(4, 12, n).tolist() for n in chance.integers(3, 7, 24)]
        batch = collate(rows, [row[::-1] for row in rows], range(24))
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
        term = model.head.loss(hidden, batch["target_out"], batch["target_mask"])["smoothed"]
        steps.zero_grad()
        (term.sum / term.count).backward()
        steps.step()
    return model.eval(), recipe


def test_a_trained_model_finds_the_same(reverser: tuple[Model, Recipe], tmp_path: Path):
    model, recipe = reverser
    engine = converted(model, recipe, tmp_path)
    sources = random_rows(12, *[3 + n % 4 for n in range(24)])
    request = ask([2 * len(source) + 10 for source in sources])
    search = Part("beam", beam.Config(nbest=5))
    ours = native(model, sources, request, search)
    right = [list(best[0].tokens) == s[::-1] for best, s in zip(ours, sources, strict=True)]
    assert sum(right) > 8, "it should have learnt something"
    assert_same(engine.find(sources, request, search), ours, tolerance=1e-4)


def test_int8_is_smaller_and_near_and_leaves_the_model_alone(
    reverser: tuple[Model, Recipe], tmp_path: Path
):
    model, recipe = reverser
    before = {name: p.clone() for name, p in model.named_parameters()}
    sources = random_rows(12, 3, 4, 5, 6)
    targets = [source[::-1] for source in sources]
    sizes, scores = {}, {}
    for kind in ("float32", "int8", "bfloat16"):
        (tmp_path / kind).mkdir()
        ctranslate2.convert(model, recipe, tmp_path / kind, kind)
        sizes[kind] = (tmp_path / kind / "model.bin").stat().st_size
        scores[kind] = np.concatenate(Engine(tmp_path / kind, workers=1).score(sources, targets))
    assert sizes["int8"] < 0.6 * sizes["float32"]
    assert 0 < np.abs(scores["int8"] - scores["float32"]).max() < 0.3
    assert 0 < np.abs(scores["bfloat16"] - scores["float32"]).max() < 0.3
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_what_is_not_the_original_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    recipe = recipe_of()
    monkeypatch.setitem(conversion.ACTIVATIONS, "relu", "GELU")
    with pytest.raises(UserError, match="not the original"):
        ctranslate2.convert(random_model(recipe), recipe, tmp_path, "int8")


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A part of somebody's own that is called `transformer`, too."""
    (tmp_path / "encoders").mkdir()
    source = "from regard.encoders.transformer import Config, Encoder"
    (tmp_path / "encoders" / "transformer.py").write_text(source)
    monkeypatch.setattr(parts, "_folders", [tmp_path])
    yield
    sys.modules.pop("regard_parts.encoders.transformer", None)


def test_foreign_parts_are_refused(foreign: None):
    reason = ctranslate2.supports(recipe_of())
    assert reason is not None and "model.encoder" in reason


def test_unsupported_models_are_refused_with_the_reason(tmp_path: Path):
    few = recipe_of("model.decoder.limit=33", position="learned", limit=34)
    reason = ctranslate2.supports(few)
    assert reason is not None and "model.decoder.limit: 33" in reason and "34" in reason
    with pytest.raises(UserError, match=r"model\.decoder\.limit"):
        ctranslate2.convert(random_model(few), few, tmp_path)
    other = dataclasses.replace(recipe_of(), kind="language_model")
    assert "language_model" in str(ctranslate2.supports(other))
    assert ctranslate2.supports(recipe_of()) is None


@pytest.mark.parametrize(
    ("search", "options", "reason"),
    [
        (Part("beam", beam.Config()), {}, None),
        (Part("greedy", greedy.Config()), {}, None),
        (Part("sample", sample.Config()), {}, "sample"),
        (Part("beam", beam.Config(beams=1, patience=2.0)), {}, "patience"),
        (Part("beam", beam.Config(nbest=2, length_penalty=0.0)), {}, "before the n best are found"),
        (Part("beam", beam.Config(beams=28)), {}, "28 beams"),
        (Part("beam", beam.Config()), {"prefixes": True}, "prefix"),
        (Part("beam", beam.Config()), {"device": "cuda:1"}, "cuda:1"),
    ],
)
def test_auto_takes_it_where_it_does_the_same(search: Part, options: Any, reason: str | None):
    recipe, sizes = recipe_of(), Sizes(source=SOURCES, target=TARGETS)
    found = ctranslate2.obstacle(recipe, sizes, search, **options)
    assert found is None if reason is None else reason in str(found)
    chosen = ctranslate2.choose(recipe, sizes, search, available=True, **options)
    assert chosen == ("ctranslate2" if reason is None else "torch")
    assert ctranslate2.choose(recipe, sizes, search, available=False, **options) == "torch"


def test_the_engine_refuses_what_it_would_do_otherwise(tiny: tuple[Model, Engine]):
    _, engine = tiny
    with pytest.raises(UserError, match="prefix"):
        engine.find([[5]], ask([4], prefixes=((6,),)), SEARCHES["greedy"])
    with pytest.raises(ValueError, match="forbidden"):
        engine.find([[5]], Request(START, END, [4]), SEARCHES["greedy"])


# Runs


LINES = [
    "the cat sees the dog",
    "",
    "a dog",
    "the dog sees a cat and the cat sees a dog",
    "  ",
    "Zebra! ünseen",
    "a cat",
]


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> front.Predictor:
    """A short training on a few phrases."""
    folder = tmp_path_factory.mktemp("run")
    words = {"the": "die", "a": "eine", "cat": "Katze", "dog": "Hündin", "sees": "sieht"}
    lines = [f"{x} {y} sees {u} {v}" for x in ("the", "a") for y in ("cat", "dog")
             for u in ("the", "a") for v in ("cat", "dog")]  # fmt: skip
    (folder / "source.txt").write_text("".join(f"{line}\n" for line in lines))
    targets = (" ".join(words[word] for word in line.split()) for line in lines)
    (folder / "target.txt").write_text("".join(f"{line}\n" for line in targets))
    files = [str(folder / "source.txt"), str(folder / "target.txt")]
    part = {"layers": 1, "heads": 2, "inner": 32, "dropout": 0.0}
    table = {
        "task": "translate",
        "data": {"train": files, "validation": files, "longest": 12},
        "tokenizer": {"size": 290},
        "model": {"dim": 32, "encoder": part, "decoder": part},
        "train": {"updates": 60, "validate": 0, "save": 30, "device": "cpu", "threads": 1},
        "output": {"extra": 5},
        "evaluation": {"lines": 0},
    }
    return front.train(table, to=folder / "run")


def test_predict_gives_the_same_by_either_engine(predictor: front.Predictor):
    engine = ctranslate2.engine(predictor.run, workers=1)
    search = predictor.search(nbest=3)
    options: dict[str, Any] = {"batch": 2, "align_tokens": True}
    ours = list(predictor.task.predict(predictor.model, LINES, search, **options))
    theirs = list(
        predictor.task.predict(predictor.model, LINES, search, finder=engine.find, **options)
    )
    assert [p.status for p in theirs][1] == "empty" and len({p.text for p in theirs}) > 3
    for a, b in zip(theirs, ours, strict=True):
        assert (a.text, a.status, a.tokens, a.source) == (b.text, b.status, b.tokens, b.source)
        assert a.alignment == b.alignment
        assert a.log_probs == pytest.approx(b.log_probs, abs=1e-4)
        assert [x["text"] for x in a.alternatives] == [x["text"] for x in b.alternatives]


def test_a_run_is_converted_once(predictor: front.Predictor, monkeypatch: pytest.MonkeyPatch):
    ctranslate2.engine(predictor.run, workers=1)
    kept = predictor.run.folder / "engines"
    assert [f.name.startswith("ctranslate2-float32-") for f in kept.iterdir()] == [True]

    def never(*_: Any) -> None:
        raise AssertionError("converted again")

    with monkeypatch.context() as context:
        context.setattr(ctranslate2, "convert", never)
        ctranslate2.engine(predictor.run, workers=1)
        with pytest.raises(AssertionError, match="converted again"):
            ctranslate2.engine(predictor.run, "30", workers=1)
    assert len(list(kept.iterdir())) == 1, "what fails leaves nothing behind"
    ctranslate2.engine(predictor.run, "30", workers=1)
    assert len(list(kept.iterdir())) == 2, "other weights are another engine"


def test_a_run_that_cannot_be_written_to_still_works(
    predictor: front.Predictor, monkeypatch: pytest.MonkeyPatch
):
    def denied(_: Path) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(ctranslate2, "whole", denied)
    engine = ctranslate2.engine(predictor.run, "30", "int8", workers=1)
    assert len(engine.score([[5, 6]], [[7]])[0]) == 2


def test_a_shortlist_bounds_what_is_written(predictor: front.Predictor):
    """The model has hardly learnt, and would like to write what no translation has."""
    folder, line = predictor.run.folder, "a cat sees a dog"
    task: Any = predictor.task
    seen = set(chain(*task.target.encode(task.references("train")[1])))
    assert not set(task.target.encode(predictor.predict([line]))[0]) <= seen
    bound = front.load(folder, shortlist=True).predict([line])
    assert bound != [""] and set(task.target.encode(bound)[0]) <= seen

    [kept] = [f for f in (folder / "engines").iterdir() if "shortlist" in f.name]
    every = " ".join(map(str, range(len(task.target))))
    (kept / shortlist.NAME).write_text(f"\t{every}\n")
    assert front.load(folder, shortlist=True).predict(LINES) == predictor.predict(LINES)
    shutil.rmtree(kept)


def test_an_export_can_have_a_shortlist(predictor: front.Predictor, tmp_path: Path):
    export.export(predictor.run, tmp_path / "export", "float32", shortlist=True)
    quick = front.load(predictor.run.folder, shortlist=True)
    lines = ["the cat sees the dog", "", "a dog sees a cat"]
    assert run_readme(tmp_path / "export", lines) == [quick.predict([line])[0] for line in lines]


def test_without_training_data_there_is_no_shortlist(predictor: front.Predictor, tmp_path: Path):
    shipped = tmp_path / "shipped"
    shutil.copytree(
        predictor.run.folder, shipped, ignore=shutil.ignore_patterns("store", "engines")
    )
    with pytest.raises(
        UserError, match=r"shortlist: it is learnt from the training data, and .*store"
    ):
        front.load(shipped, shortlist=True).predict(["a cat"])
    assert not any((shipped / "engines").glob("*")), "nothing half-written is left"


def test_a_shortlist_is_for_ctranslate2_alone(predictor: front.Predictor):
    with pytest.raises(UserError, match="shortlist: torch's search has the whole vocabulary"):
        front.load(predictor.run.folder, engine="torch", shortlist=True)


def run_readme(folder: Path, lines: list[str]) -> list[str]:
    """Run the program in an exported README, where neither regard nor torch can be imported."""
    program = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
    hidden = "import sys; sys.modules.update(regard=None, torch=None)\n"
    command = [sys.executable, "-c", hidden + program, str(folder)]
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_export_stands_on_its_own(predictor: front.Predictor, tmp_path: Path):
    folder = tmp_path / "new" / "export"
    found = export.export(predictor.run, folder, "float32")
    assert found.sentences == 16 and found.equal == 1.0 and found.difference < 1e-4
    assert json.loads((folder / "regard.json").read_text())["parity"]["equal"] == 1.0
    assert [f.name for f in folder.parent.iterdir()] == ["export"]
    assert run_readme(folder, LINES) == predictor.predict(LINES)


def test_an_export_in_int8_reports_how_near_it_is(predictor: front.Predictor, tmp_path: Path):
    found = export.export(predictor.run, tmp_path / "export", "int8")
    assert 0.5 <= found.equal <= 1.0 and 0.0 < found.difference < 1.0
    assert "int8" in (tmp_path / "export" / "README.md").read_text()


def test_an_export_never_writes_over_something(predictor: front.Predictor, tmp_path: Path):
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        export.export(predictor.run, tmp_path)
    assert [f.name for f in tmp_path.iterdir()] == ["precious.txt"]


def test_a_failing_export_leaves_nothing(
    predictor: front.Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export, "_alone", full)
    with pytest.raises(UserError, match="No space left"):
        export.export(predictor.run, tmp_path / "export")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "bpe", "size": 300},
        {"kind": "bpe", "size": 300, "split": "blanks", "lowercase": True},
        {"kind": "unigram", "size": 300},
        {"kind": "word"},
        {"kind": "character", "lowercase": True},
        {"kind": "bytes"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_tokenizers_stand_on_their_own(settings: dict[str, Any], tmp_path: Path):
    text = [line for line in LINES if line.strip()]
    tokenizer = Tokenizer.train(tokenizers.Config(**settings), text * 3)
    export._alone(tokenizer, tmp_path / "tokenizer.json")
    library = Library.from_file(str(tmp_path / "tokenizer.json"))
    for line in [*text, " two  blanks ", "日本 🎉"]:
        symbols = tokenizer.encode([line])[0]
        assert library.encode(line).ids == symbols
        known = [symbol for symbol in symbols if symbol != UNKNOWN]  # which is never written
        assert library.decode(known) == tokenizer.decode(known)
