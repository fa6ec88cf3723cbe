"""Classify: seq2vec. A label for each text, or any number of them; or for whatever else is read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard import plots
from regard.data import batching, files, pairs, tokenizers
from regard.data.held_out import ByLabel
from regard.data.readers import Policy, Report
from regard.decoding import pooled
from regard.decoding.prediction import scored
from regard.decoding.shared_work import shared_batches
from regard.errors import RecipeError
from regard.examples.preparation import Plan
from regard.examples.stored import Rows, collate
from regard.fields import Example, labels
from regard.heads.labels import mixed
from regard.inspect import reading
from regard.metrics import Direction, Score, accuracy, labels as label_metrics
from regard.metrics.labels import Judged
from regard.model import Model
from regard.recipe.config import Recipe, Room
from regard.recipe.parts import Part
from regard.tasks import (
    FolderTask,
    Prediction,
    check_counting,
    check_head,
    check_read_positions,
    check_spelling,
    chosen_field,
    parsed,
    parsed_cell,
    read_positions,
    readable,
    sizes_of,
)
from regard.train import health
from regard.types import Batch, Carry, Terms

PARTS = {"input": "tokens", "encoder": "rnn", "head": "labels"}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe for classification, beside the model and the trainer."""

    characters: bool = False
    """Whether words come with their characters, for inputs that read them."""
    data: files.Config
    """The texts. Columns are the label's and the text's, in this order."""
    source: Annotated[Part, Room("fields", "text")]
    """What has labels: text, or another kind of field."""
    held_out: ByLabel
    """What is kept from learning, where no files are named for it."""
    labels: labels.Config
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
    if (columns := len(config.data.columns)) not in (0, 2):
        raise RecipeError(f"data.columns: the label's and the text's are wanted, not {columns}")
    config.held_out.check(config.data)
    config.data.sources(pairs.width(config.data.train))
    check_head(recipe, "labels")
    check_counting(recipe, config.labels.kind)
    check_spelling(recipe)
    source = chosen_field("source", config.source, config, 1, mixes=config.labels.kind == "one")
    longest = config.data.max_length
    why = f"data.max_length = {longest} and the tokens at both ends ask"
    check_read_positions(recipe, source, longest + 2, why)


def plan(config: Config) -> Plan:
    """Texts (or what else has labels) and labels, as a table has them."""
    source = chosen_field("source", config.source, config, 1, mixes=config.labels.kind == "one")
    fields = {source.column: source, "label": labels.Field("labels", config.labels)}
    read = partial(_read, config, source)
    return Plan(fields=fields, data=config.data, read=read, held_out=config.held_out)


def _read(
    config: Config, source: Any, part: files.Part, policy: Policy, report: Report
) -> Iterator[Example]:
    """The examples of a part's own files."""
    paths, how = config.data.paths(part), {"separator": config.labels.between, **config.data.layout}
    for some in [paths] if source.on_disk else pairs.sources(paths):
        for row in source.labelled(some, config.data.columns, policy, report, **how):
            value = parsed_cell(source, row.value, row.path, row.line, policy, report)
            if value is not None:
                yield Example((row.path,), row.line, (value, row.labels))


class Task(FolderTask):
    """Classification whose tokenizer, labels and stores lie in a run's folder."""

    said = "label"

    def __init__(self, config: Config, folder: Path) -> None:
        super().__init__(config, folder, plan(config))
        self.source, self.target = self.fields.values()
        self.names: tuple[str, ...] = self.target.labels.names
        self.usual_columns = {"label": "label", self.source.column: self.source.column}
        self.several = config.labels.kind == "several"
        self.sizes = sizes_of(self.fields, "source", "labels")
        balanced = config.labels.weights == "balanced"
        self._weights = self.target.labels.weights(self.several) if balanced else None

    # Learning

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """−log p(label | text)."""
        memory = pooled.memory(model, batch)
        head: Any = model.head
        by = None if self._weights is None else torch.tensor(self._weights, device=model.device)
        return head.loss(memory.states, self._targets(batch), memory.mask, by), None

    def _targets(self, batch: Batch) -> torch.Tensor:
        """Labels; where pictures are mixed, the probabilities of both labels."""
        truth, count = batch["labels"], len(self.names)
        share = batch.tensors.get(f"{self.source.name}_share")
        return truth if share is None else mixed(truth, batch["labels_other"], share, count)

    def _logits(self, model: Model, rows: Rows, batch: int = 0) -> NDArray[np.float64]:
        """Logits (N, C) of texts, each as if it stood alone."""
        model.eval()
        head: Any = model.head
        sizes = [self.source.length(row) for row in rows]
        budget = batching.Config(tokens=self.config.batch.tokens, sentences=batch)

        def each(ids: list[int]) -> Any:
            made = collate([self.source], [rows[n] for n in ids], ids)
            memory = model.encode(made.to(model.device))
            return head.logits(head.pool(memory)).float().cpu().numpy()

        with torch.inference_mode():
            plan = batching.plan(np.array(sizes, np.int64)[:, None], budget)
            return np.array(shared_batches(plan, each), np.float64).reshape(-1, len(self.names))

    def validate(self, model: Model) -> dict[str, float]:
        if not self.plan.has("validation"):
            return {}
        judged = self._validation(model)
        said, true = ([*map(self._names, rows)] for rows in (judged.chosen(), judged.truth))
        figures = {
            "nll": judged.nll(),
            "accuracy": accuracy(said, [[row] for row in true]).value,
            "f1": label_metrics.f1(said, true, self.names)["f1"].value,
        }
        return figures | health.shares(*([" ".join(row) for row in rows] for rows in (said, true)))

    def calibrate(self, model: Model) -> dict[str, float]:
        """Divide the logits by the temperature under which validation is likeliest."""
        if not self.plan.has("validation"):
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
        rows = self._stored("validation").store  # read as they are asked for
        return Judged(self._logits(model, rows), list(map(self.target.truth, rows)), self.several)

    def _names(self, row: Sequence[int]) -> list[str]:
        """Names in order; of a label that training never saw, none that could be predicted."""
        return sorted(self.names[n] if n >= 0 else "" for n in row)

    # Using what was learnt

    def predict(
        self, model: Model, inputs: Sequence[str], search: Part, *, batch: int = 64, first: int = 0
    ) -> Iterator[Prediction]:
        """Exactly one output per input, in order: the label, or several between separators."""
        yield from self._outputs(model, inputs, batch, first)[1]

    def _outputs(
        self, model: Model, inputs: Sequence[str], batch: int, first: int = 0
    ) -> tuple[NDArray[np.float64], list[Prediction]]:
        """Logits, NaN for an empty text, and predictions."""
        longest, full = self.config.data.max_length, [n for n, x in enumerate(inputs) if x.strip()]
        logits = np.full((len(inputs), len(self.names)), np.nan)
        outputs = [Prediction(text="", status="empty")] * len(inputs)
        most = max(batch, self.source.together)
        for chunk in (full[n : n + most] for n in range(0, len(full), most)):
            rows, problems = readable(self.source, inputs, chunk, first)
            cut = [self.source.cut(row, longest) for row in rows.values()]
            logits[[*rows]] = self._logits(model, cut, batch)
            for n, row in rows.items():
                status = self.source.status(row, longest)
                pieces = [inputs[n]] if self.source.on_disk else self.source.pieces(row)
                outputs[n] = self._prediction(pieces, logits[n : n + 1], status)
            for n, problem in problems.items():
                outputs[n] = Prediction(text="", status="broken", problem=problem)
        return logits, outputs

    def _prediction(
        self, pieces: list[str], logits: NDArray[np.float64], status: str
    ) -> Prediction:
        judged = Judged(logits, [], self.several)
        [chosen], [chances] = judged.chosen(), judged.log_probs()
        names = [self.names[n] for n in chosen]
        return Prediction(
            text=self.target.show(names),
            status=status,
            score=-replace(judged, truth=[chosen]).nll(),
            tokens=names,
            log_probs=chances[chosen].tolist(),
            source=pieces,
            probabilities=dict(zip(self.names, np.exp(chances).tolist(), strict=True)),
        )

    def references(self, part: files.Part) -> tuple[list[str], list[str]]:
        """Texts and labels of a part, every line of it."""
        found = [each.values for each in self._examples(part)]
        return [self.source.show(x) for x, _ in found], [self.target.show(y) for _, y in found]

    def _examples(self, part: files.Part) -> list[Example]:
        return self.plan.whole(part, Policy(broken=self.config.data.on_bad_line, empty="keep"))

    def evaluate(
        self, model: Model, part: files.Part, search: Part, *, batch: int = 64
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """Accuracy, F₁, likelihood and calibration on a part. Every line counts, empty ones as
        wrong. A picture of what is taken for what is put into the run's folder."""
        found = self._examples(part)
        truth = [self.target.numbers(each.values[1], each.place) for each in found]
        inputs = [self.source.show(each.values[0]) for each in found]
        logits, outputs = self._outputs(model, inputs, batch)
        said = [sorted(output.tokens) for output in outputs]
        true = [sorted(each.values[1]) for each in found]
        names = sorted({*self.names, *(name for row in true for name in row)})
        scores = {"accuracy": accuracy(said, [[row] for row in true])}
        scores |= label_metrics.f1(said, true, names)
        full = [n for n, row in enumerate(logits) if not np.isnan(row).any()]
        if not self.several:
            del scores["f1.micro"]  # which is the accuracy
            matches = [(outputs[n].text, true[n][0]) for n in full]
            plots.confusion(matches, names, self.folder / f"confusion-{part}.png")
        judged = Judged(logits[full], [truth[n] for n in full], self.several)
        return scores | (judged.scores() if full else {}), outputs

    def score(
        self, model: Model, inputs: Sequence[str], outputs: Sequence[str], *, batch: int = 64
    ) -> Iterator[dict[str, Any]]:
        """log-probability of each given label (or set of labels), in order; None of one that
        training never saw, where the recipe's rule is not to refuse it."""
        longest = self.config.data.max_length
        whole = self.source.encode(parsed(self.source, inputs))
        logits = self._logits(model, [self.source.cut(row, longest) for row in whole], batch)
        for n, text in enumerate(outputs):
            given, log_probs = self.target.parse(text), list[float]()
            if self.config.labels.unseen == "refuse" or {*given} <= {*self.names}:
                truth = self.target.numbers_of(text, f"label {n + 1}")
                log_probs = [-Judged(logits[n : n + 1], [truth], self.several).nll()]
            status = "cut" if self.source.status(whole[n], longest) == "cut" else "ok"
            yield scored(log_probs, status=status, tokens=list(given))

    def look(
        self, model: Model, text: str, search: Part, target: str | None, length: int
    ) -> reading.Reading:
        """One label, or those of several that are likelier than not (the likeliest, if none is)."""
        whole = self.source.encode(parsed(self.source, [text]))[0]
        row = self.source.cut(whole, self.config.data.max_length)
        batch = collate([self.source], [row], [0]).to(model.device)
        given = None if target is None else self.target.numbers_of(target, "inspect")
        source, words = read_positions(model, self.source, row, batch)
        found = reading.labelled(
            model,
            batch,
            text,
            self.names,
            given,
            several=self.several,
            separator=self.config.labels.separator,
            source=source,
            source_words=words,
        )
        return replace(found, picture=self.source.as_png(row), sound=self.source.played(row))
