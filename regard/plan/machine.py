"""This machine, measured: no step of the recipe is run, only products and passes over memory.

    seconds of a step = Σ products + Σ passes + c · calls + optimizer

Each matrix product of the step is timed by itself, with its own sizes and precision. All other
operations take their bytes divided by the rate of a pass over memory of that size; those that
compute a function (exp, tanh, normalisation) the rate of such a pass. c is what a call costs.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.layers.allocator import keep_pages
from regard.plan import cost, counting, estimate as estimates, layout
from regard.plan.hardware import HERE, Device
from regard.plan.products import Product
from regard.plan.subject import Subject
from regard.plan.tracing import Trace
from regard.train import budget, device, memory, team
from regard.train.job import Config
from regard.types import Batch

WATTS, PRICE = 10.0, 0.05
"""Of a core, and US dollars for an hour of it: what clouds ask for processors, roughly."""
SIZES = (2**18, 2**22, 2**26)
"""Bytes of the passes over memory that are timed: in a near cache, in the last, in neither."""
LONGEST = 2e9
"""FLOPs of a product that is timed; a larger one is cut, its time is in proportion."""
ROUNDS = 3
FREE = {
    "aten.empty", "aten.new_empty", "aten.empty_like", "aten.empty_strided", "aten.detach",
    "aten._unsafe_view", "aten.alias", "aten.lift_fresh", "aten.new_empty_strided",
}  # fmt: skip
"""They touch no memory."""
FUNCTIONS = (
    "exp", "gelu", "tanh", "sigmoid", "softmax", "layer_norm", "erf", "log", "rsqrt", "silu", "pow",
    "norm", "ctc", "var", "unique", "sort", "index", "embedding", "gather", "shift", "nonzero",
)  # fmt: skip
"""Operations with such a name compute more than they read, or read here and there."""
DRAWN = ("aten.random_", "aten.bernoulli_", "aten.uniform_", "aten.normal_", "aten.native_dropout")
ADAM = 7
"""Numbers that Adam reads and writes for each weight: θ, g, m, v; θ, m, v."""


@dataclass
class Rates:
    """What so many threads of this machine do at once, each with its own share of the cores."""

    workers: int
    threads: int
    """Of each worker."""
    passes: dict[int, float] = field(default_factory=dict)
    """Bytes per second of a worker, by the size of what is copied."""
    functions: dict[int, float] = field(default_factory=dict)
    drawing: float = 0.0
    call: float = 0.0
    """Seconds of the smallest operation, its share of the backward pass included."""
    known: dict[Product, float] = field(default_factory=dict)

    @classmethod
    def measured(cls, workers: int, threads: int) -> "Rates":
        keep_pages()
        found = cls(workers, threads)
        for size in SIZES:
            x = torch.ones(size // 4)
            y = torch.empty_like(x)
            found.passes[size] = 2 * size / found.seconds(partial(y.copy_, x))
            found.functions[size] = 2 * size / found.seconds(partial(torch.exp, x, out=y))
        words = torch.empty(SIZES[1] // 8, dtype=torch.int64)
        found.drawing = SIZES[1] / found.seconds(lambda: words.random_(-(2**63), None))
        small = torch.ones(16, requires_grad=True)
        total: Any = lambda: (small + 1.0).sum()  # noqa: E731 - of any type
        found.call = found.seconds(lambda: total().backward()) / 6
        return found

    def seconds(self, work: Callable[[], Any]) -> float:
        """Of the work, done by all workers at once; the quickest of a few rounds."""

        def round_(_: int = 0) -> float:
            work()
            start = time.perf_counter()
            work()
            once = time.perf_counter() - start
            repeats = max(1, min(50, int(0.004 / max(once, 1e-7))))
            start = time.perf_counter()
            for _ in range(repeats):
                work()
            return (time.perf_counter() - start) / repeats

        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            if self.workers == 1:
                return min(round_() for _ in range(ROUNDS))
            with ThreadPoolExecutor(
                self.workers, "rates", torch.set_num_threads, (self.threads,)
            ) as pool:
                rounds = [max(pool.map(round_, range(self.workers))) for _ in range(ROUNDS)]
            return min(rounds)
        finally:
            torch.set_num_threads(before)

    def product(self, asked: Product) -> float:
        """Seconds of a product, timed once."""
        if asked not in self.known:
            part = max(1.0, asked.flops / LONGEST)
            batch = max(1, round(asked.batch / part))
            rows = asked.m if asked.batch > 1 else max(1, round(asked.m / part))
            dtype = getattr(torch, asked.dtype)
            a = torch.ones(batch, rows, asked.k, dtype=dtype)
            b = torch.ones(batch, asked.k, asked.n, dtype=dtype)
            if batch == 1:
                a, b = a[0], b[0]
            cut = Product(batch, rows, asked.k, asked.n, asked.dtype)
            taken = self.seconds(lambda: torch.matmul(a, b))
            self.known[asked] = taken * asked.flops / max(1, cut.flops)
        return self.known[asked]

    def pass_(self, size: float, functions: bool) -> float:
        """Bytes per second of a pass over so many bytes."""
        table = self.functions if functions else self.passes
        return next((rate for most, rate in table.items() if size <= 2 * most), table[SIZES[-1]])


def step_seconds(trace: Trace, rates: Rates) -> float:
    """Of a forward and a backward pass."""
    total = 0.0
    for each in trace.operations.values():
        if each.name in FREE or each.count <= 0:
            continue
        total += each.count * rates.call * rates.workers
        if each.products:
            total += each.count * sum(n * rates.product(product) for product, n in each.products)
        elif each.name in DRAWN:
            total += each.bytes / rates.drawing
        else:
            # Most of what is read was written long ago, before all that is kept since.
            size = max(each.bytes / each.count, trace.kept_bytes)
            total += each.bytes / rates.pass_(size, any(w in each.name for w in FUNCTIONS))
    return total


def optimizer_seconds(trained: int, tensors: int, rates: Rates, clip: bool) -> float:
    """Adam, the norm of the gradient, clipping, and the sum of the workers' gradients."""
    numbers = ADAM + 1 + 2 * clip + 3 * (rates.workers - 1)
    calls = 14 * tensors * rates.call
    return 4.0 * numbers * trained / rates.pass_(4.0 * trained, False) + calls


def estimate(
    subject: Subject,
    tokens: float | None,
    watts: float | None = None,
    price: float | None = None,
    pue: float | None = None,
) -> estimates.Estimate:
    """The plan of a subject on this machine."""
    settings: Config = device.settle(replace(subject.recipe.train, device="cpu"))
    base = resident()
    workers = _workers(subject.batch, settings)
    rates = Rates.measured(workers, max(1, settings.threads // workers))
    model = subject.recipe.model
    found = counting.parameters(model, subject.sizes)
    whole = counting.step(model, subject.sizes, subject.batch, subject.loss)
    counts = estimates.count(subject, whole, found, tokens)
    seconds, peak = _predicted(subject, settings, rates, found)
    update = seconds * settings.accumulate + optimizer_seconds(
        found.trained, found.tensors, rates, bool(settings.clip)
    )
    update += subject.batch_seconds * settings.accumulate
    best = max(_rates(rates).values())
    here = Device(
        HERE, {"float32": best, settings.precision: best},
        budget.free("cpu"), rates.workers * rates.passes[SIZES[-1]],
        WATTS * settings.threads if watts is None else watts,
        PRICE * settings.threads if price is None else price,
        settings.precision, 1.0,
        f"{device.processor()}, {settings.threads} threads, measured now", measured=True,
    )  # fmt: skip
    per_second = counts.tokens * counts.accumulate / update
    reached = counts.per_token * per_second
    taken = cost.Assumptions(
        min(1.0, reached / best), here.watts, here.price, cost.PUE if pue is None else pue
    )
    needs = counts.needs("float32", subject.batch.divisible)
    rows = counts.rows * counts.accumulate
    chosen = layout.choose(needs, 1, here.memory, rows)
    fewest = None if chosen else layout.fewest(needs, here.memory, rows)
    return estimates.Estimate(
        subject, counts, here, 1, settings.precision, taken, chosen, fewest, per_second,
        step_seconds=update, peak_bytes=base + peak,
    )  # fmt: skip


def _workers(batch: Batch, settings: Config) -> int:
    """How many threads take rows of their own (`train/team.py`)."""
    positions = max((t.numel() for t in batch.tensors.values()), default=0)
    possible = min(settings.threads, team.MOST, len(batch), positions // memory.FEWEST)
    return max(1, possible) if batch.divisible else 1


def _predicted(
    subject: Subject, settings: Config, rates: Rates, found: counting.Parameters
) -> tuple[float, float]:
    """Seconds of a middle batch, and bytes that training adds to the process at most."""

    def prepare(model: Any) -> None:
        device.set_precision(model, settings)

    def traced(batch: Batch) -> Trace:
        share = _rows(batch, -(-len(batch) // rates.workers))
        model = subject.recipe.model
        return counting.step(model, subject.sizes, share, subject.loss, prepare).trace

    middle = traced(subject.batch)
    largest = middle if subject.largest is subject.batch else traced(subject.largest)
    state = (layout.WEIGHT + layout.OPTIMIZER) * found.trained
    state += layout.WEIGHT * (found.total - found.trained)
    step = rates.workers * largest.peak_bytes
    descent = 3 * layout.GRADIENT * found.trained
    return step_seconds(middle, rates), state + max(step, descent)


def _rows(batch: Batch, count: int) -> Batch:
    """The first rows of a batch; its tensors may have several for an example."""
    rows = {name: t[: len(t) * count // len(batch)] for name, t in batch.tensors.items()}
    return replace(batch, tensors=rows, ids=batch.ids[:count])


def _rates(rates: Rates) -> dict[Product, float]:
    """FLOP/s of all workers, for each product that was timed."""
    found = {p: rates.workers * p.flops / seconds for p, seconds in rates.known.items() if seconds}
    return found or {Product(1, 1, 1, 1, "float32"): 1.0}


def resident() -> int:
    """Bytes of memory that this process holds; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
