"""Change what a model computes on the way, and see what becomes of its output.

    with intervene(model, WithoutHead("encoder", 0, 3)):
        predictor.predict(["a dog runs ."])

Nothing of the model is changed: afterwards all is as before.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import UserError
from regard.inspect.capture import ADDS_NOTHING, submodule
from regard.layers.attention import MultiHeadAttention
from regard.layers.position import PositionalEncoding
from regard.layers.probe import watch
from regard.model import Model

PLACES = {
    "encoder": ("encoder", "attention"),
    "decoder": ("decoder", "attention"),
    "cross": ("decoder", "cross"),
}
"""Kinds of attention: the part in which each is, and its name in a block of it."""


@runtime_checkable
class Change(Protocol):
    """Something that is different while `applied` lasts."""

    def applied(self, model: Model) -> AbstractContextManager[None]: ...


@contextmanager
def intervene(model: Model, *changes: Change) -> Iterator[None]:
    """Let the changes hold inside the `with`; where two touch the same value, the last wins."""
    with ExitStack() as stack:
        # Even a change that needs no probe is seen: no other engine may take the model's place.
        stack.enter_context(watch(lambda name, value: value))
        for change in changes:
            stack.enter_context(change.applied(model))
        yield


@dataclass(frozen=True)
class WithoutHead:
    """Switch off one head: its part of  [head_1; …; head_H]  is zero before W^O mixes them."""

    kind: str
    """encoder, decoder (their self-attention), or cross (the decoder's look at the memory)."""
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer}.{self.head}"

    def applied(self, model: Model) -> AbstractContextManager[None]:
        there = attentions(model)
        module = there.get((self.kind, self.layer))
        if module is None or not 0 <= self.head < module.heads:
            raise UserError(f"there is no attention head {self}; there are {_ranges(there)}")
        target = f"{probed(self.kind, self.layer)}.heads"

        def zero(name: str, value: Tensor) -> Tensor:  # (B, H, T, K)
            if name != target:
                return value
            keep = value.new_ones(value.shape[1])
            keep[self.head] = 0
            return value * keep[:, None, None]

        return watch(zero)


def head(text: str, model: Model) -> WithoutHead:
    """`encoder.0.3` is head 3 of the encoder's layer 0; `0.3` does where there is one kind only."""
    there = attentions(model)
    kinds = sorted({kind for kind, _ in there})
    found = re.fullmatch(r"(?:(\w+)\.)?(\d+)\.(\d+)", text)
    if found is None:
        raise UserError(f"{text!r} names no head; wanted: KIND.LAYER.HEAD, such as encoder.0.3")
    if found[1] is None and len(kinds) != 1:
        raise UserError(f"{text!r}: which attention? There are {_ranges(there)}")
    return WithoutHead(found[1] or kinds[0], int(found[2]), int(found[3]))


def attentions(model: Model) -> dict[tuple[str, int], MultiHeadAttention]:
    """Every attention with heads, by its kind and layer."""
    found = {}
    for kind, (part, name) in PLACES.items():
        for path, module in model.named_modules(remove_duplicate=False):
            layer = re.fullmatch(rf"{part}\.blocks\.(\d+)\.{name}", path)
            if layer and isinstance(module, MultiHeadAttention):
                found[kind, int(layer[1])] = module
    return found


def probed(kind: str, layer: int) -> str:
    """What the names of an attention's probes begin with."""
    part, name = PLACES[kind]
    return f"{part}.block.{layer}.{name}"


def _ranges(there: dict[tuple[str, int], MultiHeadAttention]) -> str:
    if not there:
        return "none in this model"
    last = {kind: (layer, module.heads - 1) for (kind, layer), module in there.items()}
    return ", ".join(f"{kind}.0.0 to {kind}.{layer}.{head}" for kind, (layer, head) in last.items())


@dataclass(frozen=True)
class Replace:
    """Put something else in the place of an activation."""

    name: str
    """The probe's: see the keys of what `capture` gives."""
    value: Tensor | float | Callable[[Tensor], Tensor]
    """A value to fill it with, or what is made of the old one."""
    position: int | None = None
    """Only here, along the second to last axis (T in (B, T, D) and in (B, H, T, K))."""

    @contextmanager
    def applied(self, model: Model) -> Iterator[None]:
        names: set[str] = set()

        def change(name: str, value: Tensor) -> Tensor:
            names.add(name)
            return self._changed(value) if name == self.name else value

        with watch(change):
            yield
        if names and self.name not in names:
            raise UserError(
                f"no probe is called {self.name!r}; there are {', '.join(sorted(names))}"
            )

    def _changed(self, value: Tensor) -> Tensor:
        new = self.value(value) if callable(self.value) else value.new_tensor(1.0) * self.value
        new = new.expand_as(value)
        if self.position is None:
            return new
        here = torch.zeros(value.shape[-2], 1, dtype=torch.bool, device=value.device)
        here[self.position] = True
        return torch.where(here, new, value)


@dataclass(frozen=True)
class Position:
    """Tell the model that a token stands somewhere else:  x_t + P(t)  becomes  x_t + P(s)."""

    part: str
    """encoder or decoder."""
    position: int
    encoding: int | Float[Tensor, "D"]
    """Another position s, or any vector in place of P(t)."""

    @contextmanager
    def applied(self, model: Model) -> Iterator[None]:
        module = submodule(model, f"{self.part}.position")
        kind = module.kind if isinstance(module, PositionalEncoding) else "none"
        if not isinstance(module, PositionalEncoding) or kind in ADDS_NOTHING:
            raise UserError(f"the {self.part} adds no positions to change (position = {kind!r})")
        given = self.encoding
        vector = module.rows(given, 1)[0] if isinstance(given, int) else given

        def change(name: str, rows: Tensor) -> Tensor:  # P(start) … of what is read now, (T, D)
            found = re.fullmatch(rf"{self.part}\.step\.(\d+)\.position", name)
            place = self.position - int(found[1]) if found else -1
            if not 0 <= place < len(rows):
                return rows
            rows = rows.clone()
            rows[place] = vector
            return rows

        with watch(change):
            yield
