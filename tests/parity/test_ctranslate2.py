"""CTranslate2 scores and finds what teacher forcing and our own search do."""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.data.tokenizers import Tokenizer
from regard.errors import UserError
from regard.interop import conversion, ctranslate2
from regard.interop.ctranslate2 import Engine
from regard.model import Model
from regard.recipe import parts
from regard.recipe.parts import Part
from regard.search import Request, beam, greedy, sample
from tests.field_sizes import texts
from tests.translators import (
    SOURCES,
    TARGETS,
    ask,
    assert_same,
    converted,
    native,
    random_model,
    random_rows,
    recipe_of,
    teacher_forced,
)

pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (regard[ctranslate2])")

VARIANTS = {
    "the paper's": recipe_of(),
    "shared by all": recipe_of("tokenizer.joint=true", "model.tie=all", norm="pre"),
    "untied, unscaled": recipe_of("model.tie=none", "model.scale=false", "model.head.bias=true"),
    "gelu, rms": recipe_of(activation="gelu", normalisation="rms", norm="pre", bias=False),
    "silu, halves": recipe_of(activation="silu", layout="halves", normalisation="rms"),
    "swiglu, rotary": recipe_of(activation="swiglu", position="rotary", norm="pre"),
    "learned": recipe_of(position="learned", limit=34),
    "one-hot": recipe_of("data.max_length=8", position="one_hot", limit=16),
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
    longest = recipe.task.data.max_length
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
    "greedy with a minimum": Part("greedy", greedy.Config(min_length=3)),
    "one beam": Part("beam", beam.Config(beams=1, length_penalty=0.7)),
    "no length penalty": Part("beam", beam.Config(beams=4, nbest=3, length_penalty=0.0)),
    "some length penalty": Part("beam", beam.Config(beams=3, nbest=3, length_penalty=0.6)),
    "a minimum": Part("beam", beam.Config(beams=4, nbest=4, min_length=4)),
    "a minimum beyond some caps": Part("beam", beam.Config(beams=3, nbest=2, min_length=10)),
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
def test_auto_takes_it_where_it_does_the_same(
    search: Part, options: Any, reason: str | None, monkeypatch: pytest.MonkeyPatch
):
    recipe, sizes = recipe_of(), texts(TARGETS, SOURCES)
    found = ctranslate2.obstacle(recipe, sizes, search, **options)
    assert found is None if reason is None else reason in str(found)
    chosen = ctranslate2.choose(recipe, sizes, search, **options)
    assert chosen == ("ctranslate2" if reason is None else "torch")
    monkeypatch.setattr(ctranslate2, "missing", lambda: "it is not installed")
    assert ctranslate2.choose(recipe, sizes, search, **options) == "torch"


@pytest.mark.parametrize("minimum", [0, 5])
def test_a_forced_prefix_counts_as_output_there_too(minimum: int, tiny: tuple[Model, Engine]):
    """In the length and the minimum; only its probability does not, which the engine calls 1.

    Without length penalty that is the same number for all outputs: they are ranked alike.
    """
    model, engine = tiny
    [source], [prefix] = random_rows(SOURCES, 5), random_rows(TARGETS, 3)
    search = Part("beam", beam.Config(beams=4, nbest=1, length_penalty=0.0, min_length=minimum))
    result = engine._translator.translate_batch(
        [conversion.names([*source, Tokenizer.end])],
        target_prefix=[conversion.names(prefix)],
        max_decoding_length=9,
        **ctranslate2.options(search),
    )[0]
    [theirs] = ctranslate2._hypotheses(result)
    [[ours]] = native(model, [source], ask([9], prefixes=(tuple(prefix),)), search)
    assert theirs.tokens == ours.tokens
    assert len(ours.tokens) >= minimum
    assert theirs.score == pytest.approx(sum(ours.log_probs[len(prefix) :]), abs=2e-4)


def test_the_engine_refuses_what_it_would_do_otherwise(tiny: tuple[Model, Engine]):
    _, engine = tiny
    with pytest.raises(UserError, match="prefix"):
        engine.find([[5]], ask([4], prefixes=((6,),)), SEARCHES["greedy"])
    with pytest.raises(ValueError, match="forbidden"):
        engine.find([[5]], Request(Tokenizer.start, Tokenizer.end, [4]), SEARCHES["greedy"])
