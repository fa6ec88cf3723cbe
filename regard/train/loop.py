"""The training loop. It knows batches and loss terms, never a concrete model or task."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from regard.errors import RecipeError, UserError
from regard.layers.draws import seeded
from regard.recipe.values import Count, Few, FewOrZero, Natural, NonNegative, Range, Share, Threads
from regard.train import health, memory, optimizer, schedule
from regard.train.budget import GB
from regard.train.progress import Clock, Progress as Progress
from regard.train.signals import interruptible
from regard.train.team import SharedDraws, Team
from regard.types import Batch, Batches, Carry, Position, Terms


@dataclass(frozen=True, kw_only=True)
class Config:
    """How a model is trained."""

    updates: Count = 100_000
    """Stop after this many updates of the weights."""
    tokens: Annotated[int, Range(0, 10**15)] = 0
    """Stop after this many targets, whichever comes first; 0 for no such limit."""
    accumulate: Few = 1
    """Batches for one update; the update is that of the one large batch."""
    clip: NonNegative = 1.0
    """The gradient is scaled down to this norm if it is larger; 0 leaves it alone."""
    optimizer: optimizer.Config
    """Adam or AdamW."""
    schedule: schedule.Config
    """How the learning rate changes."""
    log_every: Count = 50
    """Updates between two records of loss and speed."""
    validate_every: Natural = 500
    """Updates between two validations, the last one after the last update; 0 for none."""
    save_every: Count = 500
    """Updates between two checkpoints; there is one for each better validation, too."""
    keep: Few = 5
    """How many of the last checkpoints are kept; the best one always is."""
    average: FewOrZero = 0
    """The final model is the mean of this many checkpoints; 0: the best one alone."""
    average_of: Literal["last", "best"] = "last"
    """Which checkpoints are averaged."""
    metric: str = "nll"
    """The validation figure that decides which checkpoint is best."""
    patience: Natural = 0
    """Stop after this many validations without a better one; 0: never."""
    max_nonfinite: FewOrZero = 10
    """How many updates in a row may be refused for numbers that are not finite."""
    max_rollbacks: FewOrZero = 3
    """How often, after more than that, training goes back to the last checkpoint with a lower
    learning rate before it stops."""
    rollback_factor: Share = 0.5
    """What the learning rate is multiplied by each time."""
    memory: Annotated[float, Range(0, 1e6)] = 0.0
    """GB that a run may take. A batch that needs more is split; the update stays the same. 0: most
    of what is free when the run begins."""
    oversized: Literal["skip", "stop"] = "skip"
    """What to do with an example that does not fit even alone; it is named either way."""
    workers: Annotated[int, Range(0, 64)] = 0
    """Threads that make the next batches while one is learnt from."""
    trace: bool = False
    """Whether the numbers of the examples of every update are recorded."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps; auto is decided anew at each start."""
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of the operands of large matrix products in training; weights are always float32. auto:
    bfloat16 where the hardware multiplies it natively."""
    threads: Threads = 0
    """Processor threads; 0 for as many cores as the process may use."""
    allow: tuple[str, ...] = ()
    """Errors of `regard doctor` that do not stop the training, by name: "data.leaked"."""

    def __post_init__(self) -> None:
        if self.average > self.keep and self.average_of == "last":
            raise RecipeError(f"average: {self.average} is more than train.keep = {self.keep}")
        if self.patience and not self.validate_every:
            raise RecipeError("patience: it counts validations, but train.validate_every = 0")


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
    back: Callable[[int], tuple[Progress, Carry]] | None = None
    """Makes all as it was at the last checkpoint, but for how often the rate has been lowered."""
    tick: Callable[[Progress], None] = lambda progress: None
    """Called after every update, for a display that moves."""
    limit: float = math.inf
    """Bytes that a batch may take."""


@dataclass
class Standing:
    """Where the loop is."""

    progress: Progress
    carry: Carry
    memory: memory.Memory
    team: Team
    clock: Clock = field(init=False)
    saved: int = field(init=False)
    """The last update that is saved."""
    whole: bool = True
    """Whether weights and progress belong together: not in the middle of a step."""

    def __post_init__(self) -> None:
        self.clock, self.saved = Clock(self.progress), self.progress.update


def fit(job: Job, progress: Progress, carry: Carry = None) -> Progress:
    """Train until the recipe says stop, or a signal does. Whatever else ends it, what has been
    learnt since the last checkpoint is saved first, if it is whole."""
    if progress.finished and _done(job.config, progress):
        return progress
    at = _begin(job, progress, carry)
    with interruptible() as interrupted:
        try:
            while not _pause(job, at, interrupted):
                _step(job, at)
        except BaseException:
            unsaved = at.whole and at.progress.update != at.saved and not at.progress.refused
            if unsaved and _sound(job):
                with suppress(UserError):  # the first error is the one to tell
                    _save(job, at)
            raise
        finally:
            at.team.close()
    return at.progress


def _begin(job: Job, progress: Progress, carry: Carry = None) -> Standing:
    team = Team(job.objective, job.config.threads, job.device)
    # What has run out of memory before the last checkpoint is not tried again.
    limit = min(job.limit / team.size, progress.memory * GB or math.inf)
    parts = memory.Memory(job.objective, limit, lambda: _autocast(job))
    return Standing(progress, carry, parts, team)


def _pause(job: Job, at: Standing, interrupted: Callable[[], bool]) -> bool:
    """What is due between two updates: a record, a validation, a checkpoint; whether to stop.

    Progress knows what is done, so that a run that is broken off here goes on with the rest.
    """
    config, progress, better = job.config, at.progress, False
    before = progress.recorded, progress.validated, progress.finished
    over = _done(config, progress)
    if progress.recorded < progress.update and (over or _every(config.log_every, progress)):
        job.record(at.clock.record(_rate(job, progress, progress.update)))
    last = over and config.validate_every > 0
    if progress.validated < progress.update and (last or _every(config.validate_every, progress)):
        better = _validate(job, progress)
    progress.finished = _done(config, progress)
    stop = progress.finished or interrupted()
    after = progress.recorded, progress.validated, progress.finished
    unsaved = progress.update != at.saved or before != after
    if unsaved and (stop or better or _every(config.save_every, progress)):
        if not _sound(job):
            _go_back(job, at, "weights are no longer finite")
            return interrupted()
        _save(job, at)
    return stop


def _every(interval: int, progress: Progress) -> bool:
    return interval > 0 and progress.update % interval == 0


def _done(config: Config, progress: Progress) -> bool:
    return (
        progress.update >= config.updates
        or 0 < config.tokens <= progress.tokens
        or 0 < config.patience <= progress.stale
    )


def _save(job: Job, at: Standing) -> None:
    at.whole = False  # if it fails, it is not tried again
    at.clock.stamp()
    job.save(at.progress, at.carry)
    at.saved, at.whole = at.progress.update, True


def _step(job: Job, at: Standing) -> None:
    """One update, or none: until its gradient is there, nothing has moved."""
    progress = at.progress
    micro, position = _take(job, at)
    parts = [part for batch in micro for part in batch]
    try:
        terms, carry, norm = _gradient(job, micro, progress.update, at.carry, at.team)
    except SharedDraws:  # a layer that is not ours: its draws would not be the same again
        job.optimizer.zero_grad(set_to_none=True)
        at.team.disband()
        return
    except Exception as error:
        if not memory.is_shortage(error):
            raise
        _shrink(job, at, parts)
        return
    at.whole = False
    finite = math.isfinite(norm)
    if finite:
        _descend(job, progress, norm)
    job.optimizer.zero_grad(set_to_none=True)
    # What is not finite must not reach the next update by way of the carry, either.
    at.carry = carry if finite else None
    progress.update, progress.position = progress.update + 1, position
    progress.refused = 0 if finite else progress.refused + 1
    at.clock.count(terms, sum(part.targets for part in parts), norm)
    at.whole = True
    _tell(job, progress, [number for part in parts for number in part.ids])
    if progress.refused > job.config.max_nonfinite:
        if not parts:
            raise UserError("train.memory: no example fits, each by itself. Allow more")
        _go_back(job, at, f"{progress.refused} updates in a row had numbers that are not finite")


def _take(job: Job, at: Standing) -> tuple[list[list[Batch]], Position]:
    """The next update's batches, each in parts that fit into the memory; the position after."""
    micro, position = [], at.progress.position
    for _ in range(job.config.accumulate):
        parts, oversized = at.memory.parts(job.batches, position, at.team.size)
        micro.append([part.to(job.device) for part in parts])
        position = job.batches.after(position)
        if oversized:
            _leave_out(job, at.progress, oversized)
    return micro, position


def _gradient(
    job: Job, micro: list[list[Batch]], update: int, carry: Carry, team: Team
) -> tuple[dict[str, Tensor], Carry, Tensor]:
    """The gradient of the mean loss over all targets of all micro-batches; its norm, which is NaN
    where the loss is not finite."""
    team.train()
    targets = max(1, sum(part.targets for parts in micro for part in parts))
    totals: dict[str, Tensor] = {}

    def learn(objective: nn.Module, part: tuple[int, Batch, Carry]) -> tuple[Terms, Carry]:
        """Add a part's gradient. Dropout is a function of (seed, update, batch, part): nothing of
        it has to be saved."""
        seed, batch, before = part
        if team.size == 1:
            torch.manual_seed(seed)  # for a GPU, and for layers that are not ours
        with seeded(seed), _autocast(job):
            terms, after = objective(batch, before)
            loss = sum(t.weight * t.sum for t in terms.values() if t.weight) / targets
        (loss * _scale(job)).backward()
        return {name: replace(t, sum=t.sum.detach()) for name, t in terms.items()}, after

    for number, parts in enumerate(micro):
        seeds = [_fold(job.seed, update, number, *([n] if n else [])) for n in range(len(parts))]
        found = team.each(learn, list(zip(seeds, parts, memory.share(carry, parts), strict=True)))
        for name, term in ((name, term) for terms, _ in found for name, term in terms.items()):
            totals[name] = totals.get(name, 0.0) + term.sum
        carry = memory.joined([after for _, after in found])
    team.sum_gradients()
    gradients = [p.grad for p in job.objective.parameters() if p.grad is not None]
    if _scale(job) != 1:
        torch._foreach_div_(gradients, _scale(job))
    norm = torch.nn.utils.get_total_norm(gradients)
    # 0 · x is NaN where x is not finite; without any loss there is no gradient, either.
    return totals, carry, norm + 0 * sum(totals.values()) if totals else norm * math.nan


def _descend(job: Job, progress: Progress, norm: Tensor) -> None:
    """One step down the gradient, which is clipped."""
    if job.config.clip:
        parameters = [p for p in job.objective.parameters() if p.grad is not None]
        torch.nn.utils.clip_grads_with_norm_(parameters, job.config.clip, norm)
    for group in job.optimizer.param_groups:
        group["lr"] = _rate(job, progress, progress.update + 1)
    job.optimizer.step()


def _tell(job: Job, progress: Progress, ids: list[int]) -> None:
    """The examples of an update that was refused, or of any if they are traced."""
    if job.config.trace:
        job.record({"kind": "examples", "update": progress.update, "ids": ids})
    if progress.refused and ids:
        job.record({"kind": "refused", "update": progress.update, "ids": ids})
    job.tick(progress)


# When something is wrong


def _go_back(job: Job, at: Standing, why: str) -> None:
    """To the last checkpoint, and on from there with a lower rate; or stop, and say what to do."""
    before, config = at.progress, job.config
    if job.back is None or before.lowered >= config.max_rollbacks:
        at.whole = False
        again = f", with the rate lowered {before.lowered} times" if before.lowered else ""
        raise UserError(
            f"{why} (the last at update {before.update}){again}. No checkpoint holds any of it. "
            "Try a lower train.optimizer.learning_rate, a longer train.schedule.warmup, "
            "train.clip=1 or train.precision=float32; metrics.jsonl names the examples"
        )
    at.clock.stamp()
    progress, at.carry = job.back(before.lowered + 1)
    progress.seconds, progress.cpu_seconds = before.seconds, before.cpu_seconds
    progress.memory, progress.machine = before.memory, before.machine
    at.progress, at.clock, at.saved = progress, Clock(progress), progress.update
    text = (
        f"{why}: back from update {before.update} to {progress.update}, and on with "
        f"{config.rollback_factor**progress.lowered:.3g} of the rate"
    )
    job.record(
        {"kind": "back", "update": progress.update, "lowered": progress.lowered, "text": text}
    )


def _sound(job: Job) -> bool:
    """Whether all weights are finite: no other ones are saved."""
    return all(bool(torch.isfinite(p).all()) for p in job.objective.parameters())


def _shrink(job: Job, at: Standing, parts: list[Batch]) -> None:
    """Memory has run out: the same batches are taken again, in smaller parts, as all that come."""
    job.optimizer.zero_grad(set_to_none=True)
    at.team.forget()
    at.memory.lower(parts)
    at.progress.memory = at.memory.limit / GB
    if job.device.type in ("cuda", "mps"):
        getattr(torch, job.device.type).empty_cache()
    text = f"out of memory: from now on a batch takes at most {at.progress.memory:.2g} GB"
    job.record({"kind": "memory", "update": at.progress.update + 1, "text": text})


def _leave_out(job: Job, progress: Progress, ids: list[int]) -> None:
    """Name the examples that do not fit into the memory even alone."""
    if job.config.oversized == "stop":
        raise UserError(
            f"train.memory: examples {', '.join(map(str, ids))} do not fit, each by itself. Allow "
            "more, shorten them (data.max_length), or set train.oversized=skip"
        )
    job.record({"kind": "oversized", "update": progress.update + 1, "ids": ids})


def _validate(job: Job, progress: Progress) -> bool:
    """Whether the present weights are better than all before them."""
    job.objective.eval()
    figures = job.validate()
    if figures and job.config.metric not in figures:
        raise UserError(
            f"train.metric: {job.config.metric!r} is not a figure of this task's validation; "
            f"there are {', '.join(figures)}"
        )
    progress.validated = progress.update
    if not figures:
        return False
    warnings = _examine(progress, figures)
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
    place = {"update": progress.update, "tokens": progress.tokens}
    job.record({"kind": "validation", **place, **figures})
    for text in warnings:
        job.record({"kind": "warning", "update": progress.update, "text": text})
    return better


def _examine(progress: Progress, figures: dict[str, float]) -> list[str]:
    """What is wrong for the second validation in a row, in plain words; takes the shares of
    degenerate outputs out of the figures."""
    lowest, then = progress.lowest, progress.then
    found = health.signs(figures, progress.loss, lowest, then)
    progress.signs = {sign: progress.signs.get(sign, 0) + 1 for sign in found}
    for share in health.MEANING:
        figures.pop(share, None)
    loss = health.loss(figures)
    if loss is not None and loss < (math.inf if lowest is None else lowest):
        progress.lowest, progress.then = loss, progress.loss
    return [text for sign, text in found.items() if progress.signs[sign] == health.TWICE]


def _rate(job: Job, progress: Progress, update: int) -> float:
    config = job.config
    rate = schedule.rate(
        config.schedule, config.optimizer.learning_rate, update, config.updates, job.dim
    )
    return rate * config.rollback_factor**progress.lowered


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
