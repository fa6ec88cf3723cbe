"""Where a run stands, and the sums between two of its records."""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor

from regard.errors import UserError
from regard.types import Position


@dataclass
class Progress:
    """All that resuming needs beside weights and optimizer."""

    update: int = 0
    position: Position = field(default_factory=Position)
    tokens: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    best: float | None = None
    best_update: int = 0
    stale: int = 0
    refused: int = 0
    """Updates in a row whose numbers were not finite, up to this one."""
    lowered: int = 0
    """How often training has gone back, each time with a lower rate."""
    memory: float = 0.0
    """GB that a batch may take at most, since one of more did not fit; 0: none has failed yet."""
    machine: dict[str, Any] = field(default_factory=dict)
    """What the last start decided, and on what kind of machine."""
    finished: bool = False
    recorded: int = -1
    """The last update whose record is made."""
    validated: int = -1
    """The last update that was validated."""
    scores: dict[str, float] = field(default_factory=dict)
    """The metric of each validation, by its update."""
    sums: dict[str, float] = field(default_factory=dict)
    """Loss since the last record, so that the next one is the same after an interruption."""
    counted: int = 0
    """Targets since the last record."""
    loss: float | None = None
    """The mean loss of the last record."""
    lowest: float | None = None
    """The lowest loss of a validation."""
    then: float | None = None
    """The training's mean loss at that time."""
    signs: dict[str, int] = field(default_factory=dict)
    """For how many validations each sign of trouble has been there."""

    def __post_init__(self) -> None:
        # A checkpoint of an older version does not tell: it was made when all was done.
        self.recorded = self.update if self.recorded < 0 else self.recorded
        self.validated = self.update if self.validated < 0 else self.validated

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> "Progress":
        try:
            scores = {str(int(update)): float(v) for update, v in table["scores"].items()}
            position = Position(**table["position"])
            return cls(**{**table, "position": position, "scores": scores})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"progress.json does not tell where a run stands: {error}") from None


class Clock:
    """Counts targets, time and loss between two records."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self._since, self._from, self._norm = self._wall, progress.tokens, 0.0
        self._sums: dict[str, Tensor | float] = dict(progress.sums)
        self._tokens = progress.counted

    def count(self, terms: Mapping[str, Tensor], targets: int, norm: Tensor) -> None:
        """Add an update. What was refused, and has no finite norm, has no part in the means."""
        self._progress.tokens += targets
        self._norm = float(norm) if math.isfinite(norm) else 0.0
        if not math.isfinite(norm):
            return
        for name, total in terms.items():
            self._sums[name] = self._sums.get(name, 0.0) + total
        self._tokens += targets

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
        progress = self._progress
        speed = (progress.tokens - self._from) / (self._wall - self._since)
        means = {name: float(total) / max(1, self._tokens) for name, total in self._sums.items()}
        self._since, self._from = self._wall, progress.tokens
        self._sums, self._tokens = {}, 0
        progress.sums, progress.counted, progress.recorded = {}, 0, progress.update
        progress.loss = means.get("nll", means.get("mse", progress.loss))
        return {
            "kind": "train",
            "update": progress.update,
            "tokens": progress.tokens,
            **means,
            "norm": self._norm,
            "rate": rate,
            "tokens_per_second": speed,
            "seconds": progress.seconds,
            "cpu_seconds": progress.cpu_seconds,
        }
