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
from regard.decoding.both_ways import BothWays, both_figures, both_scores, ways
from regard.decoding.filling import SHOWN
from regard.decoding.prediction import Choose, Sample, scored
from regard.errors import RecipeError
from regard.examples import running_text
from regard.examples.passages import batches as passages_of
from regard.examples.preparation import Plan, watched
from regard.examples.stored import Stored
from regard.fields import framed
from regard.heads.both_ways import WAYS
from regard.inspect.reading import Reading
from regard.metrics import Direction, Score
from regard.model import Model
from regard.recipe.config import Recipe
from regard.recipe.parts import Part
from regard.tasks import FolderTask, Prediction, check_head, check_spelling, sizes_of
from regard.train import health
from regard.types import Batch, Batches, Carry, Terms

PARTS = {"input": "characters", "encoder": "both_ways", "head": "both_ways"}
SAMPLE = 24
"""Tokens of a sample."""


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
    config.data.refuse_mixture("a text of documents")
    config.data.refuse_streaming("a text of documents")
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
    predict_options = frozenset({"top"})

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
        return passages_of(self.source, stored, config.windows, config.batch, seed)

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """−log p of each token by those before it, and by those after it."""
        memory = model.encode(batch)
        assert memory is not None
        return model.head.loss(memory.states, batch["source"], memory.mask), None

    def validate(self, model: Model) -> dict[str, float]:
        if not self.plan.has("validation"):
            return {}
        found = self.reader.read(model, self._stored("validation").rows())
        whole = [both for windows in found for both in windows]
        said, true = (
            [str(token) for both in whole for token in getattr(both.forward, side)]
            for side in ("said", "true")
        )
        return both_figures(whole) | health.shares(said, true)

    # Using what was learnt

    def predict(
        self,
        model: Model,
        inputs: Sequence[str],
        search: Part,
        *,
        batch: int = 64,
        first: int = 0,
        top: int = SHOWN,
    ) -> Iterator[Prediction]:
        """The likeliest words at each [MASK] of each input, in order, by what stands before it and
        by what follows."""
        yield from self.reader.predictions(model, inputs, top, batch)

    def samples(self, model: Model, choose: Choose) -> list[Sample]:
        """The word in the middle of some texts of the validation part, and what is said instead."""
        texts = [text for (text,) in watched(self.folder, self.fields) or ()]
        rows = self.source.encode([texts[n] for n in choose(len(texts))])
        short = [self.source.cut(row, SAMPLE) for row in rows if len(row["source"])]
        hidden = [self.source.without(row, len(row["source"]) // 2) for row in short]
        found = self.reader.fill(model, hidden, 1)
        return [
            Sample(
                self.source.filled(row, []),
                self.by.pieces([whole["source"][len(whole["source"]) // 2]])[0],
                self.by.pieces([places[0][0][0]])[0],
            )
            for row, whole, places in zip(hidden, short, found, strict=True)
        ]

    def references(self, part: files.Part) -> tuple[list[str]]:
        """The documents of a part."""
        found = self.plan.whole(part, self.config.data.policy)
        return ([each.values[0] for each in found],)

    def evaluate(
        self, model: Model, part: files.Part, search: Part, *, batch: int = 64
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """Likelihood of every token of a part and how often it is the likeliest, by what stands
        before it and by what follows."""
        found = self.reader.read(model, self.source.encode(self.references(part)[0]), batch)
        case = "lc" if self.config.tokenizer.lowercase else "mixed"
        about = f"window:{self.config.windows.length}|vocabulary:{len(self.by)}|case:{case}"
        whole = [both for windows in found for both in windows]
        return both_scores(whole, about), [*map(self.reader.said, found)]

    def ways(self, outputs: Sequence[Prediction]) -> dict[str, list[Prediction]]:
        return ways(outputs)

    def score(
        self, model: Model, texts: Sequence[str], *, batch: int = 64
    ) -> Iterator[dict[str, Any]]:
        """log-probability and perplexity of each text as it is read forward, its end included; and
        backward, its beginning included."""
        rows = self.source.encode(texts)
        for row, found in zip(rows, self.reader.read(model, rows, batch), strict=True):
            onward, back = (
                [float(p) for both in found for p in getattr(both, way).log_probs] for way in WAYS
            )
            status = "unknown" if self.by.unknown in row["source"] else "ok"
            backward = {f"{name}_backward": value for name, value in scored(back).items()}
            true = [int(token) for both in found for token in both.forward.true]
            yield scored(onward, status=status, tokens=self.by.pieces(true)) | backward

    def look(
        self, model: Model, text: str, search: Part, target: str | None, length: int
    ) -> Reading:
        """The likeliest words at the blanks of a text, or those of `target`; where there is no
        blank, its own words, each by what stands around it."""
        row = self.source.cut(self.source.blanks(text), self.reader.room)
        return self.reader.look(model, text, row, target)
