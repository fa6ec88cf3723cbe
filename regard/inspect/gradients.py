"""How much of a gradient is left on its way back through time.

In a recurrent network  ∂L_T/∂h_t = (∂h_{t+1}/∂h_t)ᵀ … (∂h_T/∂h_{T−1})ᵀ ∂L_T/∂h_T  is a product of
T − t matrices: it vanishes or explodes where these shrink or stretch (Bengio et al. 1994; Pascanu
et al. 2013). An LSTM's cell adds a path whose factors are its forget gates; attention has a path of
one step from anywhere.
"""

import re
import sys
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import UserError
from regard.layers.probe import watch
from regard.model import Model
from regard.types import Batch, float64

REACH, BEFORE, WINDOWS = 100, 50, 64
"""How far back `reach` looks, how much is read before that, and from how many places. A state that
begins with the text is not yet what it is in the midst of one."""


def gradient_norms(loss: Callable[[], Float[Tensor, ""]], place: str) -> Float[Tensor, "B T"]:
    """‖∂L/∂v_t‖ for the vector v_t that each position t of each row has at `place`.

    `loss` runs the model. `place` is a probe's name: "encoder.input" and "decoder.input" are what
    enters, in any model; "decoder.layer.0.state" is h_t of a recurrent decoder's first layer.
    """
    whole: list[Tensor] = []
    steps: dict[int, Tensor] = {}
    names: dict[str, None] = {}

    def watcher(name: str, value: Tensor) -> Tensor:
        bare = re.sub(r"\bstep\.\d+\.", "", name)
        names[bare] = None
        if bare != place:
            return value
        if not value.requires_grad:
            value = value.detach().requires_grad_()
        if step := re.search(r"\bstep\.(\d+)\.", name):
            steps[int(step[1])] = value
        else:
            whole.append(value)
        return value

    with torch.enable_grad(), watch(watcher):
        total = loss()
    # What a loop has made step by step is shown as a whole, too, but only the steps are in use.
    found = [steps[t] for t in sorted(steps)] or whole[-1:]
    if not found or any(value.ndim != (2 if steps else 3) for value in found):
        raise UserError(f"{place!r} is no place with a vector at each position: {', '.join(names)}")
    gradients = torch.autograd.grad(total, found, materialize_grads=True, allow_unused=True)
    together = torch.stack(gradients, 1) if steps else gradients[0]  # (B, T, D)
    norms: Tensor = float64(together).norm(dim=-1)  # squares are smaller than float32 can hold
    return norms


def last_symbol(model: Model, batch: Batch) -> Float[Tensor, ""]:
    """L_T = −log p(y_T | y₁ … y_{T−1}), summed over the rows: T is each row's last target."""
    hidden, _ = model.decode(batch["target_in"], model.start(batch))
    rows = torch.arange(len(hidden), device=hidden.device)
    last = batch["target_mask"].sum(1) - 1
    log_probs = model.head.logits(hidden[rows, last]).log_softmax(-1)
    return -log_probs[rows, batch["target_out"][rows, last]].sum()


def reach(
    model: Model,
    texts: Sequence[Sequence[int]],
    length: int = REACH,
    windows: int = WINDOWS,
    most: int | None = None,
) -> list[float]:
    """What is left of the gradient d tokens back, for d = 0 … length − 1: ‖∂L_T/∂x_{T−d}‖, where
    x_t is the vector of the token read at t; the median over places all over the texts. A model
    that reads `most` tokens at once is asked no further. Empty if every text is too short. The
    model is not in training."""
    longest = min(max(map(len, texts)) - 1, most or sys.maxsize)
    if longest < min(length, most or length):
        return []
    read = min(length + BEFORE, longest)
    found = [text[n : n + read + 1] for text in texts for n in range(0, len(text) - read, read)]
    step = max(1, len(found) // windows)
    rows = torch.tensor(found[::step][:windows])
    tensors = {
        "target_in": rows[:, :-1],
        "target_out": rows[:, 1:],
        "target_mask": torch.ones(len(rows), read, dtype=torch.bool),
    }
    batch = Batch(tensors=tensors, ids=tuple(range(len(rows))), targets=len(rows) * read)
    there = batch.to(model.device)
    norms = gradient_norms(lambda: last_symbol(model, there), "decoder.input")
    return norms.median(0).values.flip(0)[:length].tolist()
