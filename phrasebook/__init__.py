"""A corpus of translated sentences that needs no download: our own bilingual grammar.

Patterns that we wrote are filled with names of countries, languages, currencies, units, months
and weekdays from CLDR, and with number words that we spell ourselves. Every English sentence has
one translation. The words of a sentence, whatever its pattern, decide the part that it is in: no
combination of words occurs in two parts.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Literal, get_args

from phrasebook.book import Book, build
from phrasebook.choices import Dice
from phrasebook.grammar import BUCKETS, Text, Word
from regard.errors import UserError

Languages = Literal["en-de", "en-fr"]
Part = Literal["train", "validation", "test"]

LANGUAGES: tuple[Languages, ...] = get_args(Languages)
PARTS: dict[Part, range] = {
    "train": range(BUCKETS - 2),
    "validation": range(BUCKETS - 2, BUCKETS - 1),
    "test": range(BUCKETS - 1, BUCKETS),
}
"""The buckets of each part: a sentence is in the bucket Σ b(w) modulo BUCKETS of its words w."""

MODULES = {"en-de": "english_german", "en-fr": "english_french"}


def pairs(languages: Languages, part: Part, count: int, seed: int = 1) -> list[tuple[str, str]]:
    """So many different sentences with their translations; fewer are the beginning of more."""
    available = size(languages, part)
    if count > available:
        raise UserError(
            f"the phrasebook {languages} has {available:,} sentences in its part {part}: "
            f"ask for at most so many instead of {count:,}"
        )
    source, target = book(languages).source, book(languages).target
    sentences = derivations(languages, part, seed)
    found: dict[str, str] = {}
    while len(found) < count:
        sentence, _ = next(sentences)
        written = source.sentence(sentence)
        if written not in found:
            found[written] = target.sentence(sentence)
    return list(found.items())


def size(languages: Languages, part: Part | None = None) -> int:
    """How many sentences there are, in one part or in all, counted without writing them down."""
    counts = book(languages).sentence.counts
    if part is not None and part not in PARTS:
        raise UserError(f"no part {part!r} in the phrasebook; there are: {', '.join(PARTS)}")
    return sum(counts) if part is None else sum(counts[bucket] for bucket in PARTS[part])


def patterns(languages: Languages) -> int:
    """How many patterns of clauses and sentences we wrote."""
    return book(languages).patterns


def derivations(languages: Languages, part: Part, seed: int) -> Iterator[tuple[Text, list[Word]]]:
    """Sentences as trees, without end, each with the words that it is made of."""
    sentence, buckets = book(languages).sentence, PARTS[part]
    dice = Dice(f"{languages} {part} {seed}")
    while True:
        drawn: list[Word] = []
        tree = sentence.draw(dice, drawn)
        if sum(word.bucket for word in drawn) % BUCKETS in buckets:
            yield tree, drawn


@cache
def book(languages: Languages) -> Book:
    if languages not in MODULES:
        raise UserError(f"no phrasebook of {languages!r}; there are: {', '.join(LANGUAGES)}")
    return build(import_module(f"{__name__}.{MODULES[languages]}").tables())
