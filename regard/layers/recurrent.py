"""Recurrent layers: Elman's network, the GRU and the LSTM.

Each reads x₁ … x_T ∈ ℝᴰ one after the other and gives the states h₁ … h_T ∈ ℝᴴ that it had:

    h_t = step(U x_t + a, h_{t−1})        U ∈ ℝᴳᴴˣᴰ, V ∈ ℝᴳᴴˣᴴ, a, b ∈ ℝᴳᴴ

with G rows of H for the G gates. `step` is the equation, `unroll` the plain loop over it, which is
taken when somebody watches. All else runs in PyTorch's kernels (oneDNN, cuDNN), which have two
biases where one would often do; the parameters are theirs, so weights go both ways as they are.

On a processor the LSTM's kernel takes no longer than its matrix products would alone, the others a
third more; but on packed sequences the LSTM's takes half as long again. Padding on the right cannot
reach what is left of it: so `read` gives the kernel padded rows, and for the other direction
reverses each row within its length. Only a final state of rows that differ in length needs them
packed. With operands in bfloat16 the LSTM takes about 0.6 of the time; its cell stays float32, for
sums of many small steps would come to a halt in bfloat16.
"""

from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.layers.probe import probe, scope, stacked, watched

Kind = Literal["lstm", "gru", "rnn_tanh", "rnn_relu"]
State = tuple[Float[Tensor, "B H"], ...]
"""(h,), or the LSTM's (h, c)."""
LSTM_MODE = 2
"""Among the kinds that the kernel may be asked for."""


class Recurrent(nn.Module, ABC):
    """One layer in one direction."""

    def __init__(self, kernel: nn.RNNBase, gates: int) -> None:
        super().__init__()
        self.kernel = kernel
        self.hidden: int = kernel.hidden_size
        self.reset(gates)

    def reset(self, gates: int) -> None:
        """For each gate by itself: U Glorot uniform, V orthogonal; biases zero."""
        u, v, a, b = self.weights
        for block in u.chunk(gates):
            nn.init.xavier_uniform_(block)
        for block in v.chunk(gates):
            nn.init.orthogonal_(block)
        nn.init.zeros_(a)
        nn.init.zeros_(b)

    @property
    def weights(self) -> list[nn.Parameter]:
        """U, V, a, b."""
        return self.kernel.all_weights[0]

    def start(self, rows: int) -> State:
        """The state that has read nothing: zero."""
        return (self.weights[0].new_zeros(rows, self.hidden),)

    def project(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N G"]:
        """U x + a, for as many inputs as there are in one product."""
        u, _, a, _ = self.weights
        return F.linear(x, u, a)

    @abstractmethod
    def step(self, ux: Float[Tensor, "B G"], state: State) -> State:
        """The state after `ux` = U x + a was read."""

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        state: State | None = None,
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        reverse: bool = False,
    ) -> tuple[Float[Tensor, "B T H"], State]:
        """h₁ … h_T, and the state after each row's last real input: its first, if in reverse.

        Where a mask is given, it is True on the left of each row and at least once.
        """
        state = state or self.start(x.shape[0])
        if watched() or x.shape[1] == 1:  # for one step of a few rows a kernel takes too long
            return unroll(self, x, state, mask, reverse=reverse)
        if reverse:
            x = reversed_rows(x, mask)
        if mask is None:
            y, state = self._run(x, state)
        else:
            lengths = mask.sum(1).cpu()
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            y, state = self._run(packed, state)
            y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
        return reversed_rows(y, mask) if reverse else y, state

    def read(
        self,
        x: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        reverse: bool = False,
    ) -> Float[Tensor, "B T H"]:
        """h₁ … h_T alone, which is faster; where the mask is False, anything."""
        if watched():
            return unroll(self, x, self.start(x.shape[0]), mask, reverse=reverse)[0]
        y, _ = self._run(reversed_rows(x, mask) if reverse else x, self.start(x.shape[0]))
        return reversed_rows(y, mask) if reverse else y

    def _run(self, x: Any, state: State) -> tuple[Any, State]:
        """The kernel, whose states have an axis for its layers."""
        before = tuple(s[None] for s in state)
        y, after = self.kernel(x, before if len(before) > 1 else before[0])
        return y, tuple(s[0] for s in (after if isinstance(after, tuple) else (after,)))


class Elman(Recurrent):
    """h_t = φ(U x_t + a + V h_{t−1} + b),  φ = tanh or ReLU  (Elman 1990)."""

    def __init__(self, dim: int, hidden: int, activation: Literal["tanh", "relu"]) -> None:
        super().__init__(nn.RNN(dim, hidden, nonlinearity=activation, batch_first=True), 1)
        self.activation = torch.tanh if activation == "tanh" else torch.relu

    def step(self, ux: Float[Tensor, "B G"], state: State) -> State:
        _, v, _, b = self.weights
        return (probe("state", self.activation(ux + F.linear(state[0], v, b))),)


class GRU(Recurrent):
    """Gated recurrent unit (Cho et al. 2014, section 2.3).

        r_t = σ(U_r x_t + a_r + V_r h_{t−1} + b_r)               reset, ∈ (0, 1)ᴴ
        z_t = σ(U_z x_t + a_z + V_z h_{t−1} + b_z)               update, ∈ (0, 1)ᴴ
        n_t = tanh(U_n x_t + a_n + r_t ⊙ (V_n h_{t−1} + b_n))    candidate, ∈ (−1, 1)ᴴ
        h_t = (1 − z_t) ⊙ n_t + z_t ⊙ h_{t−1}

    The paper has V_n (r_t ⊙ h_{t−1}): this form needs one product less in a row.
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__(nn.GRU(dim, hidden, batch_first=True), 3)

    def step(self, ux: Float[Tensor, "B G"], state: State) -> State:
        (h,) = state
        _, v, _, b = self.weights
        (r, z, n), (vr, vz, vn) = ux.chunk(3, -1), F.linear(h, v, b).chunk(3, -1)
        r = probe("gates.reset", torch.sigmoid(r + vr))
        z = probe("gates.update", torch.sigmoid(z + vz))
        n = probe("candidate", torch.tanh(n + r * vn))
        return (probe("state", (1 - z) * n + z * h),)


class LSTM(Recurrent):
    """Long short-term memory (Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000).

        i_t = σ(U_i x_t + a_i + V_i h_{t−1} + b_i)       input gate, ∈ (0, 1)ᴴ
        f_t = σ(U_f x_t + a_f + V_f h_{t−1} + b_f)       forget gate, ∈ (0, 1)ᴴ
        g_t = tanh(U_g x_t + a_g + V_g h_{t−1} + b_g)    candidate, ∈ (−1, 1)ᴴ
        o_t = σ(U_o x_t + a_o + V_o h_{t−1} + b_o)       output gate, ∈ (0, 1)ᴴ
        c_t = f_t ⊙ c_{t−1} + i_t ⊙ g_t                  cell, ∈ ℝᴴ
        h_t = o_t ⊙ tanh(c_t)                            state, ∈ (−1, 1)ᴴ

    The forget gate's bias begins at 1, so that a new model remembers (Jozefowicz et al. 2015).

    With `precision` bfloat16, which the trainer sets where the processor multiplies it natively,
    x, h and the weights of a training step are rounded to it, c and all sums are not.
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__(nn.LSTM(dim, hidden, batch_first=True), 4)
        self.precision = torch.float32

    def reset(self, gates: int) -> None:
        super().reset(gates)
        forget = self.weights[2].chunk(gates)[1]
        nn.init.ones_(forget)

    def start(self, rows: int) -> State:
        zero = self.weights[0].new_zeros(rows, self.hidden)
        return zero, zero

    def step(self, ux: Float[Tensor, "B G"], state: State) -> State:
        h, c = state
        _, v, _, b = self.weights
        i, f, g, o = (ux + F.linear(h, v, b)).chunk(4, -1)
        i = probe("gates.input", torch.sigmoid(i))
        f = probe("gates.forget", torch.sigmoid(f))
        g = probe("candidate", torch.tanh(g))
        o = probe("gates.output", torch.sigmoid(o))
        c = probe("cell", f * c + i * g)
        h = probe("state", o * torch.tanh(c))
        return h, c

    def _run(self, x: Any, state: State) -> tuple[Any, State]:
        return self._narrow(x, *state) if self._narrowed(x) else super()._run(x, state)

    def _narrowed(self, x: Any) -> bool:
        return (
            self.precision == torch.bfloat16
            and self.training
            and torch.is_grad_enabled()
            and isinstance(x, Tensor)
            and x.is_cpu
        )

    def _narrow(
        self, x: Float[Tensor, "B T D"], h: Float[Tensor, "B H"], c: Float[Tensor, "B H"]
    ) -> tuple[Float[Tensor, "B T H"], State]:
        """oneDNN's layer itself: `nn.LSTM` gives it one precision for all."""
        u, v, a, b = (weight.to(torch.bfloat16) for weight in self.weights)
        steps = x.transpose(0, 1).to(torch.bfloat16, memory_format=torch.contiguous_format)
        y, h, c, _ = torch.mkldnn_rnn_layer(
            steps,
            u,
            v,
            a,
            b,
            h.to(torch.bfloat16),
            c,
            reverse=False,
            batch_sizes=[],
            mode=LSTM_MODE,
            hidden_size=self.hidden,
            num_layers=1,
            has_biases=True,
            bidirectional=False,
            batch_first=False,
            train=True,
        )  # (T, B, H)
        return y.transpose(0, 1).float(), (h.float(), c)


def recurrent(kind: Kind, dim: int, hidden: int) -> Recurrent:
    """A layer of a kind that reads vectors of dimension `dim`."""
    match kind:
        case "lstm":
            return LSTM(dim, hidden)
        case "gru":
            return GRU(dim, hidden)
        case "rnn_tanh":
            return Elman(dim, hidden, "tanh")
        case "rnn_relu":
            return Elman(dim, hidden, "relu")


def unroll(
    layer: Recurrent,
    x: Float[Tensor, "B T D"],
    state: State,
    mask: Bool[Tensor, "B T"] | None = None,
    *,
    reverse: bool = False,
) -> tuple[Float[Tensor, "B T H"], State]:
    """The equation step by step. What is not real leaves a row's state as it was."""
    length = x.shape[1]
    ux = layer.project(x)
    outputs = [state[0]] * length
    with stacked():
        for t in reversed(range(length)) if reverse else range(length):
            with scope(f"step.{t}"):
                new = layer.step(ux[:, t], state)
            if mask is not None:
                real = mask[:, t, None]
                new = tuple(torch.where(real, n, s) for n, s in zip(new, state, strict=True))
            state, outputs[t] = new, new[0]
    return torch.stack(outputs, 1), state


def reversed_rows(
    x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"] | None
) -> Float[Tensor, "B T D"]:
    """x_n … x₁ of each row; the padding after its n real positions stays where it is."""
    if mask is None:
        return x.flip(1)
    rows, length, _ = x.shape
    t = torch.arange(length, device=x.device)
    places = torch.where(mask, mask.sum(1, keepdim=True) - 1 - t, t)  # (B, T)
    places = places + length * torch.arange(rows, device=x.device)[:, None]
    # Whole rows of a matrix: on a processor `gather` and its gradient are several times slower.
    return x.flatten(0, 1).index_select(0, places.flatten()).view_as(x)
