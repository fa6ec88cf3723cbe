"""The training loop. It knows batches and loss terms, never a concrete model or task.

Every decision goes through the job's group, so that all processes of one do the same.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import torch

from regard.errors import TrainingError, UserError
from regard.train import memory, pieces, validation
from regard.train.budget import GB
from regard.train.gradient import Counts, Micro, Part, descend, gradient
from regard.train.job import Config, Job
from regard.train.progress import Clock, Progress
from regard.train.signals import interruptible
from regard.train.team import SharedDraws, Team
from regard.types import Batch, Carry, Position


@dataclass
class LoopState:
    """Where the loop is."""

    progress: Progress
    carry: Carry
    memory: memory.Memory
    team: Team
    clock: Clock = field(init=False)
    saved: int = field(init=False)
    """The last update that is saved."""
    reached: float = field(init=False)
    """How far training was when it last paused (`Job.reached`)."""
    rested: float = 0.0
    """Seconds of training before which no validation is due, where a limit of time is given."""
    stop: bool = False
    """Whether a rank of several was asked to stop."""
    whole: bool = True
    """Whether weights and progress belong together: not in the middle of a step."""

    def __post_init__(self) -> None:
        self.clock, self.saved = Clock(self.progress), self.progress.update
        self.reached = self.progress.update


def fit(job: Job, progress: Progress, carry: Carry = None) -> Progress:
    """Train until the recipe says stop, or a signal does. Whatever else ends it, what has been
    learnt since the last checkpoint is saved first, if it is whole."""
    if progress.finished and _done(job.config, progress):
        return progress
    state, alone = begin(job, progress, carry), job.group.size == 1
    with interruptible() as asked:
        try:
            while not _pause(job, state, lambda: state.stop or (alone and asked())):
                step(job, state, asked)
        except BaseException as error:
            now = state.progress
            whole = state.whole and not job.sharded  # others would have to save, too
            if whole and now.update != state.saved and not now.refused and _sound(job):
                with suppress(UserError):  # the first error is the one to report
                    _save(job, state)
            if isinstance(error, Exception):
                raise job.group.explained(error) from None
            raise
        finally:
            state.team.close()
    return state.progress


def begin(job: Job, progress: Progress, carry: Carry = None) -> LoopState:
    team = Team(job.objective, job.config.threads, job.device, alone=job.sharded)
    # What has run out of memory before the last checkpoint is not tried again.
    limit = min(job.limit / team.size, progress.memory * GB or math.inf)
    objective = job.plain or job.objective
    parts = memory.Memory(objective, min(job.group.gather(limit)), job.autocast)
    _share(job, progress)
    return LoopState(progress, carry, parts, team)


def _share(job: Job, progress: Progress) -> None:
    """Decide which pieces of an update are whose; say so where they are cut anew."""
    ranks, batches = job.group.size, job.config.accumulate
    before = max(progress.pieces, job.config.pieces)
    each = pieces.enough(ranks, batches, carried=job.carried, before=before)
    job.pieces = pieces.Pieces(job.group.rank, ranks, batches, each, job.carried)
    text = pieces.spoken(ranks, batches, each, carried=job.carried, before=before)
    if each != progress.pieces and text:
        job.record({"kind": "pieces", "update": progress.update, "pieces": each, "text": text})
    progress.pieces = each


def _pause(job: Job, state: LoopState, interrupted: Callable[[], bool]) -> bool:
    """What is due between two updates: a record, a validation, a checkpoint; whether to stop.

    Progress knows what is done, so that a run that is broken off here goes on with the rest.
    """
    config, progress, better = job.config, state.progress, False
    before = progress.recorded, progress.validated, progress.finished
    over, now = _done(config, progress), job.reached(progress, progress.update)
    due = partial(_every, job, state, now)
    if progress.recorded < progress.update and (over or progress.update % config.log_every == 0):
        job.record(state.clock.record(job.rate(progress, progress.update)))
    last = over and config.validate_every > 0
    rested = progress.seconds >= state.rested
    if progress.validated < progress.update and (last or (rested and due(config.validate_every))):
        better = validation.validate(job, progress)
        _rest(job, state)
    progress.finished = _done(config, progress)
    stop = progress.finished or interrupted()
    after = progress.recorded, progress.validated, progress.finished
    unsaved = progress.update != state.saved or before != after
    if unsaved and (stop or better or due(config.save_every)):
        if job.group.any(not _sound(job)):
            _roll_back(job, state, "weights are no longer finite")
            return interrupted()
        _save(job, state)
    state.reached = now
    return stop


def _rest(job: Job, state: LoopState) -> None:
    """After a validation, where a limit of time is given: train at least as long as it took."""
    if job.config.minutes:
        before = state.progress.seconds
        _stamp(job, state)
        state.rested = 2 * state.progress.seconds - before


def _stamp(job: Job, state: LoopState) -> None:
    """The time, the same for all processes."""
    state.clock.stamp()
    state.progress.seconds = max(job.group.gather(state.progress.seconds))


def _every(job: Job, state: LoopState, now: float, interval: float) -> bool:
    """Whether so many updates have passed, or the time that they have of a training with a limit
    of time."""
    if interval and job.config.minutes:
        return now // interval > state.reached // interval
    return interval > 0 and now % interval == 0


def _done(config: Config, progress: Progress) -> bool:
    return (
        progress.update >= config.updates
        or 0 < config.tokens <= progress.tokens
        or 0 < config.minutes <= progress.seconds / 60
        or 0 < config.patience <= progress.stale
    )


def _save(job: Job, state: LoopState) -> None:
    state.whole = False  # if it fails, it is not tried again
    job.group.doing = "a checkpoint"
    state.clock.stamp()
    job.save(state.progress, state.carry)
    state.saved, state.whole = state.progress.update, True


# One update


class Taken(NamedTuple):
    """What an update is computed from."""

    micro: Micro
    counts: Counts
    """Of all ranks."""
    position: Position
    """After it."""

    @property
    def parts(self) -> list[Batch]:
        return [part.batch for parts in self.micro for part in parts if not part.spare]


def step(job: Job, state: LoopState, asked: Callable[[], bool] = lambda: False) -> None:
    """One update, or none: until its gradient is there, nothing has moved. Where one of several
    ranks was asked to stop, there is none."""
    progress = state.progress
    job.group.doing = f"update {progress.update + 1:,}"
    micro, counts, position = taken = take(job, state, asked)
    parts = taken.parts
    if state.stop:
        return
    try:
        sums, carry, norm = gradient(job, micro, counts, progress.update, state.carry, state.team)
    except SharedDraws:  # a layer that is not ours: its draws would not be the same again
        job.optimizer.zero_grad(set_to_none=True)
        state.team.disband()
        return
    except MemoryError:
        _shrink(job, state, parts)
        return
    state.whole = False
    finite = math.isfinite(norm)  # all ranks have the same numbers
    if finite:
        descend(job, job.rate(progress, progress.update + 1), norm)
    job.optimizer.zero_grad(set_to_none=True)
    # What is not finite must not reach the next update by way of the carry, either.
    state.carry = carry if finite else None
    progress.update, progress.position = progress.update + 1, position
    progress.refused = 0 if finite else progress.refused + 1
    state.clock.count(sums, {name: counts.of(name) for name in sums}, counts.targets, norm)
    if job.config.minutes:
        _stamp(job, state)
    state.whole = True
    told = job.config.trace or progress.refused
    ids = _all(job, micro) if told else []
    _report(job, progress, ids)
    if progress.refused > job.config.max_nonfinite:
        if not ids:
            raise TrainingError("train.memory: no example fits, each by itself. Allow more")
        why = f"{progress.refused} updates in a row had numbers that are not finite"
        _roll_back(job, state, why)


def take(job: Job, state: LoopState, asked: Callable[[], bool] = lambda: False) -> Taken:
    """The next update's batches: this rank's pieces of each, in parts that fit into the memory."""
    micro: Micro = []
    left_out, position = list[int](), state.progress.position
    for number in range(job.config.accumulate):
        found, oversized = _pieces(job, state, position, number)
        micro.append([Part(part.batch.to(job.device), part.place) for part in found])
        position = job.batches.after(position)
        left_out += oversized
    own = Counts.over(part.batch for parts in micro for part in parts)
    said = job.group.gather((own.parts, left_out, job.group.size > 1 and asked()))
    state.stop = any(stop for _, _, stop in said)
    if not state.stop and (ids := [number for _, rank, _ in said for number in rank]):
        _leave_out(job, state.progress, ids)
    if job.sharded:
        passes = [len(parts) for parts, _, _ in said]
        spare = job.batches.at(state.progress.position, slice(0, 1)).to(job.device)
        micro[-1] += [Part(spare, spare=True)] * (max(passes) - len(own.parts))
    return Taken(micro, Counts([part for rank, _, _ in said for part in rank]), position)


def _pieces(
    job: Job, state: LoopState, position: Position, number: int
) -> tuple[list[Part], list[int]]:
    """This rank's pieces of a batch, in parts, and the examples that do not fit. A rank may have
    no row of a small batch."""
    mine, own = job.pieces, job.pieces.own(number)
    if not own:
        return [], []
    whole, found, left_out = job.batches.at(position), list[Part](), list[int]()
    if mine.each > 1 and not whole.divisible:
        raise UserError(
            f"{mine.ranks} processes cannot share a batch whose examples are compared with each "
            "other (Batch.divisible): train with one process"
        )
    _check_accumulation(job.config, whole)
    for piece in own:
        first, end = mine.rows(len(whole), piece)
        all_of_it = mine.each == 1
        if first == end and not all_of_it:
            continue
        # Made anew, it has the padding of its own longest example.
        batch = whole if all_of_it else job.batches.at(position, slice(first, end))
        cuts = -(-state.team.size // len(own))
        parts, oversized = state.memory.parts(job.batches, position, batch, first, cuts)
        left_out += oversized
        for n, part in enumerate(parts):
            place = [n] if all_of_it else [piece, n]
            while place and not place[-1]:
                place.pop()
            if len(part):
                found.append(Part(part, tuple(place)))
    return found, left_out


def _check_accumulation(config: Config, batch: Batch) -> None:
    if config.accumulate > 1 and not batch.divisible:
        raise UserError(
            f"train.accumulate: {config.accumulate} batches are not one large batch where the "
            "examples of a batch are compared with each other (Batch.divisible). Set "
            "train.accumulate=1, and make the batches themselves larger (section batch)"
        )


def _all(job: Job, micro: Micro) -> list[int]:
    """The examples of all ranks, batch by batch."""
    own = [[n for part in parts if not part.spare for n in part.batch.ids] for parts in micro]
    said = job.group.gather(own)
    return [number for batch in zip(*said, strict=True) for rank in batch for number in rank]


def _report(job: Job, progress: Progress, ids: list[int]) -> None:
    """The examples of an update that was refused, or of any if they are traced."""
    if job.config.trace:
        job.record({"kind": "examples", "update": progress.update, "ids": ids})
    if progress.refused and ids:
        job.record({"kind": "refused", "update": progress.update, "ids": ids})
    job.tick(progress)


# When something is wrong


def _roll_back(job: Job, state: LoopState, why: str) -> None:
    """To the last checkpoint, and on from there with a lower rate; or stop, and say what to do."""
    before, config = state.progress, job.config
    if job.rollback is None or before.lowered >= config.max_rollbacks:
        state.whole = False
        again = f", with the rate lowered {before.lowered} times" if before.lowered else ""
        raise TrainingError(
            f"{why} (the last at update {before.update}){again}. No checkpoint holds any of it. "
            "Try a lower train.optimizer.learning_rate, a longer train.schedule.warmup, "
            "train.clip=1 or train.precision=float32; metrics.jsonl names the examples"
        )
    state.clock.stamp()
    progress, state.carry = job.rollback(before.lowered + 1)
    progress.seconds, progress.cpu_seconds = before.seconds, before.cpu_seconds
    progress.memory, progress.machine = before.memory, before.machine
    progress.pieces = before.pieces
    state.progress, state.clock, state.saved = progress, Clock(progress), progress.update
    text = (
        f"{why}: back from update {before.update} to {progress.update}, and on with "
        f"{config.rollback_factor**progress.lowered:.3g} of the rate"
    )
    job.record(
        {"kind": "back", "update": progress.update, "lowered": progress.lowered, "text": text}
    )


def _sound(job: Job) -> bool:
    """Whether all weights are finite: no other ones are saved."""
    found = (getattr(p, "_local_tensor", p) for p in job.objective.parameters())
    return all(bool(torch.isfinite(p).all()) for p in found)


def _shrink(job: Job, state: LoopState, parts: list[Batch]) -> None:
    """Memory has run out: the same batches are taken again, in smaller parts, as all that come."""
    job.optimizer.zero_grad(set_to_none=True)
    state.team.forget()
    state.memory.lower(parts)
    state.memory.limit = min(job.group.gather(state.memory.limit))
    state.progress.memory = state.memory.limit / GB
    if job.device.type in ("cuda", "mps"):
        getattr(torch, job.device.type).empty_cache()
    text = f"out of memory: from now on a batch takes at most {state.progress.memory:.2g} GB"
    job.record({"kind": "memory", "update": state.progress.update + 1, "text": text})


def _leave_out(job: Job, progress: Progress, ids: list[int]) -> None:
    """Name the examples that do not fit into the memory even alone."""
    if job.config.oversized == "stop":
        raise TrainingError(
            f"train.memory: examples {', '.join(map(str, ids))} do not fit, each by itself. Allow "
            "more, shorten them (data.max_length), or set train.oversized=skip"
        )
    job.record({"kind": "oversized", "update": progress.update + 1, "ids": ids})
