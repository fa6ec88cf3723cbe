"""Contrast (CLIP): which text belongs to which picture, or any two things, by two towers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from regard.data import batching, files, pairs, tokenizers
from regard.data.held_out import ByContent
from regard.data.readers import Policy, Report
from regard.decoding.matching import SIDES, Choices, Matcher
from regard.errors import RecipeError, UserError
from regard.examples.preparation import Fields, Plan, watched
from regard.examples.raw import Raw
from regard.fields import Example
from regard.inspect import reading
from regard.inspect.reading import Matrix, Reading
from regard.metrics import Direction, Score, retrieval
from regard.model import Model
from regard.recipe.config import Recipe, Room
from regard.recipe.parts import Part
from regard.tasks import FolderTask, Prediction, check_head, chosen_field, read_positions, sizes_of
from regard.tasks._writing import columns_of, read_pairs
from regard.types import Batch, Batches, Carry, Terms

PARTS = {
    "towers": {
        "source": {"input": "cnn", "encoder": "none"},
        "target": {"input": "tokens", "encoder": "transformer"},
    },
    "head": "contrast",
}
KEPT = 1000
"""Texts of the validation part that a run keeps to choose from."""
SHOWN = 12
"""Pairs of the matrix that the viewer draws."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe for contrast, beside the model and the trainer."""

    data: files.Config
    """What belongs together: columns are the source's and the target's, in this order."""
    source: Annotated[Part, Room("fields", "image")]
    """What is on one side: pictures, or another kind of field."""
    target: Annotated[Part, Room("fields", "text")]
    """What is on the other side."""
    characters: bool = False
    """Whether words come with their characters, for inputs that read them."""
    tokenizer: tokenizers.Config
    """How text becomes tokens, on both sides."""
    held_out: ByContent
    """What is kept from learning, where no files are named for it: by the sources."""
    batch: batching.Config
    """How large a batch is: each source is compared with every target of it."""
    evaluation: retrieval.Evaluation
    """How pairs are scored."""


def metrics(config: Config) -> dict[str, Direction]:
    return {"nll": "lower", "r1": "higher"}


def check(recipe: Recipe) -> None:
    """Refuse what can be known to be wrong before any data is read."""
    config: Config = recipe.task
    if (columns := len(config.data.columns)) not in (0, 2):
        raise RecipeError(f"data.columns: the source's and the target's are wanted, not {columns}")
    check_head(recipe, "pairs")
    plan(config)  # fields refuse what is not for them
    config.held_out.check(config.data)
    pairs.check_files(config.data)


@dataclass(frozen=True, kw_only=True)
class Pairs(Plan):
    """Both sides, and the texts that a run can choose from."""

    config: Config

    def finish(self, folder: Path, fields: Fields, raw: Mapping[str, Raw], report: Report) -> None:
        """Keep different targets of the validation part, or else of training."""
        answers, target = self.config.evaluation.answers, [*fields.values()][1]
        found: dict[str, None] = {}
        for example in raw["validation" if "validation" in raw else "train"]:
            found |= dict.fromkeys(answers(target.show(example.values[1])))
            if len(found) >= KEPT:
                break
        pairs.write_choices(folder, (text.replace("\t", " ") for text in [*found][:KEPT]))


def plan(config: Config) -> Pairs:
    """Two fields; two texts learn one vocabulary."""
    source = chosen_field(SIDES[0], config.source, config)
    target = chosen_field(SIDES[1], config.target, config, 1)
    usual = columns_of(replace(config.data, columns=()), (source, target))
    fields = {str(name): field for name, field in zip(usual, (source, target), strict=True)}
    answers = config.evaluation.answers

    def answer(example: Example) -> Example:
        source, target = example.values
        return example._replace(values=(source, answers(target)[0]))

    return Pairs(
        config=config,
        fields=fields,
        data=config.data,
        read=partial(read_pairs, config.data, (source, target)),
        held_out=config.held_out,
        joint=tuple(fields) if config.source.kind == config.target.kind == "text" else (),
        answer=answer,
    )


class Task(FolderTask):
    """Contrast whose fields and stores lie in a run's folder."""

    said = "text"
    config: Config

    def __init__(self, config: Config, folder: Path) -> None:
        super().__init__(config, folder, plan(config))
        self.source, self.target = self.fields.values()
        self.usual_columns = {side: side for side in self.fields}
        known = sizes_of(self.fields)
        self.sizes = replace(
            known, fields={**known.fields, "pairs": {"outputs": 1}}, writes="pairs"
        )
        one, other = self.fields
        self.directions = (f"{one}_to_{other}", f"{other}_to_{one}")

    @cached_property
    def matcher(self) -> Matcher:
        """What is asked of the vectors; the run's own choices are read when they are needed."""
        path = self.folder / pairs.CHOICES
        if not path.is_file():
            raise UserError(f"{self.folder} has no texts to choose from: give some by --choices")
        return self._among(Choices.read(path, Report()))

    def _among(self, choices: Choices) -> Matcher:
        return Matcher((self.source, self.target), self.config.data.max_length, choices)

    def make_choices(self, source: Path | Sequence[str], report: Report) -> Choices:
        """Texts to choose from, each with its prompts."""
        return Choices.read(source, report)

    def restrict(self, choices: Choices | None) -> None:
        self.__dict__.pop("matcher", None)  # the run's own
        if choices is not None:
            self.matcher = self._among(choices)

    def restricted(self) -> bool:
        return True

    # Learning

    def batches(self, seed: int) -> Batches:
        """Pairs drawn by chance, whatever their lengths: what is compared should differ in what it
        means. No batch is split."""
        stored = self._learnt_from()

        def whole(batch: Batch) -> Batch:
            return replace(batch, targets=len(batch), divisible=False)

        return stored.batches(
            self.config.batch, seed, whole, data=self.config.data, by_length=False
        )

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """−½ log p of each target for its source, and of the source for it, among the batch's."""
        head: Any = model.head
        both = [head.vectors(side, model.encode(batch, side)) for side in SIDES]
        return head.loss(*both), None

    def validate(self, model: Model) -> dict[str, float]:
        """−log p and R@1, the mean of both ways, among all of the validation part."""
        if not self.plan.has("validation"):
            return {}
        rows = self._stored("validation").rows()
        alike = self.matcher.similarities(
            model, *(self.matcher.vectors(model, side, rows) for side in range(2))
        )
        texts = [tuple(map(int, np.ravel(row[self.target.name]))) for row in rows]
        right = np.array([[one == other for other in texts] for one in texts])
        nll, ranks = [], []
        for table, true in ((alike, right), (alike.T, right.T)):
            own = np.where(true, table, -np.inf)
            nll.append(np.logaddexp.reduce(table, 1) - np.logaddexp.reduce(own, 1))
            ranks.append(retrieval.ranks(table, true))
        return {"nll": float(np.mean(nll)), "r1": 100 * float(np.mean(np.array(ranks) == 1))}

    # Using what was learnt

    def predict(
        self, model: Model, inputs: Sequence[str], search: Part, *, batch: int = 64, first: int = 0
    ) -> Iterator[Prediction]:
        """Exactly one of the choices for each input, in order."""
        yield from self.matcher.predict(model, inputs, first)

    def references(self, part: files.Part) -> tuple[list[str], list[str]]:
        """Both sides of a part; of several right targets the first."""
        sources, answers = self._sides(part)
        return sources, [texts[0] for texts in answers]

    def _sides(self, part: files.Part) -> tuple[list[str], list[list[str]]]:
        policy = Policy(broken=self.config.data.on_bad_line, empty="keep")
        found = [each.values for each in self.plan.whole(part, policy)]
        answers = self.config.evaluation.answers
        sources = [self.source.show(source) for source, _ in found]
        return sources, [answers(self.target.show(target)) for _, target in found]

    def evaluate(
        self, model: Model, part: files.Part, search: Part, *, batch: int = 64
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """R@1, R@5 and R@10 both ways among all of a part, and labels by prompts."""
        sources, answers = self._sides(part)
        texts = [text for own in answers for text in own]
        vectors = [self.matcher.of_texts(model, n, x) for n, x in enumerate((sources, texts))]
        alike = self.matcher.similarities(model, *vectors)
        right = np.array([[text in own for text in texts] for own in map(set, answers)])
        there, back = retrieval.ranks(alike, right), iter(retrieval.ranks(alike.T, right.T))
        found = [
            dict(
                zip(self.directions, ([int(there[n])], [int(next(back)) for _ in own]), strict=True)
            )
            for n, own in enumerate(answers)
        ]
        chances = alike - np.logaddexp.reduce(alike, 1, keepdims=True)
        outputs = [
            Prediction(
                text=texts[int(alike[n].argmax())],
                score=float(alike[n].max()),
                log_probs=[float(np.logaddexp.reduce(chances[n][right[n]]))],
                ranks=ranks,
            )
            for n, ranks in enumerate(found)
        ]
        among = dict(zip(self.directions, (len(texts), len(sources)), strict=True))
        named = {
            name: retrieval.zero_shot(name, right) for name, right in self.labelled(model).items()
        }
        return retrieval.scores(found, among) | named, outputs

    def labelled(self, model: Model) -> dict[str, list[bool]]:
        """Whether prompts find the label of each source, for each table of labels."""
        found = {}
        how, data = self.config.evaluation, self.config.data
        for name, prompts in zip(how.labelled, how.prompts, strict=True):
            path = data.path(name, "evaluation.labelled")
            choices = Choices.read(data.path(prompts, "evaluation.prompts"), Report())
            rows = self.source.labelled([path], (), data.policy, Report(), **data.layout)
            known = [(str(self.source.cell(row.value, row.path)), row.labels[0]) for row in rows]
            said = self.matcher.predict(model, [source for source, _ in known], choices=choices)
            right = [output.text == label for output, (_, label) in zip(said, known, strict=True)]
            found[f"{Path(name).stem}_accuracy"] = right
        return found

    def score(
        self, model: Model, inputs: Sequence[str], outputs: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """log p of each target among the choices and itself."""
        yield from self.matcher.score(model, inputs, outputs)

    def look(
        self, model: Model, text: str, search: Part, target: str | None, length: int
    ) -> Reading:
        """What of the choices belongs to an input, and the matrix of a few pairs."""
        matcher = self.matcher
        if target is not None and target not in matcher.choices.names:
            matcher = self._among(Choices.read([*matcher.choices.names, target], Report()))
        [row] = matcher.rows(0, [text])
        batch = matcher.batch(0, [row]).to(model.device)
        reader = matcher.classifier(model)
        source, words = read_positions(reader, self.source, row, batch)
        names = matcher.choices.names
        given = None if target is None else [names.index(target)]
        found = reading.labelled(
            reader, batch, text, names, given, source=source, source_words=words
        )
        picture, played = self.source.as_png(row), self.source.played(row)
        matrix = self.matrix(model, text)
        return replace(found, model=reader, picture=picture, sound=played, matrix=matrix)

    def matrix(self, model: Model, text: str) -> Matrix:
        """The cosines of the vectors of a source, and of some of the validation part, and of the
        targets of these."""
        kept = (watched(self.folder, self.fields) or [])[:SHOWN]
        sources = [text, *(self.source.show(source) for source, _ in kept)]
        answers = self.config.evaluation.answers
        targets = [answers(self.target.show(target))[0] for _, target in kept]
        if not targets:
            return Matrix([], [], np.zeros((0, 0)))
        both = [self.matcher.of_texts(model, n, x) for n, x in enumerate((sources, targets))]
        names = [Path(each).name if self.source.on_disk else each for each in sources]
        return Matrix(names, targets, (both[0] @ both[1].t()).numpy())
