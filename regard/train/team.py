"""One batch on several threads of a processor: each takes rows of its own through the whole model.

    ∇L = Σₖ ∇Lₖ        Lₖ the loss of the rows that thread k has

Threads inside an operation wait for each other at its end, thousands of times for an update; when
another program takes a core, all wait for the one that has none. Here they meet once. Each has a
twin of the model, which shares the weights and has gradients of its own; these are summed in a
fixed order, and chance is drawn per part (`layers/draws.py`): so an update is the same however
quick each thread is. It is that of the whole batch, but for rounding and for what dropout draws.
"""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import torch
from torch import nn

from regard.train.job import Objective

Item = TypeVar("Item")
Result = TypeVar("Result")
MOST = 2
"""Twins. With more, Python's lock would be waited for; further threads work inside operations."""


class SharedDraws(Exception):
    """A part of the model drew from PyTorch's one generator while several threads did."""


class Team:
    """An objective and its twins, each with its share of the threads."""

    def __init__(
        self, objective: nn.Module, threads: int, device: torch.device, *, alone: bool = False
    ) -> None:
        """`alone`: without twins, which cannot share weights that are divided among ranks."""
        possible = isinstance(objective, Objective) and device.type == "cpu" and not alone
        self.size = max(1, min(threads, MOST)) if possible else 1
        self.objectives = [objective, *(_twin(objective) for _ in range(self.size - 1))]
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    def each(
        self, work: Callable[[nn.Module, Item], Result], items: Sequence[Item]
    ) -> list[Result]:
        """`work` of each item, in order. The items of one batch are for as many objectives."""
        if self.size == 1 or len(items) == 1:
            return [work(self.objectives[0], item) for item in items]
        share = self._threads // self.size
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.size, "team", torch.set_num_threads, (share,))

        def several(n: int) -> list[Result]:
            return [work(self.objectives[n], item) for item in items[n :: self.size]]

        chance = torch.get_rng_state()
        torch.set_num_threads(share)  # MKL has one setting for all threads
        try:
            begun = [self._pool.submit(several, n) for n in range(self.size)]
            wait(begun)
        finally:
            torch.set_num_threads(self._threads)
        found = [each.result() for each in begun]
        if not torch.equal(chance, torch.get_rng_state()):
            raise SharedDraws
        return [found[n % self.size][n // self.size] for n in range(len(items))]

    def disband(self) -> None:
        """One after the other from now on."""
        self.forget()
        self.close()
        self.size, self.objectives = 1, self.objectives[:1]

    def train(self) -> None:
        for objective in self.objectives:
            objective.train()

    def sum_gradients(self) -> None:
        """Into those of the objective itself, one twin after the other."""
        own = list(self.objectives[0].parameters())
        for twin in self.objectives[1:]:
            for mine, other in zip(own, twin.parameters(), strict=True):
                if mine.grad is None:
                    mine.grad = other.grad
                elif other.grad is not None:
                    mine.grad += other.grad
        self.forget()

    def forget(self) -> None:
        """Drop the twins' gradients."""
        for twin in self.objectives[1:]:
            twin.zero_grad(set_to_none=True)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


def _twin(objective: nn.Module) -> Objective:
    """The same weights in the same memory, in modules of its own."""
    assert isinstance(objective, Objective)
    memo = {id(p): nn.Parameter(p.detach(), p.requires_grad) for p in objective.parameters()}
    return Objective(copy.deepcopy(objective.model, memo), objective.loss)
