"""Runs of every family, small and untrained: enough to be looked into."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.config import from_table
from regard.model import build
from regard.runs import Run
from regard.train import checkpoint

HOSTILE = [
    "</script><script>window.hacked=1</script>",
    "<img/src=x/onerror=window.hacked=1>",
    "{{data}}",
    "--><svg/onload=window.hacked=1>",
    "\u202eright\u2066to\u200eleft",
    "a" * 80,
]
LINES = ["a dog runs", "two dogs play in the snow", "a man sits", " ".join(HOSTILE)]
BLOCKS = {"kind": "transformer", "layers": 2, "heads": 2, "inner": 32}
PARTS: dict[str, dict[str, Any]] = {
    "transformer": {"encoder": BLOCKS, "decoder": BLOCKS},
    "lstm": {
        "encoder": {"kind": "rnn", "cell": "lstm", "layers": 1},
        "decoder": {"kind": "rnn", "cell": "lstm", "layers": 1, "attention": "additive"},
    },
    "gru": {
        "encoder": {"kind": "rnn", "cell": "gru", "layers": 1},
        "decoder": {"kind": "rnn", "cell": "gru", "layers": 1, "order": "before"},
    },
    "causal": {"decoder": {**BLOCKS, "norm": "pre"}},
    "classifier": {"encoder": BLOCKS, "head": {"pooling": "attention"}},
}
TRAIN = {"threads": 1, "precision": "float32"}
FAMILIES = tuple(PARTS)


def make(kind: str, folder: Path, updates: tuple[int, ...] = ()) -> Run:
    """A run of a family; with `updates`, it has checkpoints whose weights differ."""
    made = Run.create(folder, from_table(_table(kind, folder.with_name(f"{folder.name}-data"))))
    model = build(made.recipe.model, made.task.sizes).eval()
    for number, update in enumerate((*updates, None)):
        torch.manual_seed(number)
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                # Small vectors of symbols, so that no symbol is said with certainty.
                nn.init.normal_(parameter, std=0.1 if "embedding" in name else 0.4)
        place = made.folder / "model" if update is None else made.checkpoints / f"{update:08d}"
        checkpoint.save(place, checkpoint.weights_of(model), {"best_update": 0})
    return made


def _table(kind: str, data: Path) -> dict[str, Any]:
    data.mkdir()
    text = "".join(f"{line}\n" for line in LINES)
    for name in ("text.source", "text.target"):
        (data / name).write_text(text, encoding="utf-8")
    labels = ["good", "bad", "</script><script>window.hacked=1</script>"]
    rows = [f"{labels[n % 3]}\t{line}\n" for n, line in enumerate(LINES)]
    (data / "labels.tsv").write_text("".join(rows), encoding="utf-8")
    task, files = {
        "causal": ("language_model", ["text.target"]),
        "classifier": ("classify", ["labels.tsv"]),
    }.get(kind, ("translate", ["text.source", "text.target"]))
    table = {
        "task": task,
        "data": {"folder": str(data), "train": files},
        "tokenizer": {"kind": "word"},
        "model": {"dim": 16, **PARTS[kind]},
        "train": TRAIN,
    }
    if kind == "causal":
        table["unit"] = "line"
        table["train"] = {**TRAIN, "metric": "nll"}
    if kind == "classifier":
        table["train"] = {**TRAIN, "metric": "nll"}
    if task == "translate":
        table["search"] = {"beams": 3}
        table["output"] = {"factor": 1.0, "extra": 1}
    return table
