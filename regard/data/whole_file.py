"""A small file that is there whole or not at all, whatever happens while it is written."""

import os
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Under a hidden name first, put on the disk, then named."""
    writing = path.with_name(f".{path.name}-new")
    with writing.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    writing.replace(path)
