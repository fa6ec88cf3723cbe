"""Classify: seq2vec. A label for each text, or any number of them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from regard import plots
from regard.data import batching, files, tokenizers
from regard.data.batching import Batches
from regard.data.labelled import HeldOut, Text, texts
from regard.data.labels import BASE, TRAINING, Labels
from regard.data.readers import Policy, Report
from regard.data.tokenizers import END, START, UNKNOWN
from regard.data.words import EncodedText, LabelledStore, Lexicon, collate
from regard.errors import RecipeError, UserError
from regard.metrics import Direction, Score, accuracy, labels as label_metrics, perplexity
from regard.metrics.labels import Judged
from regard.model import Model
from regard.recipe.config import Recipe
from regard.recipe.parts import Part
from regard.tasks import Prediction, check_head, check_positions
from regard.train import health
from regard.types import Batch, Carry, Terms

PARTS = {"input": "tokens", "encoder": "rnn", "head": "labels"}
SIDES = ("text", "label")
BLOCK = 2048
EDGES = 2
"""START and END stand around every text."""


@dataclass(frozen=True, kw_only=True)
class LabelConfig:
    """What labels are like."""

    kind: Literal["one", "several"] = "one"
    """Each text has one label, or any number of them, none included."""
    separator: str = ","
    """What stands between several labels of a text; in JSONL they are a list."""
    weights: Literal["none", "balanced"] = "none"
    """Whether rare labels count more in training: so much that all labels count the same."""
    unseen: Literal["refuse", "wrong"] = "refuse"
    """What to do with a label that training never saw: refuse it with its file and line, or count
    every prediction for its text as wrong (and leave it out of likelihoods)."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe for classification, beside the model and the trainer."""

    characters: bool = False
    """Whether words come with their characters, for inputs that read them."""
    data: files.Config
    """The texts. Columns are the label's and the text's, in this order."""
    held_out: HeldOut
    """What is kept from learning, where no files are named for it."""
    labels: LabelConfig
    """What labels are like."""
    tokenizer: tokenizers.Config
    """How text becomes tokens."""
    batch: batching.Config
    """How large a batch is."""


def metrics(config: Config) -> dict[str, Direction]:
    return {"nll": "lower", "accuracy": "higher", "f1": "higher"}


def check(recipe: Recipe) -> None:
    """Refuse what can be known to be wrong before any data is read."""
    config: Config = recipe.task
    if config.data.columns and len(config.data.columns) != 2:
        raise RecipeError(
            f"data.columns: the label's and the text's are wanted, not {len(config.data.columns)}"
        )
    config.held_out.check(config.data)
    if config.labels.kind == "several" and not config.labels.separator:
        raise RecipeError("labels.separator: several labels need one")
    check_parts(recipe, "labels")
    longest = config.data.max_length
    why = f"data.max_length = {longest} and the tokens at both ends ask"
    check_positions(recipe, "encoder", longest + EDGES, why)


def check_parts(recipe: Recipe, predicts: str) -> None:
    """The head must be for the task; characters that are read must be there."""
    check_head(recipe, predicts)
    reads = recipe.model.input
    spelt = reads.kind == "characters" or getattr(reads.config, "features", "words") != "words"
    if recipe.task.characters and recipe.task.tokenizer.kind != "word":
        raise RecipeError("characters: those of words need tokenizer.kind = 'word'")
    if spelt and not recipe.task.characters:
        raise RecipeError("model.input: to read characters, set characters = true")


def prepare(config: Config, folder: Path, given: Path | None = None) -> Report:
    """Read the data, train the tokenizer, write the stores: all of it into `folder`.

    Tokenizer and labels of the run `given` are taken instead, if it is there.
    """
    report = Report()
    learnt = list(_read(config, "train", config.data.policy, report))
    if not learnt:
        raise UserError("data.train: no text is left to learn from")
    if given is not None:
        lexicon, labels = Lexicon.load(given, config.tokenizer), Labels.load(given)
    else:
        lines = [text.text for text in learnt]
        lexicon = Lexicon.train(config.tokenizer, lines, spelling=config.characters)
        labels = Labels.count((label for text in learnt for label in text.labels), len(learnt))
    lexicon.save(folder)
    labels.save(folder)
    checked = Report()
    for part in ("train", "validation"):
        if config.held_out.has(config.data, part):
            train = part == "train"
            read = checked if config.data.validation else Report()  # of a share: with the rest
            chosen = learnt if train else _chosen(config, part, config.data.policy, read)
            # A label that is not among those of a given run cannot be learnt.
            unseen = "never" if train else config.labels.unseen
            known = [numbers(labels, text, unseen, BASE if given else TRAINING) for text in chosen]
            if all(-1 in row for row in known):
                who = "the run that is trained on" if given else "training"
                raise UserError(f"data.{part}: {who} saw the labels of none of its texts")
            rows = _encode(config, chosen, known, lexicon, report if train else checked)
            size = max(len(lexicon.symbols), len(labels) + 1)
            LabelledStore.write(folder / "store", part, size, rows)
    report.include(checked)
    report.used = len(LabelledStore(folder / "store", "train"))
    if not report.used:
        raise UserError(f"data.train: no text has at most {config.data.max_length} tokens")
    return report


def _read(config: Config, part: files.Part, policy: Policy, report: Report) -> Iterator[Text]:
    """The texts of a part: of its own files, or of its share of the training files."""
    data, held_out = config.data, config.held_out
    separator = config.labels.separator if config.labels.kind == "several" else ""
    paths = held_out.paths(data, part)
    for text in texts(paths, data.columns, policy, report, header=data.header, separator=separator):
        if held_out.holds(data, part, text.text):
            yield text


def _chosen(config: Config, part: files.Part, policy: Policy, report: Report) -> list[Text]:
    found = list(_read(config, part, policy, report))
    if not found:
        raise UserError(f"held_out.{part}: no text is drawn: take a larger share")
    return found


def _encode(
    config: Config,
    found: Sequence[Text],
    labels: Sequence[Sequence[int]],
    lexicon: Lexicon,
    report: Report,
) -> Iterator[tuple[EncodedText, list[int]]]:
    """Tokens and labels (from 1; 0 was never seen) of each text; too long as the recipe says."""
    data, stream = config.data, zip(found, labels, strict=True)
    while block := list(islice(stream, BLOCK)):
        coded = lexicon.texts([text.text for text, _ in block])
        for (text, known), code in zip(block, coded, strict=True):
            if data.admits(len(code.symbols), text.path, text.line, text.text, report):
                yield code.part(0, data.max_length), [n + 1 for n in known]


def numbers(labels: Labels, text: Text, unseen: str, by: str = TRAINING) -> list[int]:
    """A text's labels; −1 for one that training never saw, if `unseen` is the rule "wrong"."""
    if unseen == "wrong":
        return [labels.names.index(name) if name in labels.names else -1 for name in text.labels]
    hint = "; labels.unseen = 'wrong' counts it as wrong" if unseen == "refuse" else ""
    return [labels.number(name, f"{text.path}:{text.line}", hint, by) for name in text.labels]


class Task:
    """Classification whose tokenizer, labels and stores lie in a run's folder."""

    predict_options = frozenset[str]()
    evaluate_options = frozenset[str]()
    reads_files = False

    def __init__(self, config: Config, folder: Path) -> None:
        self.config, self.folder = config, folder
        self.lexicon, self.labels = Lexicon.load(folder, config.tokenizer), Labels.load(folder)
        self.source = self.lexicon.symbols
        self.sizes = self.lexicon.sizes("labels", len(self.labels), self.labels.hash)
        self.several = config.labels.kind == "several"
        self._weights = self._balance() if config.labels.weights == "balanced" else None

    def _balance(self) -> torch.Tensor:
        """w_c = N / (C n_c), a mean of 1 over all texts; for several (N − n_c) / n_c, yes : no."""
        counts = torch.tensor(self.labels.counts, dtype=torch.float32)
        if self.several:
            return (self.labels.texts - counts).clamp(min=1) / counts
        return counts.sum() / (len(counts) * counts)

    # Learning

    def batches(self, seed: int) -> Batches:
        store = self._labelled("train")
        lengths = store.lengths[:, None] + EDGES

        def make(ids: Sequence[int]) -> Batch:
            tensors = collate([store[n] for n in ids], start=[START], end=[END])
            tensors["labels"] = self._targets([store.labels(n) for n in ids])
            return Batch(tensors=tensors, ids=tuple(ids), targets=len(ids))

        return Batches(lengths, make, self.config.batch, seed)

    def _labelled(self, part: str) -> LabelledStore:
        """A part's texts; only the labels of others than training may be none that it saw."""
        known = range(part == "train" and not self.several, len(self.labels) + 1)
        each: Literal["text", "any"] = "any" if self.several else "text"
        longest = self.config.data.max_length
        return LabelledStore(self.folder / "store", part, self.lexicon, known, each, longest)

    def _targets(self, rows: Sequence[Any]) -> torch.Tensor:
        """Numbers (B), or for several truth values (B, C), from numbers that count from 1."""
        if not self.several:
            return torch.tensor([int(row[0]) - 1 for row in rows])
        truth = torch.zeros(len(rows), len(self.labels) + 1, dtype=torch.bool)
        for line, row in zip(truth, rows, strict=True):
            line[torch.as_tensor([int(n) for n in row], dtype=torch.long)] = True
        return truth[:, 1:]

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """−log p(label | text)."""
        memory = model.encode(batch)
        assert memory is not None
        head: Any = model.head
        weights = None if self._weights is None else self._weights.to(model.device)
        return head.loss(memory.states, batch["labels"], memory.mask, weights), None

    def _logits(
        self, model: Model, rows: Sequence[EncodedText], batch: int = 0
    ) -> NDArray[np.float64]:
        """Logits (N, C) of texts, each as if it stood alone."""
        model.eval()
        head: Any = model.head
        found = np.zeros((len(rows), len(self.labels)))
        lengths = np.array([[len(row.symbols) + EDGES] for row in rows], np.int64).reshape(-1, 1)
        budget = batching.Config(tokens=self.config.batch.tokens, sentences=batch)
        with torch.inference_mode():
            for ids in batching.plan(lengths, budget):
                tensors = collate([rows[n] for n in ids], start=[START], end=[END])
                made = Batch(tensors=tensors, ids=tuple(ids.tolist()), targets=len(ids))
                memory = model.encode(made.to(model.device))
                found[ids] = head.logits(head.pool(memory)).float().cpu().numpy()
        return found

    def validate(self, model: Model) -> dict[str, float]:
        if not self.config.held_out.has(self.config.data, "validation"):
            return {}
        judged = self._validation(model)
        said, true = (
            [self._names(row) for row in rows] for rows in (judged.chosen(), judged.truth)
        )
        figures = {
            "nll": judged.nll(),
            "accuracy": accuracy(said, [[row] for row in true]).value,
            "f1": label_metrics.f1(said, true, self.labels.names)["f1"].value,
        }
        return figures | health.shares(*([" ".join(row) for row in rows] for rows in (said, true)))

    def calibrate(self, model: Model) -> dict[str, float]:
        """Divide the logits by the temperature under which validation is likeliest."""
        if not self.config.held_out.has(self.config.data, "validation"):
            return {}
        judged = self._validation(model)
        factor = judged.temperature()
        head: Any = model.head
        with torch.no_grad():
            head.temperature.mul_(factor)
        after = replace(judged, logits=judged.logits / factor)
        figures = {"ece_before": judged.calibration_error(), "ece": after.calibration_error()}
        return {"temperature": float(head.temperature)} | figures

    def _validation(self, model: Model) -> Judged:
        store = self._labelled("validation")
        everything = range(len(store))
        truth = [[int(label) - 1 for label in store.labels(n)] for n in everything]
        return Judged(self._logits(model, [store[n] for n in everything]), truth, self.several)

    def _names(self, row: Sequence[int]) -> list[str]:
        """Names in order; of a label that training never saw, none that could be predicted."""
        return sorted(self.labels.names[n] if n >= 0 else "" for n in row)

    # Using what was learnt

    def predict(
        self,
        model: Model,
        inputs: Sequence[str],
        search: Part,
        *,
        batch: int = 64,
        first: int = 0,
    ) -> Iterator[Prediction]:
        """Exactly one output per input, in order: the label, or several between separators."""
        yield from self._outputs(model, inputs, batch)[1]

    def _outputs(
        self, model: Model, inputs: Sequence[str], batch: int
    ) -> tuple[NDArray[np.float64], list[Prediction]]:
        """Logits, NaN for an empty text, and predictions."""
        rows, longest = self.lexicon.texts(inputs), self.config.data.max_length
        full = [n for n, text in enumerate(inputs) if text.strip()]
        logits = np.full((len(rows), len(self.labels)), np.nan)
        logits[full] = self._logits(model, [rows[n].part(0, longest) for n in full], batch)
        outputs = [Prediction(text="", status="empty")] * len(rows)
        for n in full:
            status = "cut" if len(rows[n].symbols) > longest else "ok"
            if all(symbol == UNKNOWN for symbol in rows[n].symbols):
                status = "unknown"
            outputs[n] = self._prediction(rows[n], logits[n : n + 1], status)
        return logits, outputs

    def _prediction(self, row: EncodedText, logits: NDArray[np.float64], status: str) -> Prediction:
        judged = Judged(logits, [], self.several)
        [chosen], [chances] = judged.chosen(), judged.log_probs()
        names = [self.labels.names[n] for n in chosen]
        return Prediction(
            text=self.config.labels.separator.join(names),
            status=status,
            score=-replace(judged, truth=[chosen]).nll(),
            tokens=names,
            log_probs=chances[chosen].tolist(),
            source=self.source.pieces([int(symbol) for symbol in row.symbols]),
            probabilities=dict(zip(self.labels.names, np.exp(chances).tolist(), strict=True)),
        )

    def references(self, part: files.Part) -> tuple[list[str], list[str]]:
        """Texts and labels of a part, every line of it."""
        found = self._texts(part)
        separator = self.config.labels.separator
        return [text.text for text in found], [separator.join(text.labels) for text in found]

    def _texts(self, part: files.Part) -> list[Text]:
        policy = Policy(broken=self.config.data.on_bad_line, empty="keep")
        return _chosen(self.config, part, policy, Report())

    def evaluate(
        self, model: Model, part: files.Part, search: Part, *, batch: int = 64
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """Accuracy, F₁, likelihood and calibration on a part. Every line counts, empty ones as
        wrong. A picture of what is taken for what is put into the run's folder."""
        found = self._texts(part)
        truth = [numbers(self.labels, text, self.config.labels.unseen) for text in found]
        logits, outputs = self._outputs(model, [text.text for text in found], batch)
        said = [sorted(output.tokens) for output in outputs]
        true = [sorted(text.labels) for text in found]
        names = sorted({*self.labels.names, *(name for row in true for name in row)})
        scores = {"accuracy": accuracy(said, [[row] for row in true])}
        scores |= label_metrics.f1(said, true, names)
        full = [n for n, row in enumerate(logits) if not np.isnan(row).any()]
        if not self.several:
            del scores["f1.micro"]  # which is the accuracy
            pairs = [(outputs[n].text, true[n][0]) for n in full]
            # A run that is only to be read can still be scored.
            with suppress(OSError):
                table = label_metrics.confusion(pairs, names)
                plots.matrix(table, names, self.folder / f"confusion-{part}.png")
        judged = Judged(logits[full], [truth[n] for n in full], self.several)
        return scores | (judged.scores() if full else {}), outputs

    def score(
        self, model: Model, inputs: Sequence[str], outputs: Sequence[str], *, batch: int = 64
    ) -> Iterator[dict[str, Any]]:
        """log-probability of each given label (or set of labels), in order; None of one that
        training never saw, where the recipe's rule is not to refuse it."""
        longest, separator = self.config.data.max_length, self.config.labels.separator
        whole = self.lexicon.texts(inputs)
        logits = self._logits(model, [row.part(0, longest) for row in whole], batch)
        for n, text in enumerate(outputs):
            names = text.split(separator) if self.several else [text]
            given = [name.strip() for name in names if name.strip() or not self.several]
            nll = None
            if self.config.labels.unseen == "refuse" or {*given} <= {*self.labels.names}:
                truth = [self.labels.number(name, f"label {n + 1}") for name in given]
                nll = Judged(logits[n : n + 1], [truth], self.several).nll()
            yield {
                "log_prob": None if nll is None else -nll,
                "perplexity": None if nll is None else perplexity(nll),
                "status": "cut" if len(whole[n].symbols) > longest else "ok",
                "tokens": given,
                "log_probs": [] if nll is None else [-nll],
            }
