"""The gradient on its way back through time, and its picture."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from regard import model
from regard.decoders import rnn, transformer
from regard.decoding.translation import collate
from regard.encoders import rnn as encoding
from regard.errors import UserError
from regard.heads import vocabulary
from regard.inputs import tokens as symbols
from regard.inspect.gradients import gradient_norms, last_symbol, reach
from regard.layers.probe import probe, scope
from regard.layers.recurrent import Elman, Kind
from regard.recipe.parts import Part
from regard.types import Batch
from tests.field_sizes import texts

B, V, D = 3, 11, 16


def language_model(kind: str, config: Any) -> model.Model:
    chosen = model.Config(
        dim=D, decoder=Part(kind, config), head=Part("vocabulary", vocabulary.Config())
    )
    return model.build(chosen, texts(V)).eval()


def a_batch(length: int) -> Batch:
    drawn = torch.randint(3, V, (B, length - 1)).tolist()
    return collate([[]] * B, drawn)


def test_norms_of_a_linear_network() -> None:
    """h_t = V h_{t−1} + x_t with V = ½ 1, L = gᵀ h_T:  ∂L/∂h_t = 2^(t−T) g, and so is ∂L/∂x_t."""
    layer = Elman(2, 2, "relu")
    with torch.no_grad():
        for weight, value in zip(layer.weights[:2], (1.0, 0.5), strict=True):
            weight.copy_(value * torch.eye(2))
    x, g = torch.rand(1, 6, 2), torch.tensor([3.0, 4.0])

    def loss() -> Tensor:
        with scope("layer"):
            states: Tensor = layer(x)[0]
        return states[0, -1] @ g

    expected = [5 * 2.0 ** (t - 5) for t in range(6)]
    assert gradient_norms(loss, "layer.state")[0].tolist() == pytest.approx(expected)


def test_a_norm_may_be_smaller_than_its_square_can_be() -> None:
    """1e-30 is a number in float32, 1e-60 is not."""
    x = torch.ones(1, 2, 3)
    norms = gradient_norms(lambda: 1e-30 * probe("x", x).sum(), "x")
    assert norms[0].tolist() == pytest.approx([3**0.5 * 1e-30] * 2, rel=1e-6, abs=0)


def test_the_lstm_keeps_more_of_the_gradient_than_the_rnn() -> None:
    length = 100
    batch = a_batch(length)
    kept = {}
    cells: list[Kind] = ["rnn_tanh", "lstm"]
    for cell in cells:
        net = language_model("rnn", rnn.Config(cell=cell))
        norms = gradient_norms(partial(last_symbol, net, batch), "decoder.layer.0.state")
        assert norms.shape == (B, length)
        assert (norms[:, -1] > 0).all()
        kept[cell] = (norms[:, 0] / norms[:, -1]).log10().median().item()
    assert kept["lstm"] > kept["rnn_tanh"] + 5, "powers of ten"
    assert kept["rnn_tanh"] < -8

    # Attention reaches back in one step.
    net = language_model("transformer", transformer.Config(layers=2, heads=2, feedforward=32))
    norms = gradient_norms(lambda: last_symbol(net, batch), "decoder.input")
    assert (norms[:, 0] / norms[:, -1]).log10().median() > -3


def test_reach_counts_from_the_last_symbol() -> None:
    """A model that sees the last token alone has no gradient farther back."""
    net = language_model("rnn", rnn.Config(cell="rnn_relu"))
    layer: Any = net.decoder.layers[0]  # type: ignore[union-attr]
    with torch.no_grad():
        layer.weights[1].zero_()
    norms = reach(net, [list(range(3, 11)) * 5, [4, 5]], length=6, windows=3)
    assert len(norms) == 6 and norms[0] > 0 and norms[1:] == [0.0] * 5
    assert reach(net, [[4] * 6], length=6) == []
    assert len(reach(net, [[4] * 30], length=6, most=3)) == 3


def test_a_state_has_been_in_use_before_its_gradient_is_told():
    """The same token again and again brings the state to rest, so how much is asked for does not
    change what is told; from a state of zeros it would."""
    net = language_model("rnn", rnn.Config(cell="rnn_tanh"))
    texts = [[5] * 400]
    short, long = reach(net, texts, length=3), reach(net, texts, length=20)
    assert short == pytest.approx(long[:3], rel=1e-4)
    cold = reach(net, texts, length=3, most=3)
    assert cold != pytest.approx(long[:3], rel=1e-2)


@pytest.mark.parametrize("place", ["encoder.input", "encoder.layer.0.backward.state"])
def test_norms_of_an_encoder(place: str) -> None:
    config = model.Config(
        dim=D,
        tie="output",
        input=Part("tokens", symbols.Config()),
        encoder=Part("rnn", encoding.Config(layers=1)),
        decoder=Part("rnn", rnn.Config(input_feeding=True)),
        head=Part("vocabulary", vocabulary.Config()),
    )
    net = model.build(config, texts(V, V)).eval()
    batch = collate([[4, 5, 6], [7]], [[4, 5], [6, 7]])
    norms = gradient_norms(lambda: last_symbol(net, batch), place)
    assert torch.equal(norms > 0, batch["source_mask"])

    net.requires_grad_(False)
    frozen = gradient_norms(lambda: last_symbol(net, batch), "encoder.input")
    if place == "encoder.input":
        torch.testing.assert_close(frozen, norms)


def test_what_enters_has_a_gradient_wherever_it_counts() -> None:
    """Rows of different lengths: behind its last target nothing of a row counts."""
    net = language_model("rnn", rnn.Config())
    batch = collate([[]] * 2, [[4, 5, 6], [7]])
    norms = gradient_norms(lambda: last_symbol(net, batch), "decoder.input")
    assert torch.equal(norms > 0, batch["target_mask"])


@pytest.mark.parametrize("place", ["decoder.layer.3.state", "decoder", "state"])
def test_an_unknown_place_is_refused(place: str) -> None:
    net, batch = language_model("rnn", rnn.Config()), a_batch(3)
    with pytest.raises(UserError, match=rf"'{place}' is no place .* decoder\.layer\.0\.state"):
        gradient_norms(lambda: last_symbol(net, batch), place)
