"""What is shipped of a model that writes text, with or without a source."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.decoding.answers import dialogues_of
from regard.decoding.prediction import Prediction
from regard.errors import UserError
from regard.fields import text
from regard.interop import graphs, stand_ins
from regard.interop.alone import alone
from regard.interop.loops import ALL, Text
from regard.interop.onnx import Graph, far
from regard.interop.shipments import (
    MOST,
    SAMPLES,
    Near,
    Quality,
    Sessions,
    Shipment,
    agreeing,
    tokenized,
)
from regard.model import Model
from regard.recipe.parts import Part, module
from regard.runs import Run

NO_TOKEN = -1
PROMPTS, PROMPT = 4, 100
"""Texts that are continued to be compared, and characters of each."""
CHARACTERS = 20_000
"""Of running text on which a language model is scored, at most."""
BLOCK = 500
"""Tokens of it that are drawn together: neighbours are as alike as a line's words."""


class Written(Shipment):
    """Text, with or without a source."""

    def __init__(self, run: Run, model: Model) -> None:
        super().__init__(run, model)
        if dialogues_of(self.task):
            raise UserError("it answers prompts; --to huggingface writes it, with its template")
        self.target = tokenized(self.task.target, text.Field, "text")
        self.source = None
        if model.input is not None:
            self.source = tokenized(self.task.source, text.Field, "text")
        self.program = "translations" if self.source else "continuations"
        self.arguments = () if self.source else ("0",)
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

    def assemble(self, files: Mapping[str, Path], path: Path) -> None:
        by, output, task = self.target.tokenizer, self.recipe.task.output, self.task
        state = graphs.first_state(self.model, self.name)
        ends = self.source is not None or not task.running
        steps = Text(
            step=files["writer"],
            state={name: each.shape[1] for name, each in state.items()},
            tokens=len(by),
            never=by.unwritten,
            stop=by.end if ends else NO_TOKEN,
        )
        if self.source is not None:
            bounds: Any = {"factor": output.factor, "extra": output.extra}
            steps.translated(files["reader"], path, start=by.start, **bounds)
        else:
            window = task.window(self.model) or ALL
            steps.continued(path, length=output.length, window=window)

    def save(self, folder: Path) -> None:
        if self.source is None:
            by, before = self.target.tokenizer, [self.target.before]
            line = "" if self.task.packed else "\n"
            alone(by, folder / "tokenizer.json", before=before, line=line)
        else:
            save_both(self.source, self.target, self.recipe.task.data.max_length, folder)

    @property
    def code(self) -> str:
        temperature = getattr(self.recipe.task.search.config, "temperature", 0.0)
        return super().code.replace("else 1.0", f"else {float(temperature)!r}")

    def stand_in(self, sessions: Sessions) -> Model:
        return stand_ins.written(sessions["writer"], sessions.get("reader"), self.name)

    def _texts(self, characters: int) -> list[list[str]]:
        """The validation part, or texts of random tokens; of running text, its beginning."""
        found = self.references()
        if found is None:
            made = self.lines(self.target.tokenizer)
            return [made for _ in self.task.fields]
        if self.source is None and self.task.running:
            return [[found[0][0][:characters]]]
        return [side[:MOST] for side in found]

    def _log_probs(self, model: Model, sides: Sequence[list[str]]) -> list[NDArray[np.float64]]:
        return [np.array(each["log_probs"]) for each in self.task.score(model, *sides)]

    def near(self, other: Model) -> Near:
        sides = [side[:SAMPLES] for side in self._texts(10 * SAMPLES)]
        both = (np.concatenate(self._log_probs(m, sides)) for m in (self.model, other))
        return Near(far(*both), "log-probabilities")

    def inputs(self) -> list[str]:
        if self.source is not None:
            return self.lines(self.source.tokenizer)
        whole = self.references() if self.task.running else None
        lines = whole[0][0].split("\n") if whole else self.lines(self.target.tokenizer)
        return [line[:PROMPT].replace("\r", "") for line in lines[:PROMPTS]]

    def same(self, said: str) -> tuple[int, int]:
        return agreeing(self._greedy(self.model, self.inputs()), said)

    def _greedy(self, model: Model, inputs: Sequence[str]) -> list[Prediction]:
        greedy = Part("greedy", module("search", "greedy").Config())
        if self.source is not None:
            self.task.restrict(None)  # the program writes any text
        return [*self.task.predict(model, inputs, greedy)]

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
        said = [each.text for each in self._greedy(other, sources)]
        return texts_quality(self.task, said, answers)


def save_both(source: Any, target: Any, longest: int, folder: Path, *, ended: bool = True) -> None:
    """The tokenizers of a translator; a source has no more tokens than `longest`, and then an end,
    unless the program adds it."""
    after = [source.tokenizer.end] if ended else []
    alone(source.tokenizer, folder / "source.json", after=after, longest=longest, blank=False)
    alone(target.tokenizer, folder / "target.json")


def texts_quality(task: Any, said: Sequence[str], answers: Sequence[Sequence[str]]) -> Quality:
    """The recipe's first score of texts."""
    name = next(iter(task.config.evaluation.watched))
    found = task.grade([Prediction(text=each) for each in said], answers, [name])[name]
    one = np.ones(1)
    return Quality(name, one * found.value, one, found.higher_is_better, said, answers)
