"""Texts to be read from both ends, word by word: documents on lines, or between empty lines."""

from collections.abc import Sequence
from pathlib import Path

from regard.starting import Asked, Draft, Key, masked_language_model
from regard.starting.masked_language_model import SMALL, draft

WORD = 5.5
"""Characters of a word and what stands beside it, about."""


def fits(asked: Asked) -> float:
    """A plain text may be for this, but it has to be asked for."""
    return 0.5 * masked_language_model.fits(asked)


def look(asked: Asked, base: Path) -> Draft:
    """Each word is found by those before it, and by those after it."""
    return draft(asked, base, "bidirectional_language_model", _tokenizer, WORD)


def _tokenizer(total: int) -> Sequence[Key]:
    """Words that are seen once teach nothing of what they mean."""
    few = [] if total >= SMALL else [Key("min_frequency", 2, "few words, as the text is short")]
    return [Key("kind", "word"), Key("split", "treebank"), *few]
