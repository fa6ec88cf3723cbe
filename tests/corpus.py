"""A made-up language to translate from, small enough to be learnt in a few seconds.

Each word has one translation, and the translations stand in the opposite order.
"""

import atexit
import functools
import random
import shutil
import tempfile
from pathlib import Path

WORDS = dict(
    zip(
        ["ka", "lo", "mi", "nu", "pe", "ra", "so", "ti", "vu"],
        ["Haus", "Baum", "Hund", "rot", "läuft", "groß", "ein", "der", "schön"],
        strict=True,
    )
)

RECIPE = """\
# The smallest Transformer for the made-up language.
task = "translate"
seed = 3

[data]
train = ["train.source", "train.target"]
validation = ["validation.source", "validation.target"]
test = ["test.source", "test.target"]
max_length = 20

[tokenizer]
kind = "word"
joint = false

[batch]
tokens = 60

[search]
kind = "beam"
beams = 3

[model]
dim = 16
tie = "output"

[model.encoder]
layers = 1
heads = 2
feedforward = 32
norm = "post"
dropout = 0.1

[model.decoder]
layers = 1
heads = 2
feedforward = 32
norm = "post"
dropout = 0.1

[train]
updates = 20
validate_every = 5
save_every = 5
log_every = 5
average = 0
threads = 1
precision = "float32"

[train.optimizer]
learning_rate = 0.01

[train.schedule]
kind = "inverse_sqrt"
warmup = 20
end = 0.0

[evaluation]
lines = 5
"""


def translate(text: str) -> str:
    return " ".join(WORDS[word] for word in reversed(text.split()))


def sentences(count: int, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(list(WORDS), k=chance.randint(1, 5))) for _ in range(count)]


def write(folder: Path, **counts: int) -> Path:
    """The recipe in `folder`, and its corpus of so many pairs for each part."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"train": 80, "validation": 10, "test": 10} | counts
    for seed, (part, count) in enumerate(sizes.items()):
        sources = sentences(count, seed)
        _lines(folder / f"{part}.source", sources)
        _lines(folder / f"{part}.target", [translate(source) for source in sources])
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE, encoding="utf-8")
    return recipe


def _lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@functools.cache
def trained() -> Path:
    """A run that knows the language a little; for reading only. One for the whole session."""
    import regard

    folder = Path(tempfile.mkdtemp(prefix="regard-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    recipe = write(folder / "corpus", train=300)
    changes = (
        "train.updates=150",
        "train.validate_every=50",
        "train.save_every=50",
        "batch.tokens=200",
    )
    regard.train(recipe, *changes, to=folder / "run")
    return folder / "run"
