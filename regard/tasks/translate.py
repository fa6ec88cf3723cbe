"""Translate: seq2seq, unaligned. Also spelling, pronunciation: anything that is text to text."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data import batching, files, pairs, tokenizers
from regard.data.batching import Batches
from regard.data.pairs import Pair, Pairs
from regard.data.readers import Finding, Policy, Report, suffix
from regard.data.store import Store, pad, read_texts, write_texts
from regard.data.tokenizers import END, PAD, START, UNKNOWN, Tokenizer
from regard.decoding.alignment import align
from regard.decoding.choices import Choices
from regard.decoding.parallel_batches import parallel_batches
from regard.errors import RecipeError, UserError
from regard.metrics import Direction, Score, perplexity
from regard.metrics.text import Evaluation
from regard.model import Model
from regard.recipe.config import Recipe, Room
from regard.recipe.parts import Part, module
from regard.recipe.values import Factor, LengthOrZero
from regard.search import Hypothesis, Request
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
Finder = Callable[[list[list[int]], Request, Part], list[list[Hypothesis]]]
"""Another engine's search: hypotheses for source tokens (the end not among them)."""
WATCHED = [f"validation.{side}.text" for side in SIDES]
"""In a run's store: the pairs of the validation part that are translated while training."""
CHOICES = "choices.txt"
"""In a run's folder: the texts that may be written, if not any may."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """How long an output may become: factor × the source's tokens + extra; or what it may be."""

    factor: Factor = 2.0
    """Tokens of output for each token of input."""
    extra: LengthOrZero = 10
    """Tokens on top of that."""
    choices: str = ""
    """A file, beside those of the data, of all that may be written, one text to a line, such as
    the words of a language: search looks for the best of them. By default, any text may be."""


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
    if "nbest" in config.evaluation.metrics and getattr(config.search.config, "nbest", 1) < 2:
        raise RecipeError("evaluation.metrics: 'nbest' needs a beam search with search.nbest > 1")
    if recipe.train.patience and not config.data.validation:
        raise RecipeError("train.patience: it counts validations, but data.validation has no file")
    _check_choices(config.output.choices != "", config.search)
    _check_files(config.data)
    _check_positions(recipe)


def _check_choices(bound: bool, search: Part, length: int | None = None) -> None:
    """Choices say how long an output may be: another word on it would leave some unfinished."""
    said = "the choices say how long an output may be"
    minimum: int = getattr(search.config, "min_length", 0)
    if bound and minimum:
        raise RecipeError(f"search.min_length: {said}; set it to 0")
    if bound and length is not None:
        raise RecipeError(f"length: {said}; leave it out")


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


def prepare(config: Config, folder: Path, given: Path | None = None) -> Report:
    """Read the data, train the tokenizers, write the stores: all of it into `folder`.

    The tokenizers of the run `given` are taken instead, if it is there.
    """
    for part in files.PARTS:
        config.data.paths(part)
    choices = config.output.choices and config.data.path(config.output.choices, "output.choices")
    report, every = Report(), _pairs(config)
    read = list(every.rows("train", config.data.policy, report))
    if not read:
        raise UserError("data.train: no pair of lines is left to learn from")
    if given is not None:
        trained = tuple(
            Tokenizer.load(given / f"{side}.tokenizer.json", config.tokenizer) for side in SIDES
        )
    elif config.tokenizer.joint:
        joint = Tokenizer.train(config.tokenizer, (text for _, pair in read for text in pair))
        trained = (joint, joint)
    else:
        sides = zip(*(pair for _, pair in read), strict=True)
        trained = tuple(Tokenizer.train(config.tokenizer, side) for side in sides)
    for side, tokenizer in zip(SIDES, trained, strict=True):
        tokenizer.save(folder / f"{side}.tokenizer.json")
    every.store("train", folder / "store", trained, read, report)
    checked, chosen_by = Report(), list[Pair]()
    if config.data.validation:
        chosen_by += every.rows("validation", config.data.policy, checked)
        every.store("validation", folder / "store", trained, chosen_by, checked)
        if config.evaluation.lines:
            watched = (pair for _, pair in chosen_by[: config.evaluation.lines])
            write_texts(folder / "store", WATCHED, watched)
    if choices:
        _store_choices(choices, folder, every, trained[1], chosen_by, checked)
    report.include(checked)
    return report


def _store_choices(
    path: Path, folder: Path, every: Pairs, by: Tokenizer, checked: list[Pair], report: Report
) -> None:
    """Keep what may be written, and report which targets of the validation part may not be."""
    allowed = pairs.listed(path, by, every.data.max_length, report)
    text = "".join(f"{text}\n" for text in allowed)
    (folder / CHOICES).write_text(text, encoding="utf-8", newline="\n")
    symbols = set(map(tuple, allowed.values()))
    for line, (_, target) in checked:
        if symbols.isdisjoint(map(tuple, by.encode(every.answers(target)))):
            what = "targets that output.choices lacks"
            report.add(Finding(every.data.paths("validation")[-1], line, what, target[:60]))


def _watched(config: Config) -> Iterator[tuple[str, ...]]:
    """The pairs of the validation part's files that are translated while training."""
    rows = _pairs(config).rows("validation", config.data.policy, Report())
    return (pair for _, pair in islice(rows, config.evaluation.lines))


def _pairs(config: Config) -> Pairs:
    return Pairs(config.data, config.pairs, config.evaluation.answers)


class Task:
    """A translation task whose tokenizers and stores lie in a run's folder."""

    predict_options = frozenset({"prefixes", "align_tokens", "length", "finder"})
    evaluate_options = frozenset({"finder"})
    reads_files = False

    def __init__(self, config: Config, folder: Path) -> None:
        self.config, self.folder, self._pairs = config, folder, _pairs(config)
        self.source, self.target = (
            Tokenizer.load(folder / f"{side}.tokenizer.json", config.tokenizer) for side in SIDES
        )
        if not (shared := self.source.hash == self.target.hash) and config.tokenizer.joint:
            both = " and ".join(str(folder / f"{side}.tokenizer.json") for side in SIDES)
            raise UserError(f"{both} are not the same, but tokenizer.joint = true")
        sizes = {"source": self.source.size(), "target": self.target.size()}
        known = {side: getattr(self, side).hash for side in SIDES}
        self.sizes = Sizes(sizes, *SIDES, shared=shared, vocabularies=known)

    @cached_property
    def choices(self) -> Choices | None:
        """What may be written, if not anything."""
        bound = self.config.output.choices
        return self.make_choices(self.folder / CHOICES, Report()) if bound else None

    def make_choices(self, source: Path | Sequence[str], report: Report) -> Choices:
        """Choices of texts, or of a file's; what cannot be written is reported and left out."""
        texts = pairs.listed(source, self.target, self.config.data.max_length, report)
        return Choices(list(texts.values()), END, len(self.target))

    def restrict(self, choices: Choices | None) -> None:
        """Write one of these from now on, instead of the recipe's own; None: any text."""
        self.choices = choices

    def restricted(self) -> bool:
        """Whether not any text may be written."""
        return self.choices is not None

    # Learning

    def batches(self, seed: int) -> Batches:
        stores = self._stores("train")
        lengths = np.stack([store.lengths + 1 for store in stores], 1)
        return Batches(lengths, lambda ids: self._collate(stores, ids), self.config.batch, seed)

    def _stores(self, part: str) -> list[Store]:
        folder, longest = self.folder / "store", self.config.data.max_length
        source, target = (
            Store(folder, f"{part}.{side}", range(UNKNOWN, len(by)), longest)
            for side, by in zip(SIDES, (self.source, self.target), strict=True)
        )
        if len(source) != len(target):
            raise UserError(
                f"the stored data cannot be read: {folder / part} has {len(source):,} sources and "
                f"{len(target):,} targets. Start a new run from the recipe"
            )
        return [source, target]

    def _collate(self, stores: Sequence[Store], ids: Sequence[int]) -> Batch:
        sources, targets = ([store[n] for n in ids] for store in stores)
        return collate(sources, targets, ids)

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """−log p(y | x), the true beginning of y being given at each place."""
        hidden, _ = model.decode(batch["target_in"], model.start(batch))
        return model.head.loss(hidden, batch["target_out"], batch["target_mask"]), None

    def validate(self, model: Model) -> dict[str, float]:
        if not self.config.data.validation:
            return {}
        figures = self._likelihood(model)
        if self.config.evaluation.lines:
            stored = read_texts(self.folder / "store", WATCHED)
            read = list(_watched(self.config)) if stored is None else stored  # of an older run
            answers = [self.config.evaluation.answers(target) for _, target in read]
            greedy = Part("greedy", _search_config("greedy"))
            outputs = list(self.predict(model, [source for source, _ in read], greedy))
            scores = self.grade(outputs, answers, list(self.config.evaluation.watched))
            figures |= {name: score.value for name, score in scores.items()}
            right, sources = [texts[0] for texts in answers], [source for source, _ in read]
            figures |= health.shares([output.text for output in outputs], right, sources)
        return figures

    def _likelihood(self, model: Model) -> dict[str, float]:
        stores = self._stores("validation")
        lengths = np.stack([store.lengths + 1 for store in stores], 1)
        total, count = 0.0, 0
        with torch.inference_mode():
            for ids in batching.plan(lengths, self.config.batch):
                batch = self._collate(stores, ids.tolist()).to(model.device)
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

        What the source's vocabulary lacks is read as the unknown symbol, and the status says so.
        No output has more than `length` tokens, nor more than the recipe allows its input.
        """
        if model.training:  # to ask costs less than to tell every layer
            model.eval()
        if length is not None and length < 1:
            raise RecipeError(f"length: {length} must be ≥ 1")
        _check_choices(self.choices is not None, search, length)
        encoded = self.source.encode(inputs)
        forced = self.target.encode(prefixes) if prefixes else [[] for _ in inputs]
        for prefix in forced:
            check_written_length("prefix: it", prefix, model)
        cut = [len(symbols) > self.config.data.max_length for symbols in encoded]
        encoded = [symbols[: self.config.data.max_length] for symbols in encoded]
        full = [n for n, line in enumerate(inputs) if line.strip()]
        order = sorted(full, key=lambda n: (len(encoded[n]), n))
        # An engine makes its own batches.
        size = batch if finder is None else max(1, len(order))
        batches = [order[start : start + size] for start in range(0, len(order), size)]

        def predicted(ids: list[int]) -> list[Prediction]:
            sources = [encoded[n] for n in ids]
            numbers = [first + n for n in ids]
            request = self.request(model, sources, [forced[n] for n in ids], numbers, length)
            if finder is None:
                hypotheses = self._search(model, sources, request, search)
            else:
                hypotheses = finder(sources, request, search)
            links: list[list[int]] = [[]] * len(ids)
            if align_tokens:
                links = self._align(model, sources, hypotheses, batch)
            found = zip(ids, hypotheses, links, strict=True)
            return [self._prediction(encoded[n], best, link, cut[n]) for n, best, link in found]

        done = parallel_batches(predicted, batches, model.device)
        found = dict(zip(order, (each for some in done for each in some), strict=True))
        for n in range(len(inputs)):
            yield found.get(n, Prediction(text="", status="empty"))

    def request(
        self,
        model: Model,
        sources: list[list[int]],
        forced: list[list[int]],
        numbers: list[int],
        length: int | None = None,
    ) -> Request:
        """What is asked of search for these source tokens."""
        if self.choices is not None:
            self._check_begun(self.choices, forced)
            self.choices.to(model.device)
        return Request(
            start=START,
            end=END,
            caps=self._caps(sources, forced, length),
            prefixes=tuple(map(tuple, forced)) if any(forced) else None,
            forbidden=(PAD, START, UNKNOWN),
            choices=self.choices,
            numbers=tuple(numbers),
            device=model.device,
        )

    def _caps(
        self, sources: list[list[int]], forced: list[list[int]], length: int | None
    ) -> list[int]:
        """The most tokens of each output: no choice is cut short."""
        output, longest = self.config.output, max(map(len, forced))
        if self.choices is not None:
            return [self.choices.longest + 1] * len(sources)
        if length is not None and length <= longest:
            raise RecipeError(f"length: {length} tokens, but what is forced has {longest}")
        caps = [
            max(int(output.factor * len(source)) + output.extra, len(prefix) + 1)
            for source, prefix in zip(sources, forced, strict=True)
        ]
        return caps if length is None else [min(cap, length) for cap in caps]

    def _check_begun(self, choices: Choices, forced: list[list[int]]) -> None:
        for prefix in set(map(tuple, forced)) - {()}:
            if not choices.begin(prefix):
                symbols = " ".join(self.target.pieces(prefix))
                raise RecipeError(f"prefix: no choice begins with its tokens, {symbols}")

    def _search(
        self, model: Model, sources: list[list[int]], request: Request, search: Part
    ) -> list[list[Hypothesis]]:
        with torch.inference_mode():
            batch = collate(sources, [[] for _ in sources], range(len(sources))).to(model.device)
            found: list[list[Hypothesis]] = module("search", search.kind).search(
                model.step, model.start(batch), request, search.config
            )
        return found

    def _align(
        self, model: Model, sources: list[list[int]], found: list[list[Hypothesis]], size: int
    ) -> list[list[int]]:
        targets = [list(best[0].tokens) for best in found]
        links: list[list[int]] = []
        with torch.inference_mode():
            for start in range(0, len(sources), size):
                left, right = (side[start : start + size] for side in (sources, targets))
                links += align(model, collate(left, right, range(len(left))).to(model.device))
        return links

    def _prediction(
        self, source: list[int], best: list[Hypothesis], link: list[int], cut: bool
    ) -> Prediction:
        first, read = best[0], _read(cut, source)
        symbols = [*first.tokens, END] if first.finished else list(first.tokens)
        several = best if len(best) > 1 else []
        return Prediction(
            text=self.target.decode(first.tokens),
            status="capped" if read == "ok" and not first.finished else read,
            score=first.score,
            tokens=self.target.pieces(symbols),
            log_probs=list(first.log_probs),
            source=self.source.pieces([*source, END]),
            alignment=link[: len(symbols)],
            alternatives=[
                {
                    "text": self.target.decode(h.tokens),
                    "score": h.score,
                    "log_probs": list(h.log_probs),
                }
                for h in several
            ],
        )

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
        read = [pair for _, pair in self._pairs.rows(part, policy, Report())]
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
        policy = self.config.data.policy
        known = {y for _, (_, y) in self._pairs.rows("train", policy, Report())}
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
        longest, sources = self.config.data.max_length, self.source.encode(inputs)
        left = [symbols[:longest] for symbols in sources]
        right = self.target.encode(outputs)
        for n, symbols in enumerate(right, 1):
            check_written_length(f"line {n}: the target", symbols, model)
        order = sorted(range(len(left)), key=lambda n: (len(right[n]), len(left[n]), n))
        found: dict[int, list[float]] = {}
        for start in range(0, len(order), batch):
            ids = order[start : start + batch]
            block = collate([left[n] for n in ids], [right[n] for n in ids], ids).to(model.device)
            with torch.inference_mode():
                hidden, _ = model.decode(block["target_in"], model.start(block))
                log_probs = model.head.logits(hidden).float().log_softmax(-1)
                chosen = log_probs.gather(-1, block["target_out"][..., None]).squeeze(-1).cpu()
            found |= {n: chosen[row, : len(right[n]) + 1].tolist() for row, n in enumerate(ids)}
        for n in range(len(left)):
            total = math.fsum(found[n])
            yield {
                "log_prob": total,
                "perplexity": perplexity(-total / len(found[n])),
                "status": _read(len(sources[n]) > longest, [*left[n], *right[n]]),
                "tokens": self.target.pieces([*right[n], END]),
                "log_probs": found[n],
            }


Symbols = Sequence[int] | NDArray[np.integer]


def collate(sources: Sequence[Symbols], targets: Sequence[Symbols], ids: Sequence[int]) -> Batch:
    """source ends with END; the decoder reads START y₁ … y_n and is to say y₁ … y_n END."""
    source, source_mask = pad([np.asarray(row, np.int64) for row in sources], PAD, end=[END])
    rows = [np.asarray(row, np.int64) for row in targets]
    target_in, target_mask = pad(rows, PAD, start=[START])
    target_out, _ = pad(rows, PAD, end=[END])
    arrays = {
        "source": source,
        "source_mask": source_mask,
        "target_in": target_in,
        "target_out": target_out,
        "target_mask": target_mask,
    }
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return Batch(tensors=tensors, ids=tuple(ids), targets=int(target_mask.sum()))


def _read(cut: bool, symbols: list[int]) -> str:
    """The status of what could be read."""
    return "cut" if cut else "unknown" if UNKNOWN in symbols else "ok"


def _search_config(kind: str) -> Any:
    return module("search", kind).Config()
