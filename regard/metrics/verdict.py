"""Which of several runs is the best on the same lines, and whether that is more than noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from regard.metrics import Score, paired_bootstrap
from regard.metrics.paired import SIGNIFICANT, paired
from regard.metrics.seeds import apart
from regard.metrics.statistic import Statistic

RESAMPLED = ("bleu", "chrf", "ter")
"""Scores that sacrebleu draws anew: no mean over lines."""


@dataclass(frozen=True, kw_only=True)
class Beside:
    """The best run and another one."""

    run: str
    p: float | None
    """Paired bootstrap; None where the score has no figure of each line."""
    clear: bool | None
    """More than noise: p < 0.05, or intervals that do not overlap, and seeds < 0.05; None: nobody
    can tell."""
    seeds: float | None = None
    """p of Welch's test over the seeds; None where neither has several."""

    def __str__(self) -> str:
        how = "their intervals" if self.p is None else f"p = {self.p:.4f}"
        if self.seeds is not None:
            lines = "" if self.p is None else f"lines p = {self.p:.4f}, "
            how = f"{lines}seeds p = {self.seeds:.4f}"
        if self.clear is None:
            return f"{self.run}: whether it is more than noise is not known"
        return f"{self.run}: {'more' if self.clear else 'no more'} than noise ({how})"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    quality: str
    winner: str | None
    """None where two are equally good."""
    beside: tuple[Beside, ...] = ()

    def lines(self) -> list[str]:
        if self.winner is None:
            return [f"no winner by {self.quality}: the best are equal"]
        return [f"winner by {self.quality}: {self.winner}", *(f"  beside {b}" for b in self.beside)]


def best(scores: Mapping[str, Score]) -> str | None:
    """The run with the best value of a score, if one alone has it."""
    sign = 1 if next(iter(scores.values())).higher_is_better else -1
    top = max(sign * score.value for score in scores.values())
    found = [run for run, score in scores.items() if sign * score.value == top]
    return found[0] if len(found) == 1 else None


def by_statistics(
    one: Statistic | None, other: Statistic | None, quality: str, samples: int
) -> float | None:
    """p, where both have a figure of each line, and of the same lines."""
    if one is None or other is None or len(one.rows) != len(other.rows):
        return None
    return paired(quality, one, other, samples).p


def by_texts(
    one: Sequence[str], other: Sequence[str], right: Sequence[Sequence[str]], quality: str,
    samples: int, **how: object,
) -> float | None:  # fmt: skip
    """p of a score of texts."""
    if quality not in RESAMPLED:
        return None
    systems = {"one": one, "other": other}
    found = paired_bootstrap(systems, right, metrics=[quality], samples=samples, **how)  # type: ignore[arg-type]
    return found.scores[quality][1].p


def of_seeds(score: Score, values: Sequence[float]) -> Score:
    """The mean of several runs; an interval over lines is that of one run alone."""
    if len(values) == 1:
        return score
    return replace(score, value=fmean(values), low=None, high=None)


def beside_seeds(found: Beside, mine: Sequence[float], yours: Sequence[float]) -> Beside:
    """The same where some runs are seeds of one recipe: both kinds of noise must be exceeded."""
    if (p := apart(mine, yours)) is None:
        return found
    clear = p < SIGNIFICANT and found.clear is not False
    return replace(found, seeds=p, clear=clear)


def beside(run: str, mine: Score, yours: Score, p: float | None) -> Beside:
    """By p where there is one, else by intervals, where both have one."""
    if p is not None:
        return Beside(run=run, p=p, clear=p < SIGNIFICANT)
    if mine.low is None or mine.high is None or yours.low is None or yours.high is None:
        return Beside(run=run, p=None, clear=None)
    return Beside(run=run, p=None, clear=mine.low > yours.high or mine.high < yours.low)
