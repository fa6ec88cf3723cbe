"""The plan of one training: counts, memory, time, layout and cost, as a table and as JSON."""

import math
from dataclasses import dataclass
from typing import Any

from regard.console.tables import Block, Shown
from regard.plan import cost, layout
from regard.plan.counting import Parameters, Step
from regard.plan.hardware import Device
from regard.plan.subject import Subject

HALF = {"float32": 1.0, "bfloat16": 0.5, "float16": 0.5}
"""What activations take of their float32 size."""
PETAFLOP_DAY = 1e15 * 86400


@dataclass(frozen=True)
class Counts:
    """Of one micro-batch of a model, and of all of them."""

    parameters: Parameters
    step: Step
    tokens: int
    """Of a micro-batch: target tokens where text is written, vectors that are read otherwise."""
    unit: str
    rows: int
    accumulate: int
    total_tokens: float | None
    """Of the whole training; None where nobody knows."""

    @property
    def forward(self) -> float:
        """FLOPs per token."""
        return self.step.trace.forward_flops / self.tokens

    @property
    def per_token(self) -> float:
        """FLOPs per token, forwards and backwards."""
        return self.step.trace.flops / self.tokens

    @property
    def rule(self) -> float:
        """6 N for each token, N without embeddings."""
        return 6.0 * self.parameters.non_embedding

    @property
    def total(self) -> float | None:
        return None if self.total_tokens is None else self.per_token * self.total_tokens

    @property
    def activations(self) -> float:
        """Bytes of a micro-batch, in float32."""
        return self.step.trace.kept_bytes

    @property
    def checkpointed(self) -> float:
        """The same where each layer's are computed again: what layers read, what one keeps, and all
        that is outside of layers."""
        stacks = self.step.stacks.values()
        outside = self.activations - sum(s.layers * s.kept_bytes for s in stacks)
        read = sum(s.layers * s.input_bytes for s in stacks)
        one = max((s.kept_bytes for s in stacks), default=0.0)
        return min(self.activations, max(0.0, outside) + read + one)

    def needs(self, precision: str, divisible: bool) -> layout.Needs:
        scale, found = HALF[precision], self.parameters
        return layout.Needs(
            found.total, found.trained, found.largest, self.rows, self.activations * scale,
            self.checkpointed * scale, divisible,
        )  # fmt: skip


def count(subject: Subject, step: Step, found: Parameters, tokens: float | None) -> Counts:
    """All that can be counted of a subject."""
    train, batch = subject.recipe.train, subject.batch
    if "target_in" in batch.tensors:
        mask = batch.tensors.get("target_mask")
        own = int(mask.sum()) if mask is not None else batch["target_in"].numel()
        unit = "target tokens"
    else:
        own, unit = max(1, sum(step.trace.positions.values())), "vectors read"
    total: float | None = tokens
    if total is None and not (train.epochs and subject.source == "assumed"):
        total = float(train.updates * train.accumulate * own)
        total = min(total, train.tokens) if train.tokens else total
    return Counts(found, step, own, unit, subject.rows, train.accumulate, total)


@dataclass(frozen=True)
class Estimate(Shown):
    """What a training will cost."""

    subject: Subject
    counts: Counts
    device: Device
    devices: int
    precision: str
    assumed: cost.Assumptions
    layout: layout.Layout | None
    fewest: int | None
    """Devices that would do where nothing fits; None where no number would."""
    tokens_per_second: float
    step_seconds: float | None = None
    """Of an update on this machine."""
    peak_bytes: float | None = None
    """Of the process on this machine."""

    @property
    def cost(self) -> cost.Cost | None:
        total = self.counts.total_tokens
        if total is None:
            return None
        return cost.Cost(total / self.tokens_per_second, self.devices, self.assumed)

    def as_dict(self) -> dict[str, Any]:
        found, trace = self.counts, self.counts.step.trace
        needs = found.needs(self.precision, self.subject.batch.divisible)
        total = found.total
        return {
            "recipe": self.subject.name,
            "task": self.subject.recipe.kind,
            "sizes_from": self.subject.source,
            "assumptions": list(self.subject.notes),
            "parameters": found.parameters.total,
            "parameters_trained": found.parameters.trained,
            "parameters_embedding": found.parameters.embedding,
            "parameters_by_part": found.parameters.parts,
            "token_unit": found.unit,
            "flops_per_token": found.per_token,
            "flops_per_token_forward": found.forward,
            "flops_per_token_backward": found.per_token - found.forward,
            "flops_per_token_6n": found.rule,
            "flops_per_update": trace.flops * found.accumulate,
            "tokens_per_update": found.tokens * found.accumulate,
            "examples_per_update": found.rows * found.accumulate,
            "total_tokens": found.total_tokens,
            "total_flops": total,
            "total_petaflop_s_days": None if total is None else total / PETAFLOP_DAY,
            "precision": self.precision,
            "memory_bytes": {
                "weights": needs.weights,
                "gradients": needs.gradients,
                "optimizer": needs.optimizer,
                "activations": needs.activations,
                "activations_checkpointed": needs.checkpointed,
            },
            "hardware": {
                "name": self.device.name,
                "devices": self.devices,
                "source": self.device.source,
                "measured": self.device.measured,
                "flops_per_second": self.device.rate(self.precision),
                "memory_bytes": self.device.memory,
                "bandwidth_bytes_per_second": self.device.bandwidth,
                "utilisation": self.assumed.utilisation,
                "watts": self.assumed.watts,
                "usd_per_hour": self.assumed.price,
                "pue": self.assumed.pue,
                "host_factor": self.assumed.host,
            },
            "tokens_per_second": self.tokens_per_second,
            "step_seconds": self.step_seconds,
            "peak_bytes": self.peak_bytes,
            "layout": self.layout.as_dict() if self.layout else None,
            "devices_needed": self.devices if self.layout else self.fewest,
            "cost": self.cost.as_dict() if self.cost else None,
        }

    # What a person reads

    def blocks(self) -> list[Block]:
        return [self._counted(), self._memory(), self._where()]

    def _counted(self) -> Block:
        found = self.counts
        parts = [(name, f"{n:,}") for name, n in found.parameters.parts.items()]
        rule = found.rule / found.per_token if found.per_token else math.nan
        rows = [
            *((f"parameters of {name}", n) for name, n in parts),
            ("parameters in all", f"{found.parameters.total:,}"),
            ("of them in embeddings", f"{found.parameters.embedding:,}"),
            ("FLOPs per token", f"{found.per_token:.4g}  (forward {found.forward:.4g})"),
            ("6 N per token", f"{found.rule:.4g}  ({rule:.2f} of the count; no embeddings)"),
            ("an update", f"{found.tokens * found.accumulate:,} {found.unit}, "
             f"{found.rows * found.accumulate:,} examples"),
        ]  # fmt: skip
        if found.total is not None and found.total_tokens is not None:
            days = found.total / PETAFLOP_DAY
            text = f"{found.total_tokens:.4g} {found.unit}, {found.total:.3g} FLOPs"
            rows.append(("the training", f"{text}, {days:.3g} petaflop/s-days"))
        else:
            rows.append(("the training", "unknown: the recipe counts epochs; give --tokens"))
        title = f"{self.subject.name} ({self.subject.recipe.kind})"
        return Block(("", ""), rows, title, self._assumptions())

    def _assumptions(self) -> list[str]:
        notes = self.subject.notes
        return [f"Assumed: {'; '.join(notes)}."] if notes else []

    def _memory(self) -> Block:
        needs = self.counts.needs(self.precision, self.subject.batch.divisible)
        rows = [
            ("weights", size(needs.weights), "float32"),
            ("gradients", size(needs.gradients), "float32"),
            ("optimizer", size(needs.optimizer), "Adam: two moments, float32"),
            ("activations", size(needs.activations),
             f"{self.counts.rows:,} examples, {self.precision}"),
            ("with checkpointing", size(needs.checkpointed), "each layer computed twice"),
        ]  # fmt: skip
        return Block(("", "", ""), rows, "Memory of a micro-batch")

    def _where(self) -> Block:
        device, assumed = self.device, self.assumed
        rows = [
            ("hardware", f"{self.devices:,} × {device.name}: {device.source}"),
            ("rate", f"{device.rate(self.precision) / 1e12:,.3g} TFLOP/s each in {self.precision}"
             + ("" if device.measured else f", utilisation {assumed.utilisation:g}")),
            ("layout", self._layout()),
            ("tokens per second", f"{self.tokens_per_second:,.0f}"),
        ]  # fmt: skip
        if self.step_seconds is not None:
            rows.append(("an update", duration(self.step_seconds)))
        if self.peak_bytes is not None:
            rows.append(("peak memory", f"{size(self.peak_bytes)} of this process"))
        if (found := self.cost) is not None:
            rows += [
                ("time", f"{duration(found.seconds)} ({found.days:.3g} days)"),
                ("energy", f"{found.kilowatt_hours:,.3g} kWh ({assumed.watts:g} W a device, "
                 f"× {assumed.host:g} for its machine, PUE {assumed.pue:g})"),
                ("price", f"{found.dollars:,.2f} US$ ({assumed.price:g} US$ an hour and device)"),
            ]  # fmt: skip
        return Block(("", ""), rows, "Where and how long")

    def _layout(self) -> str:
        if self.layout is not None:
            return str(self.layout)
        if self.fewest is not None:
            return f"nothing fits on {self.devices:,}; {self.fewest:,} of them would do, by FSDP"
        return (
            "nothing fits on any number of these: one layer and one example are too large; "
            "make layers narrower, texts shorter, or take devices with more memory"
        )


def size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"


def duration(seconds: float) -> str:
    for limit, unit, name in ((1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min"),
                              (172800, 3600, "h")):  # fmt: skip
        if seconds < limit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 86400:,.1f} days"
