"""Qwen2 (Yang et al. 2024): Llama's shape, with biases of queries, keys and values alone."""

from typing import Any

from regard.interop.families import Settings, Table
from regard.interop.families.llama import ABSENT, NAMES, PREFIX, SPECIAL, gated, gated_settings

__all__ = ["ABSENT", "ARCHITECTURE", "NAMES", "PREFIX", "SPECIAL", "TASK", "recipe", "settings"]

TASK, ARCHITECTURE = "language_model", "Qwen2ForCausalLM"


def recipe(settings: Settings) -> tuple[Table, int]:
    settings.refuse("use_sliding_window", False)
    return gated(settings, query_key_value_bias=True)


def settings(model: Any, limit: int) -> Table:
    return gated_settings(model, limit, query_key_value_bias=True) | {"use_sliding_window": False}
