"""What a model that reads from both ends says of texts: of each token by all before it, and by all
after it.

    forward    Σ_t log p(x_t | x_0 … x_{t−1})      t = 1 … n + 1
    backward   Σ_t log p(x_t | x_{t+1} … x_{n+1})  t = 0 … n

x_0 is START and x_{n+1} END.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from regard.decoding.filling import Filler, Found, figures, judged, scores
from regard.decoding.prediction import Prediction
from regard.fields import Row
from regard.heads.both_ways import WAYS, ask
from regard.metrics import Score
from regard.model import Model
from regard.types import Batch


class Both(NamedTuple):
    """What is said of a text, or of a window of it."""

    forward: Found
    backward: Found


@runtime_checkable
class ReadsBothWays(Protocol):
    """A task whose model reads texts from either end."""

    def ways(self, outputs: Sequence[Prediction]) -> Mapping[str, list[Prediction]]:
        """What `evaluate` has predicted in each direction."""
        ...


class BothWays(Filler):
    """Texts as such a model reads them, and how much of them at once."""

    def read(self, model: Model, rows: Sequence[Row], size: int = 0) -> list[list[Both]]:
        """What the model says of each window of each text, START and END included."""
        spans = self.spans([row[self.field.name] for row in rows])
        windows = [
            self.field.part(row, *span)
            for row, some in zip(rows, spans, strict=True)
            for span in some
        ]
        found = iter(self._batches(model, windows, size, self.batch, self._judge(model), _built))
        return [[next(found) for _ in some] for some in spans]

    def _judge(self, model: Model) -> Any:
        head: Any = model.head
        name = self.field.name

        def judge(batch: Batch, ids: list[int]) -> Iterator[Both]:
            memory = model.encode(batch)
            assert memory is not None
            ends = (memory.mask.sum(1) - 1).cumsum(0)[:-1].tolist()
            sides = []
            for hidden, symbols in ask(memory.states, batch[name], memory.mask):
                chosen, best = judged(head.way, hidden, symbols)
                columns = (chosen.double(), best, symbols)
                sides.append(map(Found, *(np.split(c.cpu().numpy(), ends) for c in columns)))
            return map(Both, *sides)

        return judge

    def said(self, windows: Sequence[Both]) -> Prediction:
        """What was said of a text forward, then backward, with what stands there (`source`) and
        log p of that."""
        return self.recovered([getattr(each, way) for way in WAYS for each in windows])


def _built(told: Any) -> Both:
    return Both(*(Found(*way) for way in told))


def ways(outputs: Sequence[Prediction]) -> dict[str, list[Prediction]]:
    """The halves of what `BothWays.said` gives."""

    def half(output: Prediction, way: int) -> Prediction:
        middle = len(output.tokens) // 2
        side = slice(middle, None) if way else slice(middle)
        columns: Any = {n: getattr(output, n)[side] for n in ("tokens", "source", "log_probs")}
        return replace(output, **columns)

    return {way: [half(each, n) for each in outputs] for n, way in enumerate(WAYS)}


def both_figures(found: Sequence[Both]) -> dict[str, float]:
    """nll, perplexity and accuracy over both directions, and the perplexity of each."""
    each = {
        f"perplexity.{way}": figures([getattr(both, way) for both in found])["perplexity"]
        for way in WAYS
    }
    return figures([side for both in found for side in both]) | each


def both_scores(found: Sequence[Both], about: str) -> dict[str, Score]:
    """The same with their signature."""
    whole = scores([side for both in found for side in both], about)
    for way in WAYS:
        one = scores([getattr(both, way) for both in found], about)["perplexity"]
        whole[f"perplexity.{way}"] = replace(one, name=f"perplexity.{way}")
    return whole
