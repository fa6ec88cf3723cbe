"""What each kind of model is shipped as: graphs, files, a program, and how all of it is checked.

Which kind it is, the head says by what it predicts. A shipment compares an export with the original
through the task's own code (see stand_ins.py): how many outputs are the same, and how far the
figures behind them are apart.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.tokenizers import Tokenizer
from regard.decoding.prediction import Prediction
from regard.errors import UserError
from regard.examples.stored import Stored, collate
from regard.fields import text, words
from regard.interop import graphs, stand_ins
from regard.interop.alone import alone, characters
from regard.interop.assembly import add_names
from regard.interop.onnx import Graph, Session, far
from regard.metrics.labels import Judged
from regard.model import Model
from regard.recipe.parts import Part
from regard.runs import Run

PROGRAMS = Path(__file__).parent / "programs"
CHARACTERS = "characters.json"
SAMPLES = 64
"""Inputs on which an export is compared with the original."""
BATCH = 64
MOST = 1000
"""Inputs on which int8 is scored, at most."""
Sessions = Mapping[str, Session]
NO_SEARCH = Part("none", None)


class Near(NamedTuple):
    """How near graphs are to the original."""

    difference: float
    """The largest, of the figures behind the outputs."""
    figures: str
    """What these are."""


class Quality(NamedTuple):
    """A score Σ values / Σ counts over inputs, or exp of it."""

    name: str
    values: NDArray[np.float64]
    counts: NDArray[np.float64]
    higher: bool
    texts: Sequence[str] = ()
    """What was written, where the score is one of texts."""
    answers: Sequence[Sequence[str]] = ()
    unit: str = "examples"
    """What is counted."""

    @property
    def value(self) -> float:
        mean = float(self.values.sum() / self.counts.sum())
        return math.exp(min(mean, 700.0)) if self.name == "perplexity" else mean


class Shipment(ABC):
    """A model of one kind, and its task."""

    program: str
    """The name of the program that runs it alone."""
    arguments: tuple[str, ...] = ()
    """Of the program, when it is compared with the run."""

    def __init__(self, run: Run, model: Model) -> None:
        self.task: Any = run.task
        self.recipe, self.model = run.recipe, model

    @property
    @abstractmethod
    def longest(self) -> int:
        """The most positions that a graph reads."""

    @abstractmethod
    def graphs(self) -> dict[str, Graph]:
        """Those that are traced, by the names of their files."""

    @abstractmethod
    def assemble(self, files: Mapping[str, Path], path: Path) -> None:
        """Make of them the one graph that the program asks."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what else the program reads."""

    @property
    def code(self) -> str:
        """The program."""
        return (PROGRAMS / f"{self.program}.py").read_text(encoding="utf-8")

    @abstractmethod
    def stand_in(self, sessions: Sessions) -> Any:
        """What computes by the traced graphs."""

    @abstractmethod
    def near(self, other: Any) -> Near:
        """A stand-in beside the original."""

    @abstractmethod
    def quality(self, other: Any) -> Quality | None:
        """The score of a stand-in on the validation part; None where there is none."""

    @abstractmethod
    def inputs(self) -> list[str]:
        """What the program is tried with, a line each."""

    @abstractmethod
    def same(self, said: str) -> tuple[int, int]:
        """How many inputs there are, and how often the program says to one what the run says."""

    def references(self) -> tuple[list[str], ...] | None:
        """The validation part, where its files are still there."""
        try:
            found: tuple[list[str], ...] = self.task.references("validation")
        except (UserError, OSError):
            return None
        return found if found[0] else None

    def stored(self, longest: int | None = None) -> list[Any]:
        """The rows of the validation part that the run keeps."""
        if not self.task.plan.has("validation"):
            return []
        try:
            bound = [] if longest is None else [longest]
            kept = Stored(self.task.folder, "validation", self.task.fields, *bound)
            return list(kept.rows())[:MOST]
        except (UserError, OSError):  # a run may be handed on without its data
            return []

    def lines(self, by: Tokenizer) -> list[str]:
        """Texts to compare with: of the validation part, or of random tokens."""
        if found := self.references():
            return [line for line in found[0][:SAMPLES] if "\r" not in line]
        chance = np.random.default_rng(1)
        most = max(1, min(self.longest - 2, 30))
        rows = (chance.integers(by.unknown, len(by), n % most + 1) for n in range(SAMPLES))
        return [" ".join(by.decode(row.tolist()).splitlines()) for row in rows]


def tokenized(field: Any, kind: type, what: str) -> Any:
    if type(field) is not kind:
        raise UserError(
            f"it reads {type(field).__module__.rpartition('.')[2]!r}, a field of its own; "
            f"only {what} is shipped as ONNX"
        )
    return field


def agreeing(ours: Iterable[Prediction], said: str) -> tuple[int, int]:
    """How many outputs there are, and how many of the lines begin with them."""
    wanted = [each.text.replace("\n", " ") for each in ours]
    found = [line.rstrip("\r") for line in said.split("\n")]
    pairs = zip(wanted, found, strict=False)
    return len(wanted), sum(a in (b, b.partition("\t")[0]) for a, b in pairs)


class Reader(Shipment):
    """What says something of texts."""

    field: Any

    def inputs(self) -> list[str]:
        return self.lines(self.field.tokenizer)

    def same(self, said: str) -> tuple[int, int]:
        return agreeing(self.task.predict(self.model, self.inputs(), NO_SEARCH), said)


class Labels(Reader):
    """A label for each text, or several."""

    def __init__(self, run: Run, model: Model) -> None:
        super().__init__(run, model)
        self.field = tokenized(self.task.source, text.Field, "text")
        self.program = "labels_spelt" if self.field.spelling else "labels"

    @property
    def longest(self) -> int:
        return int(self.recipe.task.data.max_length) + 2

    def graphs(self) -> dict[str, Graph]:
        spelt, several = self.field.spelling is not None, self.task.several
        return {"model": graphs.Labels(self.model, self.field.name, spelt=spelt, several=several)}

    def assemble(self, files: Mapping[str, Path], path: Path) -> None:
        add_names(files["model"], "labels", self.task.names)

    def save(self, folder: Path) -> None:
        by, longest = self.field.tokenizer, self.longest - 2
        framed: Any = {"before": [by.start], "after": [by.end], "longest": longest}
        alone(by, folder / "tokenizer.json", **framed, blank=False)
        if self.field.spelling is not None:
            characters(self.field.spelling, folder / CHARACTERS, folded=by)

    @property
    def code(self) -> str:
        return super().code.replace('","', json.dumps(self.recipe.task.labels.separator))

    def stand_in(self, sessions: Sessions) -> Model:
        return stand_ins.labels(sessions["model"], self.field.name)

    def near(self, other: Model) -> Near:
        both = (self.task.predict(model, self.inputs(), NO_SEARCH) for model in (self.model, other))
        chances = [
            np.array([[*p.probabilities.values()] for p in side if p.probabilities])
            for side in both
        ]
        return Near(far(*chances), "probabilities")

    def quality(self, other: Model) -> Quality | None:
        rows, head = self.stored(self.longest - 2), cast(Any, other.head)
        logits = []
        with torch.inference_mode():
            for start in range(0, len(rows), BATCH):
                some = rows[start : start + BATCH]
                memory = other.encode(collate([self.field], some, range(len(some))))
                logits.append(head.logits(head.pool(memory)).numpy())
        if not rows:
            return None
        truth = [sorted(self.task.target.truth(row)) for row in rows]
        said = Judged(np.concatenate(logits), truth, self.task.several).chosen()
        values = np.array([100.0 * (a == b) for a, b in zip(said, truth, strict=True)])
        return Quality("accuracy", values, np.ones(len(values)), True)


class Tags(Reader):
    """A tag, or a number, for each word."""

    def __init__(self, run: Run, model: Model) -> None:
        super().__init__(run, model)
        self.field = tokenized(self.task.source, words.Field, "words")
        if self.field.framed:
            raise UserError("framed is true; train with framed = false")
        self.program = "tags_spelt" if self.field.spelling else "tags"

    @property
    def longest(self) -> int:
        return int(self.recipe.task.data.max_length)

    def graphs(self) -> dict[str, Graph]:
        spelt, tags = self.field.spelling is not None, self.task.tags
        scale = tags.scale if tags.real else None
        name, longest = self.field.name, self.longest
        return {"model": graphs.Tags(self.model, name, spelt=spelt, longest=longest, scale=scale)}

    def assemble(self, files: Mapping[str, Path], path: Path) -> None:
        if not self.task.real:
            add_names(files["model"], "tags", self.task.tags.names, "best")

    def save(self, folder: Path) -> None:
        alone(self.field.tokenizer, folder / "tokenizer.json")
        if self.field.spelling is not None:
            characters(self.field.spelling, folder / CHARACTERS)

    @property
    def code(self) -> str:
        text = super().code
        if self.task.real:
            said = 'model.run(["tags"], given)[0]'
            text = text.replace(said, f'map("{{:.6g}}".format, {said.replace("tags", "best")})')
        if self.field.unit == "characters":
            text = text.replace("line.split()", '[*"".join(line.split())]')
        return text

    def stand_in(self, sessions: Sessions) -> Model:
        return stand_ins.tags(sessions["model"], self.field.name, self.model)

    def near(self, other: Model) -> Near:
        rows = self.field.encode([self.field.parse(line) for line in self.inputs()])
        both = [self.task.tagger.tag(model, rows, 64) for model in (self.model, other)]
        if self.task.real:
            values = [np.concatenate([t.values for t in side]) for side in both]
            return Near(far(*values), "standardised numbers")
        chances = [np.exp(np.concatenate([t.log_probs for t in side])) for side in both]
        return Near(far(*chances), "probabilities")

    def quality(self, other: Model) -> Quality | None:
        if not (rows := self.stored()):
            return None
        tagged = self.task.tagger.run(other, rows)
        if self.task.real:
            gaps = [
                each.values - np.asarray(row["tags"])
                for each, row in zip(tagged, rows, strict=True)
            ]
            unit = self.task.tags.scale.deviation
            values = np.array([np.nansum((unit * gap) ** 2) for gap in gaps])
            counts = np.array([float((~np.isnan(gap)).sum()) for gap in gaps])
            return Quality("mse", values, counts, False)
        true = [self.task.tags.numbers([row])[0] for row in rows]
        pairs = list(zip((each.values for each in tagged), true, strict=True))
        values = np.array([100.0 * ((said == row) & (row >= 0)).sum() for said, row in pairs])
        return Quality(
            "accuracy", values, np.array([float((row >= 0).sum()) for row in true]), True
        )
