"""What is learnt from what: the data's form, the loss, the prediction and its score."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from regard.data.readers import Report
from regard.decoding.columns import InTables, Tabular as Tabular
from regard.decoding.inputs import (
    parsed as parsed,
    parsed_cell as parsed_cell,
    read_positions as read_positions,
    readable as readable,
)
from regard.decoding.prediction import Prediction as Prediction
from regard.errors import RecipeError, UserError
from regard.examples.preparation import Fields, Plan
from regard.examples.stored import Stored
from regard.examples.streamed import Streamed
from regard.fields import Example, Field
from regard.inspect.reading import Reading
from regard.metrics import Direction, Score
from regard.model import Model
from regard.recipe.config import Recipe
from regard.recipe.parts import Part, module
from regard.recipe.values import shown
from regard.tasks._checks import (
    check_counting as check_counting,
    check_head as check_head,
    check_positions as check_positions,
    check_read_positions as check_read_positions,
    check_search as check_search,
    check_spelling as check_spelling,
    check_written as check_written,
)
from regard.types import Batch, Batches, Carry, Sizes, Terms

SURROGATES = re.compile("[\ud800-\udfff]")


@runtime_checkable
class Task(Protocol):
    """All that a task must have.

    Its module has also `Config`, `PARTS` (the model's, with their default kinds), `metrics` (what
    validation reports, and which values are the better ones), `check` (of a recipe, before any
    data is read) and `plan` (which fields the examples have, and how they come from files into
    the store). What not every task can do is declared by the options and by the small protocols
    that follow.
    """

    sizes: Sizes
    fields: Fields
    """By the names that a user knows them by: inputs if there are any, then outputs."""
    predict_options: ClassVar[frozenset[str]]
    """What `predict` takes beside `batch` and `first`: prefixes, length, stop, finder, …"""
    evaluate_options: ClassVar[frozenset[str]]
    """What `evaluate` takes beside `batch`: samples, finder."""
    reads_files: ClassVar[bool]
    """Whether an input is a whole file, and not a line of one."""

    def batches(self, seed: int) -> Batches:
        """The training stream."""
        ...

    def loss(self, model: Model, batch: Batch, carry: Carry) -> tuple[Terms, Carry]:
        """Loss terms of a batch."""
        ...

    def validate(self, model: Model) -> dict[str, float]:
        """Figures on the validation part."""
        ...

    def predict(
        self, model: Model, inputs: Sequence[str], search: Part, **options: Any
    ) -> Iterator[Prediction]:
        """Exactly one output per input, in order. Its keywords are the options that there are."""
        ...

    def evaluate(
        self, model: Model, part: str, search: Part, **options: Any
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """Scores with their signatures, and what was predicted for it, if anything was."""
        ...

    def references(self, part: Any) -> tuple[list[str], ...]:
        """Each of the fields of a part, every value of it as it is shown."""
        ...

    def score(self, model: Model, *sides: Sequence[str]) -> Iterator[dict[str, Any]]:
        """log-probability and perplexity of each given output, and what else tells its worth; None
        for an output of which nothing can be scored."""
        ...


class FolderTask(InTables):
    """What tasks share whose fields and stores lie in a run's folder."""

    predict_options = frozenset[str]()
    evaluate_options = frozenset[str]()
    reads_files = False

    def __init__(self, config: Any, folder: Path, plan: Plan) -> None:
        self.config, self.folder, self.plan = config, folder, plan
        self.fields = {side: field.load(folder) for side, field in plan.fields.items()}

    def batches(self, seed: int) -> Batches:
        return self._learnt_from().batches(self.config.batch, seed, data=self.config.data)

    def _learnt_from(self) -> Stored | Streamed:
        """The rows of the training part: stored, or read from their files."""
        if not self.config.data.streaming:
            return self._stored("train")
        return Streamed(folder=self.folder, plan=self.plan, fields=self.fields, source=self._source)

    def _source(self, number: int, width: int) -> Iterator[Example]:
        """The examples of one source of the training part."""
        names = self.config.data.train[number * width : (number + 1) * width]
        plan = alone(sys.modules[type(self).__module__].plan, self.config, names)
        return iter(plan.read("train", plan.policy, Report()))

    def _stored(self, part: str) -> Stored:
        return Stored(self.folder, part, self.fields, self.config.data.max_length)


def alone(plan: Callable[[Any], Plan], config: Any, names: tuple[str, ...]) -> Plan:
    """What a task plans for some of its training files."""
    return plan(replace(config, data=replace(config.data, train=names)))


@runtime_checkable
class Searches(Protocol):
    """The Config of a task that writes: a section says how outputs are found."""

    search: Part


@runtime_checkable
class Tokenizes(Protocol):
    """The Config of a task of texts: a section says how they are cut into tokens."""

    tokenizer: Any


@runtime_checkable
class Looks(Protocol):
    """A task whose model can be looked into."""

    def look(
        self, model: Model, text: str, search: Part, target: str | None, length: int
    ) -> Reading:
        """One input as the model reads it, and what it makes of it, or `target` in its place; of
        at most `length` tokens, where that is not given by the input."""
        ...


@runtime_checkable
class Calibrates(Protocol):
    """A task that decides something last, by validation."""

    def calibrate(self, model: Model) -> dict[str, float]:
        """Change the model; the figures before and after."""
        ...


@runtime_checkable
class Windowed(Protocol):
    """A task that scores windows of a series, which share steps with those beside them."""

    def by_window(self, model: Model, part: str) -> tuple[dict[str, Any], int]: ...


@runtime_checkable
class Carries(Protocol):
    """A task whose batches hand something on to the next."""

    def carried(self, model: Model) -> dict[str, tuple[int, ...]]:
        """Its shapes, by name."""
        ...


@runtime_checkable
class Grades(Protocol):
    """A task that writes texts, each of which can have several right answers."""

    def alternatives(self, part: Any) -> tuple[list[str], list[list[str]]]:
        """Every input of a part, and all that is right for it."""
        ...

    def grade(
        self,
        outputs: Sequence[Prediction],
        answers: Sequence[Sequence[str]],
        which: Sequence[str] | None = None,
        samples: int = 0,
    ) -> dict[str, Score]:
        """Scores of outputs; with `samples`, they have bootstrap intervals."""
        ...


@runtime_checkable
class Chooses(Protocol):
    """A task that can write one of given texts alone."""

    def make_choices(self, source: Path | Sequence[str], report: Report) -> Any:
        """These texts, or those of a file."""
        ...

    def restrict(self, choices: Any | None) -> None:
        """Write one of these from now on, instead of the recipe's own; None: any text."""
        ...

    def restricted(self) -> bool:
        """Whether not any text may be written."""
        ...


@runtime_checkable
class Continues(Protocol):
    """A task whose model reads what it has said itself."""

    def window(self, model: Model) -> int | None:
        """How many tokens it can hold; None if it hands on all that it has read."""
        ...

    def continuer(self, model: Model) -> Any: ...  # decoding.continuation.Continuer

    def symbols(self, part: Any) -> list[list[int]]:
        """What it reads of each text of a part."""
        ...


@runtime_checkable
class Examines(Protocol):
    """The module of a task that has something to say of data and model together."""

    def examine(self, recipe: Recipe, plan: Any, parts: Any) -> Iterator[Any]:
        """Findings (the doctor asks)."""
        ...


@runtime_checkable
class Fuses(Protocol):
    """A task whose search may ask a language model how a text goes on."""

    def fuse(self, follow: Any | None) -> None:  # search.ctc.Follow
        """Ask this one from now on; None: no one."""
        ...

    target: Any
    """The field that is written."""


def sizes_of(fields: Fields, reads: str = "", writes: str = "", shared: bool = False) -> Sizes:
    """What a model must know of the fields of a task that have learnt from data."""
    known = {field.name: field for field in fields.values()}
    sizes = {name: field.size for name, field in known.items()}
    hashes = {name: field.vocabulary for name, field in known.items()}
    return Sizes(sizes, reads, writes, shared, hashes)


def chosen_field(
    name: str, part: Part, task: Any, column: int = 0, *, mixes: bool = False
) -> Field:
    """What a task reads, where a section of the recipe chooses it; `column` says which of
    data.columns is its own. Mixed pictures want what is predicted to be mixed, too (`mixes`)."""
    made: Field = module("fields", part.kind).Field.of(name, part.config, task)
    if made.mixed and not mixes:
        raise RecipeError(
            f"{name}.augment.mixup: it mixes labels, too, so it is for classify with "
            "labels.kind = 'one' alone: leave it out, or set it to 0"
        )
    columns = task.data.columns
    return made.in_column(str(columns[column])) if columns else made


def check_texts(name: str, texts: Sequence[Any]) -> None:
    """Refuse what is no text: only Python can hold it, no file and no tokenizer."""
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise UserError(f"{name}[{number}]: {shown(text)} is not a text")
        if not text.isascii() and (found := SURROGATES.search(text)):
            what = f"{found[0]!r}, which is half of a character"
            raise UserError(f"{name}[{number}]: {shown(text)} has {what}")


def metrics(recipe: Recipe) -> dict[str, Direction]:
    """The figures that validation reports, and which values of each are the better ones."""
    found: dict[str, Direction] = module("tasks", recipe.kind).metrics(recipe.task)
    return found


def check_metric(recipe: Recipe) -> None:
    """What decides which checkpoint is the best must be reported by validation."""
    known = metrics(recipe)
    if recipe.train.metric not in known:
        raise RecipeError(f"train.metric: {recipe.train.metric!r} is not one of {', '.join(known)}")
