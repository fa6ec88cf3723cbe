"""The same weights in torch.nn give the same outputs, final states and gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.decoders import rnn as decoder
from regard.encoders import rnn as encoder
from regard.layers.embedding import Embedding
from regard.layers.recurrent import Kind, Recurrent, recurrent
from regard.types import Sequence
from tests.processor import needs_bfloat16

TORCH: dict[Kind, tuple[Any, dict[str, str]]] = {
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "rnn_tanh": (nn.RNN, {"nonlinearity": "tanh"}),
    "rnn_relu": (nn.RNN, {"nonlinearity": "relu"}),
}
ROWS, LENGTH, DIM, HIDDEN, LAYERS = 5, 7, 6, 3, 2
LENGTHS = torch.tensor([4, 7, 1, 5, 2])
MASK = torch.arange(LENGTH) < LENGTHS[:, None]


def torch_of(kind: Kind, dim: int, hidden: int, layers: int, both: bool) -> Any:
    make, options = TORCH[kind]
    return make(
        dim, hidden, num_layers=layers, bidirectional=both, batch_first=True, **options
    )  # biases are drawn, not zero


def copy(theirs: Any, ours: list[Recurrent]) -> list[tuple[Tensor, Tensor]]:
    """Our layers get their weights; the pairs of weights, in order."""
    pairs: list[tuple[Tensor, Tensor]] = [
        (own, other)
        for layer, weights in zip(ours, theirs.all_weights, strict=True)
        for own, other in zip(layer.weights, weights, strict=True)
    ]
    with torch.no_grad():
        for own, other in pairs:
            own.copy_(other)
    return pairs


def close(ours: Tensor | None, theirs: Tensor | None) -> None:
    assert ours is not None and theirs is not None
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


def packed(theirs: Any, x: Tensor) -> tuple[Tensor, Any]:
    y, final = theirs(pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False))
    return pad_packed_sequence(y, batch_first=True, total_length=LENGTH)[0], final


@pytest.mark.parametrize("kind", TORCH)
@pytest.mark.parametrize("both", [False, True], ids=["one", "both"])
def test_encoder(kind: Kind, both: bool) -> None:
    hidden = HIDDEN if both else DIM  # as wide as the model, so that there is no projection
    theirs = torch_of(kind, DIM, hidden, LAYERS, both)
    config = encoder.Config(
        cell=kind, layers=LAYERS, bidirectional=both, hidden=hidden, dropout=0.0
    )
    ours = encoder.Encoder(config, DIM)
    stack: list[Any] = list(ours.layers)
    cells = [cell for layer in stack for cell in (layer.onward, layer.backward) if cell]
    pairs = copy(theirs, cells)
    one, other = (torch.randn(ROWS, LENGTH, DIM).requires_grad_() for _ in range(2))
    with torch.no_grad():
        other.copy_(one)
    weigh = torch.randn(ROWS, LENGTH, DIM)[MASK]

    y = ours(Sequence(one, MASK)).states[MASK]
    expected = packed(theirs, other)[0][MASK]
    close(y, expected)
    (y * weigh).sum().backward()
    (expected * weigh).sum().backward()
    close(one.grad, other.grad)
    assert len(pairs) == 4 * LAYERS * (2 if both else 1)
    for own, their in pairs:
        close(own.grad, their.grad)


@pytest.mark.parametrize("kind", TORCH)
@pytest.mark.parametrize("reverse", [False, True], ids=["onward", "backward"])
def test_final_states(kind: Kind, reverse: bool) -> None:
    theirs = torch_of(kind, DIM, HIDDEN, 1, True)
    ours = [recurrent(kind, DIM, HIDDEN) for _ in range(2)]
    copy(theirs, ours)
    x = torch.randn(ROWS, LENGTH, DIM)
    _, after = ours[reverse](x, mask=MASK, reverse=reverse)
    _, final = packed(theirs, x)
    final = final if isinstance(final, tuple) else (final,)
    for own, their in zip(after, final, strict=True):
        close(own, their[int(reverse)])


@pytest.mark.parametrize("kind", TORCH)
def test_language_model(kind: Kind) -> None:
    """A decoder without memory is torch's module on embeddings, from any state on."""
    theirs = torch_of(kind, DIM, DIM, LAYERS, False)
    embedding = Embedding(13, DIM)
    config = decoder.Config(cell=kind, layers=LAYERS, dropout=0.0)
    ours = decoder.Decoder(config, DIM, embedding, memory=False)
    pairs = copy(theirs, ours.layers)
    tokens = torch.randint(13, (ROWS, 2 * LENGTH))
    x = embedding(tokens).detach().requires_grad_()
    expected, final = theirs(x)
    final = final if isinstance(final, tuple) else (final,)

    first, state = ours(tokens[:, :LENGTH], ours.start(None, ROWS))
    second, state = ours(tokens[:, LENGTH:], state)
    y = torch.cat([first, second], 1)
    close(y, expected)
    for number, layer in enumerate(state.layers):
        for own, their in zip(layer, final, strict=True):
            close(own, their[number])
    weigh = torch.randn_like(y)
    (y * weigh).sum().backward()
    (expected * weigh).sum().backward()
    for own, their in pairs:
        close(own.grad, their.grad)
    assert x.grad is not None and embedding.weight.grad is not None
    by_symbol = torch.zeros_like(embedding.weight).index_add_(
        0, tokens.flatten(), x.grad.flatten(0, 1) * embedding.factor
    )
    close(embedding.weight.grad, by_symbol)


@needs_bfloat16
def test_an_lstm_in_bfloat16_is_near() -> None:
    """The kernels' parameters are torch's own, so its casts work on them as they are."""
    layer = recurrent("lstm", DIM, HIDDEN)
    x = torch.randn(ROWS, LENGTH, DIM)
    with torch.autocast("cpu", torch.bfloat16):
        y, _ = layer(x)
    torch.testing.assert_close(y.float(), layer(x)[0], atol=0.05, rtol=0.05)
