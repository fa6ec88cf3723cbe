"""How long texts are, and groups of about as many of them."""

import statistics
from collections.abc import Sequence

import numpy as np

GROUPS = 5


def unit_of(texts: Sequence[str]) -> str:
    """Words; characters where most texts are single words; tokens where most words are letters."""
    words = [word for text in texts for word in text.split()]
    if statistics.median(len(text.split()) for text in texts) <= 1:
        return "characters"
    return "symbols" if statistics.median(map(len, words)) <= 1 else "words"


def lengths_of(texts: Sequence[str]) -> list[int]:
    characters = unit_of(texts) == "characters"
    return [len(text) if characters else len(text.split()) for text in texts]


def by_length(lengths: Sequence[int], groups: int = GROUPS) -> dict[str, list[int]]:
    """{"1–8": numbers of the texts}: groups of about as many texts, no length in two of them."""
    shares = np.linspace(0, 1, groups + 1)[1:]
    ends = sorted({int(end) for end in np.quantile(lengths, shares, method="higher")})
    found, start = {}, min(lengths)
    for end in ends:
        ids = [n for n, length in enumerate(lengths) if start <= length <= end]
        found[f"{start}–{end}" if start < end else f"{end}"] = ids
        start = end + 1
    return found
