"""Long lines and long sentences, cut where that does the least harm."""

import re
from collections.abc import Iterator, Sequence

ENDS = frozenset(".!?…。！？")
"""Words that end a sentence."""
PATIENCE = 4
"""How many times the wanted length one may have where it never seems to end."""


def lines(text: str, most: int) -> Iterator[str]:
    """Running text in pieces: each ends at the first blank after `most` characters, which is left
    out, or after twice as many where there is none; all of it where `most` is 0."""
    start = 0
    while most and len(text) - start > most:
        found = re.compile(r"\s").search(text, start + most, start + 2 * most)
        end = found.start() if found else min(len(text), start + 2 * most)
        yield text[start:end]
        start = end + (found is not None)
    if start < len(text) or not text:
        yield text[start:]


def sentences(words: Sequence[str], most: int) -> Iterator[slice]:
    """The places of a sentence's parts, if it is longer than `most` words: each goes on to the next
    end of a sentence; all of it where `most` is 0."""
    start = 0
    if most and len(words) > most:
        for n, word in enumerate(words, 1):
            long = n - start >= PATIENCE * most
            if long or (n - start >= most and word in ENDS):
                yield slice(start, n)
                start = n
    if start < len(words):
        yield slice(start, len(words))
