"""Language model: vec2seq with x = ∅. What text is like: p(y) = Π_t p(y_t | y₁ … y_{t−1}).

A text's end is the token END, with every tokenizer. Either each line is a text of its own, or the
lines are one running text, in which END is what stands between two of them, or documents follow
each other, each with END after it. Of a dialogue, only answers are learnt: p(answer | all before).
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data import batching, files, stream, template, tokenizers
from regard.data.batching import alike
from regard.data.held_out import ByPlace
from regard.decoding.answers import Dialogues, graded
from regard.decoding.continuation import Continuer
from regard.decoding.likelihood import Text, log_probs, means, scored, scores
from regard.decoding.prediction import Choose, Sample
from regard.decoding.shared_work import shared_batches, shared_rows
from regard.decoding.texts import Plain, Texts
from regard.errors import RecipeError
from regard.examples import dialogues, running_text
from regard.examples.preparation import Plan, watched
from regard.examples.stored import collate
from regard.examples.streamed import Streamed
from regard.examples.streamed_text import StreamedText
from regard.fields import text
from regard.inspect.reading import Reading
from regard.metrics import Direction, Score
from regard.model import Model
from regard.recipe.config import Recipe, Room
from regard.recipe.parts import Part
from regard.recipe.values import Length
from regard.tasks import (
    FolderTask,
    Prediction,
    check_head,
    check_positions,
    check_written,
    sizes_of,
)
from regard.train import health
from regard.types import Batch, Batches, Bounded, Carry, Terms

PARTS = {"decoder": "rnn", "head": "vocabulary"}


@dataclass(frozen=True, kw_only=True)
class Output:
    """How long a continuation is."""

    length: Length = 200
    """The most tokens; running text, which has no end, gets as many."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sections of a recipe for a language model, beside the model and the trainer."""

    unit: Literal["stream", "line", "dialogue"] = "stream"
    """Running text, cut into parallel streams, or every line a text of its own, or prompts with
    answers, which alone are learnt."""
    data: files.Config
    """The text; of running text, empty and long lines are kept, whatever is said here."""
    held_out: ByPlace
    """What is kept from learning, where no files are named for it; of dialogues, by the prompt."""
    tokenizer: tokenizers.Config
    """How text becomes tokens."""
    template: template.Config
    """How dialogues are written."""
    stream: stream.Config
    """How running text is read."""
    batch: batching.Config
    """How large a batch of lines is."""
    search: Annotated[Part, Room("search", "sample")]
    """How a continuation is found."""
    output: Output
    """How long a continuation is."""


def metrics(config: Config) -> dict[str, Direction]:
    return dict.fromkeys(("nll", "perplexity", "bits_per_character", "bits_per_byte"), "lower")


def check(recipe: Recipe) -> None:
    """Refuse what can be known to be wrong before any data is read."""
    config: Config = recipe.task
    dialogue = config.unit == "dialogue"
    if len(config.data.columns) > 1 and not dialogue:
        raise RecipeError(f"data.columns: a text has 1 column, not {len(config.data.columns)}")
    config.held_out.check(config.data)
    config.data.sources(1)
    check_head(recipe, "tokens")
    check_written(recipe)
    if config.unit == "line" and config.stream.packs:
        raise RecipeError("stream.documents: with unit = 'line' every line is a text; drop one")
    if config.unit == "stream":
        config.data.refuse_mixture("running text")
        length = config.stream.length
        check_positions(recipe, "decoder", length, f"stream.length = {length} asks")
    else:
        longest, edges = config.data.max_length, (Dialogues if dialogue else Plain).edges
        check_positions(recipe, "decoder", longest + edges, f"data.max_length = {longest} asks")


def plan(config: Config) -> Plan:
    """Lines, each a text of its own, or all of them one running text; or dialogues."""
    if config.unit == "dialogue":
        return dialogues.plan(config.data, config.held_out, config.tokenizer, config.template)
    running = config.unit == "stream"
    target = text.Field("target", config.tokenizer, "ended", running=running)
    return Plan(
        fields={"target": target},
        data=config.data,
        read=partial(running_text.read, config.data, config.stream.documents if running else None),
        held_out=config.held_out,
        limited=not running,
        watched=sys.maxsize,
        validates=False,
    )


class Task(FolderTask):
    """A language model whose tokenizer and store lie in a run's folder."""

    config: Config
    predict_options = frozenset({"length", "stop"})
    evaluate_options = frozenset({"samples"})

    def __init__(self, config: Config, folder: Path) -> None:
        super().__init__(config, folder, plan(config))
        *_, self.target = self.fields.values()
        self.by, words = self.target.tokenizer, config.tokenizer.kind == "word"
        self.sizes = sizes_of(self.fields, writes="target")
        self.streams = config.unit == "stream"
        self.packed = self.streams and config.stream.packs
        self.running = self.streams and not self.packed
        """Whether all is one text, without an end."""
        if config.unit == "dialogue":
            self.texts: Texts = Dialogues(self.fields["prompt"], self.target, words)
        else:
            self.texts = Plain(self.target, words, self.running, self.packed)
        self.said, self.usual_columns = self.texts.said, self.texts.columns
        self.first = self.by.end if self.packed and not config.stream.across else None
        """What stands before documents, if they must not see each other."""

    # Learning

    def batches(self, seed: int) -> Batches:
        if not self.streams:
            return super().batches(seed)
        before, config, learnt = self.target.before, self.config.stream, self._learnt_from()
        if isinstance(learnt, Streamed):
            return StreamedText(learnt, before, config, seed, self.config.data)
        return stream.Streams(learnt.store.flat("target"), before, config, seed)

    def loss(self, model: Model, batch: Batch, carry: Carry = None) -> tuple[Terms, Carry]:
        """−log p(y), the true beginning of y being given at each place. Running text goes on from
        `carry`; the gradient does not."""
        assert model.decoder is not None
        state = model.start(batch)
        if batch.continues and carry:
            state = model.decoder.resume(state, carry)
        if self.first is not None:
            assert isinstance(state, Bounded)
            state = state.bounded(self.first)
        hidden, state = model.decode(batch["target_in"], state)
        terms = model.head.loss(hidden, batch["target_out"], batch["target_mask"])
        return terms, model.decoder.carry(state) if self.streams else None

    def _batch(self, rows: Sequence[Sequence[int]]) -> Batch:
        """Texts with their ends."""
        return collate([self.target], [self.target.row(row) for row in rows], range(len(rows)))

    def _handed(self, model: Model) -> dict[str, torch.Tensor]:
        """What a text hands on to the next."""
        assert model.decoder is not None
        return model.decoder.carry(model.start(self._batch([[self.by.end]]).to(model.device)))

    def carried(self, model: Model) -> dict[str, tuple[int, ...]]:
        """The shapes of what a chunk of running text hands on to the next; nothing of lines."""
        if not self.streams:
            return {}
        streams = self.config.stream.streams
        return {name: (streams, *t.shape[1:]) for name, t in self._handed(model).items()}

    def window(self, model: Model) -> int | None:
        """How many tokens a model can hold that hands nothing on; None for one that does."""
        if self._handed(model):
            return None
        longest = self.config.data.max_length + self.texts.edges
        return self.config.stream.length if self.streams else longest

    def validate(self, model: Model) -> dict[str, float]:
        if not self.plan.has("validation"):
            return {}
        texts = self.texts.measured(*self._validation())
        figures = means(texts, self._log_probs(model, texts, 64))
        # Whether what the model would go on with is the same at many places of these texts.
        by, places = self.continuer(model), self.texts.places(texts)
        said = shared_rows(places, lambda some: list(zip(*by.beside(some), strict=True)))
        return figures | health.shares(*([pair[side] for pair in said] for side in (0, 1)))

    def _validation(self) -> tuple[list[str], ...]:
        """The validation part as it was when the run was made; an older run reads the files."""
        found = watched(self.folder, self.fields)
        return self.references("validation") if found is None else self.texts.sides(found)

    # Likelihood

    def references(self, part: files.Part) -> tuple[list[str], ...]:
        """The texts of a part: lines, documents or one running text; or prompts and answers."""
        found = self.plan.whole(part, self.config.data.policy)
        return self.texts.sides([each.values for each in found])

    def symbols(self, part: files.Part) -> list[list[int]]:
        return [text.whole for text in self.texts.measured(*self.references(part))]

    def _log_probs(
        self, model: Model, texts: Sequence[Text], size: int
    ) -> list[NDArray[np.float32]]:
        """log p of each token of each text that counts, given those before it: all of them, or of a
        model that hands no state on at least half a window of the length that it has learnt."""
        model.eval()
        window = self.window(model)

        def read(ids: list[int]) -> list[NDArray[np.float32]]:
            batch = self._batch([texts[n].whole for n in ids]).to(model.device)
            table = log_probs(model, batch, window).cpu().numpy()
            return [line[texts[n].places] for n, line in zip(ids, table, strict=True)]

        return shared_batches(alike([len(text.whole) for text in texts], size), read)

    def evaluate(
        self, model: Model, part: files.Part, search: Part, *, batch: int = 64, samples: int = 0
    ) -> tuple[dict[str, Score], list[Prediction]]:
        """Perplexity, bits per character and per byte of a part; prompts are answered, too."""
        sides, window = self.references(part), self.window(model)
        texts = self.texts.measured(*sides)
        context = f"{window // 2}-{window}" if window else "all"
        case = "lc" if self.config.tokenizer.lowercase else "mixed"
        unit = self.config.stream.documents if self.packed else self.config.unit
        about = f"unit:{unit}|context:{context}|case:{case}"
        found = scores(self.by, texts, self._log_probs(model, texts, batch), about)
        if len(sides) == 1:
            return found, []
        outputs = list(self.predict(model, sides[0], search, batch=batch))
        return found | graded(outputs, sides[1], samples), outputs

    def score(
        self, model: Model, *sides: Sequence[str], batch: int = 64
    ) -> Iterator[dict[str, Any]]:
        """log-probability, perplexity, bits per character and per byte of each text, or answer, its
        end included."""
        encoded = self.texts.measured(*sides)
        found = self._log_probs(model, encoded, batch)
        return (scored(self.by, *each) for each in zip(encoded, found, strict=True))

    # Continuation

    def predict(
        self,
        model: Model,
        inputs: Sequence[str],
        search: Part,
        *,
        batch: int = 64,
        length: int | None = None,
        stop: Sequence[str] = (),
        first: int = 0,
    ) -> Iterator[Prediction]:
        """What follows each input, in order, up to one of the strings `stop`.

        An empty input has something follow, too: a text from its beginning. What the vocabulary
        lacks is read as the unknown token, and the status says so. The score is that of the output.
        """
        if (most := self.config.output.length if length is None else length) < 1:
            raise RecipeError(f"length: {most} must be ≥ 1")
        model.eval()
        yield from self.continuer(model).predict(inputs, search, most, batch, first, stop)

    def samples(self, model: Model, choose: Choose) -> list[Sample]:
        return self.continuer(model).samples(self._validation(), choose)

    def continuer(self, model: Model) -> Continuer:
        return self.texts.continuer(model, self.window(model))

    def look(
        self, model: Model, text: str, search: Part, target: str | None, length: int
    ) -> Reading:
        """The text is given, what follows is the model's, or `target`; both are read alike."""
        return self.continuer(model).look(text, search, target, length, self._batch)
