"""What only data can say of a model, assumed: sizes of its fields, and a batch.

Most of it stands in the recipe: how large a vocabulary, a batch, a window or a picture is. What
does not (how long texts are, how many labels there are) is assumed, said, and changed by an option.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import UserError
from regard.recipe.config import Recipe
from regard.recipe.parts import module
from regard.types import Batch, Sizes

LENGTHS = {
    "translate": 30, "tag": 25, "classify": 250, "caption": 15, "contrast": 20, "transcribe": 40,
    "language_model": 30,
}  # fmt: skip
"""Tokens of a text, where a recipe cuts none of them to a length."""
SECONDS = 5.0
"""Of a sound."""
LABELS = {"text": 2, "image": 1000, "audio": 10, "tags": 20}
CHARACTERS, LETTERS = 100, 8
"""Different ones of a text, and of a word."""
VARIABLES = 7
"""Of a series."""
BYTES = 256 + 4
HIDDEN = 0.15
"""Of a text's tokens."""
TOKEN, END = 5, 2


class Options(NamedTuple):
    """What a user knows better."""

    length: int | None = None
    labels: int | None = None
    variables: int | None = None


@dataclass(frozen=True)
class Roles:
    """Which field a task's model reads and which it writes."""

    reads: str = ""
    writes: str = ""
    more: Mapping[str, Mapping[str, int]] | None = None


ROLES = {
    "language_model": Roles("", "target"),
    "translate": Roles("source", "target"),
    "transcribe": Roles("source", "target"),
    "caption": Roles("source", "target"),
    "contrast": Roles("", "pairs", {"pairs": {"outputs": 1}}),
    "classify": Roles("source", "labels"),
    "tag": Roles("source", "tags"),
    "forecast": Roles("series", "series"),
    "masked_language_model": Roles("source", "source"),
    "bidirectional_language_model": Roles("source", "source"),
}


class Assumed(NamedTuple):
    """Sizes, a batch, the loss of it, and what was assumed for it."""

    sizes: Sizes
    batch: Batch
    loss: Callable[..., Any]
    notes: list[str]


def assume(recipe: Recipe, options: Options) -> Assumed:
    """Sizes and a batch for a recipe whose data nobody has read."""
    if recipe.kind not in ROLES:
        raise UserError(
            f"plan: nothing can be assumed for the data of the task {recipe.kind!r}: "
            "prepare a run and give its folder"
        )
    made = _Assumption(recipe, options)
    sizes = made.sizes()
    tensors = made.tensors(sizes)
    rows = max(len(t) for t in tensors.values())
    batch = Batch(tensors=tensors, ids=tuple(range(rows)), targets=0)
    return Assumed(sizes, batch, made.loss(sizes), list(dict.fromkeys(made.notes)))


class _Assumption:
    def __init__(self, recipe: Recipe, options: Options) -> None:
        self.recipe, self.options, self.task = recipe, options, recipe.task
        self.fields = list(module("tasks", recipe.kind).plan(recipe.task).fields.values())
        self.notes: list[str] = []

    def sizes(self) -> Sizes:
        roles = ROLES[self.recipe.kind]
        found = {field.name: self._size(field) for field in self.fields}
        found |= roles.more or {}
        pairs = getattr(self.task, "pairs", None)
        if getattr(pairs, "next_sentence", False):
            found["next"] = {"outputs": 2}
        own = roles.reads == roles.writes != ""
        shared = own or bool(getattr(getattr(self.task, "tokenizer", None), "joint", False))
        return Sizes(found, roles.reads, roles.writes, shared)

    def _size(self, field: Any) -> Mapping[str, int]:
        known = field.size_names
        if isinstance(known, Mapping):
            return known
        kind = kind_of(field)
        if kind == "series":
            return {**self.task.window.size(self._variables()), "groups": self._groups()}
        found: dict[str, int] = {}
        for name in known:
            if name == "tokens":
                found[name] = self._vocabulary(field)
            elif name == "outputs" and kind in ("labels", "tags"):
                found[name] = 1 if getattr(field, "real", False) else self._labels(kind)
            elif name == "outputs":
                found[name] = self._vocabulary(field)
            elif name == "characters":
                found[name] = CHARACTERS
                self.notes.append(f"{CHARACTERS} different characters")
            else:
                found[name] = END
        return found

    def _vocabulary(self, field: Any) -> int:
        config = field.config if hasattr(field.config, "vocabulary") else self.task.tokenizer
        if config.kind == "bytes":
            return BYTES
        if config.kind == "character":
            self.notes.append(f"{CHARACTERS} different characters")
            return CHARACTERS
        self.notes.append(f"a vocabulary as large as tokenizer.vocabulary = {config.vocabulary:,}")
        return int(config.vocabulary)

    def _labels(self, kind: str) -> int:
        read = kind_of(self.fields[0])
        usual = LABELS["tags"] if kind == "tags" else LABELS.get(read, LABELS["text"])
        found = self.options.labels or usual
        self.notes.append(f"{found:,} different {kind} (--labels)")
        return found

    def _variables(self) -> int:
        found = self.options.variables or VARIABLES
        self.notes.append(f"{found} variables (--variables)")
        return found

    def _groups(self) -> int:
        each = self.task.window.independent and self.task.intervals.width == "window"
        return self._variables() if each else 1

    # A batch

    def _length(self) -> int:
        """Tokens of a text."""
        task = self.task
        if self.recipe.kind == "language_model" and task.unit == "stream":
            return int(task.stream.length)
        if (windows := getattr(task, "windows", None)) is not None:
            return int(windows.length)
        found = self.options.length or min(LENGTHS[self.recipe.kind], task.data.max_length)
        self.notes.append(f"texts of {found:,} tokens (--length)")
        return int(found)

    def _frames(self, field: Any) -> int:
        features = field.config.features
        seconds = min(SECONDS, field.config.max_seconds)
        frames = self.options.length or round(seconds / features.hop)
        self.notes.append(f"sounds of {frames * features.hop:g} s (--length, in frames)")
        return int(frames)

    def _rows(self, lengths: Mapping[str, int]) -> int:
        task = self.task
        if self.recipe.kind == "language_model" and task.unit == "stream":
            return int(task.stream.streams)
        if self.recipe.kind == "forecast":
            return int(task.batch.windows)
        fit = max(1, int(task.batch.tokens) // max(lengths.values(), default=1))
        return min(fit, task.batch.sentences or fit)

    def tensors(self, sizes: Sizes) -> dict[str, Tensor]:
        lengths = {}
        for field in self.fields:
            name, kind = field.name, kind_of(field)
            if kind == "audio":
                lengths[name] = self._frames(field)
            elif kind in ("text", "framed", "masked", "words", "dialogue"):
                lengths[name] = self._length()
            elif kind == "image":
                lengths[name] = 1
        rows = self._rows(lengths)
        found: dict[str, Tensor] = {}
        for field in self.fields:
            make = MAKERS[kind_of(field)]
            length = lengths.get(field.name) or next(iter(lengths.values()), 0)
            found |= make(self, field, sizes, rows, length)
        if "next" in sizes.fields:
            found["next"] = torch.zeros(rows, dtype=torch.int64)
            found["source_segments"] = torch.zeros(rows, lengths["source"], dtype=torch.int64)
        return found

    def loss(self, sizes: Sizes) -> Callable[..., Any]:
        """The loss of the task, which asks no more of it than this."""
        task, streams = self.task, getattr(self.task, "unit", "") == "stream"
        packed = streams and task.stream.packs and not task.stream.across
        stand_in = SimpleNamespace(
            config=task, streams=streams, first=END if packed else None, _weights=None,
            source=SimpleNamespace(name="source"), _targets=lambda batch: batch["labels"],
        )  # fmt: skip
        loss: Callable[..., Any] = module("tasks", self.recipe.kind).Task.loss
        return lambda model, batch, carry: loss(stand_in, model, batch, carry)


Made = dict[str, Tensor]


def kind_of(field: Any) -> str:
    """text, image, labels, …"""
    return type(field).__module__.rpartition(".")[2]


def _tokens(rows: int, length: int) -> Tensor:
    return torch.full((rows, length), TOKEN, dtype=torch.int64)


def _mask(rows: int, length: int) -> Tensor:
    return torch.ones(rows, length, dtype=torch.bool)


def _text(_: Any, field: Any, sizes: Sizes, rows: int, length: int) -> Made:
    name = field.name
    if kind_of(field) == "dialogue" or field.role in ("written", "ended"):
        tokens = {f"{name}_{side}": _tokens(rows, length) for side in ("in", "out")}
        return {**tokens, f"{name}_mask": _mask(rows, length)}
    return _framed(_, field, sizes, rows, length)


def _framed(_: Any, field: Any, sizes: Sizes, rows: int, length: int) -> Made:
    name = field.name
    found = {name: _tokens(rows, length), f"{name}_mask": _mask(rows, length)}
    if "characters" in sizes.fields[name]:
        found[f"{name}_characters"] = _letters(rows, length)
    return found


def _letters(rows: int, length: int) -> Tensor:
    """Different words: no two of their numbers are the same."""
    numbers = torch.arange(rows * length).view(rows, length, 1)
    places = torch.tensor([(CHARACTERS - TOKEN) ** n for n in range(LETTERS)])
    return numbers // places % (CHARACTERS - TOKEN) + TOKEN


def _masked(made: Any, field: Any, sizes: Sizes, rows: int, length: int) -> Made:
    found = _framed(made, field, sizes, rows, length)
    fraction = made.task.masking.fraction
    hidden = torch.arange(length) < max(1, round(fraction * length))
    return found | {
        f"{field.name}_out": _tokens(rows, length),
        f"{field.name}_masked": hidden.expand(rows, -1).clone(),
    }


def _words(_: Any, field: Any, sizes: Sizes, rows: int, length: int) -> Made:
    found = _framed(_, field, sizes, rows, length)
    places = torch.arange(length).expand(rows, -1).clone()
    return found | {f"{field.name}_first": places, f"{field.name}_word_mask": _mask(rows, length)}


def _labels(_: Any, field: Any, sizes: Sizes, rows: int, __: int) -> Made:
    if field.several:
        return {field.name: torch.ones(rows, sizes.fields[field.name]["outputs"], dtype=torch.bool)}
    return {field.name: torch.zeros(rows, dtype=torch.int64)}


def _tags(_: Any, field: Any, __: Sizes, rows: int, length: int) -> Made:
    return {
        field.name: torch.zeros(rows, length, dtype=torch.float32 if field.real else torch.int64)
    }


def _series(made: Any, field: Any, sizes: Sizes, rows: int, _: int) -> Made:
    window = made.task.window
    rows *= made._variables() if window.independent else 1
    size = sizes.fields[field.name]
    if not field.ahead:
        return {field.name: torch.zeros(rows, size["length"], size["variables"])}
    return {name: torch.zeros(rows, size["outputs"]) for name in ("targets", "scale")}


def _image(_: Any, field: Any, sizes: Sizes, rows: int, __: int) -> Made:
    size = sizes.fields[field.name]
    return {field.name: torch.zeros(rows, size["channels"], size["height"], size["width"])}


def _audio(_: Any, field: Any, sizes: Sizes, rows: int, length: int) -> Made:
    frames = torch.zeros(rows, length, sizes.fields[field.name]["mels"])
    return {field.name: frames, f"{field.name}_mask": _mask(rows, length)}


MAKERS: dict[str, Callable[[Any, Any, Sizes, int, int], Made]] = {
    "text": _text, "dialogue": _text, "framed": _framed, "masked": _masked, "words": _words,
    "labels": _labels, "tags": _tags, "series": _series, "image": _image, "audio": _audio,
}  # fmt: skip
