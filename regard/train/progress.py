"""Where a run stands, and the sums between two of its records."""

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any

from torch import Tensor

from regard.errors import UserError
from regard.recipe import checked
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
    pieces: int = 1
    """Into how many each batch is cut, so that processes can share it (`pieces.py`)."""
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
    counts: dict[str, int] = field(default_factory=dict)
    """The same for each term of the loss, which may have a count of its own."""
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
        """What `as_dict` gave, checked; a checkpoint of an older version lacks some of it."""
        try:
            return cls(**_checked(dict(table)))
        except ValueError as error:
            raise UserError(f"progress.json does not tell where a run stands: {error}") from None


def _checked(table: dict[str, Any]) -> dict[str, Any]:
    """Every value of the kind and in the range that it has in a run; ValueError otherwise."""
    known = {each.name for each in fields(Progress)}
    checked.keys(table, "it", {"update", "position", "scores"}, known)
    found = {name: CHECKS[name](value, name) for name, value in table.items()}
    later = [found.get(name, 0) for name in ("best_update", "recorded", "validated")]
    if max(*later, *map(int, found["scores"])) > found["update"]:
        raise ValueError(f"it knows of updates after its own, {found['update']}")
    return found


def _position(value: Any, name: str) -> Position:
    place = checked.keys(value, name, {"epoch", "index"})
    return Position(*(checked.whole(place[key], f"{name}.{key}") for key in ("epoch", "index")))


def _scores(value: Any, name: str) -> dict[str, float]:
    """By update. What a model that has diverged scores need not be finite."""
    for update, score in checked.table(value, name).items():
        if not re.fullmatch("0|[1-9][0-9]{0,17}", update) or type(score) not in (int, float):
            raise ValueError(f"{name} does not give a number for each update")
    return {update: float(score) for update, score in value.items()}


def _maybe(value: Any, name: str) -> float | None:
    return None if value is None else checked.number(value, name)


def _several(check: Callable[[Any, str], Any]) -> Callable[[Any, str], dict[str, Any]]:
    """The same check for each value of an object."""
    return lambda value, name: {
        key: check(each, name) for key, each in checked.table(value, name).items()
    }


def _plain(value: Any, name: str) -> str | int | float:
    if not isinstance(value, str):
        checked.number(value, name)
    return value  # type: ignore[no-any-return]


CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "position": _position,
    "scores": _scores,
    "finished": checked.truth,
    "sums": _several(checked.number),
    "counts": _several(checked.whole),
    "signs": _several(checked.whole),
    "machine": _several(_plain),
    **dict.fromkeys(("recorded", "validated"), partial(checked.whole, low=-1)),
    **dict.fromkeys(("seconds", "cpu_seconds", "memory"), partial(checked.number, low=0.0)),
    **dict.fromkeys(("best", "loss", "lowest", "then"), _maybe),
    **dict.fromkeys(("update", "tokens", "best_update", "stale"), checked.whole),
    **dict.fromkeys(("refused", "lowered", "counted"), checked.whole),
    "pieces": partial(checked.whole, low=1),
}
"""What `progress.json` may hold, and how each is checked."""


class Clock:
    """Counts targets, time and loss between two records."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self._since, self._from, self._norm = self._wall, progress.tokens, 0.0
        self._sums: dict[str, Tensor | float] = dict(progress.sums)
        # A checkpoint of an older version has no counts: each term had all targets.
        progress.counts = dict.fromkeys(progress.sums, progress.counted) | progress.counts

    def count(
        self, sums: Mapping[str, Tensor], counts: Mapping[str, int], targets: int, norm: Tensor
    ) -> None:
        """Add an update: the sum and count of each term, and its targets. What was refused, and has
        no finite norm, has no part in the means."""
        progress = self._progress
        progress.tokens += targets
        self._norm = float(norm) if math.isfinite(norm) else 0.0
        if not math.isfinite(norm):
            return
        for name, total in sums.items():
            self._sums[name] = self._sums.get(name, 0.0) + total
            progress.counts[name] = progress.counts.get(name, 0) + counts[name]
        progress.counted += targets

    def stamp(self) -> None:
        """Add the time since the last stamp to the progress, and what the next record needs."""
        wall, cpu = time.perf_counter(), time.process_time()
        self._progress.seconds += wall - self._wall
        self._progress.cpu_seconds += cpu - self._cpu
        self._wall, self._cpu = wall, cpu
        self._progress.sums = {name: float(total) for name, total in self._sums.items()}

    def record(self, rate: float) -> dict[str, Any]:
        self.stamp()
        progress = self._progress
        speed = (progress.tokens - self._from) / (self._wall - self._since)
        means = {n: total / max(1, progress.counts[n]) for n, total in progress.sums.items()}
        self._since, self._from, self._sums = self._wall, progress.tokens, {}
        progress.sums, progress.counts, progress.counted = {}, {}, 0
        progress.recorded = progress.update
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
