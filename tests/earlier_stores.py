"""Stores as earlier versions wrote them: the package only reads them any more."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from regard.data import earlier_store
from regard.data.shards import File


def write(
    folder: Path, names: Sequence[str], size: int, rows: Iterable[Sequence[Sequence[int]]]
) -> None:
    """One for each name, from rows of one sequence per name; `size` is that of the vocabulary."""
    kind = "<u2" if size <= 1 << 16 else "<u4"
    folder.mkdir(parents=True, exist_ok=True)
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        tokens, offsets = folder / f"{name}.tokens", folder / f"{name}.offsets"
        flat = [token for row in column for token in row]
        np.asarray(flat, kind).tofile(tokens)
        np.cumsum([0, *map(len, column)], dtype="<i8").tofile(offsets)
        sums = earlier_store.summed(File(tokens), File(offsets))
        (folder / f"{name}.sha256").write_bytes(sums)


def write_texts(folder: Path, names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Texts are stored as their bytes."""
    write(folder, names, 1 << 8, [[[*text.encode()] for text in row] for row in rows])
