"""A shortlist: which symbols may stand in a translation, by what stands in the source.

A small decoder spends nearly half of each step on the product with the whole vocabulary, of which
a sentence needs very little: the symbols that are frequent anyhow, and those that were seen as the
translation of one of its own. Which these are is learnt from the training pairs by IBM's model 1,
in which every symbol t of the target comes from one symbol s of the source, or from its end:

    c(s, t) = Σ over places of t in pairs with s:  p(t | s) / Σ_s′ p(t | s′)
    p(t | s) = c(s, t) / Σ_t c(s, t)

CTranslate2 reads the list from a file beside the model, and takes for a batch what its sentences
allow together.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.store import Store
from regard.data.tokenizers import END

NAME = "vmap.txt"
"""What CTranslate2 calls it: a line for each source symbol, the first for all of them."""
ALWAYS, EACH = 1500, 100
"""How many symbols are allowed always, and for each symbol of the source beside them."""
LINKS = 8_000_000
"""From how many pairs of symbols it is learnt, at most."""
ROUNDS = 5

Ints = NDArray[np.int64]
Pair = tuple[Ints, Ints]


class Lexicon(NamedTuple):
    """p(t | s) for all s and t that stand in one pair, s by s, the likeliest t first."""

    sources: Ints
    targets: Ints
    chances: NDArray[np.float64]


def write(pairs: Sequence[Pair], folder: Path) -> None:
    """Learn from pairs of sentences, and write the list into `folder`."""
    symbols, counts = np.unique(np.concatenate([target for _, target in pairs]), return_counts=True)
    always = symbols[np.argsort(-counts, kind="stable")][:ALWAYS]
    lines = [_line("", np.append(END, always))]
    learnt = lexicon(pairs)
    keys, starts = np.unique(learnt.sources, return_index=True)
    for key, (start, end) in zip(keys, pairwise([*starts, len(learnt.sources)]), strict=True):
        lines.append(_line(str(key), learnt.targets[start:end][:EACH]))
    (folder / NAME).write_text("".join(lines), encoding="utf-8")


def _line(key: str, allowed: Ints) -> str:
    return f"{key}\t{' '.join(map(str, allowed))}\n"


def lexicon(pairs: Sequence[Pair], rounds: int = ROUNDS) -> Lexicon:
    """Model 1 after some rounds, from p(t | s) equal for all t."""
    size = 1 + max(int(target.max(initial=END)) for _, target in pairs)
    links, places, before = [], [], 0
    for source, target in pairs:
        with_end = np.append(source, END)
        links.append((with_end[:, None] * size + target).ravel())
        places.append(np.tile(np.arange(before, before + len(target)), len(with_end)))
        before += len(target)
    kinds, kind = np.unique(np.concatenate(links), return_inverse=True)
    place, source = np.concatenate(places), kinds // size
    chances = np.ones(len(kinds))
    for _ in range(rounds):
        weights = chances[kind]
        shares = weights / np.bincount(place, weights)[place]
        counts = np.bincount(kind, shares)
        chances = counts / np.bincount(source, counts)[source]
    order = np.lexsort((-chances, source))
    return Lexicon(source[order], (kinds % size)[order], chances[order])


def sample(sources: Store, targets: Store) -> list[Pair]:
    """Pairs from all over the text, as many as have `LINKS` pairs of symbols."""
    order = np.random.default_rng(1).permutation(len(sources))
    links = np.cumsum((sources.lengths[order] + 1) * targets.lengths[order])
    chosen = order[: max(1, int(np.searchsorted(links, LINKS, side="right")))]
    return [(sources[n].astype(np.int64), targets[n].astype(np.int64)) for n in chosen.tolist()]
