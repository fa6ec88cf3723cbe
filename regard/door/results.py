"""What the functions of the front door give back: it prints as a table, and a notebook shows it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, overload

from regard.checks.findings import SEVERITIES, Finding
from regard.console import streams
from regard.console.tables import Block, Shown
from regard.front import Predictor
from regard.metrics import Comparison, Score
from regard.metrics.details import Table, short
from regard.tasks import Prediction

ROWS = 20
"""Predictions that are shown."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation(Shown, Mapping[str, Score]):
    """Scores by name: `found["bleu"].value`."""

    run: str
    part: str
    scores: Mapping[str, Score]
    predictions: Sequence[Prediction]
    tables: Sequence[Table]
    """Figures of each label, confusions, worst outputs, as the task has them."""
    comparison: Comparison | None = None
    """With a baseline, where outputs are texts."""
    differences: Sequence[Any] = ()
    """With a baseline: a line for each score that sacrebleu does not test."""

    def __getitem__(self, name: str) -> Score:
        return self.scores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    def blocks(self) -> list[Block]:
        rows = [(name, _figure(score), score.signature) for name, score in self.scores.items()]
        notes = self.comparison.table().split("\n") if self.comparison else []
        notes += map(str, self.differences)
        first = Block(("score", "value", "signature"), rows, f"{self.run}: {self.part}", notes)
        more = (
            Block(table.header, table.rows, table.title, [table.note] if table.note else [])
            for table in self.tables
        )
        return [first, *more]


def evaluation(
    predictor: Predictor, part: str, other: Predictor | None, report: str | Path | None,
    *, batch: int, samples: int, **options: Any,
) -> Evaluation:  # fmt: skip
    """Score a model, alone or beside another."""
    from regard import evaluated
    from regard.verbs import evaluation as behind, report as reporting

    if report is not None:
        streams.check_place(Path(report))
    if other is not None:
        evaluated.check_pair(predictor, other, part)
    mine = evaluated.evaluate(predictor, part, samples=samples, batch=batch, **options)
    comparison: Comparison | None = None
    apart: Sequence[Any] = ()
    if other is not None:
        yours = evaluated.evaluate(other, part, batch=batch, **options)
        comparison, apart = evaluated.beside(mine, yours)
    found = Evaluation(
        run=str(predictor.run.folder), part=part, scores=mine.scores, predictions=mine.predictions,
        tables=behind.details(mine), comparison=comparison, differences=apart,
    )  # fmt: skip
    if report is not None:
        notes = found.blocks()[0].notes
        page = reporting.page(found.run, part, mine.scores, found.tables, notes, samples)
        streams.put(Path(report), page.encode())
    return found


def _figure(score: Score) -> str:
    digits = 2 if abs(score.value) >= 10 else 4
    ends = "" if score.low is None else f" [{score.low:.{digits}f}, {score.high:.{digits}f}]"
    return f"{score.value:.{digits}f}{ends}"


class Predictions(Shown, Sequence[Prediction]):
    """One Prediction for each input, in order."""

    def __init__(self, inputs: Sequence[str], found: Sequence[Prediction]) -> None:
        self.inputs, self._found = tuple(inputs), tuple(found)

    @property
    def texts(self) -> list[str]:
        """The outputs alone."""
        return [each.text for each in self._found]

    @overload
    def __getitem__(self, index: int) -> Prediction: ...

    @overload
    def __getitem__(self, index: slice) -> "Predictions": ...

    def __getitem__(self, index: int | slice) -> "Prediction | Predictions":
        if isinstance(index, slice):
            return Predictions(self.inputs[index], self._found[index])
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    def blocks(self) -> list[Block]:
        rows = [
            (short(given), short(each.text), _chance(each.score), each.status)
            for given, each in zip(self.inputs[:ROWS], self._found, strict=False)
        ]
        left = len(self) - len(rows)
        notes = [f"… and {left:,} more"] if left else []
        return [Block(("input", "output", "score", "status"), rows, "", notes)]


def _chance(score: float) -> str:
    return f"{score:.3f}" if math.isfinite(score) else "–"


def predictions(
    predictor: Predictor, inputs: str | Path | Sequence[str], **options: Any
) -> Predictions:
    """Predict for a text, for several, or for a file."""
    from regard.verbs.common import inputs as read

    if isinstance(inputs, Path):
        texts = [*read(predictor.task, inputs)]
    else:
        texts = [inputs] if isinstance(inputs, str) else [*inputs]
    return Predictions(texts, [*predictor.predictions(texts, **options)])


class Findings(Shown, list[Finding]):
    """What the doctor found, the worst first."""

    def blocks(self) -> list[Block]:
        rows = [
            (each.severity, each.code, str(each.place), each.what,
             each.advice if each.severity != "note" else "")
            for each in self
        ]  # fmt: skip
        counts = [sum(each.severity == name for each in self) for name in SEVERITIES]
        named = zip(counts, SEVERITIES, strict=True)
        totals = ", ".join(f"{count} {name}{'s' * (count != 1)}" for count, name in named)
        return [Block(("severity", "finding", "where", "what", "what to do"), rows, "", [totals])]


@dataclass(frozen=True, repr=False)
class Exported(Shown):
    """A folder that runs without regard."""

    folder: Path
    to: str
    quantization: str
    parity: str
    """How near its outputs are to the run's."""
    cost: str = ""
    """What other numbers than float32 cost on the validation part."""
    warnings: tuple[str, ...] = ()

    def blocks(self) -> list[Block]:
        rows = [
            ("folder", str(self.folder)), ("form", self.to), ("numbers", self.quantization),
            ("checked", self.parity), ("cost", self.cost),
        ]  # fmt: skip
        notes = [f"warning: {line}" for line in self.warnings]
        return [Block(("", ""), [row for row in rows if row[1]], "", notes)]


@dataclass(frozen=True)
class Page:
    """A page of HTML; a notebook shows it in a frame."""

    file: Path

    def __str__(self) -> str:
        return str(self.file)

    def _repr_html_(self) -> str:
        text = escape(self.file.read_text(encoding="utf-8"), quote=True)
        frame = "style='width:100%;height:44em;border:0' sandbox='allow-scripts'"
        return f'<iframe {frame} srcdoc="{text}"></iframe>'
