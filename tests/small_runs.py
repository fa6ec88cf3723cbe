"""Runs of every family, small and untrained: enough to be looked into."""

import math
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data import scenes, tones
from regard.model import build
from regard.recipe.config import from_table
from regard.runs import Run
from regard.train import checkpoint
from regard.train.progress import Progress

HOSTILE = [
    "</script><script>window.hacked=1</script>",
    "<img/src=x/onerror=window.hacked=1>",
    "{{data}}",
    "--><svg/onload=window.hacked=1>",
    "\u202eright\u2066to\u200eleft",
    "a" * 80,
]
LINES = ["a dog runs", "two dogs play in the snow", "a man sits", " ".join(HOSTILE)]
LABELS = ["good", "bad", "</script><script>window.hacked=1</script>"]
SERIES = "\n".join(
    ["<b>x</b>,y", *(f"{math.sin(t / 3):.4f},{t + math.cos(t):.4f}" for t in range(80))]
)
BLOCKS = {"kind": "transformer", "layers": 2, "heads": 2, "feedforward": 32}
TASKS: dict[str, dict[str, Any]] = {
    "translate": {
        "data": {"train": ["text.source", "text.target"], "validation": ["text.source"] * 2},
        "tokenizer": {"kind": "word"},
        "search": {"beams": 3},
        "output": {"factor": 1.0, "extra": 1},
    },
    "language_model": {
        "data": {"train": ["text.target"], "validation": ["text.target"]},
        "tokenizer": {"kind": "word"},
        "unit": "line",
    },
    "masked_language_model": {
        "data": {"train": ["text.target"], "validation": ["text.target"]},
        "tokenizer": {"kind": "word"},
        "windows": {"length": 32},
    },
    "bidirectional_language_model": {
        "data": {"train": ["text.target"], "validation": ["text.target"]},
        "tokenizer": {"kind": "word"},
        "windows": {"length": 32},
    },
    "transcribe": {
        "data": {"train": ["sounds/train.tsv"], "validation": ["sounds/validation.tsv"]},
        "source": {"features": {"rate": 8000, "mels": 11}},
        "tokenizer": {"kind": "character"},
        "evaluation": {"metrics": ["wer", "cer"]},
    },
    "caption": {
        "data": {"train": ["scenes/train.tsv"], "validation": ["scenes/validation.tsv"]},
        "source": {"size": [16, 16]},
        "tokenizer": {"kind": "word"},
        "evaluation": {"multiple_references": " | "},
        "output": {"extra": 4},
    },
    "contrast": {
        "data": {"train": ["scenes/train.tsv"], "validation": ["scenes/validation.tsv"]},
        "source": {"size": [16, 16]},
        "tokenizer": {"kind": "word"},
        "evaluation": {"multiple_references": " | "},
    },
    "classify": {"data": {"train": ["labels.tsv"]}, "tokenizer": {"kind": "word"}},
    "tag": {"data": {"train": ["tags.txt"]}, "tokenizer": {"kind": "word"}},
    "forecast": {
        "data": {"file": "series.csv"},
        "window": {"look_back": 12, "horizon": 4, "normalise": "last"},
    },
}
"""What each task's recipe has, beside the model."""
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("translate", {"encoder": BLOCKS, "decoder": BLOCKS}),
    "lstm": (
        "translate",
        {
            "encoder": {"kind": "rnn", "cell": "lstm", "layers": 1},
            "decoder": {"kind": "rnn", "cell": "lstm", "layers": 1, "attention": "additive"},
        },
    ),
    "gru": (
        "translate",
        {
            "encoder": {"kind": "rnn", "cell": "gru", "layers": 1},
            "decoder": {"kind": "rnn", "cell": "gru", "layers": 1, "order": "before"},
        },
    ),
    "causal": ("language_model", {"decoder": {**BLOCKS, "norm": "pre"}}),
    "filler": ("masked_language_model", {"encoder": {**BLOCKS, "norm": "pre"}}),
    "both_ways": ("bidirectional_language_model", {"tie": "none", "input": {"size": 8}}),
    "describer": (
        "caption",
        {
            "tie": "output",
            "input": {"kind": "cnn", "stem": 4, "widths": [8], "groups": 4},
            "decoder": {"kind": "rnn", "layers": 1, "attention": "additive"},
        },
    ),
    "comparer": (
        "contrast",
        {
            "towers": {
                "source": {
                    "input": {"kind": "patches", "patch": 8, "class_token": False},
                    "encoder": BLOCKS,
                },
                "target": {"encoder": BLOCKS},
            },
            "head": {"size": 11},
        },
    ),
    "listener": ("transcribe", {"encoder": BLOCKS, "input": {"channels": 3}}),
    "classifier": ("classify", {"encoder": BLOCKS, "head": {"pooling": "attention"}}),
    "tagger": (
        "tag",
        {"encoder": {"kind": "rnn", "cell": "lstm", "layers": 1}, "head": {"crf": True}},
    ),
    "forecaster": (
        "forecast",
        {"input": {"patch": 3}, "encoder": BLOCKS, "head": {"readout": "flatten"}},
    ),
}


FILLED = ("masked_language_model", "bidirectional_language_model")
"""Tasks that fill in blanks."""


def example(task: str) -> str:
    """Something that a run of a task can read."""
    if task == "forecast":
        return SERIES
    if task == "transcribe":
        folder = Path(tempfile.gettempdir(), "regard-tones")
        tones.write(folder, {"test": 1})
        return str(folder / "test" / "0000.wav")
    if task in ("caption", "contrast"):
        folder = Path(tempfile.gettempdir(), "regard-scenes")
        scenes.write(folder, {"test": 1})
        return str(folder / "test" / "0000.png")
    who = "[MASK]" if task in FILLED else "dogs"
    return f"two {who} play in the snow {' '.join(HOSTILE)}"


def make(kind: str, folder: Path, updates: tuple[int, ...] = ()) -> Run:
    """A run of a family; with `updates`, it has checkpoints whose weights differ."""
    return create(*FAMILIES[kind], folder, updates)


def create(
    task: str, model: dict[str, Any], folder: Path, updates: tuple[int, ...] = (), **keys: Any
) -> Run:
    """A run of a task with these parts."""
    base = table(task, model, folder.with_name(f"{folder.name}-data"))
    recipe = from_table(base | keys | {"data": base["data"] | keys.get("data", {})})
    made = Run.create(folder, recipe)
    torch.manual_seed(0)  # also of what is not drawn below
    built = build(made.recipe.model, made.task.sizes).eval()
    for number, update in enumerate((*updates, None)):
        torch.manual_seed(number)
        for name, parameter in built.named_parameters():
            if parameter.ndim > 1:
                # Small vectors of tokens, so that no token is said with certainty.
                nn.init.normal_(parameter, std=0.1 if "embedding" in name else 0.4)
        place = made.folder / "model" if update is None else made.checkpoints / f"{update:08d}"
        progress = Progress(update=update or 0)
        checkpoint.save(place, checkpoint.weights_of(built), progress.as_dict())
    return made


def table(task: str, model: dict[str, Any], data: Path) -> dict[str, Any]:
    """A recipe, whose data is written into a folder."""
    data.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line}\n" for line in LINES)
    rows = [f"{LABELS[n % 3]}\t{line}\n" for n, line in enumerate(LINES)]
    tags = (f"{word} {LABELS[len(word) % 3]}" for line in LINES for word in [*line.split(), ""])
    for name, content in {
        "text.source": text,
        "text.target": text,
        "labels.tsv": "".join(rows),
        "tags.txt": "\n".join("" if line.startswith(" ") else line for line in tags),
        "series.csv": SERIES,
    }.items():
        (data / name).write_text(content, encoding="utf-8")
    if task == "transcribe":
        tones.write(data / "sounds", {"train": 4, "validation": 2})
    if task in ("caption", "contrast"):
        scenes.write(data / "scenes", {"train": 6, "validation": 3})
    made = TASKS[task]
    metric = {"metric": "nll"} if task != "translate" else {}
    return made | {
        "task": task,
        "data": made["data"] | {"folder": str(data)},
        "model": {"dim": 16, **model},
        "train": {"threads": 1, "precision": "float32"} | metric,
    }
