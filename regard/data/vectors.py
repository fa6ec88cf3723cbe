"""Pretrained vectors of words, in the text format of word2vec (with a first line) or of GloVe.

400000 100                     how many words, and the dimension: word2vec alone has this line
the 0.0231 -0.2419 …           a word and its vector
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data.readers import excerpt, sound
from regard.data.tokenizers import Tokenizer
from regard.errors import UserError

SHOWN = 5


def put(
    weight: Float[Tensor, "V D"],
    factor: float,
    path: Path,
    tokenizer: Tokenizer,
    *,
    name: str = "",
) -> str:
    """Give each word of the vocabulary its vector; those that have none are drawn alike.

    `weight` is the table that an embedding multiplies by `factor`. Cased words take the vector of
    their lower case where they have none of their own. A line says what was found; where `path` is
    a copy, `name` is that of the file.
    """
    words = _words(tokenizer)
    found = _wanted(path, words, weight.shape[1])
    known = {n: found.get(word, found.get(word.lower())) for n, word in words.items()}
    given = {n: vector for n, vector in known.items() if vector is not None}
    table = np.stack(list(given.values()))
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
    """The vectors of the wanted words. Each line is checked; a broken one is refused."""
    found: dict[str, NDArray[np.float32]] = {}
    for number, line in sound(path):
        # A word may hold blanks: the vector is what stands last.
        word, *cells = line.rstrip().rsplit(" ", dim)
        if number == 1 and _is_header(line):
            _check(path, int(line.split()[1]), dim)
            continue
        if not word and not cells:
            continue
        if number == 1:
            _check(path, len(line.split()) - 1, dim)
        if len(cells) != dim:
            raise UserError(f"{path}:{number}: not a word and {dim} numbers: “{excerpt(line)}”")
        if word in wanted and word not in found:
            try:
                found[word] = np.array(cells, np.float32)
            except ValueError:
                what = f"not a word and {dim} numbers"
                raise UserError(f"{path}:{number}: {what}: “{excerpt(line)}”") from None
            if not np.isfinite(found[word]).all():
                raise UserError(f"{path}:{number}: a number that is not finite: “{excerpt(line)}”")
    return found


def _is_header(line: str) -> bool:
    cells = line.split()
    return len(cells) == 2 and all(cell.isdecimal() for cell in cells)


def _check(path: Path, there: int, dim: int) -> None:
    if there != dim:
        raise UserError(
            f"{path}: its vectors have dimension {there}, those of model.input {dim}: "
            f"set model.dim = {there}, or take kind = 'words' with model.input.size = {there}"
        )
