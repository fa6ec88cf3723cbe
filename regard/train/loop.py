"""The training loop. It knows batches and loss terms, never a concrete model or task."""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.errors import RecipeError, UserError
from regard.train import optimizer, schedule
from regard.types import Batch, Batches, Carry, Position
from regard.values import Count, Natural, NonNegative


@dataclass(frozen=True, kw_only=True)
class Config:
    """How a model is trained."""

    updates: Count = 100_000
    """Stop after this many updates of the weights."""
    tokens: Natural = 0
    """Stop after this many targets, whichever comes first; 0 for no such limit."""
    accumulate: Count = 1
    """Batches for one update; the update is that of the one large batch."""
    clip: NonNegative = 1.0
    """The gradient is scaled down to this norm if it is larger; 0 leaves it alone."""
    optimizer: optimizer.Config
    """Adam or AdamW."""
    schedule: schedule.Config
    """How the learning rate changes."""
    record: Count = 50
    """Updates between two records of loss and speed."""
    validate: Natural = 500
    """Updates between two validations; 0 for none."""
    save: Count = 500
    """Updates between two checkpoints; there is one for each better validation, too."""
    keep: Count = 5
    """How many of the last checkpoints are kept; the best one always is."""
    average: Natural = 0
    """The final model is the mean of this many checkpoints; 0: the best one alone."""
    average_of: Literal["last", "best"] = "last"
    """Which checkpoints are averaged."""
    metric: str = "nll"
    """The validation figure that decides which checkpoint is best."""
    patience: Natural = 0
    """Stop after this many validations without a better one; 0: never."""
    refusals: Natural = 10
    """How many updates in a row may be refused for numbers that are not finite."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps."""
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of the operands of large matrix products in training; weights are always float32."""
    threads: Natural = 0
    """Processor threads; 0 for as many as there are cores."""

    def __post_init__(self) -> None:
        if self.average > self.keep and self.average_of == "last":
            raise RecipeError(f"average: {self.average} is more than train.keep = {self.keep}")
        if self.patience and not self.validate:
            raise RecipeError("patience: it counts validations, but train.validate = 0")


@dataclass
class Progress:
    """Where a run stands: all that resuming needs beside weights and optimizer."""

    update: int = 0
    position: Position = field(default_factory=Position)
    tokens: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    best: float | None = None
    best_update: int = 0
    stale: int = 0
    refused: int = 0
    finished: bool = False
    scores: dict[str, float] = field(default_factory=dict)
    """The metric of each validation, by its update."""
    sums: dict[str, float] = field(default_factory=dict)
    """Loss since the last record, so that the next one is the same after an interruption."""
    counted: int = 0
    """Targets since the last record."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "Progress":
        return cls(**table | {"position": Position(**table["position"])})


@dataclass(kw_only=True)
class Job:
    """What the loop works on, and whom it tells."""

    objective: nn.Module
    batches: Batches
    optimizer: torch.optim.Optimizer
    config: Config
    seed: int
    dim: int
    device: torch.device
    validate: Callable[[], dict[str, float]]
    """Figures of the present weights on the validation part; empty if there is none."""
    lower_is_better: bool
    record: Callable[[dict[str, Any]], None]
    save: Callable[[Progress, Carry], None]
    tick: Callable[[Progress], None] = lambda progress: None
    """Called after every update, for a display that moves."""


def fit(job: Job, progress: Progress, carry: Carry = None) -> Progress:
    """Train until the recipe says stop, or a signal does; every end is at a saved update."""
    config, saved = job.config, progress.update
    clock = Clock(progress)
    with interruptible() as interrupted:
        while not _done(config, progress) and not interrupted():
            micro = _take(job, progress)
            terms, carry, norm = _update(job, micro, progress.update, carry)
            _advance(job, progress, micro, norm)
            clock.count(terms, micro, norm)
            job.tick(progress)
            if progress.update % config.record == 0 or _done(config, progress):
                job.record(clock.record(_rate(job, progress.update)))
            better = False
            if config.validate and progress.update % config.validate == 0:
                better = _validate(job, progress)
            if progress.update % config.save == 0 or better:
                clock.stamp()
                progress.finished = _done(config, progress)
                job.save(progress, carry)
                saved = progress.update
        progress.finished = _done(config, progress)
    if saved != progress.update:
        clock.stamp()
        job.save(progress, carry)
    return progress


def _done(config: Config, progress: Progress) -> bool:
    return (
        progress.update >= config.updates
        or 0 < config.tokens <= progress.tokens
        or 0 < config.patience <= progress.stale
    )


def _take(job: Job, progress: Progress) -> list[Batch]:
    """The next update's batches; moves the position past them."""
    micro = []
    for _ in range(job.config.accumulate):
        micro.append(job.batches.at(progress.position).to(job.device))
        progress.position = job.batches.after(progress.position)
    return micro


def _update(
    job: Job, micro: list[Batch], update: int, carry: Carry
) -> tuple[dict[str, Tensor], Carry, float]:
    """One step down the gradient of the mean loss over all targets of all micro-batches.

    A gradient that is not finite never reaches the weights.
    """
    job.objective.train()
    targets = max(1, sum(batch.targets for batch in micro))
    totals: dict[str, Tensor] = {}
    for number, batch in enumerate(micro):
        # Dropout is a function of (seed, update, batch), so nothing of it has to be saved.
        torch.manual_seed(_fold(job.seed, update, number))
        with _autocast(job):
            terms, carry = job.objective(batch, carry)
            loss = sum(term.weight * term.sum for term in terms.values() if term.weight) / targets
        (loss * _scale(job)).backward()
        for name, term in terms.items():
            totals[name] = totals.get(name, 0.0) + term.sum.detach()
    parameters = [p for p in job.objective.parameters() if p.grad is not None]
    gradients = [p.grad for p in parameters if p.grad is not None]
    if _scale(job) != 1:
        torch._foreach_div_(gradients, _scale(job))
    norm = torch.nn.utils.get_total_norm(gradients)
    finite = bool(torch.isfinite(norm))
    if finite:
        if job.config.clip:
            torch.nn.utils.clip_grads_with_norm_(parameters, job.config.clip, norm)
        for group in job.optimizer.param_groups:
            group["lr"] = _rate(job, update + 1)
        job.optimizer.step()
    job.optimizer.zero_grad(set_to_none=True)
    # What is not finite must not reach the next update by way of the carry, either.
    return totals, carry if finite else None, float(norm)


def _advance(job: Job, progress: Progress, micro: list[Batch], norm: float) -> None:
    progress.update += 1
    progress.tokens += sum(batch.targets for batch in micro)
    if math.isfinite(norm):
        progress.refused = 0
        return
    progress.refused += 1
    ids = [number for batch in micro for number in batch.ids]
    job.record({"kind": "refused", "update": progress.update, "ids": ids})
    if progress.refused > job.config.refusals:
        raise UserError(
            f"{progress.refused} updates in a row had a gradient that is not finite (the last at "
            f"update {progress.update}). The weights are untouched since. Try a lower "
            "train.optimizer.rate, a longer train.schedule.warmup, or train.precision=float32"
        )


def _validate(job: Job, progress: Progress) -> bool:
    """Whether the present weights are better than all before them."""
    job.objective.eval()
    figures = job.validate()
    if not figures:
        return False
    job.record(
        {"kind": "validation", "update": progress.update, "tokens": progress.tokens, **figures}
    )
    if job.config.metric not in figures:
        raise UserError(
            f"train.metric: {job.config.metric!r} is not a figure of this task's validation; "
            f"there are {', '.join(figures)}"
        )
    value = figures[job.config.metric]
    progress.scores[str(progress.update)] = value
    better = math.isfinite(value) and (
        progress.best is None
        or (value < progress.best if job.lower_is_better else value > progress.best)
    )
    if better:
        progress.best, progress.best_update, progress.stale = value, progress.update, 0
    else:
        progress.stale += 1
    return better


def _rate(job: Job, update: int) -> float:
    config = job.config
    return schedule.rate(config.schedule, config.optimizer.rate, update, config.updates, job.dim)


def _autocast(job: Job) -> AbstractContextManager[Any]:
    if job.device.type == "cpu" or job.config.precision == "float32":
        return nullcontext()
    return torch.autocast(job.device.type, getattr(torch, job.config.precision))


def _scale(job: Job) -> float:
    """float16 has no room for small gradients: they are made larger on the way. What becomes too
    large is refused like any gradient that is not finite."""
    return 2.0**10 if job.config.precision == "float16" and job.device.type != "cpu" else 1.0


def _fold(*numbers: int) -> int:
    """One seed out of several numbers, well mixed (splitmix64)."""
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) % 2**64
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
        state ^= state >> 31
    return state >> 1


class Clock:
    """Counts targets, time and loss between two records."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self._since, self._from, self._norm = self._wall, progress.tokens, 0.0
        self._sums: dict[str, Tensor | float] = dict(progress.sums)
        self._tokens = progress.counted

    def count(self, terms: dict[str, Tensor], micro: list[Batch], norm: float) -> None:
        self._norm = norm if math.isfinite(norm) else 0.0
        if not math.isfinite(norm):
            return  # what was refused has no part in the means
        for name, total in terms.items():
            self._sums[name] = self._sums.get(name, 0.0) + total
        self._tokens += sum(batch.targets for batch in micro)

    def stamp(self) -> None:
        """Add the time since the last stamp to the progress, and what the next record needs."""
        wall, cpu = time.perf_counter(), time.process_time()
        self._progress.seconds += wall - self._wall
        self._progress.cpu_seconds += cpu - self._cpu
        self._wall, self._cpu = wall, cpu
        self._progress.sums = {name: float(total) for name, total in self._sums.items()}
        self._progress.counted = self._tokens

    def record(self, rate: float) -> dict[str, Any]:
        self.stamp()
        speed = (self._progress.tokens - self._from) / (self._wall - self._since)
        means = {name: float(total) / max(1, self._tokens) for name, total in self._sums.items()}
        record = {
            "kind": "train",
            "update": self._progress.update,
            "tokens": self._progress.tokens,
            **means,
            "norm": self._norm,
            "rate": rate,
            "tokens_per_second": speed,
            "seconds": self._progress.seconds,
            "cpu_seconds": self._progress.cpu_seconds,
        }
        self._since, self._from = self._wall, self._progress.tokens
        self._sums, self._tokens = {}, 0
        return record


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C or SIGTERM came: the update in hand is finished first. A second one stops."""
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    try:
        before = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: the host program owns the signals
        before = {}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
