"""The one module that is wrapped, for many processes or a compiler: a model and its loss."""

from collections.abc import Callable
from typing import Any

from torch import nn

from regard.types import Batch, Carry, Terms

Loss = Callable[[Any, Batch, Carry], tuple[Terms, Carry]]


class Objective(nn.Module):
    """batch, carry ↦ loss terms, new carry."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        return self.loss(self.model, batch, carry)
