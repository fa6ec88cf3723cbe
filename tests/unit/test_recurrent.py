"""Recurrent layers: their equations by hand, their kernels against the plain loop."""

from math import exp, tanh
from typing import get_args

import pytest
import torch
from torch import Tensor

from regard.layers.probe import watch
from regard.layers.recurrent import (
    GRU,
    LSTM,
    Elman,
    Kind,
    Recurrent,
    State,
    recurrent,
    reversed_rows,
    unroll,
)
from tests.processor import needs_bfloat16

KINDS = get_args(Kind)
ROWS, LENGTH, DIM, HIDDEN = 5, 7, 3, 11
MASK = torch.arange(LENGTH) < torch.tensor([7, 3, 1, 5, 2])[:, None]


def layer_of(kind: Kind, dim: int = DIM, hidden: int = HIDDEN) -> Recurrent:
    """A layer whose biases are not zero."""
    layer = recurrent(kind, dim, hidden)
    for bias in layer.weights[2:]:
        torch.nn.init.normal_(bias, std=0.5)
    return layer


def a_state(layer: Recurrent, rows: int = ROWS) -> State:
    return tuple(torch.randn_like(s) for s in layer.start(rows))


def set_weights(layer: Recurrent, *values: object) -> None:
    with torch.no_grad():
        for weight, value in zip(layer.weights, values, strict=True):
            weight.copy_(torch.as_tensor(value).reshape(weight.shape))


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def test_the_lectures_example() -> None:
    """h' = ReLU(U x + V h), o = W h': the pattern (1, 0, 0) stays and is answered by 1."""
    layer = Elman(2, 3, "relu")
    u = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]
    v = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    set_weights(layer, u, v, [0.0] * 3, [0.0] * 3)
    before = (torch.tensor([[1.0, 0.0, 0.0]]),)
    (after,) = layer.step(layer.project(torch.tensor([[1.0, 0.0]])), before)
    assert after.tolist() == [[1.0, 0.0, 0.0]]
    assert (after @ torch.tensor([1.0, 0.0, -1.0])).item() == 1.0


def test_a_step_of_the_lstm_by_hand() -> None:
    layer = LSTM(1, 1)
    set_weights(layer, [1.0, -1.0, 0.5, 2.0], [0.3, 0.1, -0.2, 0.4], [0.1] * 4, [0.0] * 4)
    x, h, c = 0.5, -0.6, 1.5
    i, f, o = sigmoid(0.5 - 0.18 + 0.1), sigmoid(-0.5 - 0.06 + 0.1), sigmoid(1.0 - 0.24 + 0.1)
    c_new = f * c + i * tanh(0.25 + 0.12 + 0.1)
    before = (torch.tensor([[h]]), torch.tensor([[c]]))
    h_after, c_after = layer.step(layer.project(torch.tensor([[x]])), before)
    assert c_after.item() == pytest.approx(c_new, abs=1e-6)
    assert h_after.item() == pytest.approx(o * tanh(c_new), abs=1e-6)


def test_a_step_of_the_gru_by_hand() -> None:
    layer = GRU(1, 1)
    set_weights(layer, [1.0, -1.0, 0.5], [0.3, 0.1, -0.2], [0.1, 0.2, 0.3], [0.0, 0.0, 0.7])
    x, h = 0.5, -0.6
    r, z = sigmoid(0.5 + 0.1 - 0.18), sigmoid(-0.5 + 0.2 - 0.06)
    n = tanh(0.25 + 0.3 + r * (0.12 + 0.7))
    (after,) = layer.step(layer.project(torch.tensor([[x]])), (torch.tensor([[h]]),))
    assert after.item() == pytest.approx((1 - z) * n + z * h, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mask", [None, MASK], ids=["full", "ragged"])
def test_the_kernel_is_the_loop(kind: Kind, reverse: bool, mask: Tensor | None) -> None:
    layer = layer_of(kind)
    x, before = torch.randn(ROWS, LENGTH, DIM), a_state(layer)
    real = torch.ones(ROWS, LENGTH, dtype=torch.bool) if mask is None else mask
    weigh = torch.randn(ROWS, LENGTH, HIDDEN) * real[..., None]
    ends = torch.randn(ROWS, HIDDEN)
    results = []
    for run in (layer, lambda *a, **k: unroll(layer, *a, **k)):
        inputs = [x.clone().requires_grad_(), *(s.clone().requires_grad_() for s in before)]
        y, after = run(inputs[0], tuple(inputs[1:]), mask, reverse=reverse)
        loss = (weigh * y).sum() + sum((ends * s).sum() for s in after)
        wanted = [*inputs, *layer.weights]
        results.append([y[real], *after, *torch.autograd.grad(loss, wanted)])
    for fast, plain in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_reading_gives_the_same_states(kind: Kind, reverse: bool) -> None:
    layer = layer_of(kind)
    x = torch.randn(ROWS, LENGTH, DIM)
    expected, _ = unroll(layer, x, layer.start(ROWS), MASK, reverse=reverse)
    torch.testing.assert_close(layer.read(x, MASK, reverse=reverse)[MASK], expected[MASK])
    expected, _ = unroll(layer, x, layer.start(ROWS), None, reverse=reverse)
    torch.testing.assert_close(layer.read(x, reverse=reverse), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_row_is_as_it_were_alone(kind: Kind, reverse: bool) -> None:
    """States and the final state of a padded row are those of the row without padding."""
    layer = layer_of(kind)
    x, before = torch.randn(ROWS, LENGTH, DIM), a_state(layer)
    y, after = layer(x, before, MASK, reverse=reverse)
    for row, length in enumerate(MASK.sum(1).tolist()):
        alone = tuple(s[row : row + 1] for s in before)
        states, end = unroll(layer, x[row : row + 1, :length], alone, reverse=reverse)
        torch.testing.assert_close(y[row, :length], states[0])
        for together, single in zip(after, end, strict=True):
            torch.testing.assert_close(together[row], single[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_padding_changes_nothing(kind: Kind, reverse: bool) -> None:
    layer = layer_of(kind)
    x = torch.randn(ROWS, LENGTH, DIM)
    wild = torch.where(MASK[..., None], x, 1e4).requires_grad_()
    assert torch.equal(
        layer.read(wild, MASK, reverse=reverse)[MASK], layer.read(x, MASK, reverse=reverse)[MASK]
    )
    layer.read(wild, MASK, reverse=reverse)[MASK].sum().backward()
    assert wild.grad is not None
    assert not wild.grad[~MASK].any()
    assert wild.grad[MASK].abs().sum(-1).all()


def test_rows_are_reversed_within_their_lengths() -> None:
    x = torch.arange(8.0).view(2, 4, 1)
    mask = torch.tensor([[True, True, True, False], [True, True, True, True]])
    assert reversed_rows(x, mask).flatten().tolist() == [2, 1, 0, 3, 7, 6, 5, 4]
    assert reversed_rows(x, None).flatten().tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


def test_back_propagation_through_time_in_closed_form() -> None:
    """Of a linear network:  h_t = U x_t + V h_{t−1},  L = gᵀ h_T, so with δ_t = (Vᵀ)^(T−t) g

        ∂L/∂h₀ = Vᵀ δ₁,   ∂L/∂x_t = Uᵀ δ_t,   ∂L/∂U = Σ δ_t x_tᵀ,   ∂L/∂V = Σ δ_t h_{t−1}ᵀ.

    A ReLU network is linear where everything is positive.
    """
    layer = Elman(DIM, HIDDEN, "relu").double()
    zero = torch.zeros(HIDDEN)
    set_weights(layer, torch.rand(HIDDEN, DIM), torch.rand(HIDDEN, HIDDEN) / HIDDEN, zero, zero)
    u, v, a, _ = layer.weights
    x = torch.rand(1, LENGTH, DIM, dtype=torch.double, requires_grad=True)
    first = torch.rand(1, HIDDEN, dtype=torch.double, requires_grad=True)
    g = torch.randn(HIDDEN, dtype=torch.double)
    states, (last,) = layer(x, (first,))
    found = torch.autograd.grad((last @ g).sum(), [x, first, u, v, a])

    with torch.no_grad():
        delta = [torch.linalg.matrix_power(v.T, LENGTH - t) @ g for t in range(1, LENGTH + 1)]
        before = [first[0], *states[0, :-1]]
        expected = [
            torch.stack([u.T @ d for d in delta])[None],
            (v.T @ delta[0])[None],
            sum(torch.outer(d, x_t) for d, x_t in zip(delta, x[0], strict=True)),
            sum(torch.outer(d, h) for d, h in zip(delta, before, strict=True)),
            sum(delta),
        ]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_layer(kind: Kind) -> None:
    """V is orthogonal for each gate; biases are zero, but the forget gate's, which is one."""
    layer = recurrent(kind, DIM, HIDDEN)
    _, v, a, b = layer.weights
    for block in v.view(-1, HIDDEN, HIDDEN):
        torch.testing.assert_close(block @ block.T, torch.eye(HIDDEN), atol=1e-5, rtol=0)
    expected = torch.zeros_like(a)
    if kind == "lstm":
        expected[HIDDEN : 2 * HIDDEN] = 1
    assert torch.equal(a, expected)
    assert not b.any()


def seen_by(layer: Recurrent, x: Tensor, **options: bool) -> dict[str, Tensor]:
    seen: dict[str, Tensor] = {}

    def watcher(name: str, value: Tensor) -> Tensor:
        seen[name] = value
        return value

    with watch(watcher):
        layer.read(x, MASK, **options)
    return seen


NAMES = {
    "lstm": {"gates.input", "gates.forget", "gates.output", "candidate", "cell", "state"},
    "gru": {"gates.reset", "gates.update", "candidate", "state"},
    "rnn_tanh": {"state"},
    "rnn_relu": {"state"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_gates_can_be_watched(kind: Kind, reverse: bool) -> None:
    layer = layer_of(kind)
    x = torch.randn(ROWS, LENGTH, DIM)
    seen = seen_by(layer, x, reverse=reverse)
    assert {name for name in seen if "step" not in name} == NAMES[kind]
    assert len(seen) == (LENGTH + 1) * len(NAMES[kind])
    for name in NAMES[kind]:
        assert seen[name].shape == (ROWS, LENGTH, HIDDEN)
        assert torch.equal(seen[name][:, 3], seen[f"step.3.{name}"])
        if name.startswith("gates"):
            assert ((seen[name] > 0) & (seen[name] < 1)).all()
    # Position by position, in whichever direction they were made.
    torch.testing.assert_close(seen["state"][MASK], layer.read(x, MASK, reverse=reverse)[MASK])
    if kind == "lstm":
        product = seen["gates.output"] * seen["cell"].tanh()
        torch.testing.assert_close(seen["state"], product)


def test_gates_can_be_changed() -> None:
    """What forgets nothing and lets nothing in keeps its cell."""
    layer = layer_of("lstm")
    x, (h, c) = torch.randn(ROWS, LENGTH, DIM), a_state(layer)

    def closed(name: str, value: Tensor) -> Tensor:
        if name.endswith("gates.forget"):
            return torch.ones_like(value)
        return torch.zeros_like(value) if name.endswith("gates.input") else value

    with watch(closed):
        _, (_, kept) = layer(x, (h, c))
    assert torch.equal(kept, c)
    assert not torch.allclose(layer(x, (h, c))[1][1], c)


@pytest.mark.parametrize("kind", KINDS)
def test_long_sequences_stay_finite_and_meta_layers_can_be_counted(kind: Kind) -> None:
    layer = recurrent(kind, DIM, HIDDEN)
    y, _ = layer(torch.randn(2, 500, DIM))
    assert y.isfinite().all()
    with torch.device("meta"):
        unreal = recurrent(kind, DIM, HIDDEN)
    assert sum(p.numel() for p in unreal.parameters()) == sum(p.numel() for p in layer.parameters())


def narrowed(layer: LSTM) -> LSTM:
    layer.precision = torch.bfloat16
    return layer


@needs_bfloat16
def test_bfloat16_rounds_what_is_multiplied() -> None:
    """Within three digits in states and gradients; where nothing is learnt, exactly as before."""
    layer = layer_of("lstm")
    assert isinstance(layer, LSTM)
    x, before = torch.randn(ROWS, LENGTH, DIM), a_state(layer)
    results = []
    for _ in range(2):
        inputs = [x.clone().requires_grad_(), *(s.clone().requires_grad_() for s in before)]
        y, after = layer(inputs[0], tuple(inputs[1:]))
        loss = y.square().sum() + sum(s.sum() for s in after)
        results.append([y, *after, *torch.autograd.grad(loss, [*inputs, *layer.weights])])
        narrowed(layer)
    for wide, narrow in zip(*results, strict=True):
        assert narrow.dtype == torch.float32
        assert (narrow - wide).norm() < 0.02 * wide.norm()
    assert not torch.equal(results[0][0], results[1][0])
    with torch.no_grad():
        assert torch.equal(layer(x, before)[0], results[0][0])


@needs_bfloat16
def test_in_bfloat16_the_cell_is_still_a_sum_of_small_steps() -> None:
    """1,000 steps of tanh(0.001): a cell in bfloat16 would stay at 0.5."""
    layer = narrowed(LSTM(1, 1))
    set_weights(layer, [0.0] * 4, [0.0] * 4, [20.0, 20.0, 0.001, 20.0], [0.0] * 4)
    _, (_, cell) = layer(torch.zeros(1, 1000, 1))
    assert cell.item() == pytest.approx(1.0, abs=0.01)
