"""How many parameters a model has, part by part, and what a step of it computes.

A stack of L equal layers is not run L times: with f the figures of a step,

    f(L) = f(1) + (L − 1) (f(2) − f(1))

which is exact for all that is counted, and as quick for 96 layers as for 2.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from regard.layers.embedding import Embedding
from regard.model import Config, Model, build
from regard.plan.tracing import Loss, Trace, trace
from regard.recipe.parts import Part
from regard.types import Batch, Sizes


@dataclass(frozen=True)
class Parameters:
    """Numbers of weights; a shared one counts once, with the part that has it first."""

    total: int
    trained: int
    embedding: int
    """In tables that are looked up: they take part in no product, unless they are shared."""
    parts: dict[str, int]
    """By a part's key: input, encoder, decoder, head, towers.image.encoder, …"""
    tensors: int
    """That they are in."""
    largest: int
    """Of the largest layer of a stack, or of the largest part."""

    @property
    def non_embedding(self) -> int:
        return self.total - self.embedding


def parameters(config: Config, sizes: Sizes) -> Parameters:
    """Of a model that takes no memory."""
    with torch.device("meta"):
        model = build(config, sizes)
    return counted(model)


def counted(model: Model) -> Parameters:
    """Of a model."""
    seen: set[int] = set()
    parts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        key = _part(name)
        parts[key] = parts.get(key, 0) + parameter.numel()
        seen.add(id(parameter))
    tables: dict[int, Any] = {
        id(m.weight): m.weight for m in model.modules() if isinstance(m, Embedding)
    }
    tables |= {id(m.weight): m.weight for m in model.modules() if isinstance(m, nn.Embedding)}
    embedding = sum(table.numel() for key, table in tables.items() if key in seen)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return Parameters(model.size(), trained, embedding, parts, len(seen), _largest(model))


def _part(name: str) -> str:
    """decoder.blocks.0.attention.query.weight → decoder."""
    words = name.split(".")
    return ".".join(words[: {"towers": 3, "heads": 2}.get(words[0], 1)])


def _largest(model: Model) -> int:
    stacks = [m for m in model.modules() if isinstance(m, nn.ModuleList)]
    layers = [sum(p.numel() for p in layer.parameters()) for stack in stacks for layer in stack]
    return max(layers, default=max((p.numel() for p in model.parameters()), default=0))


@dataclass(frozen=True)
class Step:
    """What one step of one batch does."""

    trace: Trace
    stacks: dict[str, "Stack"]
    """Of the parts with several layers."""


@dataclass(frozen=True)
class Stack:
    """The layers of one part."""

    layers: int
    kept_bytes: float
    """By each of them, for the backward pass."""
    forward_flops: float
    """Of each."""
    input_bytes: float
    """Of what each reads: all that is kept of it with activation checkpointing."""


def step(
    config: Config,
    sizes: Sizes,
    batch: Batch,
    loss: Loss,
    prepare: Callable[[Any], None] = lambda model: None,
) -> Step:
    """A training step of a model, counted."""

    def traced(changed: Config) -> Trace:
        return trace(changed, sizes, batch, loss, prepare)

    deep = {key: n for key, part in config.parts().items() if (n := depth(part)) > 1}
    if not deep:
        return Step(traced(config), {})
    first = traced(_with_layers(config, dict.fromkeys(deep, 1)))
    total, stacks = first, {}
    for key, layers in deep.items():
        two = traced(_with_layers(config, dict.fromkeys(deep, 1) | {key: 2}))
        each = two.plus(first, -1)
        total = total.plus(each, layers - 1)
        positions = _positions(key, first, batch)
        stacks[key] = Stack(
            layers, each.kept_bytes, each.forward_flops, 4.0 * positions * _width(key, config)
        )
    return Step(total, stacks)


def depth(part: Part) -> int:
    """How many equal layers a part has; 1 where they are not equal."""
    found = getattr(part.config, "layers", 1) if part.kind in ("transformer", "decoder") else 1
    return found if isinstance(found, int) else 1


def _with_layers(config: Config, layers: dict[str, int]) -> Config:
    """The same model with other depths."""
    places = iter(config.parts())

    def change(part: Part) -> Part:
        key = next(places)
        return (
            part
            if key not in layers
            else replace(part, config=replace(part.config, layers=layers[key]))
        )

    return config.changed(change)


def _positions(key: str, found: Trace, batch: Batch) -> int:
    """How many vectors a stack reads."""
    if key == "decoder":
        return batch["target_in"].numel()
    return found.positions[f"{key.rpartition('.')[0]}.input".lstrip(".")]


def _width(key: str, config: Config) -> int:
    words = key.split(".")
    return config.widths()[words[1]] if words[0] == "towers" else config.dim
