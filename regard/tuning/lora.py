"""Adapters of low rank: put beside the linear layers of a part, and merged into them."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.errors import RecipeError
from regard.layers.linear import Linear
from regard.layers.lora import Adapter
from regard.recipe.parts import Lora

Module = TypeVar("Module", bound=nn.Module)
NAME = "adapter"
"""What a linear layer calls its adapter."""


def add(part: nn.Module, settings: Lora) -> None:
    """Give the linear layers of a part adapters, and leave only these to be trained."""
    found = {name: layer for name, layer in part.named_modules() if isinstance(layer, Linear)}
    if not found:
        raise RecipeError("lora: the part has no linear layer that could have an adapter")
    targets = settings.targets or ("",)
    for target in settings.targets:
        if not any(_ends(name, target) for name in found):
            known = ", ".join(dict.fromkeys(name.rpartition(".")[2] for name in found))
            raise RecipeError(f"lora.targets: no linear layer is called {target!r}, only {known}")
    part.requires_grad_(False)
    for name, layer in found.items():
        if any(_ends(name, target) for target in targets):
            outputs, inputs = layer.weight.shape
            made = Adapter(inputs, outputs, settings.rank, settings.alpha, settings.dropout)
            layer.adapter = made.to(layer.weight.device)


def _ends(name: str, target: str) -> bool:
    return not target or name == target or name.endswith(f".{target}")


def is_adapter(name: str) -> bool:
    """Whether a parameter of this name is an adapter's."""
    return name.rpartition(".")[0].rpartition(".")[2] == NAME


def _adapted(model: nn.Module) -> Iterator[tuple[str, Linear]]:
    for name, layer in model.named_modules():
        if isinstance(layer, Linear) and layer.adapter is not None:
            yield name, layer


def merge(model: Module) -> Module:
    """The model with each adapter added to its weight, W ← W + (α/r) B A, and gone."""
    for _, layer in list(_adapted(model)):
        assert layer.adapter is not None
        with torch.no_grad():
            layer.weight += layer.adapter.change()
        layer.adapter = None
    return model


def merged_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same of weights by name, for a model that may be one without memory."""
    found = dict(weights)
    for name, layer in _adapted(model):
        assert layer.adapter is not None
        down, up = (found.pop(f"{name}.{NAME}.{each}") for each in ("down", "up"))
        found[f"{name}.weight"] = found[f"{name}.weight"] + up @ (down * layer.adapter.factor)
    return found
