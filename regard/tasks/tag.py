"""Tag: seq2seq, aligned. A label, or a number, for each word, however it is cut into tokens."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard import plots
from regard.data import batching, files, tags as scales, tokenizers
from regard.data.batching import Batches
from regard.data.labelled import HeldOut, Sentence, sentences
from regard.data.labels import BASE, TRAINING
from regard.data.readers import Policy, Report
from regard.data.store import Array
from regard.data.tags import UNKNOWN as NO_TAG, Numbers
from regard.data.tokenizers import UNKNOWN
from regard.data.words import EncodedText, LabelledStore, Lexicon, collate
from regard.errors import RecipeError, UserError
from regard.metrics import Direction, Score, labels as label_metrics
from regard.model import Model
from regard.recipe.config import Recipe
from regard.recipe.parts import Part
from regard.tasks import Prediction, check_positions
from regard.tasks.classify import check_parts
from regard.train import health
from regard.types import Batch, Carry, Terms

PARTS = {"input": "tokens", "encoder": "rnn", "head": "tags"}
SIDES = ("words", "tags")
BLOCK = 2048
DRAWN = 64
"""A table of more labels than this is not drawn."""


@dataclass(frozen=True, kw_only=True)
class LabelConfig:
    """What tags are like."""

    kind: Literal["tags", "real"] = "tags"
    """Names, or numbers such as angles."""
    unseen: Literal["refuse", "wrong"] = "refuse"
    """What to do with a tag that training never saw: refuse it with its file and line, or count
    every prediction for its word as wrong (and leave it out of likelihoods and validations)."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe for tagging, beside the model and the trainer."""

    unit: Literal["words", "characters"] = "words"
    """What a line to be tagged is made of: words between whitespace, or single characters."""
    characters: bool = False
    """Whether words come with their characters, for inputs that read them."""
    data: files.Config
    """The sentences. Columns are the word's and the tag's, or the tag's alone: names (CoNLL-U),
    numbers (other columns; -1 is the last), keys (JSONL)."""
    held_out: HeldOut
    """What is kept from learning, where no files are named for it."""
    labels: LabelConfig
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
    check_parts(recipe, "tags")
    if config.labels.kind == "real" and recipe.model.head.config.crf:
        raise RecipeError("model.head.crf: numbers have no field; set labels.kind = 'tags'")
    longest = config.data.max_length
    check_positions(recipe, "encoder", longest, f"data.max_length = {longest} asks")


def prepare(config: Config, folder: Path, given: Path | None = None) -> Report:
    """Read the data, train the tokenizer, write the stores: all of it into `folder`.

    Tokenizer and tags of the run `given` are taken instead, if it is there.
    """
    report = Report()
    learnt = _chosen(config, "train", config.data.policy, report)
    if given is None:
        lines = [" ".join(each.words) for each in learnt]
        lexicon = Lexicon.train(config.tokenizer, lines, spelling=config.characters)
        tags = scales.count(config.labels.kind, [tag for each in learnt for tag in each.tags])
    else:
        lexicon = Lexicon.load(given, config.tokenizer)
        tags = scales.load(config.labels.kind, given)
    lexicon.save(folder)
    tags.save(folder)
    checked = Report()
    for part in ("train", "validation"):
        if config.held_out.has(config.data, part):
            train = part == "train"
            read = checked if config.data.validation else Report()  # of a share: with the rest
            chosen = learnt if train else _chosen(config, part, config.data.policy, read)
            if not any(tags.knows(tag) for each in chosen for tag in each.tags):
                known = "known to the run that is trained on" if given else "known"
                raise UserError(f"data.{part}: not one word has a tag that is {known}")
            # A tag that is not among those of a given run cannot be learnt.
            unseen = "never" if train else config.labels.unseen
            source = BASE if given else TRAINING
            stored = [
                tags.stored(each.tags, f"{each.path}:{each.line}", unseen, source)
                for each in chosen
            ]
            rows = _encode(config, chosen, stored, lexicon, report if train else checked)
            LabelledStore.write(folder / "store", part, max(len(lexicon.symbols), tags.size), rows)
    report.include(checked)
    report.used = len(LabelledStore(folder / "store", "train"))
    if not report.used:
        raise UserError(f"data.train: no sentence has at most {config.data.max_length} tokens")
    return report


def _chosen(config: Config, part: files.Part, policy: Policy, report: Report) -> list[Sentence]:
    """The sentences of a part: of its own files, or of its share of the training files."""
    data, held_out = config.data, config.held_out
    real = config.labels.kind == "real"
    read = sentences(held_out.paths(data, part), data.columns, policy, report, part, real=real)
    found = [each for each in read if held_out.holds(data, part, " ".join(each.words))]
    if not found:
        raise UserError(f"{part}: no sentence is left: see data.{part} and held_out")
    return found


def _encode(
    config: Config,
    found: Sequence[Sentence],
    tags: Sequence[Any],
    lexicon: Lexicon,
    report: Report,
) -> Iterator[tuple[EncodedText, Sequence[int]]]:
    """Tokens and tags of each sentence; too long as the recipe says, cut after a whole word."""
    data, stream = config.data, zip(found, tags, strict=True)
    while block := list(islice(stream, BLOCK)):
        coded = lexicon.sentences([each.words for each, _ in block])
        for (each, stored), code in zip(block, coded, strict=True):
            text = " ".join(each.words)
            if data.admits(len(code.symbols), each.path, each.line, text, report):
                first = code.windows(data.max_length)[0]
                yield first, stored[: len(first.pieces)]


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


class Task:
    """Tagging whose tokenizer, tags and stores lie in a run's folder."""

    predict_options = frozenset[str]()
    evaluate_options = frozenset[str]()
    reads_files = False

    def __init__(self, config: Config, folder: Path) -> None:
        self.config, self.folder = config, folder
        self.lexicon = Lexicon.load(folder, config.tokenizer)
        self.tags = scales.load(config.labels.kind, folder)
        self.source = self.lexicon.symbols
        self.sizes = self.lexicon.sizes("tags", self.tags.outputs, self.tags.hash)
        self.real = config.labels.kind == "real"

    # Learning

    def batches(self, seed: int) -> Batches:
        store = self._labelled("train")

        def make(ids: Sequence[int]) -> Batch:
            return self._batch([store[n] for n in ids], [store.labels(n) for n in ids], ids)

        return Batches(store.lengths[:, None], make, self.config.batch, seed)

    def _labelled(self, part: str) -> LabelledStore:
        folder = self.folder / "store"
        store = LabelledStore(folder, part, self.lexicon, range(self.tags.size), "word")
        if self.real and not store.finite():
            raise UserError(
                f"the stored data cannot be read: {folder / part}.labels.tokens has numbers that "
                "are not finite. Start a new run from the recipe"
            )
        return store

    def _batch(
        self, rows: Sequence[EncodedText], tags: Sequence[Sequence[int] | Array], ids: Sequence[int]
    ) -> Batch:
        tensors = collate(rows) | {"tags": self.tags.targets(tags)}
        known = ~tensors["tags"].isnan() if self.real else tensors["tags"] >= 0
        return Batch(tensors=tensors, ids=tuple(ids), targets=int(known.sum()))

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """−log p(tags | words), or the squared error."""
        return model.head.loss(_words(model, batch), batch["tags"], batch["source_word_mask"]), None

    def _run(
        self,
        model: Model,
        rows: Sequence[EncodedText],
        tags: Sequence[Any] | None = None,
        size: int = 0,
    ) -> list[Tagged]:
        """What the model says of sentences, and how likely it finds the tags that they have."""
        model.eval()
        head: Any = model.head
        found: dict[int, Tagged] = {}
        lengths = np.array([[len(row.symbols)] for row in rows], np.int64).reshape(-1, 1)
        budget = batching.Config(tokens=self.config.batch.tokens, sentences=size)
        stored = [[0] * len(row.pieces) for row in rows] if tags is None else tags
        with torch.inference_mode():
            for ids in batching.plan(lengths, budget):
                made = self._batch([rows[n] for n in ids], [stored[n] for n in ids], ids.tolist())
                batch = made.to(model.device)
                hidden, mask = _words(model, batch), batch["source_word_mask"]
                values, alone = head.best(hidden, mask)
                chain = head.log_probs(hidden, values, mask)
                given = chain if tags is None else head.log_probs(hidden, batch["tags"], mask)
                table = torch.stack([each.float() for each in (values, alone, chain, given)])
                for n, *columns in zip(ids.tolist(), *table.cpu().double().numpy(), strict=True):
                    found[n] = Tagged(*(column[: len(rows[n].pieces)] for column in columns))
        return [found[n] for n in range(len(rows))]

    def validate(self, model: Model) -> dict[str, float]:
        if not self.config.held_out.has(self.config.data, "validation"):
            return {}
        rows, stored = self._validation()
        if self.real:
            values, numbers = self._numbers(model, rows, stored)
            scores = label_metrics.errors(values - numbers)
            degenerate = health.constant(float(values.std()), float(numbers.std()))
            mse = max(scores["mse"].value / self._deviation**2, 1e-12)
            nll = 0.5 * math.log(2 * math.pi * math.e * mse)  # with the best deviation
        else:
            said = self._run(model, rows, stored)
            names = [self.tags.texts(each.values) for each in said]
            true = [self.tags.texts(self.tags.targets([row])[0].tolist()) for row in stored]
            scores = label_metrics.tags(names, true, self._names)
            pairs = label_metrics.known(names, true, NO_TAG)
            degenerate = health.shares(*([pair[side] for pair in pairs] for side in (0, 1)))
            nll = self._nll(said, stored)
        figures = {name: scores[name].value for name in metrics(self.config) if name in scores}
        return {"nll": nll} | figures | degenerate

    def _validation(self) -> tuple[list[EncodedText], list[Array]]:
        store = self._labelled("validation")
        everything = range(len(store))
        return [store[n] for n in everything], [store.labels(n) for n in everything]

    def _nll(self, said: Sequence[Tagged], stored: Sequence[Any]) -> float:
        """The mean of −log p over the tags that are known."""
        known = sum(int(np.count_nonzero(row)) for row in stored)
        return 0.0 - math.fsum(each.given.sum() for each in said) / max(1, known)

    def _numbers(
        self, model: Model, rows: Sequence[EncodedText], stored: Sequence[Any]
    ) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
        """Numbers that are said, and the true ones where they are known, in the data's units."""
        said = np.concatenate([each.values for each in self._run(model, rows)])
        true = np.concatenate([self.tags.targets([row])[0].numpy() for row in stored])
        known = ~np.isnan(true)
        return self._deviation * said[known], self._deviation * true[known]

    def calibrate(self, model: Model) -> dict[str, float]:
        """The deviation of numbers from what is predicted: the root of the mean squared error."""
        if not self.real or not self.config.held_out.has(self.config.data, "validation"):
            return {}
        said, true = self._numbers(model, *self._validation())
        root = math.sqrt(label_metrics.errors(said - true)["mse"].value)
        head: Any = model.head
        with torch.no_grad():
            head.deviation.fill_(max(root / self._deviation, 1e-6))
        return {"deviation": root}

    @property
    def _names(self) -> tuple[str, ...]:
        return () if isinstance(self.tags, Numbers) else self.tags.labels.names

    @property
    def _deviation(self) -> float:
        return self.tags.deviation if isinstance(self.tags, Numbers) else 1.0

    # Using what was learnt

    def cut(self, line: str) -> list[str]:
        """The words of a line."""
        return line.split() if self.config.unit == "words" else list("".join(line.split()))

    def predict(
        self,
        model: Model,
        inputs: Sequence[str],
        search: Part,
        *,
        batch: int = 64,
        first: int = 0,
    ) -> Iterator[Prediction]:
        """Exactly one output per input, in order, and in it exactly one tag per word.

        A sentence with more tokens than `data.max_length` is read in parts, and its status says so.
        """
        found = [self.cut(line) for line in inputs]
        for words, tagged in zip(found, self._tag(model, found, None, batch), strict=True):
            yield self._prediction(words, *tagged)

    def _prediction(self, words: Sequence[str], coded: EncodedText, said: Tagged) -> Prediction:
        if not words:
            return Prediction(text="", status="empty")
        status = "cut" if len(coded.symbols) > self.config.data.max_length else "ok"
        if all(symbol == UNKNOWN for symbol in coded.symbols):
            status = "unknown"
        tags = self.tags.texts(said.values)
        return Prediction(
            text=" ".join(tags),
            status=status,
            score=float(said.chain.sum()),
            tokens=tags,
            log_probs=[] if self.real else said.log_probs.tolist(),
            source=list(words),
        )

    def _tag(
        self, model: Model, found: Sequence[Sequence[str]], tags: Sequence[Any] | None, size: int
    ) -> list[tuple[EncodedText, Tagged]]:
        """`_run` for sentences of any length."""
        coded = self.lexicon.sentences(found)
        longest = self.config.data.max_length
        parts = [code.windows(longest) if len(code.pieces) else [] for code in coded]
        given = None
        if tags is not None:
            sizes = [[len(part.pieces) for part in each] for each in parts]
            given = [part for pair in zip(tags, sizes, strict=True) for part in _split(*pair)]
        said = iter(self._run(model, [part for each in parts for part in each], given, size))
        joined = []
        for code, each in zip(coded, parts, strict=True):
            pieces = [Tagged(*[np.zeros(0)] * 4), *(next(said) for _ in each)]
            joined.append((code, Tagged(*map(np.concatenate, zip(*pieces, strict=True)))))
        return joined

    def references(self, part: files.Part) -> tuple[list[str], list[str]]:
        """Words and tags of a part, a sentence a line; blanks inside a word become “_”."""
        found = self._sentences(part)
        between = " " if self.config.unit == "words" else ""
        words = [between.join("_".join(w.split()) for w in each.words) for each in found]
        return words, [" ".join(each.tags) for each in found]

    def _sentences(self, part: files.Part) -> list[Sentence]:
        policy = Policy(broken=self.config.data.on_bad_line, empty="skip")
        return _chosen(self.config, part, policy, Report())

    def evaluate(
        self, model: Model, part: files.Part, search: Part, *, batch: int = 64
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """Accuracy over words, F₁ over spans (or classes), likelihood; or errors of numbers.

        A picture of what is taken for what is put into the run's folder.
        """
        found = self._sentences(part)
        words, true = [each.words for each in found], [each.tags for each in found]
        if all(tag == NO_TAG for row in true for tag in row):
            raise UserError(
                f"{part}: not one word has a tag that is known: there is nothing to score"
            )
        stored = [
            self.tags.stored(each.tags, f"{each.path}:{each.line}", self.config.labels.unseen)
            for each in found
        ]
        tagged = self._tag(model, words, stored, batch)
        outputs = [self._prediction(w, *each) for w, each in zip(words, tagged, strict=True)]
        said = [output.tokens for output in outputs]
        if self.real:
            pairs = label_metrics.known(said, true, NO_TAG)
            gaps = np.array([float(tag) - float(reference) for tag, reference in pairs])
            return label_metrics.errors(gaps), outputs
        scores = label_metrics.tags(said, true, self._names, NO_TAG)
        unseen = sum(tag not in (*self._names, NO_TAG) for row in true for tag in row)
        if any(map(any, stored)):
            nll = self._nll([each for _, each in tagged], stored)
            scores["nll"] = label_metrics.score("nll", nll, f"unseen:{unseen}", higher=False)
        self._draw(part, label_metrics.known(said, true, NO_TAG))
        return scores, outputs

    def _draw(self, part: str, pairs: list[tuple[str, str]]) -> None:
        names = sorted({name for pair in pairs for name in pair})
        if len(names) <= DRAWN:
            # A run that is only to be read can still be scored.
            with suppress(OSError):
                table = label_metrics.confusion(pairs, names)
                plots.matrix(table, names, self.folder / f"confusion-{part}.png")

    def score(
        self, model: Model, inputs: Sequence[str], outputs: Sequence[str], *, batch: int = 64
    ) -> Iterator[dict[str, Any]]:
        """log-probability (density, of numbers) of given tags, in order. “_” is not asked for, nor
        are tags that training never saw, where the recipe's rule is not to refuse them; where a
        sentence has nothing else there is nothing to score: None."""
        found = [self.cut(line) for line in inputs]
        tags = [line.split() for line in outputs]
        rows = []
        for n, (words, given) in enumerate(zip(found, tags, strict=True), 1):
            if len(words) != len(given):
                raise UserError(f"line {n}: {len(words)} words, but {len(given)} tags")
            rule = "wrong" if self.config.labels.unseen == "wrong" else "never"
            rows.append(self.tags.stored(given, f"line {n}", rule))
        for given, (_, said) in zip(tags, self._tag(model, found, rows, batch), strict=True):
            pairs = zip(said.given.tolist(), given, strict=True)
            chances = [chance for chance, tag in pairs if self.tags.knows(tag)]
            total = math.fsum(chances) if chances else None
            yield {
                "log_prob": total,
                "perplexity": None if total is None else math.exp(min(-total / len(chances), 700)),
                "tokens": given,
                "log_probs": chances,
            }


def _words(model: Model, batch: Batch) -> Float[Tensor, "B W D"]:
    """The state of each word's first symbol."""
    memory = model.encode(batch)
    assert memory is not None
    said, read = memory.states.shape[1], batch["source"].shape[1]
    if said != read:
        raise RecipeError(f"model.encoder: {said} positions for {read} tokens: no tag fits")
    places = batch["source_first"][..., None].expand(-1, -1, memory.states.shape[-1])
    return memory.states.gather(1, places)


def _split(row: Any, sizes: Sequence[int]) -> Iterator[Any]:
    start = 0
    for size in sizes:
        yield row[start : start + size]
        start += size
