"""Hidden tokens: which, by what they are replaced, and how a user writes them."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch

from regard.data.batching import Draw
from regard.data.tokenizers import Config as TokenizerConfig
from regard.decoding.filling import Filler, Found as Recovered, figures, hidden_states, states
from regard.encoders import transformer
from regard.errors import RecipeError
from regard.examples.stored import collate
from regard.fields.masked import Config, Field
from regard.layers.some_places import places_of
from regard.model import Config as ModelConfig, Model, build
from regard.recipe.parts import Part, module
from regard.types import Sizes

TEXTS = [
    "the quick brown fox jumps over the lazy dog .",
    "a man sits in the snow , and two dogs play !",
    "let's make some fried chicken ! it tastes great with orange sauce",
]
WORDS = TokenizerConfig(kind="word")
PIECES = TokenizerConfig(kind="bpe", vocabulary=290)


def fitted(config: TokenizerConfig = WORDS, **masking: float) -> Field:
    made: Field = Field("source", config, masking=Config(**masking)).fit(TEXTS)  # type: ignore
    return made


def model_of(field: Field, norm: str = "pre", **keys: object) -> Model:
    torch.manual_seed(1)
    settings = {"layers": 2, "heads": 2, "feedforward": 24, "dropout": 0.0, "norm": norm}
    encoder = Part("transformer", transformer.Config(**settings | keys))  # type: ignore[arg-type]
    parts = {"input": "inputs/tokens", "head": "heads/masked"}
    made: Any = {k: Part(v.split("/")[1], module(*v.split("/")).Config()) for k, v in parts.items()}
    sizes = Sizes({"source": field.size}, "source", "source", True)
    return build(ModelConfig(dim=12, tie="all", encoder=encoder, **made), sizes).eval()


# Which tokens are hidden


def test_its_tokenizer_has_a_token_of_its_own_for_what_is_hidden():
    field = fitted()
    assert field.tokenizer.named["mask"] == field.mask == 4
    assert field.size == {"tokens": len(field.tokenizer), "outputs": len(field.tokenizer)}
    assert all(field.mask not in row["source"] for row in field.encode(["<mask> [MASK]"]))


def test_a_fraction_of_the_tokens_is_hidden_and_one_at_least():
    field = fitted(fraction=0.15)
    for size, wanted in ((1, 1), (3, 1), (10, 2), (20, 3), (100, 15)):
        places, said = field.drawn(np.full(size, 7), np.random.default_rng(size))
        assert len(places) == len({*places.tolist()}) == len(said) == wanted
        assert places.tolist() == sorted(places.tolist())


def test_eight_of_ten_become_the_mask_one_another_token_and_one_stays():
    field = fitted(fraction=0.5)
    tokens = np.full(40_000, 7)
    places, said = field.drawn(tokens, np.random.default_rng(3))
    assert len(places) == 20_000
    shares = [(said == field.mask).mean(), (said == 7).mean()]
    # One in so many of the tokens that are drawn is the same again.
    same = 0.1 / (len(field.tokenizer) - 5)
    assert shares == pytest.approx([0.8, 0.1 + same], abs=0.01)
    assert said.min() >= 4  # no special token but the mask


def test_half_of_a_text_is_hidden_in_rows():
    """Of 200 tokens in rows of 20: neighbours are hidden together but at the edges of rows."""
    field = fitted(spans=1.0, span=20)
    for seed in range(20):
        places, _, predicted = field.drawn_rows(np.full(200, 7), np.random.default_rng(seed))
        hidden = np.zeros(202, int)
        hidden[places + 1] = 1
        starts, ends = (np.flatnonzero(np.diff(hidden) == way) for way in (1, -1))
        assert 100 <= len(places) <= 120  # six of eleven rows, two of which have 20 together
        inner = (starts > 0) & (ends < 200)
        assert ((ends - starts)[inner] % 20 == 0).all()
        assert predicted.tolist() == places.tolist()


@pytest.mark.parametrize("size", [1, 2, 5, 19])
def test_a_text_that_is_shorter_than_a_row_is_not_hidden_whole(size: int):
    field = fitted(spans=1.0, span=20)
    for seed in range(20):
        places, *_ = field.drawn_rows(np.full(size, 7), np.random.default_rng(seed))
        assert 1 <= len(places) <= max(1, size - 1)


def test_frequent_words_of_a_row_are_seldom_predicted_but_hidden_all_the_same():
    """Of rank r among V words: √(t r ln(V + 1)), by Zipf's law; one of a text at least."""
    field = fitted(spans=1.0, subsample=0.01)
    first, words = int(np.flatnonzero(field.ordinary)[0]), int(field.ordinary.sum())
    for rank in (1, 4):
        tokens = np.full(40_000, first + rank - 1)
        places, _, predicted = field.drawn_rows(tokens, np.random.default_rng(rank))
        wanted = np.sqrt(0.01 * rank * np.log(words + 1))
        assert len(predicted) / len(places) == pytest.approx(wanted, abs=0.015)
    alone = field.drawn_rows(np.array([first]), np.random.default_rng(1))
    assert alone[2].tolist() == [0]


def test_rows_are_hidden_while_a_model_learns_and_in_so_many_texts():
    field = fitted(fraction=0.1, masked=1.0, random=0.0, spans=0.25)
    rows = [{"source": np.full(100, 7)}] * 400
    hidden = {
        learning: (
            collate([field], rows, range(400), Draw(learning=learning))["source"] == field.mask
        ).sum(1)
        for learning in (False, True)
    }
    assert (hidden[False] == 10).all()
    long = hidden[True] > 10
    assert (hidden[True][~long] == 10).all() and (hidden[True][long] >= 40).all()
    assert abs(long.double().mean().item() - 0.25) < 0.1  # five deviations


def test_a_batch_hides_more_than_it_predicts():
    field = fitted(masked=1.0, random=0.0, spans=1.0, subsample=0.001)
    batch = collate([field], field.encode(TEXTS), [0, 1, 2], Draw(learning=True))
    hidden = (batch["source"] == field.mask).sum()
    assert 3 <= batch["source_masked"].sum() == field.targets(batch.tensors) < hidden
    assert (batch["source"][batch["source_masked"]] == field.mask).all()


def test_special_tokens_are_never_hidden():
    field = fitted(fraction=1.0)
    by = field.tokenizer
    places, _ = field.drawn(np.array([7, by.end, by.unknown, 9]), np.random.default_rng(1))
    assert places.tolist() == [0, 3]
    assert field.drawn(np.array([by.unknown]), np.random.default_rng(1))[0].tolist() == []


def test_whole_words_are_hidden_with_all_of_their_tokens():
    field = fitted(PIECES, fraction=0.3, whole_words=True)
    tokens = np.array(field.encode([TEXTS[0]])[0]["source"])
    words = field.tokenizer.groups(tokens.tolist())
    seen = set()
    for seed in range(30):
        places, _ = field.drawn(tokens, np.random.default_rng(seed))
        hidden = {*places.tolist()}
        for first, end in words:
            inside = hidden & {*range(first, end)}
            assert len(inside) in (0, end - first)
            seen |= {(first, end)} if inside else set()
        assert 1 <= len(hidden) <= max(round(0.3 * len(tokens)), 8)
    assert len(seen) > len(words) / 2


def test_what_is_hidden_is_a_function_of_seed_epoch_and_number():
    field = fitted()
    rows = field.encode(TEXTS)
    whole = field.collate(rows, [5, 6, 7], Draw(1, 2, 3))
    again = field.collate(rows[1:], [6, 7], Draw(1, 2, 3))  # another part of the batch
    width = again["source"].shape[1]
    for name, array in again.items():
        assert np.array_equal(whole[name][1:, :width], array), name
    others = [field.collate(rows, [5, 6, 7], Draw(1, epoch, 3))["source"] for epoch in range(8)]
    assert len({array.tobytes() for array in others}) > 4


def test_a_batch_has_what_is_read_what_stands_there_and_what_counts():
    field = fitted()
    by = field.tokenizer
    batch = collate([field], field.encode(TEXTS), range(3), Draw(1, 0, 0))
    read, true, hidden = (batch[f"source{end}"] for end in ("", "_out", "_masked"))
    assert batch.targets == int(hidden.sum()) == 2 + 2 + 2
    assert torch.equal(read[~hidden], true[~hidden])
    assert (true[:, 0] == by.start).all() and not hidden[:, 0].any()
    assert not (hidden & ~batch["source_mask"]).any()


def test_fractions_that_are_more_than_all_are_refused():
    with pytest.raises(RecipeError, match="masked: with random"):
        Config(masked=0.8, random=0.3)


# What a user writes


def test_blanks_and_segments_of_a_text():
    field = fitted()
    by = field.tokenizer
    row = field.blanks("the [MASK] dog . [SEP] a [MASK]")
    the, dog, dot, a = by.encode(["the dog . a"])[0]
    assert row["source"] == [the, 4, dog, dot, by.end, a, 4]
    assert row["source_second"] == [0, 0, 0, 0, 0, 1, 1]
    arrays = field.framed_arrays([row, {"source": [the]}])
    assert arrays["source_segments"].tolist() == [[0] * 6 + [1] * 3, [0] * 9]


@pytest.mark.parametrize("text", ["some [MASK] chicken", "[MASK] chicken!", "a [MASK]!", "[MASK]"])
def test_pieces_around_a_blank_are_those_of_the_whole_text(text: str):
    """A piece takes the whitespace before it: that before a blank is the blank's."""
    field = fitted(PIECES)
    found = field.blanks(text)["source"]
    whole = field.tokenizer.encode([text.replace("[MASK]", "dog")])[0]
    dog = field.tokenizer.encode(["dog"])[0]
    place = found.index(field.mask)
    assert [*found[:place], *dog, *found[place + 1 :]] == whole
    assert field.filled(field.blanks(text), dog[:0]) == text.replace("]!", "] !")


def test_a_filled_text_is_read_by_a_person():
    field = fitted()
    [word] = field.tokenizer.encode(["snow"])[0]
    row = field.blanks("the [MASK] dog [SEP] a [MASK]")
    assert field.filled(row, [word, word]) == "the snow dog [SEP] a snow"


# What a model makes of it


@pytest.mark.parametrize("position", ["sinusoidal", "rotary"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("size", [3, 140])
def test_states_of_some_places_are_those_of_all(norm: str, size: int, position: str):
    """By the short kernel and by the general one; with their gradients."""
    field = fitted()
    model = model_of(field, norm, position=position)
    rows = [{"source": np.full(size - 2 * n, 6 + n)} for n in range(2)]
    batch = collate([field], rows, range(2), Draw(1, 0, 0))
    hidden = batch["source_masked"]
    found = []
    for get in (
        lambda: hidden_states(model, batch, hidden),
        lambda: states(model, batch)[hidden],
    ):
        model.zero_grad()
        y = get()
        y.square().sum().backward()
        grads = [p.grad.clone() for p in model.encoder.parameters() if p.grad is not None]  # type: ignore[union-attr]
        found.append((y.detach(), grads))
    (some, by_some), (whole, by_all) = found
    assert torch.allclose(some, whole, atol=1e-5)
    for one, other in zip(by_some, by_all, strict=True):
        assert torch.allclose(one, other, atol=1e-4 * max(1.0, float(other.abs().max())))


def test_places_are_filled_up_row_by_row():
    mask = torch.tensor([[0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]]).bool()
    places, real = places_of(mask)
    assert places.tolist() == [[1, 3], [2, 0], [0, 0]]
    assert real.tolist() == [[True, True], [True, False], [False, False]]


def test_pseudo_likelihood_hides_each_token_once():
    field = fitted()
    model, filler = model_of(field), Filler(field, 30, 64)
    tokens = field.encode([TEXTS[0], "dog"])
    found = filler.pseudo(model, [row["source"] for row in tokens])
    assert [len(row) for row in found] == [10, 1]
    for n, row in enumerate(tokens):
        for place, token in enumerate(row["source"]):
            read = {"source": [*row["source"]]}
            read["source"][place] = field.mask
            with torch.inference_mode():
                batch = filler.batch([read], [0])
                scores = model.head.logits(states(model, batch)[0, place + 1])
            assert found[n][place] == pytest.approx(float(scores.log_softmax(-1)[token]), abs=1e-4)


def test_long_texts_are_read_in_windows():
    field = fitted()
    model, filler = model_of(field), Filler(field, 4, 64)
    [row] = field.encode([TEXTS[0]])
    whole = filler.pseudo(model, [row["source"]])[0]
    parts = filler.windows([row["source"]])[0]
    assert [len(part) for part in parts] == [3, 4, 3]
    apart = [chance for part in parts for chance in filler.pseudo(model, [part])[0]]
    assert whole == pytest.approx(apart, abs=1e-4)


def test_words_for_blanks_are_ranked_and_no_special_tokens():
    field = fitted()
    model, filler = model_of(field), Filler(field, 30, 64)
    [made] = filler.predictions(model, ["the [MASK] fox [SEP] a [MASK]"], 3, 8)
    assert [len(words) for words in made.masks] == [3, 3]
    for words in made.masks:
        chances = [word["p"] for word in words]
        assert chances == sorted(chances, reverse=True) and 0 < sum(chances) <= 1
        assert all(word["token"] not in ("<mask>", "<pad>", "<unknown>") for word in words)
    best = [words[0]["word"] for words in made.masks]
    assert made.filled == f"the {best[0]} fox [SEP] a {best[1]}"
    assert made.text.count("|") == 1 and made.text.startswith(f"{best[0]} 0.")
    every = filler.fill(model, [field.blanks("[MASK]")], 1000)[0][0]
    assert len(every) == len(field.tokenizer) - 5
    assert sum(np.exp([chance for _, chance in every])) == pytest.approx(1.0, abs=1e-5)


def test_a_result_does_not_depend_on_the_batch_that_it_is_in():
    field = fitted()
    model = model_of(field)
    texts = ["the [MASK]", "a [MASK] dog sits in the [MASK] and over it", "[MASK]"]
    together = [*Filler(field, 30, 640).predictions(model, texts, 2, 8)]
    for text, made in zip(texts, together, strict=True):
        [alone] = Filler(field, 30, 640).predictions(model, [text], 2, 8)
        assert alone.log_probs == pytest.approx(made.log_probs, abs=1e-5)
        assert alone.tokens == made.tokens


@pytest.mark.parametrize(
    ("text", "status"), [("", "empty"), ("a dog", "unmasked"), ("a [MASK]", "ok")]
)
def test_what_is_said_of_an_input(text: str, status: str):
    field = fitted()
    [made] = Filler(field, 30, 64).predictions(model_of(field), [text], 2, 8)
    assert made.status == status


def test_figures_are_means_over_all_hidden_places():
    found = [
        Recovered(np.log([0.5, 0.25]), np.array([5, 6]), np.array([5, 7])),
        Recovered(np.log([0.125]), np.array([5]), np.array([5])),
    ]
    made = figures(found)
    assert made["nll"] == pytest.approx(np.log(64) / 3)
    assert made["perplexity"] == pytest.approx(4.0)
    assert made["accuracy"] == pytest.approx(200 / 3)


def test_the_head_shares_the_weight_of_the_embedding():
    field = fitted()
    model = model_of(field)
    head, reads = cast(Any, model.head), cast(Any, model.input)
    assert head.weight is reads.embedding.weight
    names = [name for name, _ in model.named_parameters()]
    assert "input.embedding.weight" in names and "head.weight" not in names
    hidden = torch.randn(3, 12)
    head = model.head
    wanted = head.norm(torch.nn.functional.gelu(head.dense(hidden))) @ head.weight.T + head.bias  # type: ignore
    assert torch.allclose(head.logits(hidden), wanted, atol=1e-6)


def test_segments_have_vectors_that_are_added():
    field = fitted()
    config = replace(module("inputs", "tokens").Config(), segments=2)
    size = Sizes({"source": field.size}, "source").of("source")
    made = module("inputs", "tokens").Input(config, size, 12, shared=None, scale=False)
    filler = Filler(field, 30, 64)
    pair = filler.batch([field.blanks("a dog [SEP] the fox")], [0])
    alone = filler.batch(field.encode(["a dog"]), [0])
    plain = made.embedding(pair["source"])
    added = made(pair).states - plain
    assert torch.allclose(added[0, 3], made.segments[0]) and torch.allclose(
        added[0, 4], made.segments[1]
    )
    single = made(alone).states - made.embedding(alone["source"])
    assert torch.allclose(single, made.segments[0].expand_as(single))
