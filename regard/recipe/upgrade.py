"""Keys of earlier versions: what each is called now, and which are gone.

A recipe that has one is refused, with the key that is meant. The recipe inside a run was written
by the version that made the run: it is read as if it had the present keys.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from regard.errors import RecipeError

Table = dict[str, Any]


class Removed(NamedTuple):
    """A key that is gone."""

    neutral: Any
    """The value with which it did nothing; None if it had an effect beside another key alone."""
    why: str


RENAMED = {
    "spelling": "characters",
    "data.longest": "data.max_length",
    "data.too_long": "data.on_too_long",
    "data.broken": "data.on_bad_line",
    "data.empty": "data.on_empty",
    "tokenizer.size": "tokenizer.vocabulary",
    "tokenizer.minimum": "tokenizer.min_frequency",
    "pairs.both_ways": "pairs.both_directions",
    "search.minimum": "search.min_length",
    "evaluation.alternatives": "evaluation.multiple_references",
    "model.input.reads": "model.input.features",
    "model.input.spelling": "model.input.characters",
    "model.encoder.directions": "model.encoder.bidirectional",
    "model.encoder.words": "model.encoder.word_dropout",
    "model.encoder.inner": "model.encoder.feedforward",
    "model.encoder.inner_dropout": "model.encoder.feedforward_dropout",
    "model.decoder.inner": "model.decoder.feedforward",
    "model.decoder.inner_dropout": "model.decoder.feedforward_dropout",
    "train.optimizer.rate": "train.optimizer.learning_rate",
    "train.optimizer.decay": "train.optimizer.weight_decay",
    "train.record": "train.log_every",
    "train.validate": "train.validate_every",
    "train.save": "train.save_every",
    "train.refusals": "train.max_nonfinite",
    "train.setbacks": "train.max_rollbacks",
    "train.lower": "train.rollback_factor",
}
"""Dotted keys, and what they are called now."""
VALUES = {"model.encoder.directions": {"one": False, "both": True}}
"""What the values of such a key are called now, where they have changed, too."""
REMOVED = {
    "model.head.consistency": Removed(0.0, "R-Drop cost twice the time and did not help"),
    "cutting.dropout": Removed(0.0, "BPE-dropout did not help"),
    "cutting.copies": Removed(None, "BPE-dropout did not help"),
}


def hint(key: str) -> str:
    """What a user who writes this key, or a section of that name, should know; else empty."""
    if key in RENAMED:
        return f"it is called {RENAMED[key]} now"
    gone = [r.why for old, r in REMOVED.items() if old == key or old.startswith(f"{key}.")]
    return f"it was removed: {gone[0]}; leave it out" if gone else ""


def present(table: Mapping[str, Any]) -> Table:
    """A run's recipe with the present keys."""
    result = _copy(table)
    for old, new in RENAMED.items():
        if (value := _take(result, old)) is not None:
            _put(result, new, VALUES.get(old, {}).get(value, value))
    for old, gone in REMOVED.items():
        value = _take(result, old)
        if value is not None and gone.neutral is not None and value != gone.neutral:
            raise RecipeError(
                f"{old}: {value!r}, but this version has no such key ({gone.why}). "
                "Load the run with the version that made it (environment.json)"
            )
    return result


def _copy(table: Mapping[str, Any]) -> Table:
    return {k: _copy(v) if isinstance(v, dict) else v for k, v in table.items()}


def _take(table: Table, key: str) -> Any:
    """The value of a dotted key, which is taken out, and with it a section that is left empty."""
    name, _, rest = key.partition(".")
    if not rest:
        return table.pop(name, None)
    inner = table.get(name)
    if not isinstance(inner, dict):
        return None
    value = _take(inner, rest)
    if value is not None and not inner:
        del table[name]
    return value


def _put(table: Table, key: str, value: Any) -> None:
    *sections, name = key.split(".")
    for section in sections:
        table = table.setdefault(section, {})
    table.setdefault(name, value)
