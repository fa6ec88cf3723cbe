"""What tasks share that write texts, whatever they read: translate, transcribe, caption."""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data import files, pairs
from regard.data.readers import Policy, Report
from regard.data.tables import parallel
from regard.decoding.choices import Choices
from regard.decoding.shared_work import shared, shared_rows
from regard.decoding.translation import Translator
from regard.errors import RecipeError
from regard.examples.preparation import Plan, watched
from regard.fields import Example, Field, text
from regard.inspect.reading import Reading
from regard.metrics import Score, perplexity
from regard.model import Model
from regard.recipe.config import Recipe
from regard.recipe.parts import Part, module
from regard.tasks import (
    FolderTask,
    Prediction,
    check_positions,
    check_written,
    chosen_field,
    parsed_cell,
    sizes_of,
)
from regard.train import health
from regard.types import Batch, Carry, Terms


def check_described(recipe: Recipe, what: str) -> None:
    """Refuse what cannot be learnt of files, such as sounds, with a text each."""
    config, model = recipe.task, recipe.model
    chosen_field("source", config.source, config)  # refuses what is not for it
    if config.data.columns and len(config.data.columns) != 2:
        raise RecipeError(
            f"data.columns: the {what}'s and the text's are wanted, not {len(config.data.columns)}"
        )
    if model.decoder is not None and model.tie == "all":
        raise RecipeError("model.tie: 'all' is for texts that are read; set 'output' or 'none'")
    check_written(recipe, stepwise=False)
    config.held_out.check(config.data)
    pairs.check_files(config.data)
    if recipe.train.metric in config.evaluation.watched and not config.evaluation.lines:
        raise RecipeError(f"train.metric: {recipe.train.metric!r} needs evaluation.lines > 0")
    if model.decoder is not None:
        longest, why = config.data.max_length, "data.max_length asks"
        check_positions(recipe, "decoder", longest + 1, why)


def described(config: Any) -> Plan:
    """Files, such as sounds, and a text for each: the rows of tables."""
    source = chosen_field("source", config.source, config)
    answers = config.evaluation.answers

    def answer(example: Example) -> Example:
        value, said = example.values
        return example._replace(values=(value, answers(said)[0]))

    written = text.Field("target", config.tokenizer, "written")
    return Plan(
        fields={source.column: source, "text": written},
        data=config.data,
        read=partial(read_pairs, config.data, (source, written)),
        held_out=config.held_out,
        answer=answer,
        watched=config.evaluation.lines,
    )


def read_pairs(
    data: files.Config,
    fields: tuple[Field, Field],
    part: files.Part,
    policy: Policy,
    report: Report,
) -> Iterator[Example]:
    """The rows of a part's files, which are tables, or have a line for each value."""
    columns = columns_of(data, fields)
    held = frozenset(n for n, field in enumerate(fields) if field.on_disk)
    how = {"held": held, **data.layout}
    for paths in pairs.sources(data.paths(part)):
        for line, cells in parallel(paths, columns, policy, report, **how):
            values = tuple(
                parsed_cell(field, cell, paths[0], line, policy, report)
                for field, cell in zip(fields, cells, strict=True)
            )
            if None not in values:
                yield Example(paths, line, values)


def columns_of(data: files.Config, fields: tuple[Field, Field]) -> tuple[str | int, ...]:
    """What the columns of two fields are called: as they are, or source and target if both are of
    one kind."""
    usual = tuple(field.column for field in fields)
    return data.columns or (pairs.SIDES if usual[0] == usual[1] else usual)


class WritingTask(FolderTask):
    """A task with two fields, what is read and the text that is written; its recipe has the
    sections data, tokenizer, batch, search, output and evaluation."""

    predict_options = frozenset({"prefixes", "align_tokens", "length", "finder"})
    evaluate_options = frozenset({"finder", "samples"})

    def __init__(self, config: Any, folder: Path, plan: Plan) -> None:
        super().__init__(config, folder, plan)
        self.source, self.target = self.fields.values()

    @cached_property
    def translator(self) -> Translator:
        """What is asked of a search; the recipe's own choices are read when they are needed."""
        bound = self.config.output.choices
        return self._bound(
            self.make_choices(self.folder / pairs.CHOICES, Report()) if bound else None
        )

    def _bound(self, choices: Choices | None) -> Translator:
        output, longest = self.config.output, self.config.data.max_length
        return Translator(self.source, self.target, output, longest, choices)

    def make_choices(self, source: Path | Sequence[str], report: Report) -> Choices:
        """Choices of texts, or of a file's; what cannot be written is reported and left out."""
        by = self.target.tokenizer
        texts = pairs.listed(source, by, self.config.data.max_length, report)
        return Choices(list(texts.values()), by.end, len(by))

    def restrict(self, choices: Choices | None) -> None:
        self.translator = self._bound(choices)

    def restricted(self) -> bool:
        return self.translator.choices is not None

    # Learning

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """−log p(y | x), the true beginning of y being given at each place."""
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
        return model.head.loss(hidden, batch["target_out"], batch["target_mask"]), None

    def validate(self, model: Model) -> dict[str, float]:
        if not self.plan.has("validation"):
            return {}
        figures = self._likelihood(model)
        if self.config.evaluation.lines:
            sources, answers = self._watched()
            greedy = Part("greedy", module("search", "greedy").Config())

            def predicted(some: Sequence[str]) -> list[str]:
                return [each.text for each in self.predict(model, some, greedy)]

            outputs = [Prediction(text=text) for text in shared_rows(sources, predicted)]
            scores = self.grade(outputs, answers, list(self.config.evaluation.watched))
            figures |= {name: score.value for name, score in scores.items()}
            right = [texts[0] for texts in answers]
            figures |= health.shares([output.text for output in outputs], right, sources)
        return figures

    def _watched(self) -> tuple[list[str], list[list[str]]]:
        """The pairs of the validation part that are predicted while training."""
        found = watched(self.folder, self.fields)
        if found is None:  # of a run that kept none
            examples = self.plan.examples("validation", Report())
            found = [each.values for each in examples][: self.config.evaluation.lines]
        answers, show = self.config.evaluation.answers, self.source.show
        return [show(source) for source, _ in found], [answers(target) for _, target in found]

    def _likelihood(self, model: Model) -> dict[str, float]:
        stored = self._stored("validation")

        def nll(ids: NDArray[np.int64]) -> tuple[float, int]:
            term = self.loss(model, stored.batch(ids.tolist()).to(model.device))[0]["nll"]
            return float(term.sum), term.count

        with torch.inference_mode():
            found = shared(stored.planned(self.config.batch), nll)
        total, count = (sum(column) for column in zip(*found, strict=True))
        return {"nll": total / max(1, count), "perplexity": perplexity(total / max(1, count))}

    # Using what was learnt

    def predict(
        self, model: Model, inputs: Sequence[str], search: Part, **options: Any
    ) -> Iterator[Prediction]:
        """Exactly one output per input, in order; options are those of `Translator.predict`."""
        return self.translator.predict(model, inputs, search, **options)

    def evaluate(
        self, model: Model, part: files.Part, search: Part, *, samples: int = 0, **options: Any
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """Predict a part and score it. Every line counts: an empty side is kept, not skipped."""
        sources, answers = self.alternatives(part)
        outputs = list(self.predict(model, sources, search, **options))
        scores = self.grade(outputs, answers, samples=samples)
        if self.config.evaluation.unseen:
            scores |= self._apart(outputs, answers, samples)
        return scores, outputs

    def references(self, part: files.Part) -> tuple[list[str], list[str]]:
        """Both sides of a part, every line of it; of several right answers the first."""
        sources, answers = self.alternatives(part)
        return sources, [texts[0] for texts in answers]

    def alternatives(self, part: files.Part) -> tuple[list[str], list[list[str]]]:
        """Every source of a part, and all the answers that are right for it: as many as lines."""
        strict = self.config.data.on_bad_line == "refuse"
        policy = Policy(broken="refuse" if strict else "keep", empty="keep")
        read = [each.values for each in self.plan.whole(part, policy)]
        how, show = self.config.evaluation, self.source.show
        return [show(source) for source, _ in read], [how.answers(target) for _, target in read]

    def grade(
        self,
        outputs: Sequence[Prediction],
        answers: Sequence[Sequence[str]],
        which: Sequence[str] | None = None,
        samples: int = 0,
    ) -> dict[str, Score]:
        """The recipe's scores, or others; with `samples`, bootstrap intervals."""
        texts = [[each["text"] for each in o.alternatives] or [o.text] for o in outputs]
        found: dict[str, Score] = self.config.evaluation.scores(texts, answers, which, samples)
        return found

    def _apart(
        self, outputs: Sequence[Prediction], answers: Sequence[Sequence[str]], samples: int
    ) -> dict[str, Score]:
        """Scores of the lines of which training has an answer as a target, and of the others."""
        known = {each.values[1] for each in self.plan.examples("train", Report())}
        lines: dict[str, list[int]] = {"seen": [], "unseen": []}
        for n, texts in enumerate(answers):
            lines["unseen" if known.isdisjoint(texts) else "seen"].append(n)
        found = dict[str, Score]()
        for group, ids in lines.items():
            chosen = [outputs[n] for n in ids], [answers[n] for n in ids]
            some = self.grade(*chosen, samples=samples) if ids else {}
            found |= {f"{name}.{group}": score for name, score in some.items()}
        return found

    def score(
        self, model: Model, inputs: Sequence[str], outputs: Sequence[str], *, batch: int = 64
    ) -> Iterator[dict[str, Any]]:
        return self.translator.score(model, inputs, outputs, batch)

    def look(
        self, model: Model, text: str, search: Part, target: str | None, length: int
    ) -> Reading:
        return self.translator.look(model, text, search, target)


class DescribingTask(WritingTask):
    """One whose inputs are files; their columns and the text's are called as their fields are."""

    said = "text"

    def __init__(self, config: Any, folder: Path) -> None:
        super().__init__(config, folder, described(config))
        self.usual_columns = {side: side for side in self.fields}
        self.sizes = sizes_of(self.fields, "source", "target")
