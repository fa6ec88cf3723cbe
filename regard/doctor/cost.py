"""What training will cost: time and memory from measured steps on a copy, and the disk."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.checks.findings import Finding, Severity, finding
from regard.data.batching import first_epoch
from regard.errors import UserError
from regard.model import build
from regard.runs import Run
from regard.runs.training import new_job
from regard.train import budget
from regard.train.job import Job
from regard.train.loop import fit
from regard.train.progress import Progress
from regard.types import Batches, Position

TRIED = 64
"""Batches that are looked at to find a middle one and the largest."""
REPEATED, ENOUGH = 5, 1.0
"""How often a short step is measured, and for how many seconds; the quickest counts."""
BUSY = 1.5
"""From so many times the time of a free machine on, other programs are mentioned."""
FLOAT = 4
"""Bytes of a number."""
MOMENTS = 2
"""Numbers that Adam keeps for each weight."""


class Plan(NamedTuple):
    """Where a middle batch and the largest are, and what an epoch has."""

    middle: Position
    largest: Position
    batches: int
    """Of an epoch."""
    targets: float
    """Of a batch, on average."""
    share: float
    """The same, as a multiple of the middle batch's."""


def check(run: Run, folder: Path) -> Iterator[Finding]:
    """Measure two steps of a run that is made for it; `folder` is where training would write."""
    yield from disk(run, folder)
    try:
        with torch.device("meta"):
            model = build(run.recipe.model, run.task.sizes)
        budget.for_batches(run.settings.memory, model)
    except UserError as error:
        yield finding("cost.memory", "model", str(error), severity="error")
        return
    yield from _measured(run)


class Weights(NamedTuple):
    """How many weights a model has, and how many of them are trained."""

    all: int
    trained: int

    @property
    def optimizer(self) -> int:
        """Bytes of the optimizer's state."""
        return self.trained * MOMENTS * FLOAT

    def __str__(self) -> str:
        few = f", {self.trained / 1e6:.3g} M of them trained" if self.trained < self.all else ""
        kept = f" (optimizer: {_bytes(self.optimizer)})" if few else ""
        return f"{self.all / 1e6:.3g} M weights{few}{kept}"


def parameters(run: Run) -> Weights:
    """How many there are; none is made."""
    with torch.device("meta"):
        model = build(run.recipe.model, run.task.sizes)
    return Weights(model.size(), sum(p.numel() for p in model.parameters() if p.requires_grad))


# Steps


def _plan(batches: Batches) -> Plan:
    """Some batches of the first epoch, evenly out of all."""
    places = list(first_epoch(batches))
    tried = {place: batches.at(place) for place in places[:: -(-len(places) // TRIED)]}
    ranked = sorted(tried, key=lambda n: sum(t.numel() for t in tried[n].tensors.values()))
    targets = {place: batch.targets for place, batch in tried.items()}
    middle = ranked[len(ranked) // 2]
    mean = sum(targets.values()) / len(targets)
    return Plan(middle, ranked[-1], len(places), mean, mean / max(1, targets[middle]))


def _measured(run: Run) -> Iterator[Finding]:
    """Of a model that is thrown away."""
    settings, records = run.settings, list[dict[str, Any]]()
    job, _ = new_job(run, run.task, settings)
    alone = replace(job.config, updates=1, accumulate=1, validate_every=0, patience=0, save_every=2)
    job = replace(job, config=alone, record=records.append)
    plan = _plan(job.batches)
    step = _seconds(job, plan.middle)
    with Peak() as peak:
        _step(job, plan.largest)
    free = budget.free(settings.device)
    most = f"about {_bytes(peak.bytes)} at most" if peak.bytes else "how much, this system hides"
    what = f"{most}, with {parameters(run)}"
    left = f"; {_bytes(free)} are free" if free else ""
    yield replace(finding("cost.memory", "model", f"{what}{left}"), value=float(peak.bytes))
    if any(record["kind"] == "refused" for record in records):
        yield finding("cost.loss", "train", "the loss or its gradient is not finite at the start")
    many = settings.accumulate * plan.share
    text, total = _forecast(settings, plan, step.free * many)
    if (now := total * step.wall / max(1e-9, step.free)) > BUSY * total:
        text += f"; {_time(now)} beside the other programs that run at present"
    yield replace(finding("cost.time", "train", text), value=total)


def _forecast(settings: Any, plan: Plan, each: float) -> tuple[str, float]:
    """Updates, targets, epochs and time of the whole training; its seconds."""
    targets = plan.targets * settings.accumulate
    updates = settings.updates
    if settings.tokens:
        updates = min(updates, -(-settings.tokens // max(1, int(targets))))
    epochs = updates * settings.accumulate / plan.batches
    often = f"{epochs:.2g}" if epochs < 10 else f"{epochs:,.0f}"
    most = " at most" if settings.patience else ""
    text = (
        f"about {_time(updates * each)}{most} for {updates:,} updates of {_time(each)}, without "
        f"validations: {updates * targets / 1e6:.3g} M targets, {often} times through the data"
    )
    return text, updates * each


def _seconds(job: Job, place: Position) -> "Taken":
    """On the clock with all threads; on the processor with one, since threads that wait for each
    other may count as busy."""
    found = quickest(lambda: _step(job, place))
    if job.device.type != "cpu" or job.config.threads == 1 or found.wall > ENOUGH:
        return found
    alone, threads = replace(job, config=replace(job.config, threads=1)), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return Taken(found.wall, quickest(lambda: _step(alone, place)).processor)
    finally:
        torch.set_num_threads(threads)


def quickest(step: "Callable[[], Taken]") -> "Taken":
    """Of several measurements: other work may have been in the way of one."""
    step()  # the first one prepares much that later ones have
    taken = [step()]
    while len(taken) < REPEATED and sum(each.wall for each in taken) < ENOUGH:
        taken.append(step())
    return Taken(*map(min, zip(*taken, strict=True)))


def _step(job: Job, place: Position) -> "Taken":
    """One real update (forward, backward, clipping, Adam)."""
    start, worked = time.perf_counter(), time.process_time()
    fit(job, Progress(position=place))
    if job.device.type == "cuda":  # it answers before it is done
        torch.cuda.synchronize(job.device)
    if job.device.type == "mps":
        torch.mps.synchronize()
    wall = time.perf_counter() - start
    return Taken(wall, time.process_time() - worked if job.device.type == "cpu" else wall)


class Taken(NamedTuple):
    """Seconds of a step: on the clock, and on the processor, which no other program lengthens."""

    wall: float
    processor: float

    @property
    def free(self) -> float:
        """Where no other program wants the processor: at most as long as the work of one thread."""
        return min(self)


# Memory


class Peak:
    """The most memory that this process (or CUDA) has while it lasts."""

    bytes = 0

    def __enter__(self) -> "Peak":
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.002):
            self.bytes = max(self.bytes, resident())

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.bytes = max(self.bytes, resident())
        if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
            self.bytes = torch.cuda.max_memory_allocated()


def resident() -> int:
    """Bytes of memory that this process holds; on macOS, that it held at most; 0 if unknown."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    with suppress(ImportError):
        import resource
        import sys

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return 0


# Disk


def disk(run: Run, folder: Path) -> Iterator[Finding]:
    """The checkpoints that are kept, and the final model, against what is free."""
    settings, found = run.recipe.train, parameters(run)
    weights = found.all * FLOAT
    # The best one, and one that is being written, stand beside those that are kept.
    kept = settings.keep + 2 + (settings.average if settings.average_of == "best" else 0)
    kept = min(kept, settings.updates // settings.save_every + 2)
    need = kept * (weights + found.optimizer) + weights + _stored(run.folder)
    place = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    free = shutil.disk_usage(place).free
    what = f"the run needs up to {_bytes(need)}, and {_bytes(free)} are free"
    severity: Severity = "error" if need > free else "warning" if need > 0.9 * free else "note"
    yield finding("cost.disk", folder, what, severity=severity)


def _stored(folder: Path) -> int:
    """Bytes of all files in a folder; some may go meanwhile, if the run trains."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += Path(place, name).lstat().st_size
    return total


def _bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
