"""A folder of classes, FOLDER/label/picture: how large the pictures are, and a network for them."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from regard.data import media, pictures
from regard.errors import UserError
from regard.starting import Asked, Draft, Key, Section, measures, table
from regard.starting.sizing import held_out

LOOKED = 400
"""Pictures that are opened, evenly out of all."""
MOST = 50_000_000
PARTS = {"train": ("train", "training"), "validation": ("validation", "val", "valid", "dev")}
PARTS |= {"test": ("test", "testing")}
"""What folders of parts are called."""
SEEN = 300_000
"""Pictures that a first training reads, in all of its epochs together; these are 5 at least."""


def is_folder(asked: Asked) -> bool:
    return all(path.is_dir() for path in asked.files)


def look(asked: Asked, base: Path) -> Draft:
    """Pictures with one label each."""
    folders = _parts(asked.files)
    inside = {each: [*media.files(each)] for each in media.classes(folders["train"])}
    counts = Counter({each.name: len(found) for each, found in inside.items() if found})
    total = sum(counts.values())
    if len(counts) < 2:
        raise UserError(
            f"{folders['train']}: two folders at least are wanted, each called by its label, with "
            "pictures in them"
        )
    every = [path for found in inside.values() for path in found]
    sizes, grey, broken = opened(every[:: -(-total // LOOKED)])
    if not sizes:
        raise UserError(f"{folders['train']}: none of the pictures can be read")
    height, width = (round(median(side)) for side in zip(*sizes, strict=True))
    labels = [name for name, count in counts.items() for _ in range(count)]
    majority = measures.majority(labels)
    return Draft(
        title=f"{total:,} pictures with {len(counts)} labels",
        facts={
            "pictures": total,
            "labels": dict(counts.most_common(50)),
            "height": height,
            "width": width,
            "grey": grey,
            "broken": broken,
        },
        seen=[
            f"{folders['train']}: {total:,} pictures in {len(counts)} folders",
            f"  labels: {_listed(counts)}",
            f"  {height} × {width} pixels (median){', grey' if grey else ''}",
            *(
                [f"  {broken} of {len(sizes) + broken} that were opened cannot be read"]
                * bool(broken)
            ),
        ],
        sections=_sections(folders, base, counts, (height, width), grey, bool(broken)),
        reference=[f"accuracy {majority:.1%} by always taking the most frequent label"],
        scores={"majority": majority},
    )


def _parts(given: Sequence[Path]) -> dict[str, Path]:
    """Folders of parts that are named, or that are inside of the one that is."""
    if len(given) == 1:
        inner = {path.name.lower(): path for path in media.classes(given[0])}
        found = {
            part: next(inner[name] for name in names if name in inner)
            for part, names in PARTS.items()
            if inner.keys() & {*names}
        }
        return found if "train" in found else {"train": given[0]}
    found = {part: paths[0] for part, paths in table.parts(given).items()}
    if len(found) < len(given):
        raise UserError("new: each part wants one folder, called by it (train, validation, test)")
    return found


def opened(paths: Sequence[Path]) -> tuple[list[tuple[int, int]], bool, int]:
    """Heights and widths, whether all are grey, and how many cannot be read."""
    sizes, grey = list[tuple[int, int]](), True
    for path in paths:
        with suppress(ValueError):
            image, size, _ = pictures.small(media.contents(str(path), 10 * MOST), MOST)
            sizes.append(size)
            grey = grey and image.mode in ("1", "L", "I", "I;16", "F")
    return sizes, grey, len(paths) - len(sizes)


def _listed(counts: Counter[str]) -> str:
    most = [f"{table.shown(name, 24)} {count:,}" for name, count in counts.most_common(8)]
    return ", ".join(most) + (f", … {len(counts)} in all" if len(counts) > len(most) else "")


def _sections(
    folders: dict[str, Path],
    base: Path,
    counts: Counter[str],
    size: tuple[int, int],
    grey: bool,
    broken: bool,
) -> list[Section]:
    """What the defaults do not know."""
    total = sum(counts.values())
    data = [Key(part, table.named([folder], base)) for part, folder in folders.items()]
    if broken:
        data.append(Key("on_bad_line", "skip", "some pictures cannot be read: they are left out"))
    side, stem = side_of(max(size))
    height, width = size if max(size) <= 40 else (side, side)
    signs = all(len(name) == 1 for name in counts)  # digits, letters: mirrored, they are others
    small = max(size) <= 40
    augment = [Key("shift", 0.07), Key("rotate", 10.0)] if small else [Key("area", 0.5)]
    augment += [] if signs else [Key("flip", 0.5, "false for what has a left and a right")]
    source: list[Any] = [
        Key("kind", "image"),
        Key("size", [height, width]),
        Key("channels", 1 if grey else 3),
    ]
    if size[0] != size[1] and not small:
        source.append(Key("resize", "crop", "the middle; “pad” takes all, “stretch” too"))
    epochs = max(5, min(60, round(SEEN / max(1, total))))
    return [
        Section("", (Key("task", "classify"),)),
        Section("data", tuple(data)),
        *held_out(folders, "as large a share of each label", 0.1, Key("stratified", True)),
        Section("source", tuple(source)),
        Section("source.augment", tuple(augment), "pictures are varied in training"),
        Section("batch", (Key("sentences", 32 if total < 5000 else 128),)),
        Section("model.input", (Key("kind", "cnn"), Key("stem", stem))),
        Section("model.encoder", (Key("kind", "none"),)),
        Section("model.head", (Key("pooling", "mean"),)),
        Section("train", (Key("epochs", epochs, "times through the data"),)),
    ]


def side_of(longest: int) -> tuple[int, int]:
    """How large pictures become, and how far apart the first filters stand."""
    if longest <= 40:
        return longest, 1
    return (64, 2) if longest <= 96 else (128, 4)
