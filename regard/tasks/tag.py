"""Tag: seq2seq, aligned. A label, or a number, for each word, however it is cut into tokens."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from regard import plots
from regard.data import batching, files, tokenizers, wrap
from regard.data.held_out import ByContent
from regard.data.labelled import sentences
from regard.data.labels import TRAINING, UNKNOWN
from regard.data.readers import Policy, Report
from regard.decoding.prediction import scored
from regard.decoding.tagging import Tagged, Tagger, entities, states
from regard.errors import RecipeError, UserError
from regard.examples.preparation import Plan
from regard.examples.stored import Stored, collate
from regard.fields import Example, Row, tags, words
from regard.inspect import reading
from regard.inspect.reading import Reading
from regard.metrics import Direction, Score, labels as label_metrics
from regard.model import Model
from regard.recipe.config import Recipe
from regard.recipe.parts import Part
from regard.tasks import (
    FolderTask,
    Prediction,
    check_head,
    check_positions,
    check_spelling,
    sizes_of,
)
from regard.train import health
from regard.types import Batch, Carry, Terms

PARTS = {"input": "tokens", "encoder": "rnn", "head": "tags"}
DRAWN = 64
"""A table of more labels than this is not drawn."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe for tagging, beside the model and the trainer."""

    unit: Literal["words", "characters"] = "words"
    """What a line to be tagged is made of: words between whitespace, or single characters."""
    characters: bool = False
    """Whether words come with their characters, for inputs that read them."""
    framed: bool = False
    """Whether a sentence is read between the tokens that begin and end texts, as by BERT."""
    data: files.Config
    """The sentences. Columns are the word's and the tag's, or the tag's alone: names (CoNLL-U),
    numbers (other columns; -1 is the last), keys (JSONL)."""
    held_out: ByContent
    """What is kept from learning, where no files are named for it."""
    labels: tags.Config
    """What tags are like."""
    tokenizer: tokenizers.Config
    """How a word becomes tokens; its first one stands for it."""
    batch: batching.Config
    """How large a batch is."""


def metrics(config: Config) -> dict[str, Direction]:
    if config.labels.kind == "real":
        return {"nll": "lower", "mse": "lower", "mae": "lower"}
    return {"nll": "lower", "accuracy": "higher", "f1": "higher"}


def check(recipe: Recipe) -> None:
    """Refuse what can be known to be wrong before any data is read."""
    config: Config = recipe.task
    if len(config.data.columns) > 2:
        raise RecipeError("data.columns: the word's and the tag's are wanted, or the tag's alone")
    if config.data.header:
        raise RecipeError("data.header: files of words and tags have none")
    if config.tokenizer.split == "punctuation":
        raise RecipeError("tokenizer.split: words come apart already, punctuation is not cut off")
    config.held_out.check(config.data)
    config.data.sources(1)
    config.data.refuse_streaming("what has tags")
    check_head(recipe, "tags")
    check_spelling(recipe)
    if config.labels.kind == "real" and recipe.model.head.config.crf:
        raise RecipeError("model.head.crf: numbers have no field; set labels.kind = 'tags'")
    longest = config.data.max_length
    why = f"data.max_length = {longest}{' and the tokens at both ends' * config.framed} asks"
    check_positions(recipe, "encoder", longest + 2 * config.framed, why)


def plan(config: Config) -> Plan:
    """Words, and a tag for each."""
    cut, framed, spelt = config.tokenizer, config.framed, config.characters
    source = words.Field("source", cut, config.unit, framed, spelt=spelt)
    fields = {"words": source, "tags": tags.Field("tags", config.labels)}
    read = partial(_read, config)
    return Plan(fields=fields, data=config.data, read=read, held_out=config.held_out)


def _read(config: Config, part: files.Part, policy: Policy, report: Report) -> Iterator[Example]:
    """The sentences of a part's own files."""
    data, paths, real = config.data, config.data.paths(part), config.labels.kind == "real"
    columns, between = tuple(map(str, data.columns)), data.delimiter
    for each in sentences(paths, columns, policy, report, part, real=real, delimiter=between):
        for place in wrap.sentences(each.value, data.wrap):
            yield Example((each.path,), each.line, (each.value[place], each.labels[place]))


class Task(FolderTask):
    """Tagging whose tokenizer, tags and stores lie in a run's folder."""

    said, listed, usual_columns = "tags", True, {"words": "words", "tags": "tags"}
    predict_options = frozenset({"split"})

    def __init__(self, config: Config, folder: Path) -> None:
        super().__init__(config, folder, plan(config))
        self.source: words.Field = self.fields["words"]
        self.tags: tags.Field = self.fields["tags"]
        self.sizes = sizes_of(self.fields, "source", "tags")
        self.real = self.tags.real
        longest, tokens = config.data.max_length, config.batch.tokens
        self.tagger = Tagger(self.source, self.tags, longest, tokens)

    # Learning

    def _stored(self, part: str) -> Stored:
        return Stored(self.folder, part, self.fields)  # of any length: read in parts

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """−log p(tags | words), or the squared error."""
        return model.head.loss(states(model, batch), batch["tags"], batch["source_word_mask"]), None

    def validate(self, model: Model) -> dict[str, float]:
        if not self.plan.has("validation"):
            return {}
        rows = self._stored("validation").rows()
        said = self.tagger.run(model, rows)
        if self.real:
            values, numbers = self._numbers(said, rows)
            scores = label_metrics.errors(values - numbers)
            degenerate = health.constant(float(values.std()), float(numbers.std()))
            mse = max(scores["mse"].value / self.tags.scale.deviation**2, 1e-12)
            nll = 0.5 * math.log(2 * math.pi * math.e * mse)  # with the best deviation
        else:
            names = [self.tags.texts(each.values) for each in said]
            true = [self.tags.texts(self.tags.numbers([row])[0].tolist()) for row in rows]
            scores = label_metrics.tags(names, true, self.tags.names)
            pairs = label_metrics.known(names, true)
            degenerate = health.shares(*([pair[side] for pair in pairs] for side in (0, 1)))
            nll = self._nll(said, rows)
        figures = {name: scores[name].value for name in metrics(self.config) if name in scores}
        return {"nll": nll} | figures | degenerate

    def _nll(self, said: Sequence[Tagged], rows: Sequence[Row]) -> float:
        """The mean of −log p over the tags that are known."""
        known = sum(map(self.tags.known, rows))
        return 0.0 - math.fsum(each.given.sum() for each in said) / max(1, known)

    def _numbers(
        self, said: Sequence[Tagged], rows: Sequence[Row]
    ) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
        """Numbers that are said, and the true ones where they are known, in the data's units."""
        values = np.concatenate([each.values for each in said])
        true = np.concatenate([np.asarray(row["tags"]) for row in rows])
        known, unit = ~np.isnan(true), self.tags.scale.deviation
        return unit * values[known], unit * true[known]

    def calibrate(self, model: Model) -> dict[str, float]:
        """The deviation of numbers from what is predicted: the root of the mean squared error."""
        if not self.real or not self.plan.has("validation"):
            return {}
        rows = self._stored("validation").rows()
        said, true = self._numbers(self.tagger.run(model, rows), rows)
        root = math.sqrt(label_metrics.errors(said - true)["mse"].value)
        head: Any = model.head
        with torch.no_grad():
            head.deviation.fill_(max(root / self.tags.scale.deviation, 1e-6))
        return {"deviation": root}

    # Using what was learnt

    def predict(
        self,
        model: Model,
        inputs: Sequence[str],
        search: Part,
        *,
        batch: int = 64,
        first: int = 0,
        split: bool = False,
    ) -> Iterator[Prediction]:
        """Exactly one output per input, in order, and in it exactly one tag per word; with `split`,
        punctuation parts from words first. A sentence with more tokens than `data.max_length` is
        read in parts, and its status says so."""
        places = [self.source.places(line, split=split) for line in inputs]
        pairs = zip(inputs, places, strict=True)
        found = [tuple(line[a:b] for a, b in each) for line, each in pairs]
        rows = self.source.encode(found)
        tagged = self.tagger.tag(model, rows, batch)
        for line, where, said, row, by in zip(inputs, places, found, rows, tagged, strict=True):
            made = self._prediction(said, row, by)
            spans = entities(line, where, made.tokens, self.tags.names)
            yield replace(made, offsets=where, entities=spans)

    def _prediction(self, sentence: Sequence[str], row: Row, said: Tagged) -> Prediction:
        if not sentence:
            return Prediction(text="", status="empty")
        found = self.tags.texts(said.values)
        return Prediction(
            text=self.tags.show(found),
            status=self.source.status(row, self.config.data.max_length),
            score=float(said.chain.sum()),
            tokens=found,
            log_probs=[] if self.real else said.log_probs.tolist(),
            source=list(sentence),
        )

    def references(self, part: files.Part) -> tuple[list[str], list[str]]:
        """Words and tags of a part, a sentence a line; blanks inside a word become “_”."""
        found = [each.values for each in self._examples(part)]
        return [self.source.show(w) for w, _ in found], [self.tags.show(t) for _, t in found]

    def _examples(self, part: files.Part) -> list[Example]:
        return self.plan.whole(part, Policy(broken=self.config.data.on_bad_line, empty="skip"))

    def _rows(self, sentences: Sequence[Any], tags: Sequence[Any]) -> list[Row]:
        pairs = zip(self.source.encode(sentences), self.tags.encode(tags), strict=True)
        return [{**left, **right} for left, right in pairs]

    def evaluate(
        self, model: Model, part: files.Part, search: Part, *, batch: int = 64
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """Accuracy over words, F₁ over spans (or classes), likelihood; or errors of numbers. A
        picture of what is taken for what is put into the run's folder."""
        found = self._examples(part)
        sentences, true = ([each.values[side] for each in found] for side in (0, 1))
        if all(tag == UNKNOWN for row in true for tag in row):
            raise UserError(
                f"{part}: not one word has a tag that is known: there is nothing to score"
            )
        self.tags.accept(true, lambda n: found[n].place, part, TRAINING)
        rows = self._rows(sentences, true)
        tagged = self.tagger.tag(model, rows, batch)
        outputs = [self._prediction(*each) for each in zip(sentences, rows, tagged, strict=True)]
        said = [output.tokens for output in outputs]
        if self.real:
            gaps = [float(a) - float(b) for a, b in label_metrics.known(said, true)]
            return label_metrics.errors(np.array(gaps)), outputs
        scores = label_metrics.tags(said, true, self.tags.names)
        unseen = sum(tag not in (*self.tags.names, UNKNOWN) for row in true for tag in row)
        if any(map(self.tags.known, rows)):
            nll = self._nll(tagged, rows)
            scores["nll"] = label_metrics.score("nll", nll, f"unseen:{unseen}", higher=False)
        self._draw(part, label_metrics.known(said, true))
        return scores, outputs

    def _draw(self, part: str, pairs: list[tuple[str, str]]) -> None:
        if len(names := sorted({name for pair in pairs for name in pair})) <= DRAWN:
            plots.confusion(pairs, names, self.folder / f"confusion-{part}.png")

    def score(
        self, model: Model, inputs: Sequence[str], outputs: Sequence[str], *, batch: int = 64
    ) -> Iterator[dict[str, Any]]:
        """log-probability (density, of numbers) of given tags, in order. “_” is not asked for, nor
        are tags that training never saw, if they are not refused; of nothing else it is None."""
        sentences = [self.source.parse(line) for line in inputs]
        given = [self.tags.parse(line) for line in outputs]
        rule = "wrong" if self.config.labels.unseen == "wrong" else "never"
        for n, (sentence, said) in enumerate(zip(sentences, given, strict=True), 1):
            if len(sentence) != len(said):
                raise UserError(f"line {n}: {len(sentence)} words, but {len(said)} tags")
            self.tags.refuse(said, f"line {n}", rule)
        tagged = self.tagger.tag(model, self._rows(sentences, given), batch)
        for names, found in zip(given, tagged, strict=True):
            pairs = zip(found.given.tolist(), names, strict=True)
            chances = [chance for chance, tag in pairs if self.tags.knows(tag)]
            yield scored(chances, tokens=list(names))

    def look(
        self, model: Model, text: str, search: Part, target: str | None, length: int
    ) -> Reading:
        """A tag, or a number, for each word; of a text that is too long, for its first words."""
        whole = self.source.encode([self.source.parse(text)])[0]
        row = self.source.cut(whole, self.config.data.max_length)
        spoken = self.source.parse(text)[: self.source.words(row)]
        given = None
        if target is not None:
            given = self.tags.parse(target)[: len(spoken)]
            if len(given) < len(spoken):
                raise UserError(f"inspect: {len(spoken)} words, but {len(given)} tags")
            self.tags.refuse(given, "inspect")
        batch = collate([self.source], [row], [0]).to(model.device)
        return reading.tagged(model, batch, text, list(spoken), self.source, row, self.tags, given)
