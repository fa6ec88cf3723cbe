"""What failures leave of a large run: goodput, the useful part of its time.

Each of n nodes fails after M₁ hours in the mean, so one of them after M = M₁ / n. A checkpoint
every τ hours takes δ, and training waits for it. After a failure all work since the last checkpoint
is lost, and training goes on R hours later. A step takes as long as that of the slowest node.

    Young (1974)   τ = √(2 δ M)
    Daly (2006)    τ = √(2 δ M) (1 + ⅓ √(δ / 2M) + ⅑ δ / 2M) − δ        for δ < 2M, else M

    expected hours for W hours of work      M e^{R/M} (e^{(τ+δ)/M} − 1) W / τ

The simulation draws the failures; the best of many intervals stands beside the two rules.
"""

import math
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from regard.console.tables import Block, Shown
from regard.errors import RecipeError

MTBF = 6300.0
"""Hours of a node of 8 GPUs: Llama 3 had 419 failures of 16,384 GPUs in 54 days."""
RESTART = 10.0
"""Minutes."""
STRAGGLING = 0.02
WRITE = 1e9
"""Bytes per second that a node writes."""
SAVED = 12
"""Bytes of a checkpoint for each weight: itself and Adam's two moments."""
SHORTEST = 5.0
"""Seconds that any checkpoint takes."""
TRAININGS = 40
"""That are simulated one after the other, so that the mean is known."""
STEPS = 2000
"""Of which the slowest node is drawn."""
DRAWN, MOST = 4096, 400_000
"""Failures that are drawn at a time, and at most."""
INTERVALS = np.geomspace(1 / 8, 8, 33)
"""Those that are tried, as multiples of Young's."""
NODES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16)
HOURLY = 1.0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is simulated."""

    nodes: int
    work_hours: float
    """Of training, if nothing fails and no node is slow."""
    mtbf_hours: float = MTBF
    """Of one node."""
    save_seconds: float = 60.0
    restart_minutes: float = RESTART
    straggling: float = STRAGGLING
    """Deviation of a node's step time, as a fraction of it."""
    seed: int = 1

    def __post_init__(self) -> None:
        positive = ("nodes", "work_hours", "mtbf_hours", "save_seconds")
        for name, value in asdict(self).items():
            least = 0 if name not in positive else 1e-9
            if not least <= value < math.inf:
                option = name.removesuffix("_hours").replace("_", "-").replace("work", "days")
                raise RecipeError(f"--{option} {value:g}: a number above 0")
        if self.nodes > 10**6:
            raise RecipeError(f"--nodes {self.nodes:,}: at most 1,000,000")

    @property
    def mtbf(self) -> float:
        """Hours between two failures of any node."""
        return self.mtbf_hours / self.nodes

    @property
    def save(self) -> float:
        """Hours."""
        return self.save_seconds / 3600

    @property
    def restart(self) -> float:
        """Hours."""
        return self.restart_minutes / 60


def settings(estimate: Any, nodes: int, days: float | None, **given: Any) -> Settings:
    """Those of an estimate: its days of work, and a checkpoint of its size."""
    if days is not None and not 0 < days < math.inf:
        raise RecipeError(f"--days {days:g}: a number above 0")
    if nodes < 1:
        raise RecipeError(f"--nodes {nodes}: at least 1")
    if days is None:
        if estimate.cost is None:
            raise RecipeError("plan: how long the training is, is unknown: give --tokens or --days")
        days = estimate.cost.days
    size = SAVED * estimate.counts.parameters.total
    usual = {"save_seconds": max(SHORTEST, size / (WRITE * nodes))}
    return Settings(nodes=nodes, work_hours=24 * days, **(usual | given))


def young(save: float, mtbf: float) -> float:
    """√(2 δ M)."""
    return math.sqrt(2 * save * mtbf)


def daly(save: float, mtbf: float) -> float:
    """The higher-order estimate."""
    if save >= 2 * mtbf:
        return mtbf
    part = save / (2 * mtbf)
    return young(save, mtbf) * (1 + math.sqrt(part) / 3 + part / 9) - save


def slowdown(nodes: int, straggling: float, seed: int) -> float:
    """The mean of the slowest of so many nodes' step times, over that of one.

    The largest of n draws is drawn at once: its distribution function is Φⁿ.
    """
    if not straggling:
        return 1.0
    uniform = np.random.Generator(np.random.PCG64([seed, nodes])).random(STEPS)
    normal = NormalDist()
    top = [normal.inv_cdf(min(1 - 1e-16, max(1e-300, u ** (1 / nodes)))) for u in uniform]
    return max(1.0, 1 + straggling * float(np.mean(top)))


@dataclass(frozen=True)
class Outcome:
    """Of simulated trainings, in the mean."""

    interval_hours: float
    hours: float
    """That one took."""
    failures: float
    goodput: float
    """Hours of work over those that it took."""


def expected(given: Settings, interval: float) -> float:
    """Goodput in the mean, by the closed form, without slow nodes."""
    m = given.mtbf
    if (interval + given.save) / m > 700 or given.restart / m > 700:
        return 0.0
    hours = m * math.exp(given.restart / m) * math.expm1((interval + given.save) / m) / interval
    return 1 / hours


def simulate(given: Settings, interval: float, trainings: int = TRAININGS) -> Outcome:
    """Trainings with a checkpoint every `interval` hours."""
    slow = slowdown(given.nodes, given.straggling, given.seed)
    work = trainings * given.work_hours
    segments = work * slow / interval
    each, m = interval + given.save, given.mtbf
    random = np.random.Generator(np.random.PCG64([given.seed, given.nodes]))
    done, hours, failures = 0.0, 0.0, 0
    while failures < MOST:
        gaps = random.exponential(m, DRAWN)
        tries = random.geometric(max(1e-12, math.exp(-min(700, given.restart / m))), DRAWN) - 1
        finished = np.cumsum(np.floor(gaps / each))
        passed = np.cumsum(gaps + given.restart + tries * _cut_short(given.restart, m))
        last = int(np.searchsorted(finished, segments - done))
        before = finished[last - 1] if last else 0.0
        if last < DRAWN:
            hours += (passed[last - 1] if last else 0.0) + (segments - done - before) * each
            count = (failures + last) / trainings
            return Outcome(interval, hours / trainings, count, work / hours)
        done, hours, failures = done + finished[-1], hours + passed[-1], failures + DRAWN
    if not done:
        return Outcome(interval, math.inf, math.inf, 0.0)
    share = done / segments  # it would take too long to see the end: go on as so far
    return Outcome(
        interval, hours / share / trainings, failures / share / trainings, share * work / hours
    )


def _cut_short(restart: float, mtbf: float) -> float:
    """How long a restart lasts in the mean that is cut short by the next failure."""
    if not restart:
        return 0.0
    return mtbf - restart / math.expm1(min(700, restart / mtbf))


@dataclass(frozen=True)
class Point:
    """One number of nodes."""

    nodes: int
    mtbf_hours: float
    young_hours: float
    daly_hours: float
    best: Outcome
    """Of the intervals that were tried."""
    by_daly: Outcome
    hourly: Outcome
    slowdown: float
    closed_form: float
    """Goodput by the closed form at the best interval, divided by the slowdown."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "mtbf_hours": self.mtbf_hours,
            "young_interval_hours": self.young_hours,
            "daly_interval_hours": self.daly_hours,
            "best_interval_hours": self.best.interval_hours,
            "goodput": self.best.goodput,
            "goodput_daly": self.by_daly.goodput,
            "goodput_hourly": self.hourly.goodput,
            "goodput_closed_form": self.closed_form,
            "hours": self.best.hours,
            "failures": self.best.failures,
            "straggler_slowdown": self.slowdown,
        }


def point(given: Settings) -> Point:
    """The best interval of some settings, beside the rules."""
    usual, better = young(given.save, given.mtbf), daly(given.save, given.mtbf)
    by_daly = simulate(given, max(better, 1e-6))
    tried = [simulate(given, float(factor) * usual) for factor in INTERVALS]
    best = max(*tried, by_daly, key=lambda each: each.goodput)
    slow = slowdown(given.nodes, given.straggling, given.seed)
    return Point(
        given.nodes,
        given.mtbf,
        usual,
        better,
        best,
        by_daly,
        simulate(given, HOURLY),
        slow,
        expected(given, best.interval_hours) / slow,
    )


@dataclass(frozen=True)
class Sweep(Shown):
    """Goodput over the number of nodes."""

    given: Settings
    points: list[Point]

    def as_dict(self) -> dict[str, Any]:
        return {"settings": asdict(self.given), "points": [each.as_dict() for each in self.points]}

    def curves(self) -> dict[str, tuple[list[float], list[float]]]:
        """What is drawn: each line's nodes and goodput."""
        nodes = [float(each.nodes) for each in self.points]
        lines = {
            "best interval": [each.best.goodput for each in self.points],
            "Daly's interval": [each.by_daly.goodput for each in self.points],
            "every hour": [each.hourly.goodput for each in self.points],
            "closed form": [each.closed_form for each in self.points],
        }
        return {name: (nodes, values) for name, values in lines.items()}

    def blocks(self) -> list[Block]:
        given = self.given
        header = ("nodes", "fails every", "Young", "Daly", "best", "goodput", "by Daly", "hourly",
                  "slowest node", "failures")  # fmt: skip
        rows = [
            (
                f"{p.nodes:,}", f"{p.mtbf_hours:,.3g} h", f"{60 * p.young_hours:.3g} min",
                f"{60 * p.daly_hours:.3g} min", f"{60 * p.best.interval_hours:.3g} min",
                f"{p.best.goodput:.1%}", f"{p.by_daly.goodput:.1%}", f"{p.hourly.goodput:.1%}",
                f"× {p.slowdown:.3f}", f"{p.best.failures:,.3g}",
            )
            for p in self.points
        ]  # fmt: skip
        note = (
            f"Assumed: a node fails every {given.mtbf_hours:,g} h (--mtbf), a checkpoint takes "
            f"{given.save_seconds:.3g} s (--save-seconds), a restart {given.restart_minutes:g} min "
            f"(--restart-minutes), step times differ by {given.straggling:.1%} (--straggling); "
            f"{given.work_hours / 24:,.3g} days of work (--days), seed {given.seed}."
        )
        return [Block(header, rows, "Failures", [note])]


def sweep(given: Settings) -> Sweep:
    """From a sixteenth of the nodes to sixteen times as many."""
    counts = sorted({max(1, round(given.nodes * factor)) for factor in NODES})
    return Sweep(given, [point(replace(given, nodes=count)) for count in counts])
