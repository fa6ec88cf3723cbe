"""Stores as earlier versions wrote them: one flat array of unsigned integers for each column.

NAME.COLUMN.tokens    little-endian unsigned integers, 2 or 4 bytes each
NAME.COLUMN.offsets   int64, one more than there are examples: where each begins, the last one ends
NAME.COLUMN.sha256    of both files, in the form that `sha256sum --check` reads; the first had none
"""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.shards import NAMES, File


def columns(folder: Path, name: str) -> list[str]:
    """Of which columns there is a file."""
    form = re.compile(rf"{re.escape(name)}\.({NAMES.pattern})\.(?:tokens|offsets|sha256)", re.ASCII)
    matches = (form.fullmatch(path.name) for path in sorted(folder.iterdir()))
    return list(dict.fromkeys(match[1] for match in matches if match))


def opened(folder: Path, stem: str) -> tuple[File, int, NDArray[np.int64]]:
    """The file of the tokens STEM.tokens, bytes of a token, and where each example begins;
    ValueError or OSError if that is no such store, or a damaged one."""
    path, places = folder / f"{stem}.tokens", folder / f"{stem}.offsets"
    file, sums = File(path), folder / f"{stem}.sha256"
    if sums.is_file() and sums.read_bytes() != summed(file, File(places)):
        raise ValueError(f"{path} or {places} is damaged")
    found = _offsets(File(places))
    count = int(found[-1])
    width = file.size // max(count, 1)
    if file.size != count * width or (count and width not in (2, 4)):
        raise ValueError(f"{path} has not the {count} tokens that {places} speaks of")
    return file, width or 2, found


def summed(*files: File) -> bytes:
    """What the file of hashes has for these."""
    return "".join(f"{file.hash()}  {file.path.name}\n" for file in files).encode()


def _offsets(file: File) -> NDArray[np.int64]:
    """Where each sequence begins, and where the last one ends: numbers that never fall, from 0."""
    size = file.size
    if size < 8 or size % 8:
        raise ValueError(f"{file.path} has {size} bytes")
    found: NDArray[np.int64] = np.frombuffer(file.read(size, 0), "<i8").astype(np.int64)
    # Not their differences: those of forged ones could overflow.
    if found[0] != 0 or (found[1:] < found[:-1]).any():
        raise ValueError(f"{file.path}: it does not count from 0 on")
    return found
