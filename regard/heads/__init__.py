"""Hidden vectors become logits, or loss terms."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from regard.errors import RecipeError


@runtime_checkable
class ReadsLayers(Protocol):
    """The Config of a head that can read the states of all layers side by side."""

    all_layers: bool


def reads_layers(head: Any, others: Mapping[str, Any]) -> bool:
    """Whether the head with this Config reads all layers of the encoder; no other head can."""
    for name, config in others.items():
        if isinstance(config, ReadsLayers) and config.all_layers:
            raise RecipeError(f"model.heads.{name}.all_layers: only model.head can read them")
    return isinstance(head, ReadsLayers) and head.all_layers
