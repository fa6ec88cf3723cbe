"""Folders of models that label something: the names of labels stand in config.json.

Labels are in alphabetical order here, in any order there: their rows of weights go with them. What
a head's temperature divides by stands in the weights of an export.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.data.labels import FILE
from regard.errors import UserError
from regard.interop.families import Settings, Table
from regard.model import Model
from regard.recipe import checked

SEVERAL = "multi_label_classification"
KINDS = {None: "one", "single_label_classification": "one", SEVERAL: "several"}
"""Theirs, by `problem_type`, and ours."""


def labels(settings: Settings) -> tuple[list[str], list[int]]:
    """The names in our order, and the number of each in theirs."""
    settings.refuse("problem_type", *KINDS)
    table = settings.table.get("id2label")
    if not isinstance(table, dict) or len(table) < 2:
        raise UserError("id2label: wanted a table of two labels at least")
    names = [table.get(str(n)) for n in range(len(table))]
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise UserError(f"id2label: wanted a name for each number from 0 to {len(table) - 1}")
    again = Counter(map(str, names))
    unique = [str(x) if again[str(x)] == 1 else f"{x} ({n})" for n, x in enumerate(names)]
    order = sorted(range(len(unique)), key=unique.__getitem__)
    if len({*unique}) < len(unique):
        raise UserError("id2label: two labels are called alike")
    return [unique[n] for n in order], order


def kind(settings: Settings) -> str:
    """Whether there is one label for each text, or any number of them."""
    return KINDS[settings.table.get("problem_type")]


def file(names: Sequence[str]) -> dict[str, str]:
    """The file of the field of labels."""
    known = {"names": [*names], "counts": [1] * len(names), "texts": len(names)}
    return {FILE: checked.written(known)}


def left_out(model: Model) -> list[str]:
    """The weights of a head that others do not have: they are 1, and change nothing."""
    return [f"head.{name}" for name in getattr(model.head, "positive", ())]


def ordered(weights: dict[str, Tensor], order: Sequence[int], model: Model) -> dict[str, Tensor]:
    """Weights with the rows of labels in our order, and those that others do not have."""
    found = {
        name: each[[*order]].contiguous() if name.startswith("head.project.") else each
        for name, each in weights.items()
    }
    return found | {name: torch.ones(()) for name in left_out(model)}


# For an export


def cooled(name: str, tensor: Tensor, model: Model) -> Tensor:
    """The last layer's weights with the temperature in them, which others do not have."""
    if not name.startswith("head.project.") or not hasattr(model.head, "temperature"):
        return tensor
    temperature: Any = model.head.temperature
    found: Tensor = tensor / temperature
    return found


def about(names: Sequence[str], *, several: bool = False) -> Table:
    """What config.json says of labels."""
    found: Table = {
        "id2label": {str(n): name for n, name in enumerate(names)},
        "label2id": {name: n for n, name in enumerate(names)},
    }
    return found | ({"problem_type": SEVERAL} if several else {})
