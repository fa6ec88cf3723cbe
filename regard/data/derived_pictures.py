"""Data sets of pictures that are made from others, or from nothing.

photographs   tables of the pictures of flickr8k-1k and their captions, in three parts
scenes        coloured shapes (scenes.py)
"""

import csv
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from regard.data import scenes as drawing
from regard.data.derived import ALTERNATIVES
from regard.errors import UserError

TEST, VALIDATION = 10, 20
"""Every tenth photograph is in the test, every twentieth of the others for validation."""
Fetch = Callable[[str], Path]


def photographs(folder: Path, fetch: Fetch) -> None:
    """To learn from, each caption has its line; in validation and test a photograph has one line
    with all of its captions."""
    found: dict[str, list[str]] = defaultdict(list)
    path = fetch("captions.txt")
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row.keys() != {"image", "caption"} or not row["caption"]:
                raise UserError(f"{path}: wanted: a table of image and caption")
            found[row["image"]].append(" ".join(row["caption"].split()))
    parts: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for n, (name, texts) in enumerate(sorted(found.items())):
        part = "train" if n % VALIDATION != 1 else "validation"
        part = part if n % TEST else "test"
        lines = texts if part == "train" else [ALTERNATIVES.join(texts)]
        parts[part] += [(f"../flickr8k-1k/images/{name}", line) for line in lines]
    for part, rows in parts.items():
        drawing.table(folder / f"{part}.tsv", rows)


def scenes(folder: Path, fetch: Fetch, *, train: int = drawing.COUNTS["train"]) -> None:
    """The embedded scenes, so many to learn from."""
    drawing.write(folder, drawing.COUNTS | {"train": train})
