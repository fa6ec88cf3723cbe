"""What a model that reads from both ends says of texts: of each token by all before it, and by all
after it.

    forward    Σ_t log p(x_t | x₁ … x_{t−1})
    backward   Σ_t log p(x_t | x_{t+1} … x_n)

x_0 is START and x_{n+1} END: the one predicts END last, the other START.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.decoding.filling import Filler, Found, figures, judged, states
from regard.fields import Row
from regard.heads.both_ways import ask
from regard.model import Model
from regard.types import Batch

WAYS = ("forward", "backward")


@dataclass(frozen=True)
class BothWays(Filler):
    """Texts as a model reads them, and how much of them at once."""

    def states(self, model: Model, batch: Batch) -> Float[Tensor, "B S D"]:
        """What stands beside each position has been read, and not the position itself:
        [→h_{t−1}; ←h_{t+1}]."""
        onward, backward = states(model, batch).chunk(2, -1)
        return torch.cat([F.pad(onward, (0, 0, 1, -1)), F.pad(backward, (0, 0, -1, 1))], -1)

    def read(
        self, model: Model, rows: Sequence[Row], size: int = 0
    ) -> list[tuple[Found, Found]]:
        """Of texts of one window each, forward and backward; START and END are said, too."""
        head: Any = model.head
        name = self.field.name

        def each(batch: Batch, ids: list[int]) -> Iterator[tuple[Found, Found]]:
            mask = batch[f"{name}_mask"]
            asked = ask(states(model, batch), batch[name], mask)
            ends = (mask.sum(1) - 1).cumsum(0)[:-1].tolist()
            sides = []
            for hidden, symbols in asked:
                chosen, best = judged(head.way, hidden, symbols)
                columns = (chosen.double(), best, symbols)
                sides.append(map(Found, *(np.split(c.cpu().numpy(), ends) for c in columns)))
            return zip(*sides, strict=True)

        return self._batches(model, rows, size, self.batch, each)


def figures_both(found: Sequence[tuple[Found, Found]]) -> dict[str, float]:
    """nll, perplexity and accuracy over both directions, and the perplexity of each."""
    sides = [[pair[way] for pair in found] for way in range(2)]
    each = {f"perplexity.{way}": figures(s)["perplexity"] for way, s in zip(WAYS, sides, strict=True)}
    return figures([side for pair in found for side in pair]) | each
