"""Two stacks that read from either end: neither knows what it is asked for."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.encoders import both_ways
from regard.errors import RecipeError
from regard.heads import both_ways as heads
from regard.layers.draws import seeded
from regard.types import Sequence

B, S, D, V = 3, 7, 10, 17
LENGTHS = torch.tensor([7, 5, 2])
MASK = torch.arange(S) < LENGTHS[:, None]


def encoder(**keys: object) -> both_ways.Encoder:
    torch.manual_seed(0)
    return both_ways.Encoder(both_ways.Config(**{"dropout": 0.0} | keys), D).eval()  # type: ignore[arg-type]


def states() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(B, S, D)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_position_has_read_one_side_alone(cell: str):
    made, x = encoder(cell=cell, layers=3), states()
    other = x.clone()
    other[:, 3] += 1
    for here, there in zip(
        made.all_layers(Sequence(x, MASK))[1:],
        made.all_layers(Sequence(other, MASK))[1:],
        strict=True,
    ):
        changed = (here.states != there.states)[0]  # (S, D)
        assert not changed[:3, : D // 2].any() and changed[3:, : D // 2].all()
        assert not changed[4:, D // 2 :].any() and changed[:4, D // 2 :].all()


def test_padding_changes_nothing():
    made, x = encoder(), states()
    whole = made(Sequence(x, MASK)).states
    for row, length in enumerate(LENGTHS.tolist()):
        alone = made(Sequence(x[row : row + 1, :length], MASK[row : row + 1, :length])).states
        torch.testing.assert_close(whole[row, :length], alone[0])


def test_each_direction_is_the_lstm_of_torch():
    """Two layers, the second added to what it reads; the other way on rows that are turned."""
    made, x = encoder(layers=2), states()
    full = torch.ones(B, S, dtype=torch.bool)
    found = made(Sequence(x, full)).states
    for way, part in enumerate(found.chunk(2, -1)):
        read = x.flip(1) if way else x
        layers: Any = made.layers
        for number, layer in enumerate(layers):
            cell = (layer.backward if way else layer.onward).cell.kernel
            theirs = nn.LSTM(read.shape[-1], D // 2, batch_first=True)
            theirs.load_state_dict(cell.state_dict())
            y, _ = theirs(read)
            read = read + y if number else y
        torch.testing.assert_close(part, read.flip(1) if way else read)


def test_a_wide_state_is_projected():
    made = encoder(hidden=11)
    assert made(Sequence(states(), MASK)).states.shape == (B, S, D)
    assert made.widths() == (D, D, D)
    assert made.layers[0].onward.cell.hidden == 11  # type: ignore[union-attr]


@pytest.mark.parametrize("room", [both_ways.Encoder, heads.Head])
def test_half_is_for_each_direction(room: type):
    with pytest.raises(RecipeError, match=r"model\.dim = 9 is not even"):
        room(both_ways.Config(), 9) if room is both_ways.Encoder else room(
            heads.Config(), 9, V, None
        )


# The head


def head(samples: int = 0) -> heads.Head:
    torch.manual_seed(2)
    made = heads.Head(heads.Config(samples=samples), D, V, None)
    nn.init.normal_(made.bias)  # type: ignore[arg-type]
    return made


def test_what_is_asked():
    """START a b END: a, b, END by what stands before; START, a, b by what follows."""
    tokens = torch.tensor([[1, 5, 6, 2], [1, 7, 2, 0]])
    mask = torch.tensor([[True] * 4, [True] * 3 + [False]])
    hidden = torch.arange(2 * 4 * 2).float().view(2, 4, 2)  # →h, ←h of each position
    onward, backward = heads.ask(hidden, tokens, mask)
    assert onward.symbols.tolist() == [5, 6, 2, 7, 2]
    assert onward.states[:, 0].tolist() == [0, 2, 4, 8, 10]
    assert backward.symbols.tolist() == [1, 5, 6, 1, 7]
    assert backward.states[:, 0].tolist() == [3, 5, 7, 11, 13]


def test_the_loss_is_that_of_both_directions():
    made, hidden, tokens = head(), states(), torch.randint(V, (B, S))
    terms = made.loss(hidden, tokens, MASK)
    onward, backward = (
        nn.functional.linear(x, made.weight, made.bias).log_softmax(-1).detach()
        for x in hidden.chunk(2, -1)
    )
    wanted = {"forward": 0.0, "backward": 0.0}
    for row, length in enumerate(LENGTHS.tolist()):
        for t in range(length - 1):
            wanted["forward"] -= float(onward[row, t, tokens[row, t + 1]])
            wanted["backward"] -= float(backward[row, t + 1, tokens[row, t]])
    count = int(LENGTHS.sum()) - B
    for way, term in terms.items():
        assert float(term.sum.detach()) == pytest.approx(wanted[way], rel=1e-5)
        assert (term.count, term.weight) == (count, 0.5)


def test_words_are_drawn_in_training_alone():
    made, hidden, tokens = head(samples=V - 1), states(), torch.randint(V, (B, S))
    whole = head()
    with seeded(1):
        drawn = made.train().loss(hidden, tokens, MASK)["forward"].sum
    true = whole.loss(hidden, tokens, MASK)["forward"].sum
    assert float(drawn) != float(true)
    assert float(made.eval().loss(hidden, tokens, MASK)["forward"].sum) == float(true)
    assert heads.Head(heads.Config(samples=V), D, V, None).samples == 0, "all words are no draw"


def test_a_place_between_two_is_the_product_of_both():
    made, hidden = head(), states()
    chances = made.logits(made.beside(hidden)).softmax(-1)[:, 2]  # (B, V)
    onward, backward = hidden.chunk(2, -1)
    left, right = (
        nn.functional.linear(x, made.weight, made.bias).softmax(-1)
        for x in (onward[:, 1], backward[:, 3])
    )
    product = left * right
    torch.testing.assert_close(chances, product / product.sum(-1, keepdim=True))
