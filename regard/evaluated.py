"""A run's evaluation on a part of the data: its scores, how sure they are, and whether another run
differs by more than chance."""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any

from regard import front
from regard.data.readers import excerpt
from regard.decoding.both_ways import ReadsBothWays
from regard.decoding.filling import Recovers
from regard.decoding.matching import Retrieves
from regard.errors import UserError
from regard.fields import labels
from regard.metrics import SEED, Comparison, Score, by_line, paired, paired_bootstrap, statistic
from regard.metrics.paired import Difference
from regard.metrics.statistic import Statistic
from regard.metrics.verdict import RESAMPLED
from regard.recipe.values import Natural, check
from regard.tasks import Continues, Grades, Prediction, Windowed

SAMPLES = 1000
"""How often lines are drawn anew."""
BIASED = ("ece",)
"""Scores without an interval: draws have fewer different lines, which makes gaps larger."""


@dataclass(kw_only=True)
class Evaluated:
    """What a run's evaluation gave."""

    predictor: front.Predictor
    part: str
    scores: dict[str, Score]
    predictions: list[Prediction]

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        """How likely the model finds each reference."""
        return self.predictor.score(*self.predictor.task.references(self.part))

    @cached_property
    def texts(self) -> list[list[str]]:
        """The outputs, each line's best first."""
        found = self.predictions
        return [[each["text"] for each in one.alternatives] or [one.text] for one in found]

    @cached_property
    def statistics(self) -> dict[str, Statistic]:
        """The scores that are functions of sums over lines, texts or windows, with each line's."""
        task: Any = self.predictor.task
        if isinstance(task, Windowed):
            figures, horizon = task.by_window(self.predictor.model, self.part)
            return statistic.windowed(self.scores, figures, horizon)
        if isinstance(task, Continues):
            return statistic.likelihood(self.scores, self.lines) | self._exact()
        if isinstance(task, Recovers):
            return statistic.recovered(self.scores, [*map(_recovered, self.predictions)])
        if isinstance(task, ReadsBothWays):
            found = statistic.recovered(self.scores, [*map(_recovered, self.predictions)])
            for way, outputs in task.ways(self.predictions).items():
                found |= statistic.recovered(self.scores, [*map(_recovered, outputs)], f".{way}")
            return found
        if isinstance(task, Retrieves):
            ranks = [each.ranks for each in self.predictions]
            named = task.labelled(self.predictor.model)
            return statistic.retrieved(self.scores, ranks, task.directions, named)
        if not self.predictions or len(self.predictor.sides) != 2:
            return {}
        if isinstance(task, Grades):
            how = task.config.evaluation  # type: ignore[attr-defined]
            right = task.alternatives(self.part)[1]
            return by_line.texts(self.scores, how, self.texts, right)
        return self._right() | self._labelled()

    def _exact(self) -> dict[str, Statistic]:
        """Of answers that are right to the letter, where prompts are answered."""
        if "exact" not in self.scores:
            return {}
        true = self.predictor.task.references(self.part)[1]
        right = [
            float(one.text.strip() == other.strip())
            for one, other in zip(self.predictions, true, strict=True)
        ]
        ones = [1.0] * len(right)
        return {"exact": statistic.ratio(self.scores["exact"], right, ones, statistic.percent)}

    def _labelled(self) -> dict[str, Statistic]:
        """Of labels of texts, or of tags of words."""
        task, said = self.predictor.task, [output.tokens for output in self.predictions]
        field: Any = [*task.fields.values()][-1]
        true = [field.parse(each) for each in task.references(self.part)[1]]
        if any(output.probabilities for output in self.predictions):
            chances = [output.probabilities for output in self.predictions]
            several = isinstance(field, labels.Field) and field.several
            return by_line.labels(self.scores, said, true, chances, several=several)
        if [*map(len, said)] != [*map(len, true)]:
            return {}
        log_probs: list[list[float]] = []
        with suppress(UserError):  # tags that cannot be scored have no likelihood, either
            log_probs = [each["log_probs"] for each in self.lines] if "nll" in self.scores else []
        return by_line.tags(self.scores, said, true, log_probs)

    def _right(self) -> dict[str, Statistic]:
        """Of any task that has an accuracy."""
        if "accuracy" not in self.scores:
            return {}
        said = [output.text for output in self.predictions]
        true = self.predictor.task.references(self.part)[1]
        return statistic.accuracy(self.scores["accuracy"], said, true)

    def with_intervals(self, samples: int) -> dict[str, Score]:
        """The scores, each with a 95 % interval if it has a figure of each line. What the bootstrap
        was is said once, not by every signature."""
        found = {name: replace(s, signature=plain(s.signature)) for name, s in self.scores.items()}
        missing = [n for n, score in found.items() if score.low is None and n not in BIASED]
        if samples and missing and not isinstance(self.predictor.task, Windowed):
            for name, each in self.statistics.items():
                if name in missing:
                    low, high = statistic.interval(each, samples)
                    found[name] = replace(found[name], low=low, high=high)
        return found


def _recovered(text: Prediction) -> tuple[float, int, int]:
    """−Σ log p of the true tokens of a text, how many were said, how many there are."""
    right = sum(map(str.__eq__, text.tokens, text.source))
    return -math.fsum(text.log_probs), right, len(text.tokens)


def plain(signature: str) -> str:
    """A signature without its bootstrap."""
    return re.sub(r"\|bs:\d+\|seed:\d+", "", signature)


def evaluate(
    predictor: front.Predictor, part: str, *, samples: int = 0, **options: Any
) -> Evaluated:
    """Score a part; with `samples`, scores have bootstrap intervals."""
    check("samples", samples, Natural)
    scores, predictions = predictor.evaluate(part, samples=samples, **options)
    found = Evaluated(predictor=predictor, part=part, scores=scores, predictions=predictions)
    found.scores = found.with_intervals(samples)
    return found


def bootstrap(samples: int) -> dict[str, Any]:
    """What the intervals are, for JSON."""
    return {"bootstrap": {"samples": samples, "seed": SEED, "level": 0.95}} if samples else {}


# Beside another run


def check_pair(one: front.Predictor, other: front.Predictor, part: str) -> None:
    """Refuse a baseline that cannot be one, before anything is predicted."""
    if isinstance(one.task, Grades):
        one.check_comparable(other)
        if front.answers(one.task, part)[1] != front.answers(other.task, part)[1]:
            raise UserError(f"{one.run.folder} and {other.run.folder} have different {part} parts")
    else:
        check_same(one, other, part)


def beside(
    mine: Evaluated, yours: Evaluated, samples: int = SAMPLES
) -> tuple[Comparison | None, list[Difference]]:
    """Whether two runs differ by more than chance on a part that they share: sacrebleu's test of
    its own scores, ours of all others."""
    one, other, part = mine.predictor, yours.predictor, mine.part
    comparison = None
    task: Any = one.task
    shared = [name for name in mine.scores if name in RESAMPLED and name in yours.scores]
    which = shared if isinstance(task, Grades) else []
    if which:
        how, right = task.config.evaluation, front.answers(task, part)[1]
        systems = {
            str(each.predictor.run.folder): [texts[0] for texts in each.texts]
            for each in (mine, yours)
        }
        cut = {"tokenize": how.tokenize, "lowercase": how.lowercase}
        comparison = paired_bootstrap(systems, right, metrics=which, samples=samples, **cut)
    found = paired.differences(mine.statistics, yours.statistics, samples)
    if comparison is None and not found:
        raise UserError(
            f"{one.run.folder} and {other.run.folder}: no score has a figure of each line or "
            f"window of the {part} part, or there are too few of them: nothing can be tested"
        )
    return comparison, found


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
