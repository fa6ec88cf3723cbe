"""Documents that share a row: none of them knows of another, and each is read as if alone."""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.decoders import rnn, transformer
from regard.layers import documents
from regard.layers.documents import Segments
from regard.layers.embedding import Embedding
from regard.layers.short_attention import HIDDEN

D, V, END = 12, 17, 2
DECODERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "learned": (transformer, {"position": "learned", "limit": 11}),
    "sinusoidal": (transformer, {"position": "sinusoidal", "norm": "pre"}),
    "rotary": (transformer, {"position": "rotary", "norm": "pre"}),
    "lstm": (rnn, {"cell": "lstm", "layers": 2}),
    "gru": (rnn, {"cell": "gru", "layers": 2, "hidden": 5}),
    "elman": (rnn, {"cell": "rnn_tanh", "layers": 1}),
}
ROWS = torch.tensor(
    [
        [END, 5, 6, 7, END, 8, 9, END, END, 3, 4],
        [7, 8, 9, END, 4, 4, 4, 4, 4, 4, 4],
        [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13],
    ]
)
PIECES = [[(0, 4), (4, 7), (7, 8), (8, 11)], [(0, 3), (3, 11)], [(0, 11)]]
"""From, up to, of the documents of each row."""


def decoder_of(name: str) -> Any:
    torch.manual_seed(3)
    room, options = DECODERS[name]
    small = {"layers": 2, "heads": 3, "feedforward": 7} if room is transformer else {}
    config = room.Config(**{"dropout": 0.0, **small, **options})
    return room.Decoder(config, D, Embedding(V, D), memory=False).eval()


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_positions_begin_anew_with_each_document() -> None:
    found = documents.positions(ROWS, END)
    assert found[0].tolist() == [0, 1, 2, 3, 0, 1, 2, 0, 0, 1, 2]
    assert found[1].tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7]
    assert found[2].tolist() == [*range(11)]


def test_a_place_sees_what_its_document_has_before_it() -> None:
    bias = documents.hidden(documents.positions(torch.tensor([[7, END, 5, END]]), END))
    seen = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    assert bias.shape == (1, 1, 4, 4)
    assert torch.where(bias[0, 0] == 0, 1, 0).tolist() == seen
    assert bias.min() == HIDDEN


def test_rows_are_cut_into_segments_and_joined_again() -> None:
    segments = Segments.of(ROWS, END)
    lengths = [end - first for row in PIECES for first, end in row]
    assert segments.mask.sum(1).tolist() == lengths
    assert segments.begins.tolist() == [0, 4, 6]
    assert segments.ends.tolist() == [3, 5, 6]
    x = torch.randn(3, 11, 5)
    cut = segments.cut(x)
    assert cut.shape == (7, 11, 5)
    assert cut[5, :8].equal(x[1, 3:])
    assert segments.join(cut, 3).equal(x)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("learns", [False, True])
def test_a_packed_document_is_read_as_if_it_were_alone(name: str, learns: bool) -> None:
    decoder = decoder_of(name)
    with torch.set_grad_enabled(learns):
        found, _ = decoder(ROWS, decoder.start(None, 3).bounded(END))
        for row, pieces in enumerate(PIECES):
            for first, end in pieces:
                alone, _ = decoder(ROWS[row : row + 1, first:end], decoder.start(None, 1))
                close(found[row, first:end], alone[0])


@pytest.mark.parametrize("name", DECODERS)
def test_without_a_border_a_row_is_one_text(name: str) -> None:
    decoder = decoder_of(name)
    found, _ = decoder(ROWS, decoder.start(None, 3))
    close(found[2:], decoder(ROWS[2:], decoder.start(None, 1).bounded(END))[0])
    apart, _ = decoder(ROWS, decoder.start(None, 3).bounded(END))
    assert not torch.allclose(found[0, 5], apart[0, 5], atol=1e-3)


@pytest.mark.parametrize("name", DECODERS)
def test_no_gradient_crosses_a_border(name: str) -> None:
    decoder = decoder_of(name)
    rows = torch.tensor([[END, 5, 6, 7, END, 8, 9, 10]])
    found, _ = decoder(rows, decoder.start(None, 1).bounded(END))
    found[0, 4:].square().sum().backward()
    moved = decoder.embedding.weight.grad.abs().sum(1)
    assert not moved[[5, 6, 7]].any()
    assert (moved[[8, 9, 10]] > 0).all()


@pytest.mark.parametrize("name", ["lstm", "gru", "elman"])
def test_a_recurrent_state_goes_on_to_the_next_chunk_unless_a_document_begins(name: str) -> None:
    decoder = decoder_of(name)
    whole, last = decoder(ROWS, decoder.start(None, 3).bounded(END))
    state, found = decoder.start(None, 3).bounded(END), []
    for first, end in [(0, 4), (4, 6), (6, 7), (7, 11)]:
        carry = decoder.carry(state)
        state = decoder.resume(decoder.start(None, 3), carry).bounded(END)
        y, state = decoder(ROWS[:, first:end], state)
        found.append(y)
    close(torch.cat(found, 1), whole)
    for one, other in zip(decoder.carry(last).values(), decoder.carry(state).values(), strict=True):
        close(one, other)


def test_a_transformer_reads_packed_rows_at_once() -> None:
    decoder = decoder_of("rotary")
    with torch.no_grad():
        _, state = decoder(ROWS[:, :4], decoder.start(None, 3))
    with pytest.raises(ValueError, match="at once"):
        decoder(ROWS[:, 4:], state.bounded(END))
