"""Transcribe: sound to text, by CTC, by a decoder with attention, or by both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from regard.checks import audio as audio_checks
from regard.checks.findings import Finding
from regard.checks.sides import Part as Examined
from regard.data import batching, files, tokenizers
from regard.data.held_out import ByContent
from regard.decoding.choices import Choices
from regard.decoding.transcription import Transcriber, head_of
from regard.decoding.translation import Output, Translator
from regard.errors import RecipeError
from regard.examples.preparation import Plan
from regard.inputs import mel
from regard.inspect.reading import Reading
from regard.metrics import Direction
from regard.metrics.text import Evaluation
from regard.model import Model
from regard.recipe.config import Recipe, Room
from regard.recipe.parts import Part, module
from regard.recipe.values import Share
from regard.search import Stepwise, ctc
from regard.tasks import Prediction
from regard.tasks._writing import DescribingTask, check_described, described
from regard.types import Batch, Carry, Term, Terms

PARTS = {
    "input": "mel",
    "encoder": "transformer",
    "decoder": "none",
    "head": "ctc",
    "heads": {"target": "none"},
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe for transcription, beside the model and the trainer."""

    ctc_weight: Share = 0.3
    """λ, where a model has both a decoder and a CTC head: λ · CTC + (1 − λ) · attention (Kim et al.
    2017)."""
    data: files.Config
    """The sounds and their texts. Columns are the sound's and the text's, in this order."""
    source: Annotated[Part, Room("fields", "audio")]
    """What is transcribed."""
    tokenizer: tokenizers.Config
    """How text becomes tokens."""
    held_out: ByContent
    """What is kept from learning, where no files are named for it: by the sounds' bytes."""
    batch: batching.Config
    """How large a batch is, in frames."""
    search: Annotated[Part, Room("search", "ctc")]
    """How an output is found: by CTC, or by a decoder's search where there is a decoder."""
    output: Output
    """How long an output of a decoder may become."""
    evaluation: Evaluation
    """How outputs are scored."""


def metrics(config: Config) -> dict[str, Direction]:
    return {"nll": "lower", **config.evaluation.watched}


def check(recipe: Recipe) -> None:
    """Refuse what can be known to be wrong before any data is read."""
    config, model = recipe.task, recipe.model
    written = module("heads", model.head.kind).Head.predicts
    if written != ("paths" if model.decoder is None else "tokens"):
        other = "without a decoder it is 'ctc'" if model.decoder is None else "'vocabulary'"
        raise RecipeError(f"model.head.kind: {model.head.kind!r} does not fit: {other}")
    beside = model.heads.get("target")
    if beside and module("heads", beside.kind).Head.predicts != "paths":
        raise RecipeError(f"model.heads.target.kind: {beside.kind!r} is not 'ctc'")
    if beside and model.decoder is None:
        raise RecipeError("model.heads.target: model.head is the only one without a decoder")
    by_ctc = model.decoder is None or beside is not None
    stepwise = isinstance(module("search", config.search.kind), Stepwise)
    if stepwise if model.decoder is None else not stepwise and not by_ctc:
        raise RecipeError(
            f"search.kind: {config.search.kind!r} needs "
            f"{'a decoder' if stepwise else 'a CTC head'}, which the model does not have"
        )
    if by_ctc and config.tokenizer.kind == "huggingface":
        raise RecipeError("tokenizer.kind: CTC needs one of its own, in which padding is token 0")
    check_described(recipe, "sound")


plan = described


def examine(recipe: Recipe, plan: Plan, parts: Sequence[Examined]) -> Iterator[Finding]:
    """Texts that CTC has no room for: before a tokenizer is there, those that are so surely."""
    model, fields = recipe.model, [*plan.fields.values()]
    by_ctc = model.decoder is None or model.heads.get("target") is not None
    if not by_ctc or not isinstance(model.input.config, mel.Config):
        return
    sound, said = fields
    spelt = recipe.task.tokenizer.kind == "character"

    def room_of(place: str) -> int:
        found = sound.recorded(place)
        features = sound.config.features
        frames = features.frames(int(len(found.samples) * features.rate / found.rate))
        return int(model.input.config.positions(frames))

    def needed(text: str) -> int:
        return ctc.needed([*map(ord, text)]) if spelt else int(said.at_least([text])[0])

    for part in parts:
        yield from audio_checks.room(part, room_of, needed)


class Task(DescribingTask):
    """A transcription task whose tokenizer and stores lie in a run's folder."""

    config: Config

    # Learning

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """−log p(y | x) by CTC, by the decoder, or λ of the one and 1 − λ of the other."""
        memory = model.encode(batch)
        assert memory is not None
        terms: Terms = {}
        if model.decoder is not None:
            start = model.decoder.start(memory, len(batch))
            hidden, _ = model.decode(batch["target_in"], start)
            terms |= model.head.loss(hidden, batch["target_out"], batch["target_mask"])
        if model.decoder is None or "target" in model.heads:
            lengths = batch["target_mask"].sum(1) - 1  # the end is nothing that is heard
            terms |= head_of(model).loss(
                memory.states, batch["target_in"][:, 1:], memory.mask, lengths, batch.targets
            )
        if {"ctc", "nll"} <= terms.keys():
            return mixed(terms, self.config.ctc_weight), None
        if "nll" not in terms:
            alone = terms["ctc"]
            terms["nll"] = Term(alone.sum.detach(), alone.count, 0.0)
        return terms, None

    # Using what was learnt

    @cached_property
    def transcriber(self) -> Transcriber:
        """What is asked of CTC."""
        return Transcriber(self.source, self.target)

    def _bound(self, choices: Choices | None) -> Translator:
        """A decoder's tokens have the times at which CTC hears them."""
        return replace(super()._bound(choices), placing=self.transcriber.times)

    def fuse(self, follow: ctc.Follow | None) -> None:
        """Ask a language model from now on, or none."""
        self.transcriber = replace(self.transcriber, follow=follow)

    def predict(
        self, model: Model, inputs: Sequence[str], search: Part, **options: Any
    ) -> Iterator[Prediction]:
        """Exactly one output per input, in order."""
        if not self._by_ctc(model, search):
            return super().predict(model, inputs, search, **options)
        for name in ("prefixes", "length"):
            if options.get(name) is not None:
                raise RecipeError(f"{name}: CTC places what it hears; only a decoder takes one")
        chosen = {name: options[name] for name in ("batch", "first") if name in options}
        return self.transcriber.predict(model, inputs, search, **chosen)

    def _by_ctc(self, model: Model, search: Part) -> bool:
        return model.decoder is None or search.kind == "ctc"

    def score(
        self, model: Model, inputs: Sequence[str], outputs: Sequence[str], *, batch: int = 64
    ) -> Iterator[dict[str, Any]]:
        if self._by_ctc(model, self.config.search):
            return self.transcriber.score(model, inputs, outputs, batch)
        return super().score(model, inputs, outputs, batch=batch)

    def look(
        self, model: Model, text: str, search: Part, target: str | None, length: int
    ) -> Reading:
        if model.decoder is None:
            return self.transcriber.look(model, text, search, target)
        return super().look(model, text, search, target, length)


def mixed(terms: Terms, share: float) -> Terms:
    """λ · CTC + (1 − λ) · what the decoder's head says."""
    weights = {name: share if name == "ctc" else 1 - share for name in terms}
    return {name: replace(term, weight=term.weight * weights[name]) for name, term in terms.items()}
