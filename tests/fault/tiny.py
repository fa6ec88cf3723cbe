"""Two trainings that take a fraction of a second and have all that could be lost.

Both have dropout, an optimizer with moments, records that begin before and end after a checkpoint,
validation, retention and an average of checkpoints at the end. The LSTM reads running text, so it
also hands its state from chunk to chunk, over the border of an epoch.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from tests import corpus

KINDS = ("transformer", "lstm")
PASSING = ("seconds", "cpu_seconds", "tokens_per_second", "memory")
TRAIN = """
[train]
updates = 12
accumulate = 2
log_every = 5
validate_every = 4
save_every = 3
keep = 2
average = 2
threads = 1
precision = "float32"
device = "cpu"

[train.optimizer]
learning_rate = 0.01

[train.schedule]
warmup = 6
"""
TRANSFORMER = """\
task = "translate"
seed = 3

[data]
train = ["train.source", "train.target"]
validation = ["validation.source", "validation.target"]
test = ["test.source", "test.target"]

[tokenizer]
kind = "word"
joint = true

[batch]
tokens = 30

[search]
beams = 2

[evaluation]
lines = 2

[model]
dim = 8
encoder = { layers = 1, heads = 2, feedforward = 8, dropout = 0.2 }
decoder = { layers = 1, heads = 2, feedforward = 8, dropout = 0.2 }
"""
LSTM = """\
task = "language_model"
seed = 3

[data]
train = ["train.target"]
validation = ["validation.target"]
test = ["test.target"]

[tokenizer]
kind = "character"

[stream]
streams = 4
length = 9

[model]
dim = 8
decoder = { kind = "rnn", cell = "lstm", layers = 1, dropout = 0.2 }
"""


def write(kind: str, folder: Path) -> Path:
    """The recipe of this kind in `folder`, and its corpus."""
    recipe = corpus.write(folder, train=30, validation=5, test=5)
    recipe.write_text((TRANSFORMER if kind == "transformer" else LSTM) + TRAIN, encoding="utf-8")
    return recipe


def outcome(run: Path) -> dict[str, Any]:
    """What must be the same to the last bit however often a run was stopped."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    weights = (run / "model" / "model.safetensors").read_bytes()
    return {
        "weights": hashlib.sha256(weights).hexdigest(),
        "records": [{k: v for k, v in r.items() if k not in PASSING} for r in records],
        "kept": sorted(f.name for f in (run / "checkpoints").iterdir()),
        "damaged": [str(f) for f in run.rglob("*.damaged*")],
    }
