"""Translate: seq2seq, unaligned. Also spelling, pronunciation: anything that is text to text."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch

from regard.data import batching, files, pairs, tokenizers
from regard.data.batching import Batches, by_length
from regard.data.labelled import SKIP
from regard.data.readers import Policy, Report, parallel, suffix
from regard.data.store import read_texts
from regard.decoding.choices import Choices
from regard.decoding.parallel_batches import parallel_batches
from regard.decoding.translation import Finder, Output, Translator, batch_of, check_choices
from regard.errors import RecipeError, UserError
from regard.examples.preparation import Fields, Plan, watched
from regard.examples.raw import Raw
from regard.examples.stored import Stored, collate
from regard.fields import Example, text
from regard.inspect import reading
from regard.inspect.reading import Reading
from regard.metrics import Direction, Score, perplexity
from regard.metrics.text import Evaluation
from regard.model import Model
from regard.recipe.config import Recipe, Room
from regard.recipe.parts import Part, module
from regard.search import Hypothesis
from regard.tasks import (
    Prediction,
    check_head,
    check_positions,
    check_written,
    check_written_length,
)
from regard.train import health
from regard.types import Batch, Carry, Sizes, Terms

PARTS = {
    "input": "tokens",
    "encoder": "transformer",
    "decoder": "transformer",
    "head": "vocabulary",
}
SIDES = pairs.SIDES
EARLIER = [f"validation.{side}.text" for side in SIDES]
"""Where earlier versions kept the pairs of the validation part that are translated in training."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe for translation, beside the model and the trainer."""

    data: files.Config
    """The text."""
    tokenizer: tokenizers.Config
    """How text becomes tokens."""
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
        raise RecipeError(
            "pairs.both_directions: it needs one vocabulary: set tokenizer.joint = true"
        )
    check_head(recipe, "tokens")
    check_written(recipe)
    if recipe.train.metric in config.evaluation.watched and not config.evaluation.lines:
        raise RecipeError(f"train.metric: {recipe.train.metric!r} needs evaluation.lines > 0")
    if "nbest" in config.evaluation.metrics and (
        config.search.kind != "beam" or config.search.config.nbest < 2
    ):
        raise RecipeError("evaluation.metrics: 'nbest' needs a beam search with search.nbest > 1")
    if recipe.train.patience and not config.data.validation:
        raise RecipeError("train.patience: it counts validations, but data.validation has no file")
    check_choices(config.output.choices != "", config.search)
    _check_files(config.data)
    _check_positions(recipe)


def _check_files(data: files.Config) -> None:
    for part in files.PARTS:
        names = getattr(data, part)
        tables = [name for name in names if suffix(Path(name)) in (".tsv", ".csv", ".jsonl")]
        if names and (len(names), len(tables)) not in ((1, 1), (2, 0)):
            raise RecipeError(
                f"data.{part}: wanted: one TSV, CSV or JSONL file, or one plain text file "
                f"for each of {' and '.join(SIDES)}; there are {', '.join(names)}"
            )


def _check_positions(recipe: Recipe) -> None:
    """A table of positions must be as long as what the data and the output's bound allow."""
    longest, output = recipe.task.data.max_length, recipe.task.output
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
        return Example(example.where, (source, answers(target)[0]))

    def both(row: Any) -> list[Any]:
        back = {"source": row["target"], "target": row["source"]}
        return [back] if config.pairs.both_directions else []

    return Pairs(
        config=config,
        fields=fields,
        data=config.data,
        read=lambda part, report: _read(config, part, SKIP, report),
        joint=SIDES if by.joint else (),
        answer=answer,
        also=both,
        watched=config.evaluation.lines,
    )


def _read(config: Config, part: files.Part, policy: Policy, report: Report) -> Iterator[Example]:
    """The pairs of a part's files, which have a line for each; or a file for both."""
    data, paths = config.data, config.data.paths(part)
    for line, pair in parallel(paths, data.columns or SIDES, policy, report, header=data.header):
        yield Example(((paths[0], line), (paths[-1], line)), pair)


class Task:
    """A translation task whose tokenizers and stores lie in a run's folder."""

    predict_options = frozenset({"prefixes", "align_tokens", "length", "finder"})
    evaluate_options = frozenset({"finder"})
    reads_files = False

    def __init__(self, config: Config, folder: Path) -> None:
        self.config, self.folder, self.plan = config, folder, plan(config)
        self.fields = {side: field.load(folder) for side, field in self.plan.fields.items()}
        self.source, self.target = (self.fields[side] for side in SIDES)
        shared = self.source.tokenizer.hash == self.target.tokenizer.hash
        if config.tokenizer.joint and not shared:
            both = " and ".join(str(folder / field.file) for field in self.fields.values())
            raise UserError(f"{both} are not the same, but tokenizer.joint = true")
        sizes = {side: field.size for side, field in self.fields.items()}
        self.sizes = Sizes(sizes, *SIDES, shared=shared)
        self._translator: Translator | None = None

    @property
    def translator(self) -> Translator:
        """What is asked of a search; the recipe's own choices are read when they are needed."""
        if self._translator is None:
            bound = self.config.output.choices
            found = self.make_choices(self.folder / pairs.CHOICES, Report()) if bound else None
            self.restrict(found)
        assert self._translator is not None
        return self._translator

    def make_choices(self, source: Path | Sequence[str], report: Report) -> Choices:
        """Choices of texts, or of a file's; what cannot be written is reported and left out."""
        by = self.target.tokenizer
        texts = pairs.listed(source, by, self.config.data.max_length, report)
        return Choices(list(texts.values()), by.end, len(by))

    def restrict(self, choices: Choices | None) -> None:
        """Write one of these from now on, instead of the recipe's own; None: any text."""
        self._translator = Translator(self.source, self.target, self.config.output, choices)

    def restricted(self) -> bool:
        """Whether not any text may be written."""
        return self.translator.choices is not None

    # Learning

    def batches(self, seed: int) -> Batches:
        return self._stored("train").batches(self.config.batch, seed, _count)

    def _stored(self, part: str) -> Stored:
        return Stored(self.folder, part, self.fields, self.config.data.max_length)

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
        found = watched(self.folder, self.fields) or read_texts(self.folder / "store", EARLIER)
        if found is None:  # of a run that kept none
            examples = self.plan.examples("validation", Report())
            found = [each.values for each in examples][: self.config.evaluation.lines]
        answers = self.config.evaluation.answers
        return [source for source, _ in found], [answers(target) for _, target in found]

    def _likelihood(self, model: Model) -> dict[str, float]:
        stored = self._stored("validation")
        total, count = 0.0, 0
        with torch.inference_mode():
            for ids in batching.plan(stored.lengths, self.config.batch):
                rows = [stored.store[n] for n in ids.tolist()]
                batch = collate(stored.fields, rows, ids.tolist(), _count).to(model.device)
                terms, _ = self.loss(model, batch)
                total += float(terms["nll"].sum)
                count += terms["nll"].count
        mean = total / max(1, count)
        return {"nll": mean, "perplexity": perplexity(mean)}

    # Using what was learnt

    def predict(
        self,
        model: Model,
        inputs: Sequence[str],
        search: Part,
        *,
        batch: int = 64,
        prefixes: Sequence[str] | None = None,
        align_tokens: bool = False,
        length: int | None = None,
        first: int = 0,
        finder: Finder | None = None,
    ) -> Iterator[Prediction]:
        """Exactly one output per input, in order, whatever the batch size; empty for empty.

        What the source's vocabulary lacks is read as the unknown token, and the status says so.
        No output has more than `length` tokens, nor more than the recipe allows its input.
        """
        if model.training:  # to ask costs less than to tell every layer
            model.eval()
        if length is not None and length < 1:
            raise RecipeError(f"length: {length} must be ≥ 1")
        check_choices(self.restricted(), search, length)
        encoded, longest = self.source.tokenizer.encode(inputs), self.config.data.max_length
        forced = [[] for _ in inputs] if prefixes is None else self._forced(model, prefixes)
        cut = [len(tokens) > longest for tokens in encoded]
        encoded = [tokens[:longest] for tokens in encoded]
        full = [n for n, line in enumerate(inputs) if line.strip()]
        order = sorted(full, key=lambda n: (len(encoded[n]), n))
        # An engine makes its own batches.
        size = batch if finder is None else max(1, len(order))
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        write = self.translator

        def predicted(ids: list[int]) -> list[Prediction]:
            sources = [encoded[n] for n in ids]
            numbers = [first + n for n in ids]
            request = write.request(model, sources, [forced[n] for n in ids], numbers, length)
            find = finder or (lambda *asked: write.search(model, *asked))
            found = find(sources, request, search)
            links: list[list[int]] = [[]] * len(ids)
            if align_tokens:
                links = write.align(model, sources, found, batch)
            return [
                self._prediction(encoded[n], best, link, cut[n])
                for n, best, link in zip(ids, found, links, strict=True)
            ]

        done = parallel_batches(predicted, batches, model.device)
        found = dict(zip(order, (each for some in done for each in some), strict=True))
        for n in range(len(inputs)):
            yield found.get(n, Prediction(text="", status="empty"))

    def _forced(self, model: Model, prefixes: Sequence[str]) -> list[list[int]]:
        forced = self.target.tokenizer.encode(prefixes)
        for prefix in forced:
            check_written_length("prefix: it", prefix, model)
        return forced

    def _prediction(
        self, source: list[int], best: list[Hypothesis], link: list[int], cut: bool
    ) -> Prediction:
        first, by = best[0], self.target.tokenizer
        status = self._status(cut, source)
        tokens = [*first.tokens, by.end] if first.finished else list(first.tokens)
        several = best if len(best) > 1 else []
        return Prediction(
            text=by.decode(first.tokens),
            status="capped" if status == "ok" and not first.finished else status,
            score=first.score,
            tokens=by.pieces(tokens),
            log_probs=list(first.log_probs),
            source=self.source.positions({"source": source}),
            alignment=link[: len(tokens)],
            alternatives=[
                {"text": by.decode(h.tokens), "score": h.score, "log_probs": list(h.log_probs)}
                for h in several
            ],
        )

    def _status(self, cut: bool, tokens: Sequence[int]) -> str:
        """How what was given could be read."""
        return "cut" if cut else "unknown" if self.source.tokenizer.unknown in tokens else "ok"

    def evaluate(
        self, model: Model, part: files.Part, search: Part, **options: Any
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """Translate a part and score it. Every line counts: an empty side is kept, not skipped."""
        sources, answers = self.alternatives(part)
        outputs = list(self.predict(model, sources, search, **options))
        scores = self.grade(outputs, answers)
        if self.config.evaluation.unseen:
            scores |= self._apart(outputs, answers)
        return scores, outputs

    def references(self, part: files.Part) -> tuple[list[str], list[str]]:
        """Both sides of a part, every line of it; of several right answers the first."""
        sources, answers = self.alternatives(part)
        return sources, [texts[0] for texts in answers]

    def alternatives(self, part: files.Part) -> tuple[list[str], list[list[str]]]:
        """Every source of a part, and all the answers that are right for it: as many as lines."""
        if not self.config.data.paths(part):
            raise UserError(f"data.{part}: the recipe names no file for it")
        strict = self.config.data.on_bad_line == "refuse"
        policy = Policy(broken="refuse" if strict else "keep", empty="keep")
        read = [each.values for each in _read(self.config, part, policy, Report())]
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
        self, outputs: Sequence[Prediction], answers: Sequence[Sequence[str]]
    ) -> dict[str, Score]:
        """Scores of the lines of which training has an answer as a target, and of the others."""
        known = {each.values[1] for each in self.plan.examples("train", Report())}
        lines: dict[str, list[int]] = {"seen": [], "unseen": []}
        for n, texts in enumerate(answers):
            lines["unseen" if known.isdisjoint(texts) else "seen"].append(n)
        return {
            f"{name}.{group}": score
            for group, ids in lines.items()
            if ids
            for name, score in self.grade(
                [outputs[n] for n in ids], [answers[n] for n in ids]
            ).items()
        }

    def score(
        self, model: Model, inputs: Sequence[str], outputs: Sequence[str], *, batch: int = 64
    ) -> Iterator[dict[str, Any]]:
        """log-probability and perplexity of each given target, in order."""
        model.eval()
        longest, sources = self.config.data.max_length, self.source.tokenizer.encode(inputs)
        left = [tokens[:longest] for tokens in sources]
        right = self.target.tokenizer.encode(outputs)
        for n, tokens in enumerate(right, 1):
            check_written_length(f"line {n}: the target", tokens, model)

        def log_probs(ids: list[int]) -> list[list[float]]:
            sides = [[side[n] for n in ids] for side in (left, right)]
            block = batch_of([self.source, self.target], sides).to(model.device)
            with torch.inference_mode():
                hidden, _ = model.decode(block["target_in"], model.start(block))
                table = model.head.logits(hidden).float().log_softmax(-1)
                chosen = table.gather(-1, block["target_out"][..., None]).squeeze(-1).cpu()
            return [chosen[row, : len(right[n]) + 1].tolist() for row, n in enumerate(ids)]

        lengths = [(len(y), len(x)) for x, y in zip(left, right, strict=True)]
        for n, found in enumerate(by_length(lengths, batch, log_probs)):
            total = math.fsum(found)
            yield {
                "log_prob": total,
                "perplexity": perplexity(-total / len(found)),
                "status": self._status(len(sources[n]) > longest, [*left[n], *right[n]]),
                "tokens": self.target.positions({"target": right[n]}),
                "log_probs": found,
            }

    def look(
        self, model: Model, text: str, search: Part, target: str | None, length: int
    ) -> Reading:
        """What is written for a text, or a given target."""
        source = self.source.tokenizer.encode([text])[0][: self.config.data.max_length]
        by, beam = self.target.tokenizer, None
        if target is None:
            request = self.translator.request(model, [source], [[]], [0])
            with torch.inference_mode():
                state = model.start(batch_of([self.source], [[source]]).to(model.device))
            best, beam = reading.best(model, state, request, search, by)
            tokens, ended = list(best.tokens), best.finished
        else:
            tokens, ended = by.encode([target])[0], True
        said = [*tokens, by.end] if ended else tokens
        batch = batch_of([self.source, self.target], [[source], [tokens]]).to(model.device)
        return reading.written(
            batch,
            text,
            said,
            by,
            start=by.start,
            given=0 if target is None else len(said),
            source=self.source.positions({"source": source}),
            source_words=self.source.groups({"source": source}),
            beam=beam,
        )


def _count(arrays: Any) -> int:
    return int(arrays["target_mask"].sum())
