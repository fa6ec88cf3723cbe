"""A toy: two things to know of one text, the second of every other text alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.model import Model
from regard.types import ALL, Batch, Carry, Position, Sizes, Terms
from tests.own_parts.toy import Plan, Toy

TOKENS, LENGTH, ROWS = 11, 5, 8
PARTS = {
    "input": "tokens",
    "encoder": "rnn",
    "heads": {"first": "labels", "*": "labels"},
}
ABSENT = ("heads.first",)


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
    """Row n of batch i is drawn from (seed, i); the parity of its sum is known where n is even."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def at(self, position: Position, rows: slice = ALL) -> Batch:
        draw = torch.Generator().manual_seed(1000 * self.seed + position.index)
        text = torch.randint(0, TOKENS, (ROWS, LENGTH), generator=draw)[rows]
        ids = tuple(range(ROWS))[rows]
        known = torch.tensor([n % 2 == 0 for n in ids])
        tensors = {
            "text": text,
            "text_mask": torch.ones_like(text, dtype=torch.bool),
            "first": text[:, 0],
            "parity": text.sum(1) % 2,
            "known": known,
        }
        counts = {"parity.loss": int(known.sum()), "parity.nll": int(known.sum())}
        return Batch(tensors=tensors, ids=ids, targets=len(ids), counts=counts)

    def after(self, position: Position) -> Position:
        return Position(0, position.index + 1)


class Task(Toy):
    """Its first token, and whether its sum is odd."""

    def __init__(self, config: Config, folder: Path) -> None:
        predicted = {"first": {"outputs": TOKENS}, "parity": {"outputs": 2}}
        self.sizes = Sizes({"text": {"tokens": TOKENS}} | predicted, reads="text")

    def batches(self, seed: int) -> Batches:
        return Batches(seed)

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        memory = model.encode(batch)
        assert memory is not None
        terms: Terms = {}
        for name, head in model.heads.items():
            rows = batch["known"] if name == "parity" else slice(None)
            found = head.loss(memory.states[rows], batch[name][rows], memory.mask[rows])
            terms |= {f"{name}.{term}": value for term, value in found.items()}
        return terms, None
