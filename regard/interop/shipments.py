"""What each kind of model is shipped as: graphs, files, a program, and how all of it is checked.

Which kind it is, the head says by what it predicts. A shipment compares an export with the original
through the task's own code (see stand_ins.py): how many outputs are the same, and how far the
figures behind them are apart.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data import delimiters
from regard.data.spelling import FILE as CHARACTERS, LONGEST as LETTERS
from regard.data.tokenizers import Tokenizer
from regard.errors import UserError
from regard.examples.stored import Stored, collate
from regard.fields import text, words
from regard.interop import graphs, stand_ins
from regard.interop.alone import alone
from regard.interop.onnx import Graph, Session, far
from regard.metrics.labels import Judged
from regard.model import Model
from regard.recipe.parts import Part
from regard.runs import Run

SAMPLES = 64
"""Inputs on which an export is compared with the original."""
BATCH = 64
MOST = 1000
"""Inputs on which int8 is scored, at most."""
Sessions = Mapping[str, Session]
NO_SEARCH = Part("none", None)


class Alike(NamedTuple):
    """How near an export is to the original."""

    inputs: int
    same: int
    """Inputs with the same output."""
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

    def __init__(self, run: Run, model: Model) -> None:
        self.task: Any = run.task
        self.recipe, self.model = run.recipe, model

    @property
    @abstractmethod
    def longest(self) -> int:
        """The most positions that a graph reads."""

    @abstractmethod
    def graphs(self) -> dict[str, Graph]:
        """By the names of their files."""

    @abstractmethod
    def card(self) -> dict[str, Any]:
        """What the program must know beside the graphs."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what else the program reads."""

    @abstractmethod
    def stand_in(self, sessions: Sessions) -> Any:
        """What computes by the graphs."""

    @abstractmethod
    def alike(self, other: Any) -> Alike:
        """A stand-in beside the original."""

    @abstractmethod
    def quality(self, other: Any) -> Quality | None:
        """The score of a stand-in on the validation part; None where there is none."""

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

    def inputs(self, by: Tokenizer) -> list[str]:
        """Texts to compare with: of the validation part, or of random tokens."""
        if found := self.references():
            return found[0][:SAMPLES]
        chance = np.random.default_rng(1)
        most = max(1, min(self.longest - 2, 30))
        rows = (chance.integers(by.unknown, len(by), n % most + 1) for n in range(SAMPLES))
        return [by.decode(row.tolist()).replace("\n", " ") for row in rows]


def tokenized(field: Any, kind: type, what: str) -> Any:
    if type(field) is not kind:
        raise UserError(
            f"it reads {type(field).__module__.rpartition('.')[2]!r}, a field of its own; "
            f"only {what} is shipped as ONNX"
        )
    return field


def save_tokenizer(field: Any, folder: Path, name: str = "tokenizer.json") -> None:
    alone(field.tokenizer, folder / name)
    if field.spelling is not None:
        field.spelling.characters.save(folder / CHARACTERS)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8", newline="\n")


def agreeing(ours: Sequence[str], theirs: Sequence[str]) -> int:
    return sum(a == b for a, b in zip(ours, theirs, strict=True))


class Labels(Shipment):
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

    def card(self) -> dict[str, Any]:
        return {
            "start": Tokenizer.start,
            "end": Tokenizer.end,
            "longest": self.recipe.task.data.max_length,
            "several": self.task.several,
            "separator": self.recipe.task.labels.separator,
            "letters": LETTERS,
        }

    def save(self, folder: Path) -> None:
        save_tokenizer(self.field, folder)
        _write_json(folder / "labels.json", list(self.task.names))

    def stand_in(self, sessions: Sessions) -> Model:
        return stand_ins.labels(sessions["model"], self.field.name)

    def _predicted(self, model: Model, inputs: Sequence[str]) -> list[Any]:
        return list(self.task.predict(model, inputs, NO_SEARCH))

    def alike(self, other: Model) -> Alike:
        inputs = self.inputs(self.field.tokenizer)
        ours, theirs = (self._predicted(model, inputs) for model in (self.model, other))
        chances = [
            np.array([[*p.probabilities.values()] for p in side if p.probabilities])
            for side in (ours, theirs)
        ]
        same = agreeing([p.text for p in ours], [p.text for p in theirs])
        return Alike(len(inputs), same, far(*chances), "probabilities")

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


class Tags(Shipment):
    """A tag, or a number, for each word."""

    program = "tags"

    def __init__(self, run: Run, model: Model) -> None:
        super().__init__(run, model)
        self.field = tokenized(self.task.source, words.Field, "words")

    @property
    def longest(self) -> int:
        return int(self.recipe.task.data.max_length)

    def graphs(self) -> dict[str, Graph]:
        spelt = self.field.spelling is not None
        return {"model": graphs.Tags(self.model, self.field.name, spelt=spelt)}

    def card(self) -> dict[str, Any]:
        tags, head = self.task.tags, self.model.head
        crf: Any = getattr(head, "crf", None)
        scale = tags.scale if tags.real else None
        return {
            "unit": self.field.unit,
            "longest": self.longest,
            "unknown": Tokenizer.unknown,
            "letters": LETTERS,
            "tags": [] if tags.real else list(tags.names),
            "neighbours": {name: each.tolist() for name, each in crf.state_dict().items()}
            if crf
            else {},
            "mean": scale.mean if scale else 0.0,
            "deviation": scale.deviation if scale else 1.0,
        }

    def save(self, folder: Path) -> None:
        save_tokenizer(self.field, folder)

    def stand_in(self, sessions: Sessions) -> Model:
        return stand_ins.tags(sessions["model"], self.field.name, self.model)

    def _tagged(self, model: Model, inputs: Sequence[str]) -> list[Any]:
        rows = self.field.encode([self.field.parse(line) for line in inputs])
        found: list[Any] = self.task.tagger.tag(model, rows, 64)
        return found

    def alike(self, other: Model) -> Alike:
        inputs = self.inputs(self.field.tokenizer)
        ours, theirs = (self._tagged(model, inputs) for model in (self.model, other))
        names = [
            [" ".join(self.task.tags.texts(t.values)) for t in side] for side in (ours, theirs)
        ]
        if self.task.real:
            values = [np.concatenate([t.values for t in side]) for side in (ours, theirs)]
            return Alike(len(inputs), len(inputs), far(*values), "standardised numbers")
        chances = [np.exp(np.concatenate([t.log_probs for t in side])) for side in (ours, theirs)]
        return Alike(len(inputs), agreeing(*names), far(*chances), "probabilities")

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


class Numbers(Shipment):
    """What a series does next."""

    program = "numbers"

    @property
    def longest(self) -> int:
        return 2 * int(self.task.window.look_back)

    def graphs(self) -> dict[str, Graph]:
        standard = self.task.past.standard
        by = self.task.by(self.model)
        return {"model": graphs.Numbers(by, standard.mean, standard.deviation)}

    def card(self) -> dict[str, Any]:
        window = self.task.window
        return {
            "variables": list(self.task.past.standard.names),
            "delimiter": self._delimiter(),
            "look_back": window.look_back,
            "horizon": window.horizon,
            "block": window.steps,
            "level": self.recipe.task.intervals.level,
            "reach": self.recipe.task.intervals.reach,
        }

    def _delimiter(self) -> str:
        """What stands between columns; nothing where the program is to find out."""
        given = self.recipe.task.data.delimiter
        return "" if given == "auto" else delimiters.character(given)

    def save(self, folder: Path) -> None:
        """The draws of futures, if a forecast goes on from what it has said itself."""
        window, paths = self.task.window, self.recipe.task.intervals.paths
        blocks = -(-window.horizon // window.steps)
        size = (blocks * window.steps, len(self.task.past.standard.names))
        rows = [torch.zeros(size)]
        for number in range(paths if blocks > 1 else 0):
            rows.append(torch.randn(size, generator=torch.Generator().manual_seed(number)))
        np.save(folder / "noise.npy", torch.stack(rows).numpy(), allow_pickle=False)

    def stand_in(self, sessions: Sessions) -> stand_ins.Forecasts:
        standard = self.task.past.standard
        return stand_ins.Forecasts(
            self.model,
            self.task.window,
            self.task.past.name,
            self.task.by(self.model).restless,
            session=sessions["model"],
            centre=standard.mean,
            spread=standard.deviation,
        )

    def _windows(self, most: int) -> tuple[Any, Any]:
        """Standardised values, and where futures begin; of the training part where there is no
        other."""
        part = "validation" if self.task.plan.has("validation") else "train"
        steps = self.task.window.horizon
        starts = self.task.stored.starts(part, steps)
        if not len(starts):
            part = "train"
            starts = self.task.stored.starts(part, self.task.window.steps)
        chosen = np.linspace(0, len(starts) - 1, min(most, len(starts))).astype(int)
        return self.task.stored.values(part), starts[np.unique(chosen)]

    def alike(self, other: stand_ins.Forecasts) -> Alike:
        values, starts = self._windows(SAMPLES)
        window = self.task.window
        ours, theirs = (
            by.judge(values, starts, window.steps) for by in (self.task.by(self.model), other)
        )
        apart = max(
            far(getattr(ours, name).numpy(), getattr(theirs, name).numpy())
            for name in ("mean", "deviation")
        )
        same = int(((ours.mean - theirs.mean).abs().flatten(1).amax(1) < 1e-4).sum())
        return Alike(len(starts), same, apart, "standardised values")

    def quality(self, other: stand_ins.Forecasts) -> Quality | None:
        if not self.task.plan.has("validation"):
            return None
        values, starts = self._windows(MOST)
        found = other.judge(values, starts, self.task.window.steps)
        errors = found.by_window(1.0)["mse"].numpy()
        return Quality("mse", errors, np.ones(len(errors)), False)
