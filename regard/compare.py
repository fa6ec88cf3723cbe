"""Runs side by side: quality with its intervals, size, speed, cost, curves, quality by length;
of language models, too, how far back the gradient reaches.

All are scored on the same part of the same data, or nothing is compared.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from regard import front
from regard.console.tables import Block, Shown
from regard.data.readers import excerpt
from regard.errors import RecipeError, UserError
from regard.inspect.gradients import reach
from regard.metrics import Score, paired, statistic, verdict
from regard.metrics.lengths import by_length, lengths_of, unit_of
from regard.metrics.paired import Difference
from regard.metrics.statistic import Grade, Statistic
from regard.metrics.verdict import Verdict
from regard.plots import PLACES, Curve, drawing
from regard.plots.comparison import comparison
from regard.recipe.values import Samples, check
from regard.runs.state import Unfinished
from regard.tasks import Continues, Grades, Prediction, Windowed

Outcome = tuple[Mapping[str, Score], Sequence[Prediction]]
"""What an evaluation gives."""
SAMPLES = 1000
PLACES_SHOWN = 6
BACK = (10, 30, 99)
NO_PANEL = PLACES | {"kind", "cpu_seconds", "rate", "norm", "smoothed", "gap", "tokens_per_second"}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is reported of one run."""

    run: str
    scores: Mapping[str, Score]
    """On the whole part; with 95 % intervals where the score is one of lines."""
    lengths: Mapping[str, Score]
    """The first score for texts of each length: {"1–8": …}."""
    parameters: int
    updates: int
    tokens: int
    """Targets that it was trained on: tokens, labels, tags, values."""
    cpu_seconds: float
    threads: int
    """That it was trained with last."""
    fastest: float | None
    median: float | None
    """Targets per second while training."""
    metric: str
    """The validation figure that its recipe goes by."""
    curves: Mapping[str, Curve]
    """{figure: (targets, values)}"""
    unfinished: Unfinished | None = None
    """Where it stands, if its training is not over."""
    reach: Sequence[float] = ()
    """The norm of the last token's gradient 0, 1, 2 … tokens back; of language models alone."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Shown):
    """Runs in the order in which they were named."""

    part: str
    quality: str
    """The score by which lengths are compared."""
    unit: str
    """What length is counted in."""
    runs: tuple[Entry, ...]
    verdict: Verdict | None = None

    def as_dict(self) -> dict[str, Any]:
        made = asdict(self)
        for entry, run in zip(made["runs"], self.runs, strict=True):
            entry["unfinished"] = run.unfinished and run.unfinished.as_dict()
        return made

    def rows(self) -> list[tuple[str, ...]]:
        """The table: what is reported, then a cell for each run."""
        names = list(dict.fromkeys(name for entry in self.runs for name in entry.scores))
        lengths = list(dict.fromkeys(name for entry in self.runs for name in entry.lengths))
        rows = [(name, *(_cell(e.scores.get(name)) for e in self.runs)) for name in names]
        for name in lengths:
            cells = (_cell(entry.lengths.get(name)) for entry in self.runs)
            rows.append((f"{self.quality}, {name} {self.unit}", *cells))
        plain: dict[str, Callable[[Entry], float | None]] = {
            "parameters": lambda e: e.parameters,
            "updates": lambda e: e.updates,
            "targets trained on": lambda e: e.tokens,
            "CPU seconds": lambda e: e.cpu_seconds,
            "threads": lambda e: e.threads,
            "targets/s, best": lambda e: e.fastest,
            "targets/s, median": lambda e: e.median,
        }
        rows += [(what, *(_whole(get(e)) for e in self.runs)) for what, get in plain.items()]
        if any(e.unfinished for e in self.runs):
            whole = (e.unfinished.reached if e.unfinished else "finished" for e in self.runs)
            rows.append(("state", *whole))
        return rows + self._reach() + self._learning()

    def blocks(self) -> list[Block]:
        return [Block(("", *(entry.run for entry in self.runs)), self.rows(), "", self.notes())]

    def _reach(self) -> list[tuple[str, ...]]:
        """What part of the gradient is left some tokens back."""
        return [
            (f"gradient left {back} back", *(_share(entry.reach, back) for entry in self.runs))
            for back in BACK
            if any(entry.reach for entry in self.runs)
        ]

    def _learning(self) -> list[tuple[str, ...]]:
        """The validation figure of the recipes at a few numbers of targets."""
        metrics = {entry.metric for entry in self.runs}
        curves = [entry.curves.get(entry.metric) for entry in self.runs]
        known = [curve for curve in curves if curve]
        if len(metrics) > 1 or not known:
            return []
        last = max(curve[0][-1] for curve in known)
        places = [last * n // PLACES_SHOWN for n in range(1, PLACES_SHOWN + 1)]
        what = metrics.pop()
        return [
            (f"{what} at {place / 1e6:.3g} M targets", *(_at(curve, place) for curve in curves))
            for place in places
        ]

    def notes(self) -> list[str]:
        """How each score came about; a warning where runs do not agree on that."""
        lines = []
        for name in dict.fromkeys(name for entry in self.runs for name in entry.scores):
            found = [entry.scores[name].signature for entry in self.runs if name in entry.scores]
            warning = " (do not compare these: their signatures differ)"
            alike = all(_definition(name, each) == _definition(name, found[0]) for each in found)
            lines += [f"{name}|{each}{'' if alike else warning}" for each in dict.fromkeys(found)]
        return lines

    def picture(self, path: Path) -> None:
        """Learning curves of all runs, the quality with its interval, and that by length."""
        figures = dict.fromkeys(name for entry in self.runs for name in entry.curves)
        curves = {f: {e.run: e.curves[f] for e in self.runs if f in e.curves} for f in figures}
        whole = {e.run: {self.part: e.scores[self.quality]} for e in self.runs}
        lengths = {e.run: e.lengths for e in self.runs if e.lengths}
        bars: dict[str, dict[str, Mapping[str, Score]]] = {self.quality: {**whole}}
        if lengths:
            bars[f"{self.quality}, by length of the input in {self.unit}"] = {**lengths}
        reaches = {e.run: e.reach for e in self.runs if e.reach}
        names = [e.run for e in self.runs]
        drawing.save(comparison(names, curves, bars, reaches), path)


def _definition(name: str, signature: str) -> list[str]:
    """What a score is a score of. How far back a model can look is a matter of the model; of what
    is counted by the character, so are its tokens."""
    models = {"context"} | (
        {"symbols", "unknown", "unit"} if name == "bits_per_character" else set()
    )
    return [each for each in signature.split("|") if each.partition(":")[0] not in models]


def _cell(score: Score | None) -> str:
    if score is None:
        return ""
    digits = 2 if abs(score.value) >= 10 else 4
    ends = "" if score.low is None else f" [{score.low:.{digits}f}, {score.high:.{digits}f}]"
    return f"{score.value:.{digits}f}{ends}"


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _share(norms: Sequence[float], back: int) -> str:
    return f"{norms[back] / norms[0]:.1e}" if back < len(norms) and norms[0] else ""


def _at(curve: Curve | None, place: int) -> str:
    """The last value at a number of targets or before it; none where the run did not get to."""
    if not curve or not curve[0][0] <= place <= curve[0][-1]:
        return "–"
    passed = [value for tokens, value in zip(*curve, strict=True) if tokens <= place]
    return f"{passed[-1]:.4g}"


def compare(
    folders: Sequence[Path],
    part: str = "test",
    *,
    batch: int = 64,
    samples: int = SAMPLES,
    **options: Any,
) -> Comparison:
    """Score runs on a part of the data that they share. Options: those of `front.load`."""
    if len(folders) < 2:
        raise RecipeError("compare: name at least two runs")
    check("samples", samples, Samples)
    for folder in folders:
        if folders.count(folder) > 1:
            raise RecipeError(f"compare: {folder} is named twice")
    predictors = [front.load(folder, **options) for folder in folders]
    for other in predictors[1:]:
        check_same(predictors[0], other, part)
    entries: list[Entry] = []
    outcomes = [each.evaluate(part, batch=batch, samples=samples) for each in predictors]
    for predictor, outcome in zip(predictors, outcomes, strict=True):
        quality = next(iter(entries[0].scores)) if entries else None
        entries.append(_entry(predictor, part, outcome, samples, quality))
    quality, unit = next(iter(entries[0].scores)), unit_of(predictors[0].task.references(part)[0])
    found = Comparison(part=part, quality=quality, unit=unit, runs=tuple(entries))
    return replace(found, verdict=_verdict(found, predictors, outcomes, samples))


def _verdict(
    found: Comparison,
    predictors: Sequence[front.Predictor],
    outcomes: Sequence[Outcome],
    samples: int,
) -> Verdict:
    """Which run is the best by the first score, and beside which it is so by more than noise."""
    scores = {entry.run: entry.scores[found.quality] for entry in found.runs}
    winner, task = verdict.best(scores), predictors[0].task
    if winner is None:
        return Verdict(quality=found.quality, winner=None)
    place = [*scores].index(winner)
    if isinstance(task, Grades):
        right, how = front.answers(task, found.part)[1], task.config.evaluation  # type: ignore[attr-defined]
        cut = {"tokenize": how.tokenize, "lowercase": how.lowercase}
        texts = [[output.text for output in outputs] for _, outputs in outcomes]
        p = [
            verdict.by_texts(texts[place], each, right, found.quality, samples, **cut)
            for each in texts
        ]
    else:
        pairs = zip(predictors, outcomes, strict=True)
        figures = [statistics_of(x, found.part, *y).get(found.quality) for x, y in pairs]
        p = [
            verdict.by_statistics(figures[place], each, found.quality, samples) for each in figures
        ]
    others = [
        verdict.beside(run, scores[winner], scores[run], chance)
        for run, chance in zip(scores, p, strict=True)
        if run != winner
    ]
    return Verdict(quality=found.quality, winner=winner, beside=tuple(others))


def check_same(one: front.Predictor, other: front.Predictor, part: str) -> None:
    """Refuse runs that are not scored on the same thing."""
    mine, yours = one.run, other.run
    if one.sides != other.sides:
        raise UserError(
            f"{mine.folder} ({mine.recipe.kind}) and {yours.folder} ({yours.recipe.kind}) do "
            "different tasks: there is nothing to compare"
        )
    for name, left, right in zip(
        one.sides, front.answers(one.task, part), front.answers(other.task, part), strict=True
    ):
        pairs = zip_longest(_flat(left), _flat(right), fillvalue="")
        for line, (here, there) in enumerate(pairs, 1):
            if here != there:
                raise UserError(
                    f"{mine.folder} and {yours.folder} have different {part} parts: {name} {line} "
                    f"is “{excerpt(str(here))}” in one and “{excerpt(str(there))}” in the other; "
                    "only runs on the same data can be compared"
                )


def _flat(texts: Sequence[Any]) -> list[Any]:
    """Lines, whether a text is a line or all of them."""
    whole = [text.split("\n") if isinstance(text, str) else [text] for text in texts]
    return [line for lines in whole for line in lines]


def _entry(
    predictor: front.Predictor, part: str, outcome: Outcome, samples: int, quality: str | None
) -> Entry:
    """One run, with its quality by length: by its first score, if none is named."""
    run, (scores, predictions) = predictor.run, outcome
    grade = _grader(predictor, part, scores, predictions)
    texts = predictor.task.references(part)[0]
    lengths: dict[str, Score] = {}
    if grade:
        graded = grade(None, None, samples)
        quality = quality or next(iter(graded))
        if quality not in graded:
            graded = {**graded, **grade(None, [quality], samples)}
        scores = {**graded, **{name: s for name, s in scores.items() if name not in graded}}
        for label, ids in by_length(lengths_of(texts)).items() if len(texts) > 1 else ():
            lengths[label] = grade(ids, [quality], samples)[quality]
    if not scores or quality not in (None, *scores):
        raise UserError(f"{run.folder} has no score {quality or 'on this part'}")
    progress, task, records = predictor.progress, predictor.task, run.records()
    back: Sequence[float] = ()
    if isinstance(task, Continues):  # it reads nothing but what it has said
        back = reach(predictor.model, task.symbols(part), most=task.window(predictor.model))
    speeds = [r["tokens_per_second"] for r in records if "tokens_per_second" in r]
    return Entry(
        run=str(run.folder),
        scores=scores,
        lengths=lengths,
        parameters=predictor.model.size(),
        updates=progress.update,
        tokens=progress.tokens,
        cpu_seconds=progress.cpu_seconds,
        threads=progress.machine.get("threads") or run.recipe.train.threads,
        fastest=max(speeds, default=None),
        median=statistics.median(speeds) if speeds else None,
        metric=run.recipe.train.metric,
        curves=learning_curves(records),
        unfinished=predictor.unfinished,
        reach=back,
    )


def learning_curves(records: Sequence[Mapping[str, Any]]) -> dict[str, Curve]:
    """{figure: (targets, values)}: what validation reported, and the training's own loss."""
    points: dict[str, dict[int, float]] = {}
    for record in records:
        figures = {k: v for k, v in record.items() if k not in NO_PANEL}
        if record.get("kind") == "train":
            figures = {"training nll": figures["nll"]} if "nll" in figures else {}
        elif record.get("kind") != "validation":
            continue
        for name, value in figures.items():
            if isinstance(value, int | float) and math.isfinite(value):
                points.setdefault(name, {})[int(record["tokens"])] = float(value)
    return {
        name: (sorted(points[name]), [points[name][tokens] for tokens in sorted(points[name])])
        for name in sorted(points, key=lambda name: name == "training nll")
    }


def _grader(
    predictor: front.Predictor,
    part: str,
    scores: Mapping[str, Score],
    predictions: Sequence[Prediction],
) -> Grade | None:
    """How the lines of a part are scored: by the task itself, or by a statistic of each line."""
    task = predictor.task
    if isinstance(task, Grades):
        _, answers = front.answers(task, part)

        def grade(ids: Sequence[int] | None, which: Sequence[str] | None, samples: int) -> Any:
            chosen = range(len(answers)) if ids is None else ids
            outputs = [predictions[n] for n in chosen]
            return task.grade(outputs, [answers[n] for n in chosen], which, samples)

        return grade
    if isinstance(task, Windowed):  # its scores have their intervals already
        return None
    found = statistics_of(predictor, part, scores, predictions)
    return statistic.grader(found) if found else None


def statistics_of(
    predictor: front.Predictor,
    part: str,
    scores: Mapping[str, Score],
    predictions: Sequence[Prediction],
) -> dict[str, Statistic]:
    """The scores that are means over lines, texts or windows, with the figures of each."""
    task = predictor.task
    if isinstance(task, Windowed):
        return statistic.windowed(scores, *task.by_window(predictor.model, part))
    if predictions and "accuracy" in scores:
        said = [prediction.text for prediction in predictions]
        return statistic.accuracy(scores["accuracy"], said, task.references(part)[1])
    if "bits_per_character" in scores:
        return statistic.likelihood(scores, predictor.score(*task.references(part)))
    return {}


def differences(
    one: front.Predictor,
    other: front.Predictor,
    part: str,
    mine: Outcome,
    batch: int = 64,
    samples: int = SAMPLES,
) -> list[Difference]:
    """Whether two runs differ by more than chance on a part that they share; `mine` is what the
    first one's evaluation gave."""
    check_same(one, other, part)
    yours = other.evaluate(part, batch=batch)
    found = [statistics_of(p, part, *each) for p, each in ((one, mine), (other, yours))]
    if not all(found):
        raise UserError(
            f"{one.run.folder} and {other.run.folder}: no score has a figure of each line or "
            f"window of the {part} part, or there are too few of them: nothing can be tested"
        )
    return paired.differences(found[0], found[1], samples)
