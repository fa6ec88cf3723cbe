"""Tokenizer and data: what is unknown, what comes apart."""

from collections.abc import Iterator, Sequence

from regard.checks.findings import Finding, finding
from regard.checks.sides import Part, Side
from regard.data.tokenizers import Tokenizer

SAMPLE = 2000
MANY = {"character": 0.005}
"""The share of unknown tokens that is too much; of words, much more is usual."""
WORDS = 0.15
APART = 1.0
"""Tokens for each character, from which a subword tokenizer does no good."""


def check(parts: Sequence[Part], by: Tokenizer, kind: str) -> Iterator[Finding]:
    """Unknown tokens and words that come apart, on the one side of every part."""
    shown, usual = list[str](), 0.0
    for part in parts:
        [side] = part.sides
        unknown, apart, words = _figures(side, by)
        usual = usual or apart
        shown.append(f"{part.name} {words:.2f} a word, {unknown:.2%} unknown")
        if unknown > MANY.get(kind, WORDS):
            tried = f"{len(side.sample(SAMPLE)):,} of {part.total or len(part):,} lines"
            what = f"{unknown:.1%} of the tokens in {tried} of the {side.title} of {part.key}"
            what += " are unknown"
            yield finding("tokenizer.unknown", part.key, what, _strange(side, by))
        if kind in ("bpe", "unigram") and (apart > APART or apart > 2 * usual):
            what = f"{apart:.2f} tokens for each character of the {side.title} of {part.key}"
            example = " ".join(by.pieces(by.encode([side.lines[0]])[0]))
            yield finding("tokenizer.pieces", part.key, what, example)
    what = f"{parts[0].sides[0].title}, {len(by):,} tokens: {'; '.join(shown)}"
    yield finding("tokenizer.coverage", "tokenizer", what)


def _figures(side: Side, by: Tokenizer) -> tuple[float, float, float]:
    """The share of unknown tokens, tokens for each character, and for each word."""
    lines = side.sample(SAMPLE)
    encoded = by.encode(lines)
    symbols = max(1, sum(map(len, encoded)))
    unknown = sum(row.count(by.unknown) for row in encoded)
    characters = sum(len(line.replace(" ", "")) for line in lines)
    words = sum(len(line.split()) for line in lines)
    return unknown / symbols, symbols / max(1, characters), symbols / max(1, words)


def _strange(side: Side, by: Tokenizer) -> str:
    """The first line with something unknown."""
    rows = zip(side.lines, by.encode(side.lines[:SAMPLE]), strict=False)
    return next((line for line, row in rows if by.unknown in row), "")
