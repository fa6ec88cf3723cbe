"""What a model says of each word of sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data import batching
from regard.decoding.shared_work import shared_batches
from regard.errors import RecipeError
from regard.examples.stored import collate
from regard.fields import Row, tags, words
from regard.metrics import labels
from regard.model import Model
from regard.types import Batch


class Tagged(NamedTuple):
    """What the model says of a sentence, for each word."""

    values: NDArray[np.float64]
    """The number of its tag, or its value."""
    log_probs: NDArray[np.float64]
    """log p of its tag by itself."""
    chain: NDArray[np.float64]
    """log p of its tag given those before it: they sum to log p of the sentence's tags."""
    given: NDArray[np.float64]
    """The same of tags that were given; 0 where one is not known."""


@dataclass(frozen=True)
class Tagger:
    """Words and tags, and how many tokens are read at once."""

    source: words.Field
    tags: tags.Field
    longest: int
    """Tokens of a sentence; one that has more is read in parts."""
    tokens: int
    """Tokens of a batch."""

    def run(self, model: Model, rows: Sequence[Row], size: int = 0) -> list[Tagged]:
        """What the model says of sentences, and how likely it finds the tags that they may have."""
        model.eval()
        head: Any = model.head
        fields = [f for f in (self.source, self.tags) if rows and f.name in rows[0]]
        lengths = np.array([[len(row["source"])] for row in rows], np.int64).reshape(-1, 1)
        budget = batching.Config(tokens=self.tokens, sentences=size)

        def each(ids: list[int]) -> list[Tagged]:
            batch = collate(fields, [rows[n] for n in ids], ids).to(model.device)
            hidden, mask = states(model, batch), batch["source_word_mask"]
            values, alone = head.best(hidden, mask)
            chain = head.log_probs(hidden, values, mask)
            given = chain
            if "tags" in batch.tensors:
                given = head.log_probs(hidden, batch["tags"], mask)
            table = torch.stack([column.float() for column in (values, alone, chain, given)])
            return [
                Tagged(*(column[: self.source.words(rows[n])] for column in columns))
                for n, *columns in zip(ids, *table.cpu().double().numpy(), strict=True)
            ]

        with torch.inference_mode():
            plan = batching.plan(lengths, budget)
            return shared_batches(plan, each, lambda told: Tagged(*told))

    def tag(self, model: Model, rows: Sequence[Row], size: int) -> list[Tagged]:
        """`run` for sentences of any length: those that are too long are read in parts."""
        longest = self.longest
        parts = [self.source.windows(row, longest) for row in rows]
        for row, some in zip(rows, parts, strict=True):
            start = 0
            for n, part in enumerate(some) if "tags" in row else ():
                stop = start + self.source.words(part)
                some[n], start = {**part, "tags": row["tags"][start:stop]}, stop
        said = iter(self.run(model, [part for some in parts for part in some], size))
        empty = Tagged(*[np.zeros(0)] * 4)
        joined = ([empty, *(next(said) for _ in some)] for some in parts)
        return [Tagged(*map(np.concatenate, zip(*each, strict=True))) for each in joined]


def entities(
    text: str, places: Sequence[tuple[int, int]], said: Sequence[str], names: Sequence[str]
) -> list[dict[str, Any]]:
    """The spans of a text that tags mark, where the tags of a model (`names`) mark any."""
    if not labels.marks_spans(names):
        return []
    found = []
    for _, kind, first, last in labels.spans(said):
        start, end = places[first][0], places[last][1]
        found.append({"label": kind, "start": start, "end": end, "text": text[start:end]})
    return found


def states(model: Model, batch: Batch) -> Float[Tensor, "B W D"]:
    """The state of each word's first symbol."""
    memory = model.encode(batch)
    assert memory is not None
    said, read = memory.states.shape[1], batch["source"].shape[1]
    if said != read:
        raise RecipeError(f"model.encoder: {said} positions for {read} tokens: no tag fits")
    places = batch["source_first"][..., None].expand(-1, -1, memory.states.shape[-1])
    return memory.states.gather(1, places)
