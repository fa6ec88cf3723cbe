"""Pictures that are there twice, in one part or in two, exactly or nearly; and very small ones."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from regard.checks.findings import Finding, Severity, finding
from regard.checks.sides import Part, Side

COMPARED = 20_000
"""Pictures of a part, its first ones, that are looked at."""
REPEATED, LEAKED, SIMILAR = 0.01, 0.01, 0.005
"""Shares of a part from which copies are worth a warning, or in the test an error; and those that
look alike, which a few simple drawings always do."""
BITS = 3
"""Bits of two hashes that may differ."""
NEAR = 5.0
"""Shades of 256 by which two small versions may differ on average."""
CROWD = 64
"""Pictures with a quarter of a hash in common, beyond which it says nothing."""
ENLARGED = 2.0
SMALL = 0.1
"""More than this share is enlarged more than so much: the pictures are too small."""


class Glimpse(NamedTuple):
    """What a picture is compared by."""

    digest: str
    """Of its file."""
    small: UInt8[np.ndarray, "16 16"]
    hash: int
    height: int
    width: int


def glimpse(image: Image.Image, size: tuple[int, int], digest: str) -> Glimpse:
    """Of a decoded picture of this height and width. The hash has a bit for each two neighbours of
    9 × 8 shades of grey, which says whether the left one is darker (dHash)."""
    grey = image.convert("RGBA").convert("L") if image.has_transparency_data else image.convert("L")
    shades = np.asarray(grey.resize((9, 8), Image.Resampling.BOX), np.int16)
    bits = np.packbits(shades[:, 1:] > shades[:, :-1]).tobytes()
    small = np.asarray(grey.resize((16, 16), Image.Resampling.BOX), np.uint8)
    return Glimpse(digest, small, int.from_bytes(bits), *size)


@dataclass(frozen=True)
class Seen:
    """The pictures of a part that are looked at."""

    part: Part
    glimpses: list[Glimpse | None]
    """None of one that cannot be decoded: who reads the data has reported it."""

    @property
    def side(self) -> Side:
        return self.part.sides[0]


def check(
    parts: Sequence[Part], look: Callable[[str], Glimpse | None], size: tuple[int, int]
) -> Iterator[Finding]:
    """`look` gives what a picture is compared by, `size` is the height and width that a model
    reads."""
    seen = [Seen(part, [look(x) for x in part.sides[0].values[:COMPARED]]) for part in parts]
    for each in seen:
        yield from _small(each, size)
    train = next((each for each in seen if each.part.name == "train"), None)
    if train is None:
        return
    copies, near = _again(train)
    if len(copies) > REPEATED * len(train.glimpses):
        yield _pairs("image.repeated", train, train, copies, "the same picture is at")
    if len(near) > SIMILAR * len(train.glimpses):
        yield _pairs("image.similar", train, train, near, "nearly the same picture is at")
    for each in seen:
        if each is train:
            continue
        copies, near = _shared(each, train)
        if copies:
            many = each.part.name == "test" and len(copies) > LEAKED * len(each.glimpses)
            rule: Severity = "error" if many else "warning"
            yield _pairs("image.leaked", each, train, copies, "training has this picture:", rule)
        if len(near) > SIMILAR * len(each.glimpses):
            yield _pairs("image.similar", each, train, near, "training has nearly this picture:")


def _pairs(
    code: str,
    here: Seen,
    there: Seen,
    pairs: Sequence[tuple[int, int]],
    what: str,
    severity: Severity | None = None,
) -> Finding:
    one, other = pairs[0]
    count = here.part.counted(len({n for n, _ in pairs}), "pictures")
    said = f"{what} {there.side.lines[other]}; so are {count}"
    return finding(code, here.side.place(one), said, here.side.lines[one], severity)


def _small(seen: Seen, size: tuple[int, int]) -> Iterator[Finding]:
    """Pictures that have to be enlarged a lot."""
    glimpses = seen.glimpses
    hit = [
        n
        for n, each in enumerate(glimpses)
        if each and min(each.height * ENLARGED / size[0], each.width * ENLARGED / size[1]) < 1
    ]
    if len(hit) > SMALL * len(glimpses):
        first = glimpses[hit[0]]
        assert first is not None
        what = (
            f"a picture of {first.height} × {first.width} pixels, where a model reads "
            f"{size[0]} × {size[1]}: {seen.part.counted(len(hit), 'pictures')} are less than half"
        )
        yield finding("image.small", seen.side.place(hit[0]), what, seen.side.lines[hit[0]])


Pairs = list[tuple[int, int]]


def _again(seen: Seen) -> tuple[Pairs, Pairs]:
    """Pictures that are in a part already, exactly and nearly, and where."""
    first: dict[str, int] = {}
    copies: Pairs = []
    for n, each in enumerate(seen.glimpses):
        if each and first.setdefault(each.digest, n) != n:
            copies.append((n, first[each.digest]))
    known = {n for n, _ in copies}
    near = [pair for pair in _alike(seen.glimpses, seen.glimpses) if pair[0] not in known]
    return copies, near


def _shared(here: Seen, there: Seen) -> tuple[Pairs, Pairs]:
    """Pictures of a part that another one has, exactly and nearly."""
    first = {each.digest: n for n, each in enumerate(there.glimpses) if each}
    copies = [(n, first[e.digest]) for n, e in enumerate(here.glimpses) if e and e.digest in first]
    known = {n for n, _ in copies}
    near = [pair for pair in _alike(here.glimpses, there.glimpses) if pair[0] not in known]
    return copies, near


def _alike(
    here: Sequence[Glimpse | None], there: Sequence[Glimpse | None]
) -> Iterator[tuple[int, int]]:
    """Pairs whose hashes differ in a few bits, and whose small versions in a few shades; one for
    each picture at most. With at most three bits of 64 unlike, one of four quarters is equal."""
    buckets = defaultdict[tuple[int, int], list[int]](list)
    for m, other in enumerate(there):
        for key in _quarters(other):
            buckets[key].append(m)
    for n, each in enumerate(here):
        places = (buckets[key] for key in _quarters(each) if key in buckets)
        for m in {m for found in places if len(found) <= CROWD for m in found}:
            if (there is not here or m < n) and _near(each, there[m]):
                yield n, m
                break


def _quarters(glimpse: Glimpse | None) -> list[tuple[int, int]]:
    """Those of its hash; none of a picture in which hardly anything is to be seen."""
    if glimpse is None or glimpse.small.std() < NEAR:
        return []
    return [(n, glimpse.hash >> 16 * n & 0xFFFF) for n in range(4)]


def _near(one: Glimpse | None, other: Glimpse | None) -> bool:
    if one is None or other is None or (one.hash ^ other.hash).bit_count() > BITS:
        return False
    return bool(np.abs(one.small.astype(np.int16) - other.small).mean() <= NEAR)
