"""Pictures that are there twice, in one part or in two, exactly or nearly; and very small ones."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from regard.checks.findings import Finding, Severity, counted, finding
from regard.checks.sides import Part, Side
from regard.data import pictures

COMPARED = 20_000
"""Pictures of a part, evenly out of all, that are decoded; all files are compared."""
FORM = pictures.Form(16, 16, 1, "stretch")
"""What pictures are compared as."""
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

    small: UInt8[np.ndarray, "16 16"]
    hash: int
    height: int
    width: int


def glimpse(image: Image.Image, size: tuple[int, int], turn: int = 1) -> Glimpse:
    """Of a decoded picture of this height and width, which is turned upright. The hash has a bit
    for each two neighbours of 9 × 8 shades of grey, which says whether the left one is darker
    (dHash)."""
    grey = pictures.upright(image, FORM, turn)
    shades = np.asarray(grey.resize((9, 8), Image.Resampling.BOX), np.int16)
    bits = np.packbits(shades[:, 1:] > shades[:, :-1]).tobytes()
    small = np.asarray(grey.resize((16, 16), Image.Resampling.BOX), np.uint8)
    height, width = size if turn < 5 else size[::-1]
    return Glimpse(small, int.from_bytes(bits), height, width)


@dataclass(frozen=True)
class Seen:
    """The pictures of a part."""

    part: Part
    own: list[int]
    """The first example of each file: one that several lines name, with a caption each, is no copy
    of itself."""
    digests: list[str | None]
    """Of these; None of one that cannot be read: who reads the data has reported it."""
    looked: list[int]
    """Numbers of the pictures that are decoded."""
    glimpses: list[Glimpse | None]
    """Of these."""

    @property
    def side(self) -> Side:
        return self.part.sides[0]

    def counted(self, count: int) -> str:
        """“12 of 850 pictures (1.4 %) of data.train”."""
        which = "" if self.part.whole else "the first "
        return f"{counted(count, len(self.own), 'pictures', which)} of {self.part.key}"

    def counted_looked(self, count: int) -> str:
        """“3 of the 20,000 pictures that were looked at (0.015 %) of data.train”."""
        if len(self.looked) == len(self.own):
            return self.counted(count)
        which = "pictures that were looked at"
        return f"{counted(count, len(self.looked), which, 'the ')} of {self.part.key}"

    def firsts(self) -> dict[str, int]:
        """The first example that has a digest."""
        pairs = zip(reversed(self.own), reversed(self.digests), strict=True)
        return {digest: n for n, digest in pairs if digest}


def check(
    parts: Sequence[Part],
    look: Callable[[str], Glimpse | None],
    digest: Callable[[str], str | None],
    size: tuple[int, int],
) -> Iterator[Finding]:
    """`look` gives what a picture is compared by, `digest` that of its file, `size` is the height
    and width that a model reads."""
    seen = [_seen(part, look, digest) for part in parts]
    for each in seen:
        yield from _small(each, size)
    train = next((each for each in seen if each.part.name == "train"), None)
    if train is None:
        return
    for each in seen:
        yield from _again(train) if each is train else _shared(each, train)


def _seen(
    part: Part, look: Callable[[str], Glimpse | None], digest: Callable[[str], str | None]
) -> Seen:
    values, own = part.sides[0].values, part.sides[0].first()
    looked = own[:: -(-len(own) // COMPARED) or 1]
    digests = [digest(values[n]) for n in own]
    return Seen(part, own, digests, looked, [look(values[n]) for n in looked])


def _pairs(
    code: str,
    here: Seen,
    there: Seen,
    pairs: Sequence[tuple[int, int]],
    what: str,
    count: str,
    severity: Severity | None = None,
) -> Finding:
    one, other = pairs[0]
    said = f"{what} {there.side.lines[other]}; so are {count}"
    return finding(code, here.side.place(one), said, here.side.lines[one], severity)


def _small(seen: Seen, size: tuple[int, int]) -> Iterator[Finding]:
    """Pictures that have to be enlarged a lot."""
    hit = [
        (n, each)
        for n, each in zip(seen.looked, seen.glimpses, strict=True)
        if each and min(each.height * ENLARGED / size[0], each.width * ENLARGED / size[1]) < 1
    ]
    if len(hit) > SMALL * len(seen.looked):
        place, first = hit[0]
        what = (
            f"a picture of {first.height} × {first.width} pixels, where a model reads "
            f"{size[0]} × {size[1]}: {seen.counted_looked(len(hit))} are less than half"
        )
        yield finding("image.small", seen.side.place(place), what, seen.side.lines[place])


Pairs = list[tuple[int, int]]


def _again(train: Seen) -> Iterator[Finding]:
    """Pictures that the training part has already, exactly and nearly."""
    first, files = train.firsts(), zip(train.own, train.digests, strict=True)
    copies = [(n, first[each]) for n, each in files if each and first[each] != n]
    if len(copies) > REPEATED * len(train.own):
        count = train.counted(len(copies))
        yield _pairs("image.repeated", train, train, copies, "the same picture is at", count)
    yield from _similar(train, train, copies, "nearly the same picture is at")


def _shared(here: Seen, train: Seen) -> Iterator[Finding]:
    """Pictures that the training part has, too, exactly and nearly."""
    first, files = train.firsts(), zip(here.own, here.digests, strict=True)
    copies = [(n, first[each]) for n, each in files if each and each in first]
    if copies:
        many = here.part.name == "test" and len(copies) > LEAKED * len(here.own)
        rule: Severity = "error" if many else "warning"
        count = here.counted(len(copies))
        yield _pairs("image.leaked", here, train, copies, "training has this picture:", count, rule)
    yield from _similar(here, train, copies, "training has nearly this picture:")


def _similar(here: Seen, there: Seen, copies: Pairs, what: str) -> Iterator[Finding]:
    """Pictures that look alike and are no copies."""
    known = {n for n, _ in copies}
    alike = _alike(here.glimpses, there.glimpses)
    near = [(here.looked[n], there.looked[m]) for n, m in alike if here.looked[n] not in known]
    if len(near) > SIMILAR * len(here.looked):
        count = here.counted_looked(len({n for n, _ in near}))
        yield _pairs("image.similar", here, there, near, what, count)


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
