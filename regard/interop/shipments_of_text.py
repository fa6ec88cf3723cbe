"""What is shipped of a model that writes text, with or without a source."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.decoding.prediction import Prediction
from regard.fields import text
from regard.interop import graphs, stand_ins
from regard.interop.onnx import Graph, far
from regard.interop.shipments import (
    MOST,
    SAMPLES,
    Alike,
    Quality,
    Sessions,
    Shipment,
    agreeing,
    save_tokenizer,
    tokenized,
)
from regard.model import Model
from regard.recipe.parts import Part, module
from regard.runs import Run

CHARACTERS = 20_000
"""Of running text on which a language model is scored, at most."""
BLOCK = 500
"""Tokens of it that are drawn together: neighbours are as alike as a line's words."""


class Written(Shipment):
    """Text, with or without a source."""

    def __init__(self, run: Run, model: Model) -> None:
        super().__init__(run, model)
        self.target = tokenized(self.task.target, text.Field, "text")
        self.source = None
        if model.input is not None:
            self.source = tokenized(self.task.source, text.Field, "text")
        self.program = "translations" if self.source else "continuations"
        self.name = self.source.name if self.source else ""

    @property
    def longest(self) -> int:
        data = self.recipe.task.data
        if self.source is None:
            return int(self.task.window(self.model) or 0) + 1
        output = self.recipe.task.output
        written = int(output.factor * data.max_length) + output.extra
        return int(max(data.max_length, written)) + 2

    def graphs(self) -> dict[str, Graph]:
        made: dict[str, Graph] = {"writer": graphs.Writer(self.model, self.name)}
        return ({"reader": graphs.Reader(self.model, self.name)} if self.source else {}) | made

    def card(self) -> dict[str, Any]:
        by, state = self.target.tokenizer, graphs.first_state(self.model, self.name)
        made: dict[str, Any] = {"end": by.end, "never": list(by.unwritten)}
        made["state"] = {name: each.shape[1] for name, each in state.items()}
        output, search = self.recipe.task.output, self.recipe.task.search
        if self.source is not None:
            longest = self.recipe.task.data.max_length
            bounds = {"factor": output.factor, "extra": output.extra}
            return made | {"start": by.start, "longest": longest} | bounds
        return made | {
            "before": self.task.before,
            "window": self.task.window(self.model),
            "ends": not self.task.running,
            "length": output.length,
            "temperature": getattr(search.config, "temperature", 0.0),
        }

    def save(self, folder: Path) -> None:
        if self.source is None:
            save_tokenizer(self.target, folder)
        else:
            for field in (self.source, self.target):
                save_tokenizer(field, folder, f"{field.name}.tokenizer.json")

    def stand_in(self, sessions: Sessions) -> Model:
        return stand_ins.written(sessions["writer"], sessions.get("reader"), self.name)

    def _texts(self, characters: int) -> list[list[str]]:
        """The validation part, or texts of random tokens; of running text, its beginning."""
        found = self.references()
        if found is None:
            made = self.inputs(self.target.tokenizer)
            return [made for _ in self.task.fields]
        if self.source is None and self.task.running:
            return [[found[0][0][:characters]]]
        return [side[:MOST] for side in found]

    def _log_probs(self, model: Model, sides: Sequence[list[str]]) -> list[NDArray[np.float64]]:
        return [np.array(each["log_probs"]) for each in self.task.score(model, *sides)]

    def alike(self, other: Model) -> Alike:
        sides = [side[:SAMPLES] for side in self._texts(10 * SAMPLES)]
        ours, theirs = (np.concatenate(self._log_probs(m, sides)) for m in (self.model, other))
        inputs, same = len(sides[0]), len(sides[0])
        if self.source is not None:
            same = agreeing(*(self._greedy(model, sides[0]) for model in (self.model, other)))
        return Alike(inputs, same, far(ours, theirs), "log-probabilities")

    def _greedy(self, model: Model, inputs: Sequence[str]) -> list[str]:
        greedy = Part("greedy", module("search", "greedy").Config())
        self.task.restrict(None)  # the program writes any text
        return [each.text for each in self.task.predict(model, inputs, greedy)]

    def quality(self, other: Model) -> Quality | None:
        if self.references() is None:
            return None
        if self.source is None:
            rows = self._log_probs(other, self._texts(CHARACTERS))
            unit = "lines"
            if self.task.running:
                unit = f"blocks of {BLOCK} tokens"
                rows = np.array_split(rows[0], max(1, len(rows[0]) // BLOCK))
            nats, counts = ([f(row) for row in rows] for f in (np.sum, len))
            values = -np.array(nats)
            return Quality("perplexity", values, np.array(counts, float), False, unit=unit)
        sources, answers = (side[:MOST] for side in self.task.alternatives("validation"))
        return texts_quality(self.task, self._greedy(other, sources), answers)


def texts_quality(task: Any, said: Sequence[str], answers: Sequence[Sequence[str]]) -> Quality:
    """The recipe's first score of texts."""
    name = next(iter(task.config.evaluation.watched))
    found = task.grade([Prediction(text=each) for each in said], answers, [name])[name]
    one = np.ones(1)
    return Quality(name, one * found.value, one, found.higher_is_better, said, answers)
