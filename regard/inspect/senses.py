"""One word in several sentences: the vectors that stand for it, layer by layer.

An embedding has one vector for a word. What layers make of it depends on the words around it, so
that the two senses of "transformers" (they hum, they attend) drift apart on the way up:

    s_ij = cos(h_i, h_j)      for the occurrences i, j, after each layer

A word of several tokens has the mean of their vectors. A decoder has read a word and what stands
before it; an encoder has seen what follows, too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import UserError
from regard.inspect.blocks import Blocks
from regard.inspect.capture import capture
from regard.inspect.reading import Reading
from regard.inspect.space import cosine, two_axes
from regard.model import Model

View = dict[str, Any]
AROUND = 4
"""Words that are shown on each side of an occurrence."""
EDGES = re.compile(r"^\W+|\W+$")
SPECIAL = re.compile(r"<\w+>")
"""What stands for no word: the start, the end."""


@dataclass(frozen=True)
class Occurrence:
    """Where the word stands: in which text, and which positions have read it."""

    text: int
    places: range
    context: str


def senses(model: Model, readings: Sequence[Reading], word: str, blocks: Blocks) -> View:
    """The word's occurrences in all texts, how alike they are after each layer, and a map."""
    part = "decoder" if model.decoder is not None and not readings[0].source else "encoder"
    found = [each for n, reading in enumerate(readings) for each in _find(reading, n, word, part)]
    if len(found) < 2:
        times = "once" if found else "nowhere"
        raise UserError(
            f"--word {word}: it stands {times} in the texts; give at least two sentences with it"
        )
    layers = _vectors(model, readings, found, part)
    if not layers:
        raise UserError(f"--word {word}: the model has no layers with a vector for each word")
    views = []
    for name, vectors in layers.items():
        points, share = two_axes(vectors)
        alike = blocks.signed(cosine(vectors, vectors).cpu().numpy())
        views.append({"layer": name, "similarity": alike, "points": points, "share": share})
    places = [{"text": each.text, "context": each.context} for each in found]
    return {"word": word, "occurrences": places, "layers": views}


def _find(reading: Reading, text: int, word: str, part: str) -> list[Occurrence]:
    """The occurrences in one text. What a decoder has read stands one place after where it said it;
    the last token that was said was not read."""
    pieces, groups, shift, end = reading.source, reading.source_words, 0, len(reading.source)
    if part == "decoder":
        pieces, groups, shift, end = reading.said, reading.said_words, 1, len(reading.read)
    words = ["".join(pieces[a:b]).replace("▁", " ").strip() for a, b in groups]
    return [
        Occurrence(text, range(a + shift, b + shift), _context(words, n))
        for n, (a, b) in enumerate(groups)
        if EDGES.sub("", words[n]).casefold() == word.casefold() and b + shift <= end
    ]


def _context(words: list[str], place: int) -> str:
    marked = [f"[{word}]" if n == place else word for n, word in enumerate(words)]
    first, last = max(0, place - AROUND), place + AROUND + 1
    shown = [word for word in marked[first:last] if not SPECIAL.fullmatch(word)]
    return " ".join([*(["…"] if first else []), *shown, *(["…"] if last < len(words) else [])])


def _vectors(
    model: Model, readings: Sequence[Reading], found: Sequence[Occurrence], part: str
) -> dict[str, Float[Tensor, "N D"]]:
    """Of each occurrence, after each layer that has a vector for each position."""
    layers: dict[str, list[Tensor]] = {}
    for number, reading in enumerate(readings):
        own = [each.places for each in found if each.text == number]
        if not own:
            continue
        with torch.no_grad(), capture(model) as seen:
            reading.measured(model)
        count = len(reading.source) if part == "encoder" else len(reading.read)
        for name, states in seen.hidden(part).items():
            if states.shape[1] == count:
                layers.setdefault(_title(name), []).extend(states[0, [*p]].mean(0) for p in own)
    return {name: torch.stack(rows) for name, rows in layers.items() if len(rows) == len(found)}


def _title(name: str) -> str:
    """input → input; block.0.output, layer.0.output → layer 1; output → output."""
    number = re.search(r"\d+", name)
    return f"layer {int(number[0]) + 1}" if number else name
