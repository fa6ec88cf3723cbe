"""Which way of training fits into the memory of the devices.

With N weights, n devices, r rows of a batch on each at once, and A(r) the bytes of activations:

    one device, DDP      b N + A(r)                every device has all
    FSDP                 b N / n + 2 G + A(r)      each has its share; G are the weights of the
                                                   layer that is computed, and of the next

where b = 16 in all precisions: the weights, their gradient and Adam's two moments are float32. With
activation checkpointing A is what the layers read, and what one of them keeps.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

WEIGHT, GRADIENT, OPTIMIZER = 4, 4, 8
"""Bytes for each weight: float32, and Adam's two moments of it."""
ROOM = 0.9
"""Of a device's memory; the rest is for the allocator, kernels and buffers."""


@dataclass(frozen=True)
class Needs:
    """What a model and one micro-batch of it take, in bytes."""

    parameters: int
    trained: int
    largest_layer: int
    """Weights of it."""
    rows: int
    """Examples of the micro-batch that the rest is about."""
    activations: float
    checkpointed: float
    """The same with activation checkpointing."""
    divisible: bool = True
    """Whether a batch may be split."""

    @property
    def weights(self) -> int:
        return WEIGHT * self.parameters

    @property
    def gradients(self) -> int:
        return GRADIENT * self.trained

    @property
    def optimizer(self) -> int:
        return OPTIMIZER * self.trained

    @property
    def state(self) -> int:
        return self.weights + self.gradients + self.optimizer


@dataclass(frozen=True)
class Layout:
    """A way of training that fits."""

    kind: str
    """one device, DDP or FSDP."""
    devices: int
    rows: int
    """Examples on a device at once."""
    accumulate: int
    """Micro-batches of each device for an update."""
    checkpointing: bool
    bytes: float
    """That each device needs."""
    memory: float
    """That it has."""

    def as_dict(self) -> dict[str, Any]:
        found = asdict(self)
        found["bytes_per_device"] = found.pop("bytes")
        found["memory_bytes_per_device"] = found.pop("memory")
        return found | {"keys": self.keys}

    @property
    def keys(self) -> list[str]:
        """What the recipe must say; batches are split by themselves."""
        said = {
            "train.sharding=full": self.kind == "FSDP",
            "train.activation_checkpointing=true": self.checkpointing,
        }
        return [key for key, wanted in said.items() if wanted]

    def __str__(self) -> str:
        many = f" over {self.devices:,} devices" if self.devices > 1 else ""
        keeps = "with" if self.checkpointing else "without"
        keys = f"; set {' '.join(self.keys)}" if self.keys else ""
        return (
            f"{self.kind}{many}, {self.rows:,} examples on each at once, accumulate = "
            f"{self.accumulate:,}, {keeps} activation checkpointing: "
            f"{self.bytes / 1e9:.1f} of {self.memory / 1e9:.0f} GB{keys}"
        )


def ways(needs: Needs, devices: int, update_rows: int) -> Iterator[tuple[str, int, bool, float]]:
    """(kind, rows, checkpointing, bytes) in the order in which they are preferred: without sharding
    before sharding, without recomputation before it, large micro-batches before small ones."""
    most = max(1, math.ceil(update_rows / devices))
    sizes = sorted({*_halves(min(most, needs.rows)), min(most, needs.rows)}, reverse=True)
    if not needs.divisible:
        sizes = sizes[:1]
    kinds = ["one device"] if devices == 1 else ["DDP", "FSDP"]
    for kind in kinds:
        state = needs.state / devices + 2 * WEIGHT * needs.largest_layer
        state = state if kind == "FSDP" else needs.state
        for checkpointing in (False, True):
            kept = needs.checkpointed if checkpointing else needs.activations
            for rows in sizes:
                yield kind, rows, checkpointing, state + kept * rows / needs.rows


def _halves(rows: int) -> Iterator[int]:
    while rows >= 1:
        yield rows
        rows //= 2


def choose(needs: Needs, devices: int, memory: float, update_rows: int) -> Layout | None:
    """The first way that fits; None if none does."""
    for kind, rows, checkpointing, size in ways(needs, devices, update_rows):
        if size <= ROOM * memory:
            accumulate = max(1, math.ceil(update_rows / (rows * devices)))
            return Layout(kind, devices, rows, accumulate, checkpointing, size, memory)
    return None


def fewest(needs: Needs, memory: float, update_rows: int) -> int | None:
    """How many devices would do; None if no number would."""
    rows = 1 if needs.divisible else needs.rows
    alone = 2 * WEIGHT * needs.largest_layer + needs.checkpointed * rows / needs.rows
    left = ROOM * memory - alone
    if left <= 0:
        return None
    least = max(1, math.ceil(needs.state / left))
    return next((n for n in (1, least) if choose(needs, n, memory, update_rows)), None)
