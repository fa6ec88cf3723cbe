"""Masked language model: seq2seq, aligned. Some tokens of a text are hidden, and found again by all
the others: max Σ_t∈M log p(x_t | x without M)  (Devlin et al. 2019)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data import batching, files, pairs_of_passages, passages, tokenizers
from regard.data.batching import Draw
from regard.data.held_out import ByContent
from regard.data.pairs_of_passages import NAMES
from regard.decoding.filling import SHOWN, Filler, Found, figures, hidden_states, scores, states
from regard.decoding.prediction import Choose, Sample, scored
from regard.decoding.shared_work import shared
from regard.errors import RecipeError
from regard.examples import running_text
from regard.examples.passages import Passages
from regard.examples.preparation import Plan, watched
from regard.examples.stored import Stored
from regard.fields import masked
from regard.inspect.reading import Reading
from regard.metrics import Direction, Score
from regard.model import Model
from regard.recipe.config import Recipe
from regard.recipe.parts import Part, module
from regard.tasks import FolderTask, Prediction, check_head, check_positions, sizes_of
from regard.train import health
from regard.types import Batch, Batches, Carry, Terms

PARTS = {
    "input": "tokens",
    "encoder": "transformer",
    "head": "masked",
    "heads": {"next": "none"},
}
SAMPLE = 24
"""Tokens of a sample."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe for a masked language model, beside the model and the trainer."""

    data: files.Config
    """The texts; of documents that are longer than a window, all is read, whatever is said here."""
    held_out: ByContent
    """What is kept from learning, where no files are named for it."""
    windows: passages.Config
    """What is read at once."""
    masking: masked.Config
    """Which tokens are to be predicted."""
    pairs: pairs_of_passages.Config
    """Whether windows are pairs."""
    tokenizer: tokenizers.Config
    """How text becomes tokens."""
    batch: batching.Config
    """How large a batch is."""


def metrics(config: Config) -> dict[str, Direction]:
    found: dict[str, Direction] = {"nll": "lower", "perplexity": "lower", "accuracy": "higher"}
    return found | ({"next_accuracy": "higher"} if config.pairs.next_sentence else {})


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
    if config.masking.subsample and config.tokenizer.kind != "word":
        raise RecipeError(
            "masking.subsample: only words stand in the order of their frequency: "
            "set tokenizer.kind = 'word', or leave it out"
        )
    check_head(recipe, "masked tokens")
    _check_pairs(recipe)
    length = config.windows.length
    check_positions(recipe, "encoder", length, f"windows.length = {length} asks")


def _check_pairs(recipe: Recipe) -> None:
    """Pairs want a head that says what they are, and the other way round."""
    config: Config = recipe.task
    head = recipe.model.heads.get("next")
    if config.pairs.next_sentence and head is None:
        raise RecipeError('model.heads.next.kind: pairs.next_sentence wants one: "labels"')
    if head is None:
        return
    if not config.pairs.next_sentence:
        raise RecipeError("model.heads.next: set pairs.next_sentence = true, or leave it out")
    if module("heads", head.kind).Head.predicts != "labels":
        raise RecipeError(f"model.heads.next.kind: {head.kind!r} predicts no labels")
    if config.windows.crosses:
        raise RecipeError("windows.crosses: a passage of a pair is of one document")
    if config.windows.length <= passages.EDGES + 2:
        raise RecipeError(f"windows.length: {config.windows.length} has no room for a pair")


def plan(config: Config) -> Plan:
    """Documents, each of any length."""
    source = masked.Field("source", config.tokenizer, masking=config.masking)
    kind = config.windows.documents
    return Plan(
        fields={"text": source},
        data=config.data,
        read=partial(running_text.read, config.data, None if kind == "line" else kind),
        held_out=config.held_out,
        limited=False,
    )


class Task(FolderTask):
    """A masked language model whose tokenizer and store lie in a run's folder."""

    said, usual_columns = "words", {"text": "text"}
    predict_options = frozenset({"top"})

    def __init__(self, config: Config, folder: Path) -> None:
        super().__init__(config, folder, plan(config))
        self.source: masked.Field = self.fields["text"]
        self.by = self.source.tokenizer
        self.sizes = sizes_of(self.fields, "source", "source", shared=True)
        self.passages = Passages(self.source, config.windows, config.pairs)
        self.filler = Filler(self.source, self.passages.room, config.batch.tokens)
        if config.pairs.next_sentence:
            sizes = {**self.sizes.fields, "next": {"outputs": len(NAMES)}}
            self.sizes = replace(self.sizes, fields=sizes)

    # Learning

    def _stored(self, part: str) -> Stored:
        return Stored(self.folder, part, self.fields)  # of any length: read in windows

    def batches(self, seed: int) -> Batches:
        """Windows of the documents, cut anew in each epoch; those of like length together."""
        return self.passages.batches(self._documents("train"), self.config.batch, seed)

    def _documents(self, part: str) -> Any:
        return self.passages.documents(self._stored(part))

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """−log p of what is hidden, given the rest; and of whether one passage follows another."""
        hidden, true = batch["source_masked"], batch["source_out"]
        head: Any = model.head
        if "next" not in batch.tensors:
            return head.states_loss(hidden_states(model, batch, hidden), true[hidden]), None
        memory = states(model, batch)
        terms = head.states_loss(memory[hidden], true[hidden])
        term = model.heads["next"].loss(memory, batch["next"], batch["source_mask"])["loss"]
        return {**terms, "next": replace(term, weight=self.config.pairs.weight)}, None

    def validate(self, model: Model) -> dict[str, float]:
        if not self.plan.has("validation"):
            return {}
        found = self._recovered(model, self._stored("validation").store.read_all("source"))
        whole = [place for each in found for place in each]
        said, true = (
            np.concatenate([getattr(f, side) for f in whole]) for side in ("said", "true")
        )
        alike = health.shares(*(list(map(str, side)) for side in (said, true)))
        return figures(whole) | alike | self._next(model)

    def _next(self, model: Model) -> dict[str, float]:
        """How often the model knows whether a passage follows another."""
        if not self.config.pairs.next_sentence:
            return {}

        def each(batch: Batch) -> tuple[int, int]:
            said = self.filler.follows(model, batch.to(model.device)).argmax(1).cpu()
            return int((said == batch["next"]).sum()), len(said)

        with torch.inference_mode():
            documents = self._documents("validation")
            found = shared(self.passages.all_pairs(documents, self.config.batch), each)
        right, count = (sum(column) for column in zip((0, 0), *found, strict=True))
        return {"next_accuracy": 100 * right / max(1, count)}

    def _recovered(self, model: Model, texts: Sequence[Any], batch: int = 0) -> list[list[Found]]:
        """What the model says of hidden places of each window of each text."""
        windows = self.filler.windows(texts)
        rows = [{"source": window} for some in windows for window in some]
        found = iter(self.filler.recover(model, rows, batch))
        return [[next(found) for _ in some] for some in windows]

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
        """The likeliest words at each [MASK] of each input, in order, with their probabilities.
        [SEP] parts two segments."""
        yield from self.filler.predictions(model, inputs, top, batch)

    def samples(self, model: Model, choose: Choose) -> list[Sample]:
        """Words of some texts of the validation part, and what the model says instead."""
        texts = [text for (text,) in watched(self.folder, self.fields) or ()]
        rows = [
            self.source.cut(self.source.encode([texts[n]])[0], SAMPLE) for n in choose(len(texts))
        ]
        hidden = [self.source.hidden(row, Draw().random(n)) for n, row in enumerate(rows)]
        found = self.filler.fill(model, [row for row, _ in hidden], 1)
        return [
            Sample(
                self.source.filled(row, []),
                " ".join(self.by.pieces(true)),
                " ".join(self.by.pieces([place[0][0] for place in places])),
            )
            for (row, true), places in zip(hidden, found, strict=True)
        ]

    def references(self, part: files.Part) -> tuple[list[str]]:
        """The documents of a part."""
        found = self.plan.whole(part, self.config.data.policy)
        return ([each.values[0] for each in found],)

    def evaluate(
        self, model: Model, part: files.Part, search: Part, *, batch: int = 64
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """Likelihood and accuracy of hidden tokens of a part, which are always the same ones."""
        found = self.by_text(model, part, batch)
        masking, length = self.config.masking, self.config.windows.length
        kind = "words" if masking.whole_words else "tokens"
        hidden = f"{masking.fraction:g}/{masking.masked:g}/{masking.random:g}-{kind}"
        texts = [self.filler.recovered(each) for each in found]
        whole = [place for each in found for place in each]
        return scores(whole, f"hidden:{hidden}|window:{length}|draw:0"), texts

    def by_text(self, model: Model, part: files.Part, batch: int = 64) -> list[list[Found]]:
        """What the model says of the hidden places of each text of a part, window by window."""
        texts = [row["source"] for row in self.source.encode(self.references(part)[0])]
        return self._recovered(model, texts, batch)

    def score(
        self, model: Model, texts: Sequence[str], *, batch: int = 64
    ) -> Iterator[dict[str, Any]]:
        """Pseudo-log-likelihood and pseudo-perplexity of each text: every token is hidden once, and
        all others are read."""
        tokens = [[int(token) for token in row["source"]] for row in self.source.encode(texts)]
        for symbols, chances in zip(tokens, self.filler.pseudo(model, tokens, batch), strict=True):
            status = "unknown" if self.by.unknown in symbols else "ok"
            yield scored(chances, status=status, tokens=self.by.pieces(symbols))

    def look(
        self, model: Model, text: str, search: Part, target: str | None, length: int
    ) -> Reading:
        """The likeliest words at the blanks of a text, or those of `target`; where there is no
        blank, its own tokens, which the model reads, too."""
        row = self.source.cut(self.source.blanks(text), self.filler.room)
        return self.filler.look(model, text, row, target)
