"""Words that a vocabulary lacks, by their own spelling: "<unknown>" tells a reader nothing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from regard.data.tokenizers import Tokenizer
from regard.fields.text import Tokenised
from regard.inspect.reading import Reading


def spelt(reading: Reading, task: Any) -> Reading:
    """The reading with its unknown tokens spelt as in the text, and where they stand."""
    known = {field.name: field for field in task.fields.values()}
    side = task.sizes.reads or task.sizes.writes
    field = known.get(side)
    if not isinstance(field, Tokenised):
        return reading
    by = field.tokenizer
    if not task.sizes.reads:  # what is read is a part of what is said
        said = _spelt(by, reading.text, reading.symbols, reading.said)
        places = _unknown(by, reading.symbols)
        return replace(reading, said=said, read=[*reading.read[:1], *said[:-1]], unknown=places)
    tokens = reading.batch[side][0].tolist()
    if len(tokens) != len(reading.source):
        return reading
    if reading.of:
        source = list(reading.source)
        for (first, end), word in zip(reading.source_words, reading.of, strict=False):
            if end == first + 1 and tokens[first] == by.unknown:
                source[first] = word
    else:
        source = _spelt(by, reading.text, tokens, reading.source)
    return replace(reading, source=source, unknown=_unknown(by, tokens))


def _unknown(by: Tokenizer, tokens: Sequence[int]) -> list[int]:
    return [place for place, token in enumerate(tokens) if token == by.unknown]


def _spelt(by: Tokenizer, text: str, tokens: Sequence[int], pieces: list[str]) -> list[str]:
    """Where each token is one word of the text, as with whole words and characters, the unknown
    ones are these words; else the pieces stay as they are."""
    if by.unknown not in tokens:
        return pieces
    words = iter(by.words(text))
    found = []
    for token, piece in zip(tokens, pieces, strict=True):
        framing = token in by.special and token != by.unknown
        word = None if framing else next(words, None)
        if word is not None and token != by.unknown and word.replace(" ", "▁") != piece:
            return pieces
        found.append(word.replace(" ", "▁") if word and token == by.unknown else piece)
    return found
