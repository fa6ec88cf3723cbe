"""A toy: which text on the right belongs to which on the left, by two towers and no head."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.model import Model
from regard.types import ALL, Batch, Carry, Position, Sizes, Term, Terms
from tests.own_parts.toy import Plan, Toy

TOKENS, LENGTH, ROWS = 11, 5, 8
PARTS = {
    "towers": {
        "left": {"input": "tokens", "encoder": "rnn"},
        "right": {"input": "tokens", "encoder": "none"},
    }
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Nothing to set."""


def metrics(config: Config) -> dict[str, str]:
    return {"nll": "lower"}


def check(recipe: Any) -> None:
    pass


def plan(config: Config) -> Plan:
    return Plan()


class Batches:
    """Row n of batch i is drawn from (seed, i): the right side is the left one, 1 added to each."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def at(self, position: Position, rows: slice = ALL) -> Batch:
        draw = torch.Generator().manual_seed(1000 * self.seed + position.index)
        left = torch.randint(0, TOKENS - 1, (ROWS, LENGTH), generator=draw)[rows]
        mask = torch.ones_like(left, dtype=torch.bool)
        tensors = {"left": left, "left_mask": mask, "right": left + 1, "right_mask": mask}
        ids = tuple(range(ROWS))[rows]
        return Batch(tensors=tensors, ids=ids, targets=len(ids), divisible=False)

    def after(self, position: Position) -> Position:
        return Position(0, position.index + 1)


class Task(Toy):
    """Alike are those that belong together."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.sizes = Sizes({"left": {"tokens": TOKENS}, "right": {"tokens": TOKENS}})

    def batches(self, seed: int) -> Batches:
        return Batches(seed)

    def logits(self, model: Model, batch: Batch) -> Tensor:
        """How alike each left is to each right (B, B)."""
        left, right = (model.encode(batch, side) for side in ("left", "right"))
        assert left is not None and right is not None
        return left.states.mean(1) @ right.states.mean(1).T

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        logits = self.logits(model, batch)
        nll = F.cross_entropy(logits, torch.arange(len(batch)), reduction="sum")
        return {"nll": Term(nll, len(batch))}, None
