"""Pretrained vectors become those of a model's words; `vector_files` reads what is on the disk."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data import vector_files
from regard.data.tokenizers import Tokenizer
from regard.errors import UserError

SHOWN = 5


def put(
    weight: Float[Tensor, "V D"],
    factor: float,
    path: Path,
    tokenizer: Tokenizer,
    *,
    scaled: bool = False,
    name: str = "",
) -> str:
    """Give each word of the vocabulary its vector; those that have none are drawn alike.

    `weight` is the table that an embedding multiplies by `factor`; with `scaled`, what is then read
    has a deviation of 1. Cased words take the vector of their lower case where they have none of
    their own. A line says what was found; where `path` is a copy, `name` is that of the file.
    """
    words = _words(tokenizer)
    found = _wanted(path, words, weight.shape[1])
    known = {n: found.get(word, found.get(word.lower())) for n, word in words.items()}
    given = {n: vector for n, vector in known.items() if vector is not None}
    table = np.stack(list(given.values()))
    if scaled:
        table /= table.std()
    with torch.no_grad():
        weight.normal_(float(table.mean()), float(table.std()))
        weight[list(given)] = torch.from_numpy(table).to(weight)
        weight /= factor
    missing = [words[n] for n, vector in known.items() if vector is None]
    shown = ", ".join(missing[:SHOWN]) + (", …" if len(missing) > SHOWN else "")
    return (
        f"{name or path}: {len(given):,} of {len(known):,} words have a vector"
        + (f"; {len(missing):,} are drawn at random: {shown}" if missing else "")
    )  # fmt: skip


def keep(path: Path, tokenizer: Tokenizer, dim: int, to: Path) -> None:
    """Write a file of the vectors that `put` would take from another, each to the last bit."""
    found = _wanted(path, _words(tokenizer), dim)
    # The decimal fraction of a number in fp32 as one in fp64 leads back to it.
    rows = (f"{word} {' '.join(map(str, v.tolist()))}\n" for word, v in found.items())
    to.write_text("".join(rows), encoding="utf-8", newline="\n")


def _wanted(path: Path, words: Mapping[int, str], dim: int) -> dict[str, NDArray[np.float32]]:
    """Those of the vocabulary's words and of their lower case."""
    own = {*words.values()}
    found = read(path, own | {word.lower() for word in own}, dim)
    if not found:
        raise UserError(f"{path}: not one of the {len(own):,} words of the vocabulary is in it")
    return found


def _words(tokenizer: Tokenizer) -> dict[int, str]:
    """By number; special tokens are no words."""
    pieces = enumerate(tokenizer.pieces(range(len(tokenizer))))
    return {n: p.removeprefix("▁") for n, p in pieces if n not in tokenizer.special}


def read(path: Path, wanted: set[str], dim: int) -> dict[str, NDArray[np.float32]]:
    """The vectors of the wanted words; that of a word that stands there twice is the first."""
    found: dict[str, NDArray[np.float32]] = {}
    for word, vector in vector_files.entries(path, wanted, dim):
        found.setdefault(word, vector)
    return found
