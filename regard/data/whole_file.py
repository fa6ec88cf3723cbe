"""A file that is there whole or not at all, whatever happens while it is written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write(path: Path, text: str) -> None:
    """Under a hidden name first, put on the disk, then named."""
    with writing(path) as file:
        file.write(text.encode())


@contextmanager
def writing(path: Path, *, alone: bool = True) -> Iterator[BinaryIO]:
    """The same for what is written piece by piece; where that fails, nothing is left. If it is not
    alone, others may write the same file at the same time: the last one's stays."""
    own = "" if alone else f".{os.urandom(4).hex()}"
    hidden = path.with_name(f".{path.name}{own}-new")
    try:
        with hidden.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        hidden.replace(path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise
