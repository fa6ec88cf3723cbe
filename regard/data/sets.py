"""Which data sets there are: sets.toml says what each is, whose, where, and how it is checked."""

import gzip
import lzma
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from regard.data import derived, derived_pictures, derived_sounds, derived_speech
from regard.data.archives import digest, members
from regard.errors import UserError

Fetch = Callable[[str], Path]
"""A public address → a local file with what is there."""
Make = Callable[[Path, Fetch], None]
"""Writes the files of a set into a folder."""


@dataclass(frozen=True)
class File:
    """A file of a set, or with a slash at the end of its name a folder of many."""

    name: str
    size: int
    """Bytes: of a folder their sum, of .gz those of the content; 0 if it is made on the spot."""
    sha256: str
    """Of the same bytes, as compressed ones differ between compressors; of a folder, that of
    its lines "name sha256"."""
    url: str
    """The file itself, the same in .gz, or an archive that holds it; empty if there is none."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A set."""

    what: str
    licence: str
    source: str
    """The public home."""
    note: str = ""
    """What else to know: how this copy differs from the one at home."""
    make: Make | None = None
    """Makes the files where the public ones have another form, or where there are none."""
    origins: tuple[str, ...] = ()
    """The sets whose files this one is made from; `make` fetches them by their names."""
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What a recipe has as data.train, data.validation and data.test if it names none of them."""
    files: tuple[File, ...] = ()


IMDB = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
IMDB_SHA256 = "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"
IMDB_PARTS = {
    "train.tsv.gz": {"train/neg": b"0\t", "train/pos": b"1\t"},
    "test.tsv.gz": {"test/neg": b"0\t", "test/pos": b"1\t"},
    "unsup.txt.gz": {"train/unsup": b""},
}


def _imdb(folder: Path, fetch: Fetch) -> None:
    """One line per review, in the order of their numbers: label, tab, text; 0 bad, 1 good."""
    archive = fetch(IMDB)
    if (found := digest(archive, unpack=False)) != IMDB_SHA256:
        raise UserError(f"{IMDB}: the sha256 is {found}, expected {IMDB_SHA256}")
    reviews: dict[str, dict[int, bytes]] = defaultdict(dict)
    with members(archive) as packed:
        for member, stream in packed:
            number = member.stem.partition("_")[0]
            if member.suffix == ".txt" and number.isdecimal():
                reviews["/".join(member.parts[1:3])][int(number)] = stream.read()
    for name, kinds in IMDB_PARTS.items():
        with gzip.open(folder / name, "wb") as out:
            for kind, label in kinds.items():
                for _, text in sorted(reviews[kind].items()):
                    out.write(label + re.sub(rb"[\t\r\n]", b" ", text) + b"\n")


def _phrasebook(languages: str, folder: Path, fetch: Fetch) -> None:
    packed = Path(__file__).with_name(f"phrasebook-{languages}.tsv.xz")
    parts: dict[str, list[str]] = defaultdict(list)
    for line in lzma.decompress(packed.read_bytes()).decode().splitlines(keepends=True):
        part, _, pair = line.partition("\t")
        parts[part].append(pair)
    for part, pairs in parts.items():
        (folder / f"{part}.tsv").write_text("".join(pairs), encoding="utf-8", newline="\n")


MAKE: dict[str, Make] = {
    "imdb": _imdb,
    "pronunciation": derived.pronunciation,
    "ud-ewt-1000": derived.few_sentences,
    "spelling-correction": derived.spelling_correction,
    "fsdd-digits": derived_sounds.digits,
    "fsdd-strings": derived_sounds.strings,
    "tones": derived_sounds.tones,
    "speech": derived_speech.speech,
    "scenes": derived_pictures.scenes,
    "scenes-18000": partial(derived_pictures.scenes, train=18_000),
    "flickr8k-captions": derived_pictures.photographs,
    "phrasebook-en-de": partial(_phrasebook, "en-de"),
    "phrasebook-en-fr": partial(_phrasebook, "en-fr"),
}


@cache
def known() -> dict[str, Dataset]:
    """All sets, by name, as sets.toml has them."""
    table = tomllib.loads(Path(__file__).with_name("sets.toml").read_text(encoding="utf-8"))
    return {name: _dataset(name, **about) for name, about in table.items()}


def _dataset(
    name: str, *, files: dict[str, Any], origins: Sequence[str] = (), **about: Any
) -> Dataset:
    found = (
        File(file, size, sha256, address.replace("*", file))
        for address, each in files.items()
        for file, (sha256, size) in each.items()
    )
    return Dataset(**about, make=MAKE.get(name), origins=tuple(origins), files=tuple(found))
