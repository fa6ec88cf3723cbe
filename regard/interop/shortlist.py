"""A shortlist: which tokens may stand in a translation, by what stands in the source.

A small decoder spends nearly half of each step on the product with the whole vocabulary, of which
a sentence needs very little: the tokens that are frequent anyhow, and those that were seen as the
translation of one of its own, by a dictionary that the training pairs have taught. CTranslate2
reads the list from a file beside the model, and takes for a batch what its sentences allow
together.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.dictionary import Dictionary
from regard.data.store import Store
from regard.data.tokenizers import Tokenizer
from regard.errors import UserError
from regard.examples.stored import Stored
from regard.runs import Run

NAME = "vmap.txt"
"""What CTranslate2 calls it: a line for each source token, the first for all of them."""
ALWAYS, EACH = 1500, 100
"""How many tokens are allowed always, and for each token of the source beside them."""
LINKS = 8_000_000
"""From how many pairs of tokens it is learnt, at most."""

Ints = NDArray[np.integer]


def write(sources: Sequence[Ints], targets: Sequence[Ints], folder: Path) -> None:
    """Learn from pairs of sentences, and write the list into `folder`."""
    symbols, counts = np.unique(np.concatenate(targets), return_counts=True)
    always = symbols[np.argsort(-counts, kind="stable")][:ALWAYS]
    lines = [_line("", np.append(Tokenizer.end, always))]
    for symbol, allowed in Dictionary.learn(sources, targets).entries(EACH):
        lines.append(_line(str(symbol), allowed))
    (folder / NAME).write_text("".join(lines), encoding="utf-8", newline="\n")


def _line(key: str, allowed: Ints) -> str:
    return f"{key}\t{' '.join(map(str, allowed))}\n"


def sample(store: Store) -> tuple[list[Ints], list[Ints]]:
    """Pairs from all over the text, as many as have `LINKS` pairs of tokens."""
    order = np.random.default_rng(1).permutation(len(store))
    source, target = (store.lengths(side)[order] for side in ("source", "target"))
    links = np.cumsum((source + 1) * target)
    chosen = order[: max(1, int(np.searchsorted(links, LINKS, side="right")))].tolist()
    return store.read("source", chosen), store.read("target", chosen)


def add(run: Run, folder: Path) -> None:
    """Write the shortlist that the run's training text gives into a converted model's folder."""
    store = run.folder / "store"
    if not store.is_dir():
        raise UserError(f"shortlist: it is learnt from the training data, and {store} is not there")
    stored = Stored(run.folder, "train", run.task.fields)
    write(*sample(stored.store), folder)
