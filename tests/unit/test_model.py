"""Where the parts meet: sizes of the known models, tied weights, absent parts."""

import math
import shutil
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from regard.decoders import transformer
from regard.errors import RecipeError
from regard.heads import labels, real, vocabulary
from regard.inputs import characters, tokens
from regard.layers.embedding import Embedding
from regard.model import Config, Model, build
from regard.recipe import config as recipes
from regard.recipe.parts import Part, module
from regard.runs import Run
from regard.train import schedule
from regard.train.checkpoint import put_weights, weights_of
from regard.types import Batch, FieldSize, Sizes
from tests import small_runs
from tests.field_sizes import labelled, texts

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
LAYERS, HEADS, DIM, INNER, SOURCE, TARGET = 2, 3, 21, 13, 17, 19

Tie = Literal["none", "output", "all"]


def make(
    tie: Tie = "none",
    *,
    reads: bool = True,
    encoder: bool = True,
    scale: bool = True,
    head: vocabulary.Config | None = None,
    **options: Any,
) -> Model:
    stack = transformer.Config(
        **{"layers": LAYERS, "heads": HEADS, "feedforward": INNER, **options}
    )
    config = Config(
        dim=DIM,
        tie=tie,
        scale=scale,
        input=Part("tokens", tokens.Config()) if reads else None,
        encoder=Part("transformer", stack) if reads and encoder else None,
        decoder=Part("transformer", stack),
        head=Part("vocabulary", head or vocabulary.Config()),
    )
    shared = tie == "all"
    return build(config, texts(TARGET, TARGET if shared else SOURCE, shared=shared))


def batch(source: Tensor) -> Batch:
    mask = torch.ones_like(source, dtype=torch.bool)
    tensors = {"source": source, "source_mask": mask}
    return Batch(tensors=tensors, ids=tuple(range(len(source))), targets=0)


def logits(model: Model, source: Tensor, target: Tensor) -> Tensor:
    return model.head.logits(model.decode(target, model.start(batch(source)))[0])


# Sizes


def attention_size(dim: int) -> int:
    return 4 * (dim * dim + dim)


def feedforward_size(dim: int, inner: int) -> int:
    return dim * inner + inner + inner * dim + dim


def transformer_size(layers: int, dim: int, inner: int) -> int:
    """Encoder and decoder by the paper's figure 1; a norm has a gain and a bias."""
    encoder = attention_size(dim) + feedforward_size(dim, inner) + 2 * 2 * dim
    decoder = 2 * attention_size(dim) + feedforward_size(dim, inner) + 3 * 2 * dim
    return layers * (encoder + decoder)


@pytest.mark.parametrize(
    ("name", "published", "dim", "inner"),
    [("transformer-base", 65e6, 512, 2048), ("transformer-big", 213e6, 1024, 4096)],
)
def test_the_papers_models_have_their_size(
    name: str, published: float, dim: int, inner: int
) -> None:
    recipe = recipes.load(RECIPES / f"{name}.toml")
    symbols = recipe.task.tokenizer.vocabulary
    with torch.device("meta"):
        model = build(recipe.model, texts(symbols, symbols, shared=True))
    assert symbols == 37_000
    assert model.size() == symbols * dim + transformer_size(6, dim, inner)
    assert model.size() == pytest.approx(published, rel=0.04)


@pytest.mark.parametrize(
    ("name", "dropout", "updates", "average"),
    [("transformer-base", 0.1, 100_000, 5), ("transformer-big", 0.3, 300_000, 20)],
)
def test_the_papers_recipes_say_what_the_paper_says(
    name: str, dropout: float, updates: int, average: int
) -> None:
    recipe = recipes.load(RECIPES / f"{name}.toml")
    model, train, task = recipe.model, recipe.train, recipe.task
    assert recipe.kind == "translate"
    for part in (model.encoder, model.decoder):
        assert (part.config.norm, part.config.position) == ("post", "sinusoidal")
        assert (part.config.layers, part.config.dropout) == (6, dropout)
        assert model.dim // part.config.heads == 64
    assert (model.tie, model.scale, model.head.config.smoothing) == ("all", True, 0.1)
    adam = train.optimizer
    assert (adam.kind, adam.beta1, adam.beta2, adam.epsilon) == ("adam", 0.9, 0.98, 1e-9)
    assert task.batch.tokens * train.accumulate == 25_000
    assert (train.updates, train.average, train.average_of) == (updates, average, "last")
    assert (task.search.kind, task.search.config.beams) == ("beam", 4)
    assert task.search.config.length_penalty == 0.6
    highest = schedule.rate(train.schedule, adam.learning_rate, 4000, updates, model.dim)
    assert highest == pytest.approx(model.dim**-0.5 * 4000**-0.5)
    later = schedule.rate(train.schedule, adam.learning_rate, 16_000, updates, model.dim)
    assert later == pytest.approx(highest / 2)


# Tied weights

STACKS = transformer_size(LAYERS, DIM, INNER)


@pytest.mark.parametrize(
    ("tie", "tables"),
    [
        ("none", {"input.embedding": SOURCE, "decoder.embedding": TARGET, "head": TARGET}),
        ("output", {"input.embedding": SOURCE, "decoder.embedding": TARGET}),
        ("all", {"input.embedding": TARGET}),
    ],
)
def test_a_tied_table_is_one_parameter_stored_once(tie: Tie, tables: dict[str, int]) -> None:
    model = make(tie)
    stored = weights_of(model)
    found = {
        name.removesuffix(".weight"): len(t) for name, t in stored.items() if ".blocks." not in name
    }
    assert found == tables
    assert model.size() == sum(t.numel() for t in stored.values())
    assert model.size() == STACKS + sum(tables.values()) * DIM
    head = model.get_parameter("head.weight")
    target = model.get_parameter("decoder.embedding.weight")
    source = model.get_parameter("input.embedding.weight")
    assert (head is target, source is target) == (tie != "none", tie == "all")


def test_stored_weights_make_the_same_model_tied_again() -> None:
    source, target = torch.randint(TARGET, (2, 5)), torch.randint(TARGET, (2, 7))
    first, second = make("all").eval(), make("all").eval()
    assert not logits(first, source, target).allclose(logits(second, source, target))
    put_weights(second, weights_of(first), "test")
    assert logits(first, source, target).equal(logits(second, source, target))
    assert second.get_parameter("head.weight") is second.get_parameter("input.embedding.weight")


def test_a_tied_table_learns_from_all_its_places() -> None:
    """Row 3 is only read by the encoder, row 5 only by the decoder, row 7 is only predicted."""
    model = make("all", dropout=0.0)
    logits(model, torch.tensor([[3]]), torch.tensor([[5]]))[0, 0, 7].backward()
    table = model.get_parameter("input.embedding.weight")
    assert table.grad is not None
    assert table.grad.abs().sum(-1).nonzero().flatten().tolist() == [3, 5, 7]


def test_tying_all_needs_one_vocabulary() -> None:
    config = Config(
        dim=DIM,
        tie="all",
        input=Part("tokens", tokens.Config()),
        encoder=Part("transformer", transformer.Config(heads=HEADS)),
        decoder=Part("transformer", transformer.Config(heads=HEADS)),
        head=Part("vocabulary", vocabulary.Config()),
    )
    with pytest.raises(RecipeError, match=r"model\.tie: 'all' needs one vocabulary"):
        build(config, texts(TARGET, SOURCE))


def test_a_head_may_have_a_bias_of_its_own() -> None:
    plain, biased = make("output"), make("output", head=vocabulary.Config(bias=True))
    assert biased.size() - plain.size() == TARGET
    assert weights_of(biased).keys() - weights_of(plain).keys() == {"head.bias"}


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"bias": False}, -LAYERS * (3 * 4 * DIM + 2 * (INNER + DIM))),  # 3 attentions, 2 networks
        ({"normalisation": "rms"}, -5 * LAYERS * DIM),  # no bias in any norm
        ({"activation": "swiglu"}, 2 * LAYERS * (DIM * INNER + INNER)),  # one more projection
        ({"activation": "silu"}, 0),
        ({"norm": "pre"}, 2 * 2 * DIM),  # one more norm at the end of each stack
        ({"position": "learned", "limit": 31}, 2 * 31 * DIM),
        ({"position": "one_hot", "limit": 11}, 0),
    ],
)
def test_settings_change_the_size_as_they_should(options: dict[str, Any], difference: int) -> None:
    assert make(**options).size() - make().size() == difference


# Fields


def reading(kind: str, **keys: Any) -> Part:
    return Part(kind, module("inputs", kind).Config(**keys))


@pytest.mark.parametrize(
    ("part", "missing"),
    [
        (reading("tokens"), "'tokens' reads tokens"),
        (reading("ngrams"), "'ngrams' reads tokens"),
        (reading("characters"), "'characters' reads characters"),
        (reading("words", characters=characters.Config()), "'words' reads tokens"),
        (reading("series"), "'series' reads length"),
    ],
)
def test_an_input_says_what_its_field_lacks(part: Part, missing: str) -> None:
    image = {"height": 32, "width": 32, "channels": 3}
    sizes = Sizes({"image": image, "labels": {"outputs": 3}}, reads="image", writes="labels")
    config = Config(dim=DIM, input=part, head=Part("labels", labels.Config()))
    what = rf"model\.input\.kind: {missing}, but the field 'image' has height, width, channels$"
    with pytest.raises(RecipeError, match=what):
        build(config, sizes)


def test_a_head_and_a_decoder_say_what_their_field_lacks() -> None:
    head, stack = Part("vocabulary", vocabulary.Config()), transformer.Config(heads=HEADS)
    sizes = Sizes({"labels": {"kinds": 3}}, writes="labels")
    what = r"model\.head\.kind: 'vocabulary' needs outputs, but the field 'labels' has kinds"
    with pytest.raises(RecipeError, match=what):
        build(Config(dim=DIM, head=head), sizes)
    decoder = Part("transformer", stack)
    what = r"model\.decoder\.kind: 'transformer' needs tokens, but the field 'labels' has kinds"
    with pytest.raises(RecipeError, match=what):
        build(Config(dim=DIM, decoder=decoder, head=head), sizes)


def test_a_task_that_reads_nothing_has_no_input() -> None:
    config = Config(dim=DIM, input=reading("tokens"), head=Part("vocabulary", vocabulary.Config()))
    with pytest.raises(
        RecipeError, match=r"model\.input\.kind: the task has no field that is read"
    ):
        build(config, texts(TARGET))


def test_an_input_reads_the_field_that_it_is_made_for() -> None:
    size = FieldSize("title", {"tokens": SOURCE})
    made = tokens.Input(tokens.Config(), size, DIM, shared=None, scale=False)
    title, mask = torch.tensor([[3, 4, 0]]), torch.tensor([[True, True, False]])
    given = {"title": title, "title_mask": mask, "source": torch.tensor([[5]])}
    found = made(Batch(tensors=given, ids=(0,), targets=0))
    assert torch.equal(found.states, made.embedding.weight[title])
    assert found.mask is mask


def test_all_positions_at_once_need_inputs_of_one_length() -> None:
    head = Part("real", real.Config(readout="flatten"))
    config = Config(dim=DIM, input=reading("tokens"), head=head)
    with pytest.raises(RecipeError, match=r"model\.head\.readout: 'flatten' needs inputs that are"):
        build(config, labelled(SOURCE, 3))


# Absent parts


def test_a_model_needs_a_head() -> None:
    with pytest.raises(RecipeError, match=r"model\.head: a model needs a head"):
        build(Config(dim=DIM), texts(TARGET))


def test_a_language_model_reads_nothing_but_its_own_past() -> None:
    model = make("output", reads=False).eval()
    given, target = batch(torch.randint(SOURCE, (2, 5))), torch.randint(TARGET, (2, 7))
    assert model.encode(given) is None
    assert not any("cross" in name for name, _ in model.named_parameters())
    hidden, _ = model.decode(target, model.start(given))
    assert hidden.shape == (2, 7, DIM)
    one_way = LAYERS * (attention_size(DIM) + feedforward_size(DIM, INNER) + 2 * 2 * DIM)
    assert model.size() == TARGET * DIM + one_way


def test_without_an_encoder_the_decoder_looks_at_the_input_itself() -> None:
    model = make(encoder=False).eval()
    source, target = torch.arange(5)[None], torch.randint(TARGET, (1, 7))
    memory = model.encode(batch(source))
    assert memory is not None
    table = model.get_parameter("input.embedding.weight")
    torch.testing.assert_close(memory.states, table[:5][None] * math.sqrt(DIM))
    before = logits(model, source, target)
    torch.testing.assert_close(logits(model, source.flip(1), target), before)  # a bag of vectors
    assert not logits(model, source + 1, target).allclose(before, atol=1e-3)


# Small things


def test_a_step_gives_the_logits_after_the_last_token() -> None:
    model, source = make().eval(), torch.randint(SOURCE, (2, 5))
    target = torch.randint(TARGET, (2, 7))
    state = model.start(batch(source))
    step, state = model.step(target[:, :6], state)
    last, _ = model.step(target[:, 6:], state)
    whole = logits(model, source, target)
    assert step.shape == (2, TARGET)
    torch.testing.assert_close(step, whole[:, 5], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(last, whole[:, 6], rtol=1e-5, atol=1e-5)


def test_embeddings_are_rows_and_begin_with_unit_variance() -> None:
    scaled, plain = Embedding(1009, 64), Embedding(1009, 64, scale=False)
    symbols = torch.tensor([[3, 5], [5, 1008]])
    torch.testing.assert_close(scaled(symbols), scaled.weight[symbols] * 8)
    assert plain(symbols).equal(plain.weight[symbols])
    assert float(scaled(torch.arange(1009)[None]).detach().std()) == pytest.approx(1, rel=0.02)
    weights = [make(scale=scale).get_parameter("input.embedding.weight") for scale in (True, False)]
    assert all(float(w.detach().std()) == pytest.approx(DIM**-0.5, rel=0.2) for w in weights)


def test_the_seed_decides_the_weights() -> None:
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        made.append(weights_of(make()))
    assert all(tensor.equal(made[1][name]) for name, tensor in made[0].items())
    table = "input.embedding.weight"
    assert not made[0][table].equal(made[2][table])


def test_every_weight_is_drawn_and_every_one_learns() -> None:
    """Nothing is left as the allocator found it, nothing is left out of the computation."""
    modern: dict[str, Any] = {"activation": "swiglu", "norm": "pre", "position": "learned"}
    for options in ({}, modern):
        model = make(head=vocabulary.Config(bias=True), limit=7, **options)
        for name, parameter in model.named_parameters():
            largest = float(parameter.detach().abs().max())
            assert largest == 0 if name.endswith("bias") else 0 < largest <= 5
        target = torch.randint(TARGET, (2, 7))
        found = logits(model, torch.randint(SOURCE, (2, 7)), target)
        found.log_softmax(-1)[..., 3].sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None and parameter.grad.count_nonzero() > 0, name


@pytest.mark.parametrize(
    ("task", "kind", "what"),
    [
        ("translate", "words", "reads characters, but the field 'source' has tokens"),
        ("translate", "series", "reads length, but the field 'source' has tokens"),
        ("classify", "series", "reads length, but the field 'source' has tokens"),
        ("tag", "series", "reads length, but the field 'source' has tokens, start, end"),
        ("forecast", "tokens", "reads no series of numbers"),
    ],
)
def test_an_input_that_its_field_does_not_suit_is_refused_without_data(
    task: str, kind: str, what: str, tmp_path: Path
) -> None:
    table = small_runs.table(task, {"input": {"kind": kind}, "tie": "output"}, tmp_path / "data")
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(RecipeError, match=f"recipe: model.input.kind: '{kind}' {what}$"):
        recipes.from_table(table)


@pytest.mark.parametrize("task", small_runs.TASKS)
def test_the_names_of_sizes_are_those_that_are_known_after_learning(
    task: str, tmp_path: Path
) -> None:
    recipe = recipes.from_table(small_runs.table(task, {"tie": "none"}, tmp_path / "data"))
    before = module("tasks", task).plan(recipe.task).fields
    run = Run.create(tmp_path / "run", recipe)
    for name, field in run.task.fields.items():
        assert tuple(before[name].size_names) == tuple(field.size_names) == tuple(field.size)


@pytest.mark.parametrize("kind", ["labels", "bag"])
def test_only_fields_that_a_task_can_read_are_to_be_chosen(kind: str, tmp_path: Path) -> None:
    table = small_runs.table("classify", {}, tmp_path / "data") | {"source": {"kind": kind}}
    with pytest.raises(
        RecipeError, match=f"source.kind: '{kind}' is not one of audio, image, text[ ;]"
    ):
        recipes.from_table(table)


@pytest.mark.parametrize(
    ("name", "published", "layers", "dim", "positions"),
    [
        ("gpt-1", 117e6, 12, 768, 512),
        ("gpt-2", 124e6, 12, 768, 1024),
        ("gpt-2-medium", 355e6, 24, 1024, 1024),
        ("gpt-2-large", 774e6, 36, 1280, 1024),
        ("gpt-2-xl", 1558e6, 48, 1600, 1024),
        ("gpt-3", 175e9, 96, 12_288, 2048),
    ],
)
def test_gpts_have_their_size(
    name: str, published: float, layers: int, dim: int, positions: int
) -> None:
    recipe = recipes.load(RECIPES / f"{name}.toml")
    symbols = recipe.task.tokenizer.vocabulary
    with torch.device("meta"):
        model = build(recipe.model, texts(symbols))
    block = attention_size(dim) + feedforward_size(dim, 4 * dim) + 2 * 2 * dim
    last = 0 if name == "gpt-1" else 2 * dim  # it normalises after each sum
    assert model.size() == (symbols + positions) * dim + layers * block + last
    assert model.size() == pytest.approx(published, rel=0.01)
    assert recipe.task.stream.length == positions
    assert recipe.task.stream.across


@pytest.mark.parametrize(
    ("name", "published", "layers", "dim"),
    [("bert-base", 110e6, 12, 768), ("bert-large", 335e6, 24, 1024)],
)
def test_berts_have_their_size(name: str, published: float, layers: int, dim: int) -> None:
    recipe = recipes.load(RECIPES / f"{name}.toml")
    symbols = recipe.task.tokenizer.vocabulary
    tokens = {"tokens": symbols, "outputs": symbols}
    sizes = Sizes({"source": tokens, "next": {"outputs": 2}}, "source", "source", True)
    with torch.device("meta"):
        model = build(recipe.model, sizes)
    block = attention_size(dim) + feedforward_size(dim, 4 * dim) + 2 * 2 * dim
    embeddings = (symbols + 512 + 2) * dim + 2 * dim  # tokens, positions, segments, their norm
    head = dim * dim + dim + 2 * dim + symbols  # a layer, its norm, a bias for each token
    following = dim * dim + dim + 2 * dim + 2 + 1  # pooler, two labels, a temperature
    assert model.size() == embeddings + layers * block + head + following
    assert model.size() == pytest.approx(published, rel=0.01)


def test_clip_has_its_size() -> None:
    """Of ViT-B/32, 151 M: two towers, two projections without a bias, and the temperature."""
    recipe = recipes.load(RECIPES / "clip-vit-b32.toml")
    symbols = recipe.task.tokenizer.vocabulary
    image = {"height": 224, "width": 224, "channels": 3}
    sizes = Sizes(
        {"source": image, "target": {"tokens": symbols}, "pairs": {"outputs": 1}}, writes="pairs"
    )
    with torch.device("meta"):
        model = build(recipe.model, sizes)
    blocks = {
        dim: attention_size(dim) + feedforward_size(dim, 4 * dim) + 4 * dim for dim in (512, 768)
    }
    patches = (
        32 * 32 * 3 * 768 + 768 + (7 * 7 + 1) * 768 + 2 * 768
    )  # with the norm before the blocks
    source = patches + 12 * blocks[768] + 2 * 768
    target = (symbols + 77) * 512 + 12 * blocks[512] + 2 * 512
    assert model.size() == source + target + (768 + 512) * 512 + 1
    assert model.size() == 151_277_313
