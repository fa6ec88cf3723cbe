"""Bidirectional language model: a text is read from both ends, by two models that share their input
and their softmax (Peters et al. 2018): max Σ_t log p(x_t | x₁ … x_{t−1}) + log p(x_t | x_{t+1} …
x_n). What it is for are its layers: see inputs/pretrained.py."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from regard.data import batching, files, passages, tokenizers
from regard.data.held_out import ByContent
from regard.decoding.both_ways import BothWays, figures_both
from regard.decoding.filling import Found
from regard.errors import RecipeError
from regard.examples import passages as examples, running_text
from regard.examples.preparation import Plan
from regard.examples.stored import Stored
from regard.fields import Row, framed
from regard.metrics import Direction
from regard.model import Model
from regard.recipe.config import Recipe
from regard.tasks import FolderTask, check_head, check_spelling, sizes_of
from regard.types import Batch, Batches, Carry, Terms

PARTS = {"input": "characters", "encoder": "both_ways", "head": "both_ways"}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe for a bidirectional language model, beside the model and the trainer."""

    characters: bool = True
    """Whether words come with their characters, for inputs that read them."""
    data: files.Config
    """The texts; of documents that are longer than a window, all is read, whatever is said here. Of
    CoNLL-U, the words of each sentence."""
    held_out: ByContent
    """What is kept from learning, where no files are named for it."""
    windows: passages.Config
    """What is read at once."""
    tokenizer: tokenizers.Config
    """How text becomes tokens."""
    batch: batching.Config
    """How large a batch is."""


def metrics(config: Config) -> dict[str, Direction]:
    return {
        "nll": "lower",
        "perplexity": "lower",
        "perplexity.forward": "lower",
        "perplexity.backward": "lower",
        "accuracy": "higher",
    }


def check(recipe: Recipe) -> None:
    """Refuse what can be known to be wrong before any data is read."""
    config: Config = recipe.task
    if len(config.data.columns) > 1:
        raise RecipeError(f"data.columns: a text has 1 column, not {len(config.data.columns)}")
    if config.windows.length <= passages.EDGES:
        raise RecipeError(f"windows.length: {config.windows.length} has no room for a text")
    config.held_out.check(config.data)
    check_head(recipe, "tokens both ways")
    check_spelling(recipe)


def plan(config: Config) -> Plan:
    """Documents, each of any length."""
    kind = config.windows.documents
    return Plan(
        fields={"text": framed.Field("source", config.tokenizer, spelt=config.characters)},
        data=config.data,
        read=partial(running_text.read, config.data, None if kind == "line" else kind),
        held_out=config.held_out,
        limited=False,
    )


class Task(FolderTask):
    """A bidirectional language model whose tokenizer and store lie in a run's folder."""

    said, usual_columns = "words", {"text": "text"}

    def __init__(self, config: Config, folder: Path) -> None:
        super().__init__(config, folder, plan(config))
        self.source: framed.Field = self.fields["text"]
        self.by = self.source.tokenizer
        self.sizes = sizes_of(self.fields, "source", "source", shared=True)
        self.reader = BothWays(self.source, config.windows.room, config.batch.tokens)

    # Learning

    def _stored(self, part: str) -> Stored:
        return Stored(self.folder, part, self.fields)  # of any length: read in windows

    def batches(self, seed: int) -> Batches:
        """Windows of the documents, cut anew in each epoch; those of like length together."""
        stored, config = self._stored("train"), self.config
        return examples.batches(self.source, stored, config.windows, config.batch, seed)

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """−log p of each token by those before it, and by those after it."""
        memory = model.encode(batch)
        assert memory is not None
        return model.head.loss(memory.states, batch["source"], memory.mask), None

    def validate(self, model: Model) -> dict[str, float]:
        if not self.plan.has("validation"):
            return {}
        found = self._read(model, self._stored("validation").rows())
        return figures_both([pair for each in found for pair in each])

    def _read(
        self, model: Model, rows: Sequence[Row], batch: int = 0
    ) -> list[list[tuple[Found, Found]]]:
        """What the model says of each window of each text, forward and backward."""
        spans = self.reader.spans([row["source"] for row in rows])
        windows = [
            self.source.part(row, *span)
            for row, some in zip(rows, spans, strict=True)
            for span in some
        ]
        found = iter(self.reader.read(model, windows, batch))
        return [[next(found) for _ in some] for some in spans]
