"""Files of the form idx, which MNIST has: images (N, H, W) or labels (N) of one byte each, plain or
gzip. The first bytes say which: 0, 0, 8 and the number of dimensions, then each dimension's size.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.labelled import Labelled
from regard.data.readers import Report, opened
from regard.errors import UserError

MAGIC = b"\0\0\x08"
"""Bytes; other kinds of numbers are not read."""
LABELS, IMAGES = 1, 3
"""Dimensions."""
MOST = 1 << 32
"""Bytes of a file once it is unpacked: all of it is held while it is read."""


def dimensions(path: Path) -> int:
    """How many a file has; 0 if it is no such file."""
    if not path.is_file():
        return 0
    try:
        with opened(path) as stream:
            start = stream.read(4)
    except UserError:  # its reader says what is wrong
        return 0
    return start[3] if len(start) == 4 and start.startswith(MAGIC) else 0


def read(path: Path) -> NDArray[np.uint8]:
    """All of it; one file of images and one of labels are remembered."""
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _read(path: Path, stamp: int) -> NDArray[np.uint8]:
    with opened(path) as stream:
        start = stream.read(4)
        count = start[3] if start.startswith(MAGIC) and len(start) == 4 else 0
        sizes = stream.read(4 * count)
        if count not in (LABELS, IMAGES) or len(sizes) < 4 * count:
            raise UserError(f"{path} is no idx file of images or labels")
        shape = [int(n) for n in np.frombuffer(sizes, ">u4")]
        size = math.prod(shape)
        if not 0 < size <= MOST:
            raise UserError(f"{path}: its header says {' × '.join(map(str, shape))} bytes")
        data = stream.read(size + 1)
    if len(data) != size:
        less = "fewer" if len(data) < size else "more"
        raise UserError(f"{path} has {less} bytes than its header says ({size:,})")
    return np.frombuffer(data, np.uint8).reshape(shape)


def labelled(paths: Sequence[Path], report: Report) -> Iterator[Labelled]:
    """Places and labels of files of images and files of labels, in the same order."""
    kinds = [dimensions(path) for path in paths]
    images = [path for path, kind in zip(paths, kinds, strict=True) if kind == IMAGES]
    labels = [path for path, kind in zip(paths, kinds, strict=True) if kind == LABELS]
    if len(images) != len(labels) or len(images) + len(labels) < len(paths):
        shown = ", ".join(map(str, paths))
        raise UserError(f"{shown}: of idx files, name one of labels for each one of images")
    for path, beside in zip(images, labels, strict=True):
        names = read(beside)
        if len(read(path)) != len(names):
            raise UserError(
                f"{path} has {len(read(path)):,} images, {beside} {len(names):,} labels"
            )
        for number, name in enumerate(names.tolist()):
            report.used += 1
            yield Labelled(path, number + 1, f"{path}#{number}", (str(name),))


def image(path: Path, number: int) -> NDArray[np.uint8]:
    """(H, W): one of the images, counted from 0."""
    images = read(path)
    if images.ndim != IMAGES or number >= len(images):
        raise ValueError(f"there is no image {number}")
    found: NDArray[np.uint8] = images[number]
    return found
