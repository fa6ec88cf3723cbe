"""How likely texts are: log p of every token, and the characters and bits that it stands for."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from regard.data import stream
from regard.data.tokenizers import Tokenizer
from regard.decoding.continuation import CHUNK
from regard.metrics import VERSION, Score, perplexity
from regard.model import Model
from regard.types import Batch, Head

POSITIONS = 1024
"""Positions whose logits are held at once."""


class Text(NamedTuple):
    """A text as the model says it."""

    tokens: list[int]
    """Its end is the last."""
    characters: int
    """The ends of its lines count as one each."""
    bytes: int
    """The same of its bytes in UTF-8."""
    spelling: int
    """Bits on top of those of the tokens, for what is unknown."""
    given: Sequence[int] = ()
    """What is read before it and does not count: a prompt."""

    @property
    def whole(self) -> list[int]:
        """All that is read or said of it."""
        return [*self.given, *self.tokens]

    @property
    def places(self) -> slice:
        """Those of its tokens among all that are said; the first of what is given is read alone."""
        first = max(0, len(self.given) - 1)
        return slice(first, first + len(self.tokens))


def measured(
    by: Tokenizer, texts: Sequence[str], *, words: bool, documents: bool = False
) -> list[Text]:
    """Texts of one or many lines, each line with its end, or `documents` with one end each. With
    `words`, tokens say nothing of how many blanks part them, so that these count as one."""
    found = []
    for text in texts:
        lines = [text] if documents else text.split("\n")
        encoded = by.encode(lines)
        tokens = [token for row in encoded for token in (*row, by.end)]
        pairs = zip(lines, encoded, strict=True)
        extra = sum(spelling(by, by.words(x), row) for x, row in pairs if by.unknown in row)
        shown = "\n".join(" ".join(line.split()) if words else line for line in lines) + "\n"
        found.append(Text(tokens, len(shown), len(shown.encode()), extra))
    return found


def means(texts: Sequence[Text], found: Sequence[NDArray[np.float32]]) -> dict[str, float]:
    """Of log p of all their tokens: over all tokens, all characters and all bytes."""
    nats = -math.fsum(float(row.sum(dtype=np.float64)) for row in found)
    mean = nats / sum(map(len, found))
    bits = nats / math.log(2) + sum(text.spelling for text in texts)
    return {
        "nll": mean,
        "perplexity": perplexity(mean),
        "bits_per_character": bits / sum(text.characters for text in texts),
        "bits_per_byte": bits / sum(text.bytes for text in texts),
    }


def scores(
    by: Tokenizer, texts: Sequence[Text], found: Sequence[NDArray[np.float32]], about: str
) -> dict[str, Score]:
    """Perplexity, bits per character and per byte; their signature begins with what is said about
    it."""
    figures, tokens = means(texts, found), [token for text in texts for token in text.tokens]
    counts = f"symbols:{len(tokens)}|characters:{sum(text.characters for text in texts)}"
    unknown = f"unknown:{tokens.count(by.unknown)}-spelt"
    signature = f"{about}|{counts}|{unknown}|version:{VERSION}"
    size = f"|bytes:{sum(text.bytes for text in texts)}|unknown:"
    signatures = {
        "perplexity": signature,
        "bits_per_character": signature,
        "bits_per_byte": signature.replace("|unknown:", size),
    }
    return {
        name: Score(name=name, value=figures[name], signature=each, higher_is_better=False)
        for name, each in signatures.items()
    }


def scored(by: Tokenizer, text: Text, row: NDArray[np.float32]) -> dict[str, Any]:
    """What is to be said of one text by log p of its tokens."""
    total = float(row.sum(dtype=np.float64))
    bits = text.spelling - total / math.log(2)
    return {
        "status": "unknown" if by.unknown in text.tokens else "ok",
        "log_prob": total,
        "perplexity": perplexity(-total / len(row)),
        "bits_per_character": bits / text.characters,
        "bits_per_byte": bits / text.bytes,
        "bits": bits,
        "characters": text.characters,
        "bytes": text.bytes,
        "tokens": by.pieces(text.tokens),
        "log_probs": row.tolist(),
    }


def spelling(by: Tokenizer, parts: Sequence[str], tokens: Sequence[int]) -> int:
    """Bits to spell what the vocabulary lacks: its UTF-8 bytes, and one more to end it.

    Added to −log₂ p(unknown), they make a whole code for the line; without them a model could
    do well by calling everything unknown. `parts` are its characters or words, each a token.
    """
    pairs = zip(parts, tokens, strict=True)
    return sum(8 * len(part.encode()) + 8 for part, token in pairs if token == by.unknown)


def log_probs(model: Model, batch: Batch, window: int | None) -> Float[Tensor, "B T"]:
    """log p of every token of a batch, read in windows that overlap by half, or with the state
    handed on from chunk to chunk."""
    read, said = batch["target_in"], batch["target_out"]
    length, overlap = (window, window // 2) if window else (CHUNK, 0)
    found = []
    with torch.inference_mode():
        fresh = state = model.start(batch)
        for first, new, end in stream.windows(said.shape[1], length, overlap):
            hidden, after = model.decode(read[:, first:end], state)
            found.append(_chosen(model.head, hidden[:, new - first :], said[:, new:end]))
            state = fresh if window else after
        return torch.cat(found, 1)


def _chosen(
    head: Head, hidden: Float[Tensor, "B T D"], said: Int[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """log p(said | hidden), never with the logits of many positions at once."""
    states, symbols = hidden.flatten(0, 1), said.flatten()
    blocks = [slice(n, n + POSITIONS) for n in range(0, len(symbols), POSITIONS)]
    losses = [
        F.cross_entropy(head.logits(states[block]).float(), symbols[block], reduction="none")
        for block in blocks
    ]
    return -torch.cat(losses).view_as(said)
