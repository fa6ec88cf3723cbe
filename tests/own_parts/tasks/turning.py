"""Turning: which way a path of points goes round; the label of a path, as a file has it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch

from regard.data import batching, files
from regard.data.batching import Batches
from regard.data.held_out import ByContent
from regard.data.readers import Policy, Report
from regard.data.tables import parallel
from regard.examples.preparation import Plan
from regard.examples.stored import Stored, collate
from regard.fields import Example, Row, labels
from regard.inspect import reading
from regard.inspect.reading import Reading
from regard.metrics import Direction, Score, accuracy, perplexity
from regard.model import Model
from regard.recipe.config import Recipe, Room
from regard.recipe.parts import Part
from regard.tasks import Prediction, check_head, chosen_field, parsed, parsed_cell, sizes_of
from regard.types import Batch, Carry, Terms

PARTS = {"input": "series", "encoder": "rnn", "head": "labels"}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe."""

    data: files.Config
    """The paths: points, then the label."""
    held_out: ByContent
    """What is kept from learning."""
    source: Annotated[Part, Room("fields", "points")]
    """What a path is."""
    labels: labels.Config
    """What labels are like."""
    batch: batching.Config
    """How large a batch is."""


def metrics(config: Config) -> dict[str, Direction]:
    return {"nll": "lower", "accuracy": "higher"}


def check(recipe: Recipe) -> None:
    check_head(recipe, "labels")


def plan(config: Config) -> Plan:
    source = chosen_field("source", config.source, config)
    fields = {"points": source, "label": labels.Field("labels", config.labels)}
    read = partial(_read, config, fields)
    return Plan(fields=fields, data=config.data, read=read, held_out=config.held_out)


def _read(
    config: Config, fields: Any, part: files.Part, policy: Policy, report: Report
) -> Iterator[Example]:
    paths = config.data.paths(part)
    for line, (points, label) in parallel(paths, ("points", "label"), policy, report):
        value = parsed_cell(fields["points"], points, paths[0], line, policy, report)
        if value is not None:
            yield Example((paths[0],), line, (value, fields["label"].parse(label)))


class Task:
    """Turning whose labels and stores lie in a run's folder."""

    predict_options = frozenset[str]()
    evaluate_options = frozenset[str]()
    reads_files = False

    def __init__(self, config: Config, folder: Path) -> None:
        self.config, self.folder, self.plan = config, folder, plan(config)
        self.fields = {side: field.load(folder) for side, field in self.plan.fields.items()}
        self.points, self.label = self.fields["points"], self.fields["label"]
        self.names = self.label.labels.names
        self.sizes = sizes_of(self.fields, "source", "labels")

    def batches(self, seed: int) -> Batches:
        return Stored(self.folder, "train", self.fields).batches(self.config.batch, seed)

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        memory = model.encode(batch)
        assert memory is not None
        return model.head.loss(memory.states, batch["labels"], memory.mask), None

    def _log_probs(self, model: Model, rows: Sequence[Row]) -> torch.Tensor:
        model.eval()
        head: Any = model.head
        with torch.inference_mode():
            batch = collate([self.points], rows, range(len(rows)))
            found: torch.Tensor = head.logits(head.pool(model.encode(batch.to(model.device))))
        return found.log_softmax(-1).cpu()

    def validate(self, model: Model) -> dict[str, float]:
        rows = Stored(self.folder, "validation", self.fields).rows()
        chances = self._log_probs(model, rows)
        truth = torch.tensor([self.label.truth(row)[0] for row in rows])
        nll = -chances.gather(1, truth[:, None]).mean()
        right = (chances.argmax(-1) == truth).float().mean()
        return {"nll": float(nll), "accuracy": 100 * float(right)}

    def predict(
        self, model: Model, inputs: Sequence[str], search: Part, *, batch: int = 64, first: int = 0
    ) -> Iterator[Prediction]:
        for text in inputs:
            if not text.strip():
                yield Prediction(text="", status="empty")
                continue
            row = self.points.encode(parsed(self.points, [text]))[0]
            [chances] = self._log_probs(model, [row])
            best = int(chances.argmax())
            yield Prediction(
                text=self.names[best],
                score=float(chances[best]),
                tokens=[self.names[best]],
                log_probs=[float(chances[best])],
                source=self.points.pieces(row),
                probabilities=dict(zip(self.names, chances.exp().tolist(), strict=True)),
            )

    def references(self, part: files.Part) -> tuple[list[str], list[str]]:
        found = [each.values for each in self.plan.whole(part, self.config.data.policy)]
        return [self.points.show(x) for x, _ in found], [self.label.show(y) for _, y in found]

    def evaluate(
        self, model: Model, part: files.Part, search: Part, *, batch: int = 64
    ) -> tuple[dict[str, Score], list[Prediction]]:
        inputs, true = self.references(part)
        outputs = list(self.predict(model, inputs, search))
        score = accuracy([[output.text] for output in outputs], [[[label]] for label in true])
        return {"accuracy": score}, outputs

    def score(
        self, model: Model, inputs: Sequence[str], outputs: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        rows = self.points.encode(parsed(self.points, inputs))
        for n, (chances, text) in enumerate(
            zip(self._log_probs(model, rows), outputs, strict=True)
        ):
            found = float(chances[self.label.labels.number(text, f"label {n + 1}")])
            yield {"log_prob": found, "perplexity": perplexity(-found), "log_probs": [found]}

    def look(
        self, model: Model, text: str, search: Part, target: str | None, length: int
    ) -> Reading:
        row = self.points.encode(parsed(self.points, [text]))[0]
        batch = collate([self.points], [row], [0]).to(model.device)
        given = None if target is None else [self.label.labels.number(target, "inspect")]
        return reading.labelled(
            model,
            batch,
            text,
            self.names,
            given,
            source=self.points.positions(row),
            source_words=self.points.groups(row),
        )
