"""Translate: seq2seq, unaligned. Also spelling, pronunciation: anything that is text to text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

import torch

from regard.data import batching, files, pairs, tokenizers
from regard.data.held_out import ByContent
from regard.data.readers import Policy, Report
from regard.data.tables import parallel
from regard.decoding.choices import Choices
from regard.decoding.translation import Output, Translator, check_choices
from regard.errors import RecipeError, UserError
from regard.examples.preparation import Fields, Plan, watched
from regard.examples.raw import Raw
from regard.fields import Example, text
from regard.inspect.reading import Reading
from regard.metrics import Direction, Score, perplexity
from regard.metrics.text import Evaluation
from regard.model import Model
from regard.recipe.config import Recipe, Room
from regard.recipe.parts import Part, module
from regard.tasks import (
    FolderTask,
    Prediction,
    check_head,
    check_positions,
    check_written,
    sizes_of,
)
from regard.train import health
from regard.types import Batch, Carry, Terms

PARTS = {
    "input": "tokens", "encoder": "transformer", "decoder": "transformer", "head": "vocabulary",
}  # fmt: skip
SIDES = pairs.SIDES


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe for translation, beside the model and the trainer."""

    data: files.Config
    """The text."""
    tokenizer: tokenizers.Config
    """How text becomes tokens."""
    held_out: ByContent
    """What is kept from learning, where no files are named for it: by its source, so that a source
    with several targets is in one part."""
    pairs: pairs.Config
    """Which way the pairs are learnt."""
    batch: batching.Config
    """How large a batch is."""
    search: Annotated[Part, Room("search", "beam")]
    """How an output is found."""
    output: Output
    """How long an output may become, or what it may be."""
    evaluation: Evaluation
    """How outputs are scored."""


def metrics(config: Config) -> dict[str, Direction]:
    return {"nll": "lower", "perplexity": "lower", **config.evaluation.watched}


def check(recipe: Recipe) -> None:
    """Refuse what can be known to be wrong before any data is read."""
    config: Config = recipe.task
    if config.data.columns and len(config.data.columns) != 2:
        raise RecipeError(f"data.columns: translation has 2 sides, not {len(config.data.columns)}")
    if recipe.model.tie == "all" and not config.tokenizer.joint:
        raise RecipeError(
            "model.tie: 'all' needs one vocabulary for both sides: "
            "set tokenizer.joint = true, or model.tie = 'output'"
        )
    if config.pairs.both_directions and not config.tokenizer.joint:
        raise RecipeError("pairs.both_directions: it needs one vocabulary: tokenizer.joint = true")
    check_head(recipe, "tokens")
    check_written(recipe)
    if recipe.train.metric in config.evaluation.watched and not config.evaluation.lines:
        raise RecipeError(f"train.metric: {recipe.train.metric!r} needs evaluation.lines > 0")
    several = config.search.kind == "beam" and config.search.config.nbest > 1
    if "nbest" in config.evaluation.metrics and not several:
        raise RecipeError("evaluation.metrics: 'nbest' needs a beam search with search.nbest > 1")
    config.held_out.check(config.data)
    if recipe.train.patience and not config.held_out.has(config.data, "validation"):
        raise RecipeError(
            "train.patience: it counts validations, but there are none: name data.validation, "
            "or set held_out.validation"
        )
    check_choices(config.output.choices != "", config.search)
    pairs.check_files(config.data)
    # A table of positions must be as long as what the data and the output's bound allow.
    longest, output = config.data.max_length, config.output
    written = int(output.factor * longest) + output.extra
    why = f"data.max_length = {longest} and the bounds in [output] ask"
    check_positions(recipe, "encoder", longest + 1, why)
    check_positions(recipe, "decoder", max(longest + 1, written), why)


@dataclass(frozen=True, kw_only=True)
class Pairs(Plan):
    """Both sides, and what may be written, if not any text may."""

    config: Config

    def finish(self, folder: Path, fields: Fields, raw: Mapping[str, Raw], report: Report) -> None:
        """Keep what may be written, and report which targets of the validation part may not be."""
        if listed := self.config.output.choices:
            path, by = self.data.path(listed, "output.choices"), fields["target"].tokenizer
            allowed = pairs.listed(path, by, self.data.max_length, report)
            pairs.write_choices(folder, allowed)
            answers = self.config.evaluation.answers
            pairs.report_missing(raw.get("validation", ()), allowed, by, answers, report)


def plan(config: Config) -> Pairs:
    """Sources and targets, one vocabulary for both, or one for each."""
    by, answers = config.tokenizer, config.evaluation.answers
    fields = {"source": text.Field("source", by), "target": text.Field("target", by, "written")}

    def answer(example: Example) -> Example:
        source, target = example.values
        return example._replace(values=(source, answers(target)[0]))

    def back(row: Any) -> list[Any]:
        return [{"source": row["target"], "target": row["source"]}]

    return Pairs(
        config=config,
        fields=fields,
        data=config.data,
        read=partial(_read, config),
        held_out=config.held_out,
        joint=SIDES if by.joint else (),
        answer=answer,
        also=back if config.pairs.both_directions else None,
        watched=config.evaluation.lines,
    )


def _read(config: Config, part: files.Part, policy: Policy, report: Report) -> Iterator[Example]:
    """The pairs of a part's files, which have a line for each; or a file for both."""
    data, paths = config.data, tuple(config.data.paths(part))
    for line, pair in parallel(paths, data.columns or SIDES, policy, report, **data.layout):
        yield Example(paths, line, pair)


class Task(FolderTask):
    """A translation task whose tokenizers and stores lie in a run's folder."""

    said, usual_columns = "translation", {"source": "source", "target": "target"}

    config: Config
    predict_options = frozenset({"prefixes", "align_tokens", "length", "finder"})
    evaluate_options = frozenset({"finder", "samples"})

    def __init__(self, config: Config, folder: Path) -> None:
        super().__init__(config, folder, plan(config))
        self.source, self.target = (self.fields[side] for side in SIDES)
        shared = self.source.tokenizer.shares(self.target.tokenizer)
        if config.tokenizer.joint and not shared:
            both = " and ".join(str(folder / field.file) for field in self.fields.values())
            raise UserError(f"{both} are not the same, but tokenizer.joint = true")
        self.sizes = sizes_of(self.fields, *SIDES, shared=shared)

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
            outputs = list(self.predict(model, sources, greedy))
            scores = self.grade(outputs, answers, list(self.config.evaluation.watched))
            figures |= {name: score.value for name, score in scores.items()}
            right = [texts[0] for texts in answers]
            figures |= health.shares([output.text for output in outputs], right, sources)
        return figures

    def _watched(self) -> tuple[list[str], list[list[str]]]:
        """The pairs of the validation part that are translated while training."""
        found = watched(self.folder, self.fields)
        if found is None:  # of a run that kept none
            examples = self.plan.examples("validation", Report())
            found = [each.values for each in examples][: self.config.evaluation.lines]
        answers = self.config.evaluation.answers
        return [source for source, _ in found], [answers(target) for _, target in found]

    def _likelihood(self, model: Model) -> dict[str, float]:
        batches = self._stored("validation").once(self.config.batch)
        with torch.inference_mode():
            terms = [self.loss(model, each.to(model.device))[0]["nll"] for each in batches]
        total, count = sum(float(term.sum) for term in terms), sum(term.count for term in terms)
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
        """Translate a part and score it. Every line counts: an empty side is kept, not skipped."""
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
        how = self.config.evaluation
        return [source for source, _ in read], [how.answers(target) for _, target in read]

    def grade(
        self,
        outputs: Sequence[Prediction],
        answers: Sequence[Sequence[str]],
        which: Sequence[str] | None = None,
        samples: int = 0,
    ) -> dict[str, Score]:
        """The recipe's scores, or others; with `samples`, bootstrap intervals."""
        texts = [[each["text"] for each in o.alternatives] or [o.text] for o in outputs]
        return self.config.evaluation.scores(texts, answers, which, samples)

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
