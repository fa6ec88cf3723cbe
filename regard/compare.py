"""Runs side by side: quality with its intervals, size, speed, cost, curves, quality by length;
of language models, too, how far back the gradient reaches.

All are scored on the same part of the same data, or nothing is compared.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from regard import front
from regard.console.tables import Block, Shown
from regard.errors import RecipeError, UserError
from regard.evaluated import SAMPLES, Evaluated, check_same, evaluate
from regard.inspect.gradients import reach
from regard.metrics import Score, statistic, verdict
from regard.metrics.lengths import by_length, lengths_of, unit_of
from regard.metrics.seeds import Spread
from regard.metrics.statistic import Grade
from regard.metrics.verdict import Verdict
from regard.plots import PLACES, Curve, drawing
from regard.plots.comparison import comparison
from regard.recipe.values import Samples, check
from regard.runs.seeds import groups
from regard.runs.state import Unfinished
from regard.tasks import Continues, Grades, Windowed

PLACES_SHOWN = 6
BACK = (10, 30, 99)
NEARLY = 1.02
"""Batches of another seed have a few more or fewer targets: a run that ends so near got there."""
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
    seeds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Runs that differ in the seed alone, by the name of their column."""
    unfold: bool = False
    """Whether each of them has a column of its own nevertheless."""

    def as_dict(self) -> dict[str, Any]:
        made = asdict(self)
        for entry, run in zip(made["runs"], self.runs, strict=True):
            entry["unfinished"] = run.unfinished and run.unfinished.as_dict()
        made["seeds"] = {
            name: {"runs": [e.run for e in entries], "scores": _spreads(entries)}
            for name, entries in self.columns(unfold=False)
            if len(entries) > 1
        }
        return made

    def columns(self, *, unfold: bool | None = None) -> list[tuple[str, list[Entry]]]:
        """The runs of each column, by its name: one, or several seeds."""
        if self.unfold if unfold is None else unfold:
            return [(entry.run, [entry]) for entry in self.runs]
        names = {run: name for name, runs in self.seeds.items() for run in runs}
        found: dict[str, list[Entry]] = {}
        for entry in self.runs:
            found.setdefault(names.get(entry.run, entry.run), []).append(entry)
        return [*found.items()]

    def header(self) -> tuple[str, ...]:
        return ("", *(name for name, _ in self.columns()))

    def rows(self) -> list[tuple[str, ...]]:
        """The table: what is reported, then a cell for each column."""
        names = list(dict.fromkeys(name for entry in self.runs for name in entry.scores))
        lengths = list(dict.fromkeys(name for entry in self.runs for name in entry.lengths))
        columns = [entries for _, entries in self.columns()]
        rows = [(n, *(_cells([e.scores.get(n) for e in each]) for each in columns)) for n in names]
        for name in lengths:
            cells = (_cells([entry.lengths.get(name) for entry in each]) for each in columns)
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
        for what, get in plain.items():
            rows.append((what, *(_whole(_mean([get(e) for e in each])) for each in columns)))
        if any(e.unfinished for e in self.runs):
            rows.append(("state", *(_state(each) for each in columns)))
        return rows + self._reach() + self._learning()

    def blocks(self) -> list[Block]:
        best = self.verdict.lines() if self.verdict else []
        return [Block(self.header(), self.rows(), "", [*best, *self.notes()])]

    def _reach(self) -> list[tuple[str, ...]]:
        """What part of the gradient is left some tokens back."""
        rows: list[tuple[str, ...]] = []
        for back in BACK if any(entry.reach for entry in self.runs) else ():
            means = (_mean([_left(e.reach, back) for e in each]) for _, each in self.columns())
            left = ("" if mean is None else f"{mean:.1e}" for mean in means)
            rows.append((f"gradient left {back} back", *left))
        return rows

    def _learning(self) -> list[tuple[str, ...]]:
        """The validation figure of the recipes at a few numbers of targets."""
        metrics = {entry.metric for entry in self.runs}
        columns = [[e.curves.get(e.metric) for e in entries] for _, entries in self.columns()]
        known = [curve for curves in columns for curve in curves if curve]
        if len(metrics) > 1 or not known:
            return []
        last = max(curve[0][-1] for curve in known)
        places = [last * n // PLACES_SHOWN for n in range(1, PLACES_SHOWN + 1)]
        what = metrics.pop()
        rows: list[tuple[str, ...]] = []
        for place in places:
            cells = (_figure([_at(curve, place) for curve in curves]) for curves in columns)
            rows.append((f"{what} at {place / 1e6:.3g} M targets", *cells))
        return rows

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
        {"symbols", "unknown", "unit"} if name.startswith("bits_per_") else set()
    )
    return [each for each in signature.split("|") if each.partition(":")[0] not in models]


def _cell(score: Score | None) -> str:
    if score is None:
        return ""
    digits = 2 if abs(score.value) >= 10 else 4
    ends = "" if score.low is None else f" [{score.low:.{digits}f}, {score.high:.{digits}f}]"
    return f"{score.value:.{digits}f}{ends}"


def _cells(found: Sequence[Score | None]) -> str:
    """One score with its interval, or mean and deviation of those of several seeds."""
    known = [score for score in found if score is not None]
    if len(found) == 1 or not known:
        return _cell(found[0])
    mean, deviation = Spread.of([score.value for score in known])
    digits = 2 if abs(mean) >= 10 else 4
    return f"{mean:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")


def _spreads(entries: Sequence[Entry]) -> dict[str, dict[str, float | None]]:
    """Mean and deviation of each score that all runs have."""
    shared = [name for name in entries[0].scores if all(name in e.scores for e in entries)]
    return {n: Spread.of([e.scores[n].value for e in entries])._asdict() for n in shared}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _state(entries: Sequence[Entry]) -> str:
    found = [e.unfinished.reached if e.unfinished else "finished" for e in entries]
    return "; ".join(dict.fromkeys(found))


def _left(norms: Sequence[float], back: int) -> float | None:
    return norms[back] / norms[0] if back < len(norms) and norms[0] else None


def _figure(values: Sequence[float | None]) -> str:
    """The mean; none where not all runs got to."""
    mean = None if None in values else _mean(values)
    return "–" if mean is None else f"{mean:.4g}"


def _at(curve: Curve | None, place: int) -> float | None:
    """The last value at a number of targets or before it; none where the run did not get to."""
    if not curve or not curve[0][0] <= place <= NEARLY * curve[0][-1]:
        return None
    return [value for tokens, value in zip(*curve, strict=True) if tokens <= place][-1]


def compare(
    folders: Sequence[Path],
    part: str = "test",
    *,
    batch: int = 64,
    samples: int = SAMPLES,
    unfold: bool = False,
    **options: Any,
) -> Comparison:
    """Score runs on a part of the data that they share. Seeds of one recipe are shown as one,
    unless with `unfold`. Options: those of `front.load`."""
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
    outcomes = [evaluate(each, part, batch=batch, samples=samples) for each in predictors]
    for outcome in outcomes:
        quality = next(iter(entries[0].scores)) if entries else None
        entries.append(_entry(outcome, samples, quality))
    quality, unit = next(iter(entries[0].scores)), unit_of(predictors[0].task.references(part)[0])
    found = Comparison(
        part=part,
        quality=quality,
        unit=unit,
        runs=tuple(entries),
        seeds=groups([(str(each.run.folder), each.run.recipe) for each in predictors]),
        unfold=unfold,
    )
    if len(found.columns(unfold=False)) < 2:  # seeds of one recipe: there is no rival
        return found
    return replace(found, verdict=_verdict(found, outcomes, samples))


def _verdict(found: Comparison, outcomes: Sequence[Evaluated], samples: int) -> Verdict:
    """Which run, or mean over seeds, is the best by the first score, and beside which it is so by
    more than noise: lines are drawn anew for the runs that are nearest to their means."""
    quality, task = found.quality, outcomes[0].predictor.task
    columns = found.columns(unfold=False)
    scored = {name: {e.run: e.scores[quality] for e in entries} for name, entries in columns}
    values = {name: [score.value for score in each.values()] for name, each in scored.items()}
    scores = {n: verdict.of_seeds(next(iter(scored[n].values())), values[n]) for n in scored}
    winner = verdict.best(scores)
    if winner is None:
        return Verdict(quality=quality, winner=None)
    by_run = {entry.run: outcome for entry, outcome in zip(found.runs, outcomes, strict=True)}
    nearest = {
        name: by_run[min(each, key=lambda run: abs(each[run].value - scores[name].value))]
        for name, each in scored.items()
    }
    right = front.answers(task, found.part)[1] if isinstance(task, Grades) else None
    others = []
    for name in scores:
        if name != winner:
            p = _p(nearest[winner], nearest[name], quality, right, samples)
            beside = verdict.beside(name, scores[winner], scores[name], p)
            others.append(verdict.beside_seeds(beside, values[winner], values[name]))
    return Verdict(quality=quality, winner=winner, beside=tuple(others))


def _p(one: Evaluated, other: Evaluated, quality: str, right: Any, samples: int) -> float | None:
    """Of the paired bootstrap of two runs, where there is one."""
    if right is None or quality not in verdict.RESAMPLED:
        figures = one.statistics.get(quality), other.statistics.get(quality)
        return verdict.by_statistics(*figures, quality, samples)
    task: Any = one.predictor.task
    how = task.config.evaluation
    cut = {"tokenize": how.tokenize, "lowercase": how.lowercase}
    mine, yours = ([lines[0] for lines in each.texts] for each in (one, other))
    return verdict.by_texts(mine, yours, right, quality, samples, **cut)


def _entry(found: Evaluated, samples: int, quality: str | None) -> Entry:
    """One run, with its quality by length: by its first score, if none is named."""
    predictor, part = found.predictor, found.part
    first = [] if isinstance(predictor.task, Grades) else [*found.statistics]
    scores = {name: found.scores[name] for name in dict.fromkeys((*first, *found.scores))}
    run, grade, texts = predictor.run, _grader(found), predictor.task.references(part)[0]
    lengths: dict[str, Score] = {}
    if grade:
        quality = quality or next(iter(scores))
        if quality not in scores and isinstance(predictor.task, Grades):
            scores |= grade(None, [quality], samples)
        known = quality in scores and (isinstance(predictor.task, Grades) or quality in first)
        for label, ids in by_length(lengths_of(texts)).items() if known and len(texts) > 1 else ():
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


def _grader(found: Evaluated) -> Grade | None:
    """How the lines of a part are scored: by the task itself, or by a statistic of each line."""
    task, predictions = found.predictor.task, found.predictions
    if isinstance(task, Grades):
        _, answers = front.answers(task, found.part)

        def grade(ids: Sequence[int] | None, which: Sequence[str] | None, samples: int) -> Any:
            chosen = range(len(answers)) if ids is None else ids
            outputs = [predictions[n] for n in chosen]
            return task.grade(outputs, [answers[n] for n in chosen], which, samples)

        return grade
    if isinstance(task, Windowed):  # its scores have their intervals already
        return None
    return statistic.grader(found.statistics) if found.statistics else None
