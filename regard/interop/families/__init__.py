"""Models of others, family by family: a table of names and settings each, no code for any layer.

A file here is called as `model_type` in a config.json is, and has

    TASK        the task that such a model is a run of
    ARCHITECTURE    the class of the transformers library that an export is loaded by
    NAMES       our name of each layer, and theirs; {n} is the number of a block
    ABSENT      patterns of their weights that decide nothing
    SPECIAL     special tokens, by their keys, where a folder does not name them
    PREFIX      what their names begin with, where a folder may leave it out
    recipe      their settings ↦ the recipe's section `model`, and how long texts may be
    settings    the reverse, for an export: it refuses what the family does not have
    LABELLING   heads for labels that such an encoder has in place of its own, if it has any
    body        of these, all of `settings` that is not the head's

Names are those of layers: weight and bias, where there is one, go the same way.
"""

import importlib
import math
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import UserError

Table = dict[str, Any]
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "swish": "silu",
    "silu": "silu",
}
"""Theirs, and ours."""


class Layer(NamedTuple):
    """Where the weights of one of our layers come from."""

    names: tuple[str, ...]
    """Their layers, which are stacked into one."""
    form: str = ""
    """How a tensor of theirs differs: `transposed`; `by_head`, with queries, keys and values of
    each head side by side; `offset`, positions of which the first two are not used; `flat`, a
    vector with an axis more; `vector` and `table`, with axes more before them; `filters`, each
    with the axes of channels, height and width."""
    instead: tuple[str, ...] = ()
    """Other layers of theirs, where a folder has not the first: they are tied."""


def layer(*names: str, form: str = "", instead: tuple[str, ...] = ()) -> Layer:
    return Layer(names, form, instead)


@dataclass(frozen=True)
class Settings:
    """config.json, asked for values of a kind; a wrong one is refused with its key."""

    table: Mapping[str, Any]

    def number(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        value = self.table.get(key)
        value = default if value is None else value
        if type(value) is not int or value < least:
            raise UserError(f"{key}: {_shown(value)} given, wanted an integer ≥ {least}")
        return value

    def real(self, key: str, default: float, *, below: float = 1e12) -> float:
        value = self.table.get(key)
        value = default if value is None else value
        if type(value) not in (int, float) or not 0 <= value < below:
            raise UserError(f"{key}: {_shown(value)} given, wanted a number ≥ 0 and < {below:g}")
        return float(value)

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.table.get(key)
        value = default if value is None else value
        if type(value) is not bool:
            raise UserError(f"{key}: {_shown(value)} given, wanted true or false")
        return value

    def activation(self, key: str, default: str) -> str:
        value = self.table.get(key) or default
        if not isinstance(value, str) or value not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise UserError(f"{key}: {_shown(value)} is not one of {known}")
        return ACTIVATIONS[value]

    def refuse(self, key: str, *usual: Any) -> None:
        """Refuse a setting that no run has, unless it is as it usually is."""
        value = self.table.get(key)
        if value is not None and value not in usual:
            raise UserError(f"{key}: {_shown(value)} cannot be imported")

    def inside(self, key: str) -> "Settings":
        value = self.table.get(key)
        if value is not None and not isinstance(value, dict):
            raise UserError(f"{key}: {_shown(value)} given, wanted a table")
        return Settings(value or {})


def rotary(settings: Settings, fraction: float = 1.0) -> Table:
    """Rotary positions; newer configs have them in a table of their own."""
    own = settings.inside("rope_parameters")
    base = settings.real("rope_theta", settings.real("rotary_emb_base", 10_000.0))
    base = own.real("rope_theta", base)
    share = settings.real("rotary_pct", settings.real("partial_rotary_factor", fraction))
    share = own.real("partial_rotary_factor", share)
    return {
        "position": "rotary",
        "rotary_base": base,
        "rotary_fraction": share,
        "rotary_layout": "halves",
        **_slowing(settings.inside("rope_scaling") if "rope_scaling" in settings.table else own),
    }


def _slowing(own: Settings) -> Table:
    """How rotary positions are slowed down."""
    kind = own.table.get("rope_type", own.table.get("type", "default"))
    if kind == "default":
        return {}
    if kind not in ("linear", "llama3"):
        raise UserError(f"rope_type: {_shown(kind)} cannot be imported, only linear and llama3")
    found: Table = {"rotary_scaling": kind, "rotary_factor": own.real("factor", 1.0)}
    if kind == "llama3":
        own.refuse("low_freq_factor", 1, 1.0)
        own.refuse("high_freq_factor", 4, 4.0)
        found["rotary_original"] = own.number("original_max_position_embeddings")
    return found


def rope_scaling(part: Any) -> Table:
    """The reverse, for an export."""
    if part.rotary_scaling == "none":
        return {}
    found = {"rope_type": part.rotary_scaling, "factor": part.rotary_factor}
    if part.rotary_scaling == "llama3":
        found |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
        found["original_max_position_embeddings"] = part.rotary_original
    return {"rope_scaling": found}


def find(model_type: Any) -> Any:
    """The family of a model."""
    names = known()
    if model_type not in names:
        said = _shown(model_type)
        raise UserError(f"model_type: {said} cannot be imported, only {', '.join(names)}")
    return importlib.import_module(f"{__name__}.{model_type}")


class Labelling(NamedTuple):
    """A head for labels."""

    task: str
    architecture: str
    names: dict[str, Layer]
    """Its layers, as in NAMES."""
    head: Table
    """The settings of such a head."""
    dropout: tuple[str, ...] = ("classifier_dropout", "hidden_dropout_prob")
    """The keys of its dropout, the first of which counts that is there."""


class Labeller:
    """A family whose encoder has a head for labels: what a family's file has."""

    def __init__(self, family: Any, labelling: Labelling) -> None:
        self.TASK, self.ARCHITECTURE = labelling.task, labelling.architecture
        self.PREFIX, self.SPECIAL, self.ABSENT = family.PREFIX, family.SPECIAL, family.ABSENT
        body = {ours: at for ours, at in family.NAMES.items() if not ours.startswith("head.")}
        self.NAMES = body | labelling.names
        self._family, self._labelling = family, labelling

    def recipe(self, settings: Settings) -> tuple[Table, int]:
        model, positions = self._family.recipe(settings)
        keys = self._labelling.dropout
        there = next((key for key in keys if settings.table.get(key) is not None), keys[0])
        dropout = settings.real(there, 0.1, below=1)
        kind = {"classify": "labels", "tag": "tags"}[self.TASK]
        head = {"kind": kind, "dropout": dropout, **self._labelling.head}
        return model | {"tie": "none", "head": head}, positions

    def settings(self, model: Any, limit: int) -> Table:
        for key, kind in (("input", "tokens"), ("encoder", "transformer")):
            part = getattr(model, key)
            if part is None or part.kind != kind:
                there = part and part.kind
                raise UserError(f"model.{key}.kind is {there!r}, wanted: {kind!r}")
        found: Table = self._family.body(model)
        head = self._labelling.head
        try:
            alike("head", model.head.config, **head)
        except UserError as error:
            keys = ", ".join(f"model.head.{k} = {_written(v)}" for k, v in head.items())
            raise UserError(f"{error}, as {self.ARCHITECTURE} has it; train with {keys}") from None
        found[self._labelling.dropout[0]] = model.head.config.dropout
        return found


def _written(value: Any) -> str:
    """As in a recipe."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


CLASSES: Table = {"pooling": "class", "pooler": True, "all_layers": False}
"""What labels a text: its first token, through a layer of its own."""


OTHERS = re.compile(r"For(\w+Classification|QuestionAnswering|MultipleChoice)$")
"""Heads that are not the family's own."""


def forms(family: Any) -> list[Any]:
    """A family with its own head, and with those for labels."""
    return [family, *(Labeller(family, each) for each in getattr(family, "LABELLING", ()))]


def of(settings: Settings) -> Any:
    """The family of a folder, with the head that its architecture has."""
    family, named = find(settings.table.get("model_type")), settings.table.get("architectures")
    found = [form for form in forms(family) if named == [form.ARCHITECTURE]]
    if not found and isinstance(named, list) and named and OTHERS.search(str(named[0])):
        known = ", ".join(form.ARCHITECTURE for form in forms(family))
        raise UserError(f"architectures: {_shown(named[0])} cannot be imported, only {known}")
    return found[0] if found else family


def reads_text(family: Any) -> bool:
    return hasattr(family, "SPECIAL")


def known() -> list[str]:
    return sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))


def layers(
    family: Any, names: Iterator[str], there: Container[str] = ()
) -> Iterator[tuple[str, list[str], str]]:
    """Each of our weights with those of theirs that are stacked into it, and their form; `there`
    are all that a folder has."""
    patterns = {
        re.compile(re.escape(ours).replace(r"\{n\}", "([0-9]+)")): where
        for ours, where in family.NAMES.items()
    }
    for name in names:
        place, _, kind = name.rpartition(".")
        for pattern, where in patterns.items():
            whole = pattern.fullmatch(name)  # a weight by itself
            if found := whole or pattern.fullmatch(place):
                end = "" if whole else f".{kind}"
                theirs = [_numbered(each, found) + end for each in where.names]
                others = [each + end for each in where.instead]
                if others and theirs[0] not in there:
                    theirs = [each for each in others if each in there][:1] or theirs
                yield name, theirs, where.form
                break
        else:
            raise UserError(f"{name}: this family has no such weight")


def _numbered(name: str, found: re.Match[str]) -> str:
    return name.replace("{n}", found[1]) if "{n}" in name else name


def ours(tensor: Tensor, form: str, heads: int) -> Tensor:
    """A tensor of theirs as ours is."""
    match form:
        case "transposed":
            return tensor.t() if tensor.ndim == 2 else tensor
        case "by_head":  # (H · 3 · K, …) → (3 · H · K, …)
            apart = tensor.reshape(heads, 3, -1, *tensor.shape[1:])
            return apart.transpose(0, 1).reshape(tensor.shape)
        case "offset":
            return tensor[2:]
        case "flat" | "vector":
            return tensor.flatten()
        case "table":
            return tensor[0]
        case "filters":
            return tensor.flatten(1) if tensor.ndim == 4 else tensor
    return tensor


def theirs(tensor: Tensor, form: str, heads: int) -> Tensor:
    """The reverse."""
    match form:
        case "transposed":
            return tensor.t() if tensor.ndim == 2 else tensor
        case "by_head":
            apart = tensor.reshape(3, heads, -1, *tensor.shape[1:])
            return apart.transpose(0, 1).reshape(tensor.shape)
        case "offset":
            return torch.cat([tensor.new_zeros(2, tensor.shape[1]), tensor])
        case "flat" | "table":
            return tensor[None]
        case "vector":
            return tensor[None, None]
        case "filters":
            return tensor if tensor.ndim == 1 else _filters(tensor)
    return tensor


def _filters(tensor: Tensor) -> Tensor:
    """(O, C · P²) → (O, C, P, P). No square is three times another: that tells grey from colour."""
    size = tensor.shape[1]
    channels = 1 if math.isqrt(size) ** 2 == size else 3
    side = math.isqrt(size // channels)
    return tensor.reshape(-1, channels, side, side)


def _shown(value: Any) -> str:
    return (
        ascii(value)[:60]
        if isinstance(value, str | int | float) or value is None
        else type(value).__name__
    )


# For an export

USUAL: Table = {"parallel": False, "embedding_norm": False, "query_key_value_bias": False}
"""What most families have."""


def require(key: str, part: Any, **wanted: Any) -> None:
    """Refuse a Transformer's part with another shape than a family has."""
    alike(key, part, **USUAL | wanted)


def alike(key: str, part: Any, **wanted: Any) -> None:
    """Refuse other values of a part's keys; a list has all values that are fine."""
    for name, values in wanted.items():
        allowed = values if isinstance(values, list) else [values]
        if (value := getattr(part, name)) not in allowed:
            said = " or ".join(repr(each) for each in allowed[:2])
            raise UserError(f"model.{key}.{name} is {value!r}, wanted: {said}")


def without_groups(key: str, part: Any) -> None:
    alike(key, part, key_value_heads=[0, part.heads])


def activation_name(key: str, activation: str) -> str:
    """What they call an activation."""
    usual = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}
    if activation not in usual:
        raise UserError(f"model.{key}.activation is {activation!r}, wanted: one of {[*usual]}")
    return usual[activation]
