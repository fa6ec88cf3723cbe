"""Convolutions, bags, n-grams, and words by their characters."""

from typing import Any

import pytest
import torch

from regard.encoders import bag, cnn
from regard.errors import RecipeError
from regard.inputs import characters, ngrams, tokens, words
from regard.layers.convolution import Convolutions
from regard.layers.embedding import Embedding
from regard.layers.highway import Highway
from regard.types import Batch, Sequence
from tests.field_sizes import labelled

SIZES = labelled(23, 3, characters=13)
B, S, C, D = 3, 5, 4, 7


def batch(source: torch.Tensor, spelt: torch.Tensor | None = None) -> Batch:
    tensors = {"source": source, "source_mask": source > 0}
    if spelt is not None:
        tensors["source_characters"] = spelt
    return Batch(tensors=tensors, ids=tuple(range(len(source))), targets=len(source))


def make(module, dim=D, **keys):
    return module.Input(
        module.Config(**keys), SIZES.of("source"), dim, shared=None, scale=False
    ).eval()


# Convolutions


def test_the_highest_is_that_of_real_places():
    """As the maximum of all outputs where the mask is True, in value and in gradients."""
    layer = Convolutions(D, 11, [1, 2, 3, 6])
    table = torch.randn(13, D, requires_grad=True)
    mask = torch.arange(S) < torch.tensor([[5], [1], [3]])
    rows = torch.randint(13, (B, S))
    plain = layer(table[rows], mask).masked_fill(~mask[..., None], -torch.inf).amax(1)
    found = layer.highest(table, rows, mask)
    torch.testing.assert_close(found, plain)
    weights = [table, *layer.parameters()]
    for one, other in zip(
        torch.autograd.grad(found.square().sum(), weights),
        torch.autograd.grad(plain.square().sum(), weights),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("highway", [0, 1])
def test_many_filters_give_what_few_would(highway):
    """Words by more filters than pay for padding: the same numbers, by another path."""
    keys: Any = {"size": 600, "symbol": 32, "widths": (1, 2, 3), "highway": highway}
    spelt = torch.randint(0, 13, (B, S, C))
    spelt[0, 0] = 0
    many = make(characters, **keys)
    assert many.spelling._many()
    found = many.spelling(spelt)
    many.spelling._many = lambda: False
    torch.testing.assert_close(found, many.spelling(spelt))
    assert many.spelling(torch.zeros(1, 2, 0, dtype=torch.long)).abs().sum() == 0


def test_a_highway_changes_what_its_gate_lets_through():
    layer, x = Highway(D), torch.randn(B, D)
    gate = torch.sigmoid(layer.gate(x))
    changed = torch.relu(layer.change(x))
    torch.testing.assert_close(layer(x), gate * changed + (1 - gate) * x)
    torch.nn.init.constant_(layer.gate.bias, -100.0)
    torch.testing.assert_close(layer(x), x)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_a_filter_is_the_sum_over_its_window(width):
    layer: Any = Convolutions(D, 2, [width])
    x, mask = torch.randn(B, S, D), torch.ones(B, S, dtype=torch.bool)
    found = layer(x, mask)
    weight, bias = layer.filters[0].weight, layer.filters[0].bias
    for t in range(S):
        expected = bias.expand(B, 2).clone()
        for i in range(width):
            place = t + i - (width - 1) // 2
            if 0 <= place < S:
                expected = expected + x[:, place] @ weight[:, :, i].t()
        torch.testing.assert_close(found[:, t], expected)


def test_the_widths_share_the_outputs():
    layer = Convolutions(D, 11, [2, 3, 4])
    assert [each.out_channels for each in layer.filters] == [4, 4, 3]
    assert layer(torch.randn(B, S, D), torch.ones(B, S, dtype=torch.bool)).shape == (B, S, 11)


def padded(encoder):
    """What an encoder says of two sentences, alone and beside padding."""
    encoder.eval()
    states, mask = torch.randn(2, S, D), torch.ones(2, S, dtype=torch.bool)
    noise = torch.full((2, 3, D), 1e4)
    wide = torch.cat([mask, torch.zeros(2, 3, dtype=torch.bool)], 1)
    alone = encoder(Sequence(states, mask)).states
    beside = encoder(Sequence(torch.cat([states, noise], 1), wide)).states
    return alone, beside[:, :S]


@pytest.mark.parametrize(
    "encoder",
    [
        cnn.Encoder(cnn.Config(layers=3, residual=True), D),
        cnn.Encoder(cnn.Config(layers=2, widths=(2, 5)), D),
        bag.Encoder(bag.Config(), D),
    ],
)
def test_padding_changes_nothing(encoder):
    alone, beside = padded(encoder)
    torch.testing.assert_close(alone, beside)


def test_a_convolution_sees_as_far_as_it_is_wide():
    encoder = cnn.Encoder(cnn.Config(widths=(3,)), D).eval()
    x, mask = torch.randn(1, S, D), torch.ones(1, S, dtype=torch.bool)
    changed = x.clone()
    changed[0, 4] += 1
    same = (encoder(Sequence(x, mask)).states == encoder(Sequence(changed, mask)).states).all(-1)
    assert same[0].tolist() == [True, True, True, False, False]


def test_more_widths_than_dimensions_are_refused():
    with pytest.raises(RecipeError, match=r"widths: 3 share model.dim = 2"):
        cnn.Encoder(cnn.Config(), 2)


# Bags


def test_a_bag_leaves_out_whole_words_in_training_and_nothing_later():
    encoder = bag.Encoder(bag.Config(word_dropout=0.25), D)
    x, mask = torch.ones(40, 50, D), torch.ones(40, 50, dtype=torch.bool)
    states = encoder(Sequence(x, mask)).states
    assert states.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert (states.amax(-1) == states.amin(-1)).all()  # a word as a whole
    assert float((states == 0).float().mean()) == pytest.approx(0.25, abs=0.03)
    assert torch.equal(encoder.eval()(Sequence(x, mask)).states, x)


def test_ngrams_depend_on_their_words_and_their_order_alone():
    source = torch.tensor([[5, 6, 7, 5, 6], [6, 5, 7, 5, 6]])
    found = ngrams.ngrams(source, 3, 20)
    assert found.shape == (2, 5, 2)
    two, three = found[..., 0], found[..., 1]
    assert two[0, 1] == two[0, 4] == two[1, 4]  # 5 6
    assert two[0, 1] != two[1, 1]  # 6 5
    assert three[0, 3] != three[1, 3]  # 6 7 5, 5 7 5
    assert three[0, 4] == three[1, 4]  # 7 5 6
    assert (two[:, 0] == ngrams.NONE).all()
    assert (three[:, :2] == ngrams.NONE).all()
    assert (found[:, 2:] > ngrams.NONE).all()
    assert (found < 1 << 20).all()


def test_buckets_are_the_arithmetic_of_64_bits_that_wrap():
    def wrap(x: int) -> int:
        return (x + 2**63) % 2**64 - 2**63

    def mix(x: int) -> int:
        x = wrap((x ^ (x >> 31)) * -0x40A7B892E31B1A47)
        return wrap((x ^ (x >> 29)) * -0x6B2FB644ECCEEE15)

    pair = mix(wrap(mix(6 + 1) * 0x100000001B3 + 5 + 1))
    triple = mix(wrap(pair * 0x100000001B3 + 4 + 1))
    found = ngrams.ngrams(torch.tensor([[4, 5, 6]]), 3, 10)
    assert found[0, 2].tolist() == [(pair >> 33) % 1024, (triple >> 33) % 1024]


def test_buckets_are_used_evenly():
    first, second = torch.meshgrid(torch.arange(200), torch.arange(200), indexing="ij")
    pairs = torch.stack([first.flatten(), second.flatten()], 1)
    counts = ngrams.ngrams(pairs, 2, 8)[:, 1, 0].bincount(minlength=256)[1:].float()
    # 40,000 pairs in 256 buckets: 156 each with a deviation of 12.5.
    assert counts[1:].min() > 156 - 6 * 12.5
    assert counts[1:].max() < 156 + 6 * 12.5


def test_a_word_is_its_vector_and_those_of_the_ngrams_that_end_there():
    read = make(ngrams, n=3, bits=6)
    with torch.no_grad():
        read.table.normal_()
    source = torch.tensor([[4, 5, 6, 7]])
    found = read(batch(source)).states
    buckets = ngrams.ngrams(source, 3, 6)[0]
    for t in range(4):
        expected = read.embedding.weight[source[0, t]]
        for bucket in buckets[t].tolist():
            expected = expected + (read.table[bucket] if bucket else 0)
        torch.testing.assert_close(found[0, t], expected)


# Words


SPELT = torch.tensor([[[4, 5, 0, 0], [6, 0, 0, 0], [4, 5, 0, 0]], [[4, 5, 6, 7], [0] * 4, [0] * 4]])
SOURCE = torch.tensor([[4, 5, 6], [7, 0, 0]])


@pytest.mark.parametrize("by", ["cnn", "rnn"])
def test_words_that_are_spelt_alike_are_alike(by):
    read = make(characters, by=by, size=6, symbol=3)
    found = read(batch(SOURCE, SPELT)).states
    torch.testing.assert_close(found[0, 0], found[0, 2])
    assert not torch.allclose(found[0, 0], found[0, 1])
    # More room for longer words changes nothing.
    wider = torch.cat([SPELT, torch.zeros(2, 3, 2, dtype=torch.long)], -1)
    torch.testing.assert_close(read(batch(SOURCE, wider)).states, found)


@pytest.mark.parametrize("by", ["cnn", "rnn"])
def test_the_order_of_characters_matters(by):
    read = make(characters, by=by, size=6, symbol=3)
    source = torch.tensor([[4, 5]])
    found = read(batch(source, torch.tensor([[[4, 5, 6], [6, 5, 4]]]))).states
    assert not torch.allclose(found[0, 0], found[0, 1])


@pytest.mark.parametrize("by", ["cnn", "rnn"])
def test_a_batch_without_characters_can_be_read(by):
    spelling = characters.Spelling(characters.Config(by=by, size=6), 13)
    assert (spelling(torch.zeros(2, 3, 4, dtype=torch.long)) == 0).all()


@pytest.mark.parametrize(
    ("features", "word", "letter"),
    [("both", True, True), ("words", True, False), ("characters", False, True)],
)
def test_what_is_read_matters_and_nothing_else(features, word, letter):
    read = make(words, features=features, size=5, characters=characters.Config(size=6, symbol=3))
    before = read(batch(SOURCE, SPELT)).states
    other, spelt = SOURCE.clone(), SPELT.clone()
    other[0, 1], spelt[0, 1, 0] = 9, 9
    changed = [read(batch(other, SPELT)).states, read(batch(SOURCE, spelt)).states]
    assert [bool((now[0, 1] != before[0, 1]).any()) for now in changed] == [word, letter]
    assert all(torch.equal(now[0, 0], before[0, 0]) for now in changed)


def test_hidden_words_are_spelt_in_training_alone():
    spelling = characters.Config(size=6, symbol=3)
    read = make(words, size=5, unknown=0.5, characters=spelling).train()
    source = torch.full((1, 200), 4)
    spelt = torch.tensor([[[4, 5]]]).expand(1, 200, 2)
    own = read(batch(source, spelt)).states[0]
    known = read.eval()(batch(source, spelt)).states[0, 0]
    seen = torch.isclose(own, known, atol=1e-5).all(-1)
    assert 60 < int(seen.sum()) < 140
    hidden = own[~seen]
    torch.testing.assert_close(hidden, hidden[:1].expand_as(hidden))  # all alike, by spelling


@pytest.mark.parametrize("module", [words, characters])
def test_vectors_of_their_own_are_not_shared_with_a_target(module):
    config = words.Config(characters=characters.Config()) if module is words else module.Config()
    with pytest.raises(RecipeError, match=r"set model.tie = 'output'"):
        module.Input(config, SIZES.of("source"), D, shared=Embedding(23, D), scale=False)


def test_frozen_vectors_are_not_trained():
    read = make(tokens, frozen_vectors=True)
    assert [p.requires_grad for p in read.parameters()] == [False]


def test_odd_sizes_are_refused():
    with pytest.raises(RecipeError, match=r"size: 7 is not even"):
        characters.Config(by="rnn", size=7)
    with pytest.raises(RecipeError, match=r"widths: 3 cannot share size = 2"):
        characters.Config(size=2)
