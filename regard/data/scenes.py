"""Scenes of coloured shapes and what may be said of them: pictures with captions, from nothing.

    caption   = object | object relation object
    object    = "a" [size] colour shape          size: small, large
    relation  = "above" | "below" | "left of" | "right of"

A relation holds where nothing of the one object is as high (or as far to the side) as the other.
All true captions of a scene are known, so that any of them counts as right. Two kinds of objects,
such as a red circle and a blue square, are a pair; the pairs of one part are in no other, while
every colour has every shape in training. All of it is a pure function of the seed.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

Point = tuple[float, float]
SIDE = 64
"""Pixels of a picture, in height and in width."""
FINER = 3
"""Drawn so many times as large, then made small: edges are smooth."""
COLOURS = {
    "red": (214, 40, 40),
    "green": (50, 160, 70),
    "blue": (45, 90, 210),
    "yellow": (240, 205, 50),
    "purple": (140, 60, 170),
    "black": (40, 40, 45),
}
SHAPES = ("circle", "square", "triangle", "star", "cross")
SIZES = {"small": (6.0, 8.0), "large": (11.0, 14.0)}
"""Half of the sides of their boxes, in pixels: from and to."""
RELATIONS = {"above": "below", "below": "above", "left of": "right of", "right of": "left of"}
"""Each, and what it is seen from the other object."""
SEPARATOR = " | "
"""Between the true captions of a scene in the tables of validation and test."""
COUNTS = {"train": 6000, "validation": 300, "test": 500}
SINGLES, RETRIEVED = 200, 100
"""Scenes of one shape with labels; scenes of which no caption is true of another."""
ALONE = 0.25
"""The share of scenes to learn from that have one object."""
JITTER = 18
"""By how much a colour may differ, of 255."""
SEED = 1


class Thing(NamedTuple):
    """One shape of a scene."""

    colour: str
    shape: str
    size: str
    box: tuple[int, int, int, int]
    """Left, top, right, bottom, in pixels; the last two are outside."""

    @property
    def kind(self) -> tuple[str, str]:
        return self.colour, self.shape

    def names(self) -> tuple[str, str]:
        """With and without its size."""
        return f"a {self.size} {self.colour} {self.shape}", f"a {self.colour} {self.shape}"


@dataclass(frozen=True)
class Scene:
    """One or two things."""

    things: tuple[Thing, ...]

    def captions(self) -> list[str]:
        """All that is true of it, the longest first."""
        if len(self.things) == 1:
            return [*self.things[0].names()]
        found = [
            f"{first} {relation} {second}"
            for one, other in permutations(self.things)
            for relation in relations(one, other)
            for first, second in product(one.names(), other.names())
        ]
        return sorted(found, key=lambda caption: -len(caption.split()))


def relations(one: Thing, other: Thing) -> list[str]:
    """Where the one is, seen from the other."""
    left, top, right, bottom = one.box
    holds = {
        "above": bottom <= other.box[1],
        "below": top >= other.box[3],
        "left of": right <= other.box[0],
        "right of": left >= other.box[2],
    }
    return [name for name, true in holds.items() if true]


KINDS = tuple(product(COLOURS, SHAPES))


def part_of(one: tuple[str, str], other: tuple[str, str]) -> str:
    """The part that a pair of kinds is in: a seventh is the test's, a seventh for validation."""
    first, second = sorted((KINDS.index(one), KINDS.index(other)))
    place = (5 * first + 3 * second + first * second) % 7
    return {0: "test", 1: "validation"}.get(place, "train")


PAIRS = {
    part: tuple(pair for pair in combinations(KINDS, 2) if part_of(*pair) == part)
    for part in COUNTS
}
"""No object is beside another of its own kind."""


def scene(part: str, random: np.random.Generator, alone: float = 0.0) -> Scene:
    """A scene of a part; the share `alone` of them has one object, of any kind."""
    if random.random() < alone:
        colour, shape = KINDS[int(random.integers(len(KINDS)))]
        return Scene((_placed(colour, shape, random),))
    pairs = PAIRS[part]
    pair = pairs[int(random.integers(len(pairs)))]
    while True:
        one, other = (_placed(*pair[n], random) for n in random.permutation(2))
        if relations(one, other):
            return Scene((one, other))


def _placed(colour: str, shape: str, random: np.random.Generator) -> Thing:
    """Anywhere in the picture."""
    size = [*SIZES][int(random.integers(2))]
    half = random.uniform(*SIZES[size])
    x, y = random.uniform(half + 1, SIDE - half - 1, 2)
    edges = (x - half, y - half, x + half, y + half)
    left, top, right, bottom = (round(edge) for edge in edges)
    return Thing(colour, shape, size, (left, top, right, bottom))


def drawn(scene: Scene, random: np.random.Generator) -> Image.Image:
    """The picture of a scene; shades and background differ from picture to picture."""
    large = Image.new("RGB", (SIDE * FINER, SIDE * FINER), _shade((235, 235, 235), random))
    canvas = ImageDraw.Draw(large)
    for thing in scene.things:
        colour = _shade(COLOURS[thing.colour], random)
        left, top, right, bottom = (edge * FINER for edge in thing.box)
        if thing.shape == "circle":
            canvas.ellipse((left, top, right - 1, bottom - 1), fill=colour)
            continue
        width, height = right - left - 1, bottom - top - 1
        outline = [(left + x * width, top + y * height) for x, y in OUTLINES[thing.shape]]
        canvas.polygon(outline, fill=colour)
    small = np.asarray(large.resize((SIDE, SIDE), Image.Resampling.BOX), np.float64)
    noise = random.standard_normal(small.shape) * random.uniform(0, 4)
    return Image.fromarray(np.clip(small + noise, 0, 255).round().astype(np.uint8))


def _shade(colour: tuple[int, int, int], random: np.random.Generator) -> tuple[int, int, int]:
    red, green, blue = np.clip(np.array(colour) + random.integers(-JITTER, JITTER + 1, 3), 0, 255)
    return int(red), int(green), int(blue)


def _star() -> list[Point]:
    """Five points that touch the box."""
    turns = np.arange(10) * np.pi / 5 - np.pi / 2
    reach = np.where(np.arange(10) % 2, 0.42, 1.0)
    x, y = reach * np.cos(turns), reach * np.sin(turns)
    x, y = ((each - each.min()) / (each.max() - each.min()) for each in (x, y))
    return [*zip(x.tolist(), y.tolist(), strict=True)]


OUTLINES: dict[str, list[Point]] = {
    "square": [(0, 0), (1, 0), (1, 1), (0, 1)],
    "triangle": [(0.5, 0), (1, 1), (0, 1)],
    "cross": [
        (0.33, 0), (0.67, 0), (0.67, 0.33), (1, 0.33), (1, 0.67), (0.67, 0.67),
        (0.67, 1), (0.33, 1), (0.33, 0.67), (0, 0.67), (0, 0.33), (0.33, 0.33),
    ],
    "star": _star(),
}  # fmt: skip
"""Corners, in shares of the box."""


class Example(NamedTuple):
    scene: Scene
    picture: Image.Image
    caption: str
    """One of those that are true."""


def examples(part: str, count: int, seed: int = SEED, alone: float = 0.0) -> Iterator[Example]:
    """Scenes of a part, with pictures and a caption each."""
    for n in range(count):
        random = np.random.Generator(np.random.PCG64([seed, [*COUNTS].index(part), n]))
        made = scene(part, random, alone)
        said = made.captions()
        picture = drawn(made, random)
        yield Example(made, picture, said[int(random.integers(len(said)))])


def write(folder: Path, counts: dict[str, int] | None = None) -> None:
    """Pictures in a folder for each part, and tables of their paths and captions:

    train.tsv                       one caption of each
    validation.tsv, test.tsv        all true ones of each, between separators
    pairs.tsv                       a caption of each of a hundred, true of no other of them
    colours.tsv, shapes.tsv         labels of single shapes
    boxes.jsonl                     where the shapes of the test are
    """
    for part, count in (counts or COUNTS).items():
        found = _pictures(folder, part, examples(part, count, alone=ALONE * (part == "train")))
        every = part != "train"
        rows = [(n, SEPARATOR.join(e.scene.captions()) if every else e.caption) for n, e in found]
        table(folder / f"{part}.tsv", rows)
        if every:
            pairs = [(n, e.scene.captions()[0]) for n, e in apart(found)]
            table(folder / f"pairs-{part}.tsv", pairs)
        if part == "test":
            boxes = [{"image": n, "things": _things(e.scene)} for n, e in found]
            lines = "".join(json.dumps(each) + "\n" for each in boxes)
            (folder / "boxes.jsonl").write_text(lines, encoding="utf-8", newline="\n")
            _write_single(folder, min(SINGLES, count))


def _write_single(folder: Path, count: int) -> None:
    """Single shapes with the labels of each, and prompts for these."""
    found = _pictures(folder, "single", examples("test", count, SEED + 1, alone=1.0))
    table(folder / "colours.tsv", [(e.scene.things[0].colour, n) for n, e in found])
    table(folder / "shapes.tsv", [(e.scene.things[0].shape, n) for n, e in found])
    colours = [(each, "\t".join(f"a {each} {shape}" for shape in SHAPES)) for each in COLOURS]
    shapes = [(each, "\t".join(f"a {colour} {each}" for colour in COLOURS)) for each in SHAPES]
    table(folder / "prompts-colours.tsv", colours)
    table(folder / "prompts-shapes.tsv", shapes)


def apart(found: list[tuple[str, Example]]) -> list[tuple[str, Example]]:
    """The first of which the longest caption is true of none that was chosen, nor theirs of it."""
    chosen: list[tuple[str, Example]] = []
    said: set[str] = set()
    true: set[str] = set()
    for name, example in found:
        own = example.scene.captions()
        if len(chosen) < RETRIEVED and own[0] not in true and said.isdisjoint(own):
            chosen.append((name, example))
            said.add(own[0])
            true.update(own)
    return chosen


def _things(scene: Scene) -> list[dict[str, object]]:
    return [thing._asdict() for thing in scene.things]


def _pictures(folder: Path, name: str, found: Iterator[Example]) -> list[tuple[str, Example]]:
    (folder / name).mkdir(parents=True, exist_ok=True)
    made = []
    for n, example in enumerate(found):
        path = f"{name}/{n:04}.png"
        example.picture.save(folder / path)
        made.append((path, example))
    return made


def table(path: Path, rows: list[tuple[str, str]]) -> None:
    """Write a table of two columns."""
    path.write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8", newline="\n")
