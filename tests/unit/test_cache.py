"""The tree of what was read: places, who sees them, and how their number grows."""

import pytest
import torch
from torch import Tensor

from regard.decoders import transformer
from regard.layers.cache import LEAST, Past, joined
from regard.layers.embedding import Embedding
from regard.layers.position import Kind
from regard.types import Sequence

V, D, H, LAYERS, S = 17, 12, 3, 2, 5


def make(position: Kind = "sinusoidal", *, memory: bool = False) -> transformer.Decoder:
    config = transformer.Config(
        layers=LAYERS, heads=H, feedforward=7, limit=400, position=position, dropout=0.0
    )
    decoder = transformer.Decoder(config, D, Embedding(V, D), memory=memory)
    return decoder.eval()


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def room_of(state: transformer.State) -> int:
    assert state.past.room is not None
    return state.past.room.layers[0].shape[3]


@torch.inference_mode()
def test_places_grow_by_a_quarter_when_they_are_full() -> None:
    decoder, tokens = make(), torch.randint(V, (2, 3 * LEAST))
    whole, _ = decoder(tokens, decoder.start(None, 2))
    state, sizes, rooms, found = decoder.start(None, 2), [], set(), []
    for token in tokens.split(1, 1):
        hidden, state = decoder(token, state)
        found.append(hidden)
        if state.past.room is not None:
            rooms.add(state.past.room)
            sizes.append(room_of(state))
    close(torch.cat(found, 1), whole)
    assert sizes == sorted(sizes)
    # 64, then 5/4 of the 65 that are needed, of 82, of 103, of 129, of 162.
    assert sorted(set(sizes)) == [LEAST, 81, 102, 128, 161, 202]
    assert len(rooms) == 6, "nothing is allocated between"


@torch.inference_mode()
def test_hypotheses_share_what_they_have_in_common() -> None:
    """Three rows of two sentences; all follow the last row at each step, so one path is alive."""
    decoder, count = make(), 40
    tokens = torch.randint(V, (count, 6, 1))
    state = decoder(torch.tensor([[3], [4]]), decoder.start(None, 2))[1].expand(3)
    last = torch.tensor([2, 2, 2, 5, 5, 5])
    for token in tokens:
        hidden, state = decoder(token, state.select(last))
    path = torch.cat([torch.tensor([[3], [4]]), *(token[[2, 5]] for token in tokens)], 1)
    close(hidden[[2, 5]], decoder(path, decoder.start(None, 2))[0][:, -1:])
    assert state.past.places < 3 * count, "dead places are dropped"
    assert room_of(state) <= 2 * (count + 1 + 3 + 3)
    small = state.past.squeezed()
    assert small.hidden is not None and small.places <= state.past.places


@torch.inference_mode()
def test_what_a_row_sees_is_its_own_path() -> None:
    """After 0 and 1 of sentence 0 both follow row 1: it sees the root, 1 and itself."""
    decoder = make()
    state = decoder(torch.tensor([[3], [4]]), decoder.start(None, 2))[1].expand(2)
    state = decoder(torch.tensor([[5], [6], [7], [8]]), state)[1].select(torch.tensor([1, 1, 3, 2]))
    state = decoder(torch.tensor([[9], [10], [11], [12]]), state)[1]
    assert state.past.hidden is not None
    assert (state.past.hidden == 0).int().tolist() == [
        [1, 0, 1, 1, 0],
        [1, 0, 1, 0, 1],
        [1, 0, 1, 1, 0],
        [1, 1, 0, 0, 1],
    ]
    assert (state.rows, state.sentences, state.read) == (4, 2, 3)


def memory_of(length: int, rows: int = 1, seed: int = 1) -> Sequence:
    states = torch.randn(rows, length, D, generator=torch.Generator().manual_seed(seed))
    return Sequence(states, torch.ones(rows, length, dtype=torch.bool))


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize("width", [1, 3])
def test_rows_of_unlike_length_and_memory_are_joined(position: Kind, width: int) -> None:
    """With and without preallocated places, as without and with gradients."""
    decoder, counts, sources = make(position, memory=True), (4, 0, 2), (S, 3, 8)
    read = [torch.randint(V, (width, count)) for count in counts]
    after = torch.randint(V, (3 * width, 3))
    for learning in (False, True):
        with torch.set_grad_enabled(learning):
            singly = [decoder.start(memory_of(s, seed=s), 1).expand(width) for s in sources]
            for n, tokens in enumerate(read):
                for token in tokens.split(1, 1) if tokens.shape[1] else ():
                    singly[n] = decoder(token, singly[n])[1]
            together = singly[0].join(singly[1:])
            assert (together.rows, together.sentences) == (3 * width, 3)
            assert torch.as_tensor(together.read).tolist() == [
                n for n in counts for _ in range(width)
            ]
            for piece in after.split([1, 2], 1):
                hidden, together = decoder(piece, together)
                for n in range(3):
                    rows = slice(n * width, (n + 1) * width)
                    alone, singly[n] = decoder(piece[rows], singly[n])
                    close(hidden[rows], alone)
            order = torch.tensor([2, 0])
            kept = together.keep(order)
            token = torch.randint(V, (2 * width, 1))
            hidden, _ = decoder(token, kept)
            for place, n in enumerate(order.tolist()):
                rows = slice(place * width, (place + 1) * width)
                close(hidden[rows], decoder(token[rows], singly[n])[0])


def test_states_of_unlike_widths_are_refused() -> None:
    decoder = make()
    with pytest.raises(ValueError, match="unlike numbers of hypotheses"):
        decoder.start(None, 1).join([decoder.start(None, 1).expand(2)])


def test_nothing_was_read_by_any() -> None:
    assert joined([Past(1, 2), Past(3, 6)]) == Past(4, 8)


@torch.inference_mode()
def test_empty_places_of_one_row_are_dropped_when_they_can_be() -> None:
    """A short row that joined a long one gets rid of its holes once the long one has gone."""
    decoder = make()
    long = decoder(torch.randint(V, (1, 50)), decoder.start(None, 1))[1]
    short = decoder(torch.randint(V, (1, 2)), decoder.start(None, 1))[1]
    tokens = torch.randint(V, (60, 1, 1))
    state = long.join([short]).keep(torch.tensor([1]))
    for token in tokens:
        hidden, state = decoder(token, state)
        alone, short = decoder(token, short)
        close(hidden, alone)
    assert state.past.places < 50 + 60
