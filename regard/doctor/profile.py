"""Where the time of a training step goes: some updates are run, timed, and reported in plain words.

How long an update takes is measured without a profiler. Which part of the model takes which share
of it is measured on a few more updates, with PyTorch's profiler: a part's forward time is that
between entering and leaving it, but for the parts inside it. A backward node belongs to the part
that made it, which the profiler's sequence numbers tell.
"""

import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile as profiler, record_function
from torch.utils.flop_counter import FlopCounterMode

from regard.decoders import rnn
from regard.errors import UserError
from regard.layers.allocator import bound_caches, keep_pages
from regard.layers.attention import MultiHeadAttention
from regard.layers.convolution import Convolutions
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.feedforward import FeedForward
from regard.layers.position import PositionalEncoding
from regard.layers.recurrent import Recurrent
from regard.layers.residual import Residual
from regard.runs import Run
from regard.runs.training import new_job
from regard.train import loop
from regard.train.gradient import descend, gradient
from regard.train.job import Job
from regard.train.prefetch import prefetch
from regard.train.progress import Progress
from regard.train.team import Team
from regard.types import Batch

UPDATES, SECONDS = 20, 20.0
"""So many updates are timed, or fewer if they take longer than that."""
WATCHED = 3
"""How many are looked into."""
PREFIX = "part: "
HEAD, BATCHES, OPTIMIZER, REST = "output and loss", "making batches", "optimizer", "rest"
NORM = "normalisation and dropout"
PARTS: dict[type[nn.Module], tuple[str, tuple[str, ...]]] = {
    Embedding: ("embedding", ("forward",)),
    PositionalEncoding: ("embedding", ("forward",)),
    MultiHeadAttention: ("attention", ("forward", "project", "look")),
    rnn.Attention: ("attention", ("forward",)),
    FeedForward: ("feed-forward", ("forward",)),
    Recurrent: ("recurrent", ("forward", "read", "step")),
    Convolutions: ("convolution", ("forward",)),
    Residual: (NORM, ("enter", "leave")),
    Dropout: (NORM, ("forward",)),
}
"""What a module's time is called, and by which of its methods it is entered."""


@dataclass(frozen=True)
class Share:
    """What part of an update's time something takes."""

    forward: float
    backward: float = 0.0

    @property
    def total(self) -> float:
        return self.forward + self.backward


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What was found."""

    updates: int
    seconds: float
    """Of one update, in the mean."""
    targets: float
    """Of one update, in the mean."""
    padding: float
    """The share of positions that hold nothing."""
    length: float
    """Positions of a row, in the mean."""
    dim: int
    """Of the model."""
    threads: int
    busy: float
    """How many threads were at work, in the mean."""
    precision: str
    parts: dict[str, Share]
    """Shares of an update's time, the largest first; together 1."""
    gflops: float
    """GFLOP/s of the matrix products, over the whole time."""
    limit: float
    """The best GFLOP/s of a product of that size by itself, on the same threads."""

    def as_dict(self) -> dict[str, Any]:
        parts = {name: asdict(share) | {"total": share.total} for name, share in self.parts.items()}
        rate = {"targets_per_second": self.targets / self.seconds}
        return asdict(self) | {"parts": parts, "advice": advice(self)} | rate

    def __str__(self) -> str:
        width = max(map(len, self.parts))
        lines = [
            f"An update takes {1000 * self.seconds:,.0f} ms for {self.targets:,.0f} targets: "
            f"{self.targets / self.seconds:,.0f} targets per second "
            f"({self.updates} updates, {self.threads} thread{'s' * (self.threads != 1)}, "
            f"{self.precision})",
            "",
            f"{'':{width}}   share       ms   forward  backward",
        ]
        for name, share in self.parts.items():
            both = f"  {share.forward:8.1%}  {share.backward:8.1%}" if share.backward else ""
            ms = 1000 * self.seconds * share.total
            lines.append(f"{name:{width}}  {share.total:6.1%}  {ms:7.1f}{both}")
        lines += [
            "",
            f"Matrix products: {self.gflops:,.0f} GFLOP/s over the whole time, "
            f"{self.gflops / self.limit:.0%} of the {self.limit:,.0f} that such a product reaches "
            "by itself; the rest is memory traffic, small operations and waiting.",
            *advice(self),
        ]
        return "\n".join(lines)


def profile(run: Run) -> Profile:
    """Run some of a run's first updates, on new weights. Nothing is saved."""
    bound_caches()
    settings = run.settings
    if torch.device(settings.device).type != "cpu":
        raise UserError(
            "train: --profile measures a processor's time, not that of a GPU: add train.device=cpu"
        )
    keep_pages()
    job, model = new_job(run, run.task, settings)
    with prefetch(job.batches, settings.workers) as batches:
        # Without a limit: to measure what a batch takes would count as making it.
        stepper = Stepper(replace(job, batches=batches, limit=math.inf))
        timed = _timed(stepper)
        gflops = stepper.flops() / timed["seconds"] / 1e9
        _name_parts(model)
        parts = _parts(stepper, timed.pop("batches"))
    dim = run.recipe.model.dim
    return Profile(
        **timed,
        dim=dim,
        threads=settings.threads,
        precision=settings.precision,
        parts=parts,
        gflops=gflops,
        limit=_limit(settings.precision, dim, timed["targets"]),
    )


def advice(found: Profile) -> list[str]:
    """What could make it faster, where something stands out."""
    share = defaultdict(float, {name: part.total for name, part in found.parts.items()})
    shared = (
        "other programs want the processor, or the operations are too small to be shared; "
        "try train.threads=1."
    )
    alone = "other programs have the processor; the shares still hold."
    known = [
        (
            found.busy < 0.7 * found.threads,
            f"Only {found.busy:.1f} of {found.threads} threads was at work: "
            f"{shared if found.threads > 1 else alone}",
        ),
        (
            share[BATCHES] > 0.02,
            f"{share[BATCHES]:.0%} of the time is spent on making batches: with train.workers=1 "
            "the next one is made meanwhile.",
        ),
        (
            found.padding > 0.1,
            f"{found.padding:.0%} of the positions are padding: more batch.tokens let batches "
            "choose among more texts of like length; data.max_length leaves out the few longest.",
        ),
        (
            share[OPTIMIZER] > 0.15,
            f"{share[OPTIMIZER]:.0%} go to the optimizer, whatever a batch's size: larger batches "
            "(batch.tokens, train.accumulate) have fewer updates to the same text.",
        ),
        (
            share[HEAD] > 0.4,
            f"{share[HEAD]:.0%} go to output and loss, which grow with the vocabulary: a smaller "
            "tokenizer.vocabulary costs less.",
        ),
        (
            share["attention"] > 0.4 and found.length > found.dim,
            f"{share['attention']:.0%} go to attention, which grows with the square of a text's "
            "length: data.max_length, or a shorter context, costs less.",
        ),
        (
            share["recurrent"] > 0.5,
            f"{share['recurrent']:.0%} go to recurrent layers, whose steps wait for each other: "
            "more rows side by side (batch.tokens, stream.streams) fill the same steps better.",
        ),
    ]
    return [text for holds, text in known if holds] or ["Nothing stands out."]


class Stepper:
    """Runs one update after the other, phase by phase."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.state = loop.begin(job, Progress())
        self.alone = Team(job.objective, 1, job.device)
        """Who watches sees one thread."""

    def take(self) -> loop.Taken:
        taken = loop.take(self.job, self.state)
        self.state.progress.position = taken.position
        return taken

    def learn(self, taken: loop.Taken, team: Team) -> None:
        job, state, progress = self.job, self.state, self.state.progress
        micro, counts, _ = taken
        with record_function("gradient"):
            _, state.carry, norm = gradient(job, micro, counts, progress.update, state.carry, team)
        with record_function(PREFIX + OPTIMIZER):
            if math.isfinite(norm):
                descend(job, job.rate(progress, progress.update + 1), norm)
            job.optimizer.zero_grad(set_to_none=True)
        progress.update += 1

    def flops(self) -> int:
        """Of an update's matrix products."""
        layers = {
            torch.ops.aten.mkldnn_rnn_layer: _recurrent,
            torch.ops.aten.mkldnn_rnn_layer_backward: lambda *a, **k: 2 * _recurrent(*a, **k),
        }
        with FlopCounterMode(display=False, custom_mapping=layers) as counter:
            self.learn(self.take(), self.alone)
        return int(counter.get_total_flops())


def _recurrent(x: Any, u: Any, v: Any, *_: Any, **__: Any) -> int:
    """2 (|U| + |V|) for each row and step."""
    weights: int = math.prod(u) + math.prod(v)
    return 2 * int(math.prod(x[:2])) * weights


def _timed(stepper: Stepper) -> dict[str, Any]:
    """Updates as they are, without anybody watching."""
    for _ in range(2):
        stepper.learn(stepper.take(), stepper.state.team)  # they prepare what later ones find
    taken: list[Batch] = []
    making, updates = 0.0, 0
    start, cpu = time.perf_counter(), time.process_time()
    while updates < UPDATES and time.perf_counter() - start < SECONDS:
        began = time.perf_counter()
        found = stepper.take()
        making += time.perf_counter() - began
        stepper.learn(found, stepper.state.team)
        taken += found.parts
        updates += 1
    elapsed = time.perf_counter() - start
    masks = [t for b in taken for name, t in b.tensors.items() if name.endswith("mask")]
    real, size = sum(int(mask.sum()) for mask in masks), sum(mask.numel() for mask in masks)
    return {
        "updates": updates,
        "seconds": elapsed / updates,
        "busy": (time.process_time() - cpu) / elapsed,
        "batches": making / elapsed,
        "targets": sum(batch.targets for batch in taken) / updates,
        "padding": 1 - real / size if size else 0.0,
        "length": real / max(1, sum(map(len, masks))),
    }


def _name_parts(model: Any) -> None:
    """Let each part of a model tell the profiler when it is entered and left."""
    for module in model.modules():
        for kind, (name, methods) in PARTS.items():
            if isinstance(module, kind):
                for method in methods:
                    setattr(module, method, _named(name, getattr(module, method)))
    model.head.loss = _named(HEAD, model.head.loss)


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def inside(*args: Any, **options: Any) -> Any:
        with record_function(PREFIX + name):
            return function(*args, **options)

    return inside


def _parts(stepper: Stepper, batches: float) -> dict[str, Share]:
    """The share of each part; that of making batches, which nobody disturbed, is given."""
    taken = [stepper.take() for _ in range(WATCHED)]
    with _quiet(), profiler(activities=[ProfilerActivity.CPU]) as watched:
        start = time.perf_counter()
        for micro in taken:
            stepper.learn(micro, stepper.alone)
        total = 1e6 * (time.perf_counter() - start)
    forward, backward = _attributed(watched.events())
    scale = (1 - batches) / max(total, sum(forward.values()) + sum(backward.values()))
    shares = {
        name: Share(scale * max(0.0, forward[name]), scale * backward[name])
        for name in {*forward, *backward} - {REST}
    }
    ranked = dict(sorted(shares.items(), key=lambda item: -item[1].total))
    ranked[BATCHES] = Share(batches)
    return ranked | {REST: Share(max(0.0, 1 - sum(share.total for share in ranked.values())))}


@contextmanager
def _quiet() -> Iterator[None]:
    """The profiler's library writes to stderr that it begins and ends."""
    kept = os.dup(2)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _attributed(events: Iterable[Any]) -> tuple[dict[str, float], dict[str, float]]:
    """Microseconds of each part, forward and backward, from what the profiler saw."""
    forward: dict[str, float] = defaultdict(float)
    backward: dict[str, float] = defaultdict(float)
    makers: dict[int, str] = {}  # of the backward nodes, by their sequence numbers
    open_parts: list[tuple[float, str]] = []
    for event in sorted(events, key=lambda e: (e.time_range.start, -e.time_range.end)):
        begin, end = event.time_range.start, event.time_range.end
        while open_parts and open_parts[-1][0] <= begin:
            open_parts.pop()
        inside = open_parts[-1][1] if open_parts else REST
        if event.name.startswith(PREFIX):
            name = event.name.removeprefix(PREFIX)
            forward[name] += end - begin
            if open_parts:
                forward[inside] -= end - begin
            open_parts.append((end, name))
        elif event.name.startswith("autograd::engine::evaluate_function"):
            backward[makers.get(event.sequence_nr, REST)] += end - begin
        elif event.sequence_nr >= 0:
            makers[event.sequence_nr] = inside  # the last to bear a number made the node
    return forward, backward


def _limit(precision: str, dim: int, targets: float) -> float:
    """The best GFLOP/s of a product of a batch with a matrix of four times the model's width."""
    rows = min(4096, max(64, round(targets)))
    dtype = getattr(torch, precision)
    x, weight = (torch.randn(n, dim).to(dtype) for n in (rows, 4 * dim))
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        x @ weight.t()
        seconds.append(time.perf_counter() - start)
    return 2 * rows * dim * 4 * dim / min(seconds) / 1e9
