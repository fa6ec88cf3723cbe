"""Tokenizer and data: what is unknown, what comes apart, what is too long."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from regard.data.tokenizers import UNKNOWN, Tokenizer
from regard.doctor.findings import Finding, Severity, counted, finding
from regard.doctor.reading import Part, Side
from regard.recipe.config import Recipe

SAMPLE = 2000
MANY = {"character": 0.005}
"""The share of unknown symbols that is too much; of words, much more is usual."""
WORDS = 0.15
APART = 1.0
"""Tokens for each character, from which a subword tokenizer does no good."""
Measure = Callable[[Sequence[str]], list[int]]
"""How many tokens each of some lines has."""


def tokenizers(task: Any) -> Mapping[str, Tokenizer]:
    """The tokenizer of each side that has one."""
    own = {side: getattr(task, side, None) for side in ("source", "target")}
    reads = own["source"]
    named = {**own, "text": reads, "words": reads}
    return {side: found for side, found in named.items() if isinstance(found, Tokenizer)}


def check(recipe: Recipe, parts: Sequence[Part], by: Mapping[str, Tokenizer]) -> Iterator[Finding]:
    """Unknown tokens and words that come apart, on every side of every part."""
    kind = recipe.task.tokenizer.kind
    for name in dict.fromkeys(side.name for part in parts for side in part.sides):
        if name not in by:
            continue
        shown, usual = [], 0.0
        for part in parts:
            side = next(each for each in part.sides if each.name == name)
            unknown, apart, words = _figures(side, by[name])
            usual = usual or apart
            shown.append(f"{part.name} {words:.2f} a word, {unknown:.2%} unknown")
            if unknown > MANY.get(kind, WORDS):
                what = f"{unknown:.1%} of the tokens of the {name} of {part.key} are unknown"
                yield finding("tokenizer.unknown", part.key, what, _strange(side, by[name]))
            if kind in ("bpe", "unigram") and (apart > APART or apart > 2 * usual):
                what = f"{apart:.2f} tokens for each character of the {name} of {part.key}"
                example = " ".join(by[name].pieces(by[name].encode([side.lines[0]])[0]))
                yield finding("tokenizer.pieces", part.key, what, example)
        what = f"{name}, {len(by[name]):,} tokens: {'; '.join(shown)}"
        yield finding("tokenizer.coverage", "tokenizer", what)


def _figures(side: Side, by: Tokenizer) -> tuple[float, float, float]:
    """The share of unknown symbols, tokens for each character, and for each word."""
    lines = side.sample(SAMPLE)
    encoded = by.encode(lines)
    symbols = max(1, sum(map(len, encoded)))
    unknown = sum(row.count(UNKNOWN) for row in encoded)
    characters = sum(len(line.replace(" ", "")) for line in lines)
    words = sum(len(line.split()) for line in lines)
    return unknown / symbols, symbols / max(1, characters), symbols / max(1, words)


def _strange(side: Side, by: Tokenizer) -> str:
    """The first line with something unknown."""
    rows = zip(side.lines, by.encode(side.lines[:SAMPLE]), strict=False)
    return next((line for line, row in rows if UNKNOWN in row), "")


def long(recipe: Recipe, parts: Sequence[Part], by: Mapping[str, Tokenizer]) -> Iterator[Finding]:
    """Examples of more tokens than data.max_length; without tokenizers, those that surely have."""
    data = recipe.task.data
    if getattr(recipe.task, "unit", "") == "stream":
        return  # running text has no examples
    rule: dict[str, Severity] = {"refuse": "error", "skip": "warning", "cut": "note"}
    for part in parts:
        hit: dict[int, Side] = {}
        for side in part.sides:
            longer = [n for n, line in enumerate(side.lines) if 2 * len(line) > data.max_length]
            measure = _measure(recipe, by.get(side.name))
            sizes = measure([side.lines[n] for n in longer])
            hit |= {
                n: side for n, size in zip(longer, sizes, strict=True) if size > data.max_length
            }
        if hit and part.name != "test":
            first = min(hit)
            what = (
                f"more than {data.max_length} tokens: {counted(len(hit), len(part))} of {part.key}"
            )
            place, line = hit[first].place(first), hit[first].lines[first]
            yield finding("data.long", place, what, line, rule[data.on_too_long])


def _measure(recipe: Recipe, by: Tokenizer | None) -> Measure:
    if by is not None:
        return lambda lines: [len(row) for row in by.encode(lines)]
    if recipe.task.tokenizer.kind in ("character", "bytes"):
        return lambda lines: [len(line) for line in lines]
    return lambda lines: [len(line.split()) for line in lines]
