"""Translate: seq2seq, unaligned. Also spelling, pronunciation: anything that is text to text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from regard.data import batching, files, pairs, tokenizers
from regard.data.held_out import ByContent
from regard.data.readers import Policy, Report
from regard.data.tables import parallel
from regard.decoding.translation import Output, check_choices
from regard.errors import RecipeError, UserError
from regard.examples.preparation import Fields, Plan
from regard.examples.raw import Raw
from regard.fields import Example, text
from regard.metrics import Direction
from regard.metrics.text import Evaluation
from regard.recipe.config import Recipe, Room
from regard.recipe.parts import Part
from regard.tasks import check_head, check_positions, check_written, sizes_of
from regard.tasks._writing import WritingTask

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
    data = config.data
    for paths in pairs.sources(data.paths(part)):
        for line, pair in parallel(paths, data.columns or SIDES, policy, report, **data.layout):
            yield Example(paths, line, pair)


class Task(WritingTask):
    """A translation task whose tokenizers and stores lie in a run's folder."""

    said, usual_columns = "translation", {"source": "source", "target": "target"}

    config: Config

    def __init__(self, config: Config, folder: Path) -> None:
        super().__init__(config, folder, plan(config))
        shared = self.source.tokenizer.shares(self.target.tokenizer)
        if config.tokenizer.joint and not shared:
            both = " and ".join(str(folder / field.file) for field in self.fields.values())
            raise UserError(f"{both} are not the same, but tokenizer.joint = true")
        self.sizes = sizes_of(self.fields, *SIDES, shared=shared)
