"""One input as a model reads it, and what the model makes of it: the same for every task."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard.data.tokenizers import END, Tokenizer
from regard.inspect.beam import Tree
from regard.model import Model
from regard.types import Batch

Measure = Callable[[Tensor], Float[Tensor, "B T C"]]
"""What the head says of a batch ↦ for each place its log-probabilities, or its numbers."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A batch of one, with the names of all that is in it."""

    text: str
    output: str
    """What was said: a text, a label, tags, numbers."""
    batch: Batch
    source: list[str]
    """What stands at each position that the encoder reads."""
    read: list[str] = field(default_factory=list)
    """Tokens that the decoder reads: at each place it is to say the one of `said`."""
    said: list[str]
    of: list[str] = field(default_factory=list)
    """What each of `said` is said of: the word that has a tag."""
    symbols: list[int]
    """Numbers of `said` among all that could be said at each place."""
    name: Callable[[Sequence[int]], list[str]]
    """Of such numbers."""
    measure: Measure
    given: int = 0
    """How many of `said` are the user's own and not the model's."""
    source_words: list[tuple[int, int]] = field(default_factory=list)
    """Which tokens of `source` make a word: from, up to."""
    said_words: list[tuple[int, int]] = field(default_factory=list)
    beam: Tree | None = None
    numbers: list[dict[str, Any]] | None = None
    """Where numbers are said, the panels of a picture of them: name, past, mean, low, high, …"""

    def measured(self, model: Model) -> Float[Tensor, "T C"]:
        return self.measure(logits(model, self.batch))[0]


def logits(model: Model, batch: Batch) -> Tensor:
    """All that the head says of a batch: (B, T, V) of tokens, the true beginning being given;
    without a decoder (B, C) of the whole, or (B, S, C) of each position."""
    head: Any = model.head
    if model.decoder is not None:
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
    else:
        memory = model.encode(batch)
        assert memory is not None
        hidden = head.pool(memory) if hasattr(head, "pool") else memory.states
    found: Tensor = head.logits(hidden)
    return found


def likely(scores: Float[Tensor, "B T V"]) -> Float[Tensor, "B T V"]:
    """log softmax: the measure of tokens that are said one after the other."""
    return scores.float().log_softmax(-1)


def grouped(by: Tokenizer, symbols: Sequence[int]) -> list[tuple[int, int]]:
    """The words that the tokens spell: each begins after a blank, a special symbol is one."""
    starts: list[int] = []
    before = ""
    for place, symbol in enumerate(symbols):
        text = by.decode(symbols[: place + 1])
        new = text[len(before) :]
        alone = symbol <= END or (place > 0 and symbols[place - 1] <= END)
        if place == 0 or alone or new[:1].isspace():
            starts.append(place)
        before = text
    return list(zip(starts, [*starts[1:], len(symbols)], strict=True))
