"""Batches of windows of documents; or of pairs of passages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from regard.data import batching, pairs_of_passages
from regard.data.batching import Batches, Draw
from regard.data.pairs_of_passages import Pairs
from regard.data.passages import EDGES, Config, Documents, Letters, Windows, windows
from regard.examples.stored import Stored, collate
from regard.fields import Row, framed, masked
from regard.types import Batch

Span = tuple[int, int]
"""Places of documents, from, up to."""


def batches(
    field: framed.Field, stored: Stored, window: Config, config: batching.Config, seed: int
) -> Batches:
    """Windows of stored documents, cut anew in each epoch; those of like length together."""
    name, store = field.name, stored.store
    texts = Documents(store.flat(name), field.tokenizer.end)
    letters = None
    if field.spelling is not None:
        letters = Letters(store.flat(f"{name}_letters"), store.flat(f"{name}_characters"))
    cut = Windows(texts.lengths, window.room, window.crosses, seed, EDGES)

    def row(first: int, end: int) -> Row:
        if letters is None:
            return {name: texts.read(first, end)}
        sizes, characters = letters.read(first, end)
        spelt = {f"{name}_letters": sizes, f"{name}_characters": characters}
        return {name: texts.read(first, end), **spelt}

    def make(ids: Sequence[int], draw: Draw) -> Batch:
        first, end = cut.of(draw.epoch)
        return collate([field], [row(int(first[n]), int(end[n])) for n in ids], ids, draw)

    return Batches(cut.sizes, make, config, seed)


@dataclass(frozen=True)
class Passages:
    """How documents are read."""

    source: masked.Field
    windows: Config
    pairs: pairs_of_passages.Config

    @property
    def room(self) -> int:
        """Tokens of a text in a window; a pair has a token between its passages."""
        return self.windows.room - self.pairs.next_sentence

    def documents(self, stored: Stored) -> Documents:
        """Those of a part."""
        return Documents(stored.store.flat(self.source.name), self.source.tokenizer.end)

    def batches(self, texts: Documents, config: batching.Config, seed: int) -> Batches:
        """Windows, cut anew in each epoch; those of like length together."""
        edges = self.windows.length - self.room
        cut = Windows(texts.lengths, self.room, self.windows.crosses, seed, edges)
        pairs = self._pairs(texts) if self.pairs.next_sentence else None

        def make(ids: Sequence[int], draw: Draw) -> Batch:
            first, end = cut.of(draw.epoch)
            spans = [(int(first[n]), int(end[n])) for n in ids]
            if pairs is not None:
                return self._paired(pairs, spans, ids, draw)
            rows = [{self.source.name: texts.read(*span)} for span in spans]
            return collate([self.source], rows, ids, draw)

        return Batches(cut.sizes, make, config, seed)

    def all_pairs(self, texts: Documents, config: batching.Config) -> Iterator[Batch]:
        """Every window once, in two passages, always the same ones."""
        first, end = windows(texts.lengths, self.room, crosses=False)
        pairs, draw = self._pairs(texts), Draw()
        for ids in batching.plan((end - first)[:, None], config):
            spans = [(int(first[n]), int(end[n])) for n in ids]
            yield self._paired(pairs, spans, ids.tolist(), draw)

    def _pairs(self, texts: Documents) -> Pairs:
        source = self.source
        return Pairs(texts, source.ends, source.begins, source.tokenizer.end, self.pairs.random)

    def _paired(self, pairs: Pairs, spans: Sequence[Span], ids: Sequence[int], draw: Draw) -> Batch:
        """Windows in two passages, and whether these belong together."""
        # Another draw than that of the tokens to be hidden.
        chance = replace(draw, seed=draw.seed + 1)
        found = [pairs.cut(*s, chance.random(n)) for s, n in zip(spans, ids, strict=True)]
        name = self.source.name
        rows = [{name: pair.tokens, f"{name}_second": pair.segments} for pair in found]
        batch = collate([self.source], rows, ids, draw)
        labels = torch.tensor([pair.label for pair in found])
        tensors = {**batch.tensors, "next": labels}
        return replace(batch, tensors=tensors, counts={"next": len(labels)})
