"""Answers to prompts: what a language model says where a template lets it speak.

    p(y | x) = Π_t p(yₜ | x, y₁ … yₜ₋₁)

x is the dialogue up to the answer y, of which the token that ends it is a part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

from regard import metrics
from regard.data import dialogues
from regard.data.readers import excerpt
from regard.decoding.continuation import Continuer
from regard.decoding.likelihood import Text, spelling
from regard.decoding.prediction import Choose, Prediction, Sample
from regard.decoding.texts import PLACES, Texts
from regard.errors import UserError
from regard.fields.dialogue import Field, Prompt
from regard.metrics import Score
from regard.model import Model
from regard.recipe.parts import Part, module
from regard.search import Hypothesis

WRITTEN = 40
"""Tokens of a sample."""
SCORES = ("exact", "chrf")


@dataclass(frozen=True)
class Answerer(Continuer):
    """A model that answers; a prompt is a text, or a dialogue as JSON."""

    prompt: Prompt = field(kw_only=True)
    fresh: ClassVar[bool] = True

    @property
    def end(self) -> int:
        return self.prompt.form.end

    def tokens(self, text: str) -> list[int]:
        return self.prompt.form.prompts([asked(self.prompt, text)])[0][0]

    def tokens_of_both(self, text: str, target: str) -> list[int]:
        return [*self.tokens(text), *self.prompt.form.answers([target])[0]]

    def opened(self, tokens: list[int]) -> list[int]:
        return tokens or [self.before]  # the template says how a dialogue begins

    def decode(self, tokens: Sequence[int]) -> str:
        return self.by.decode(tokens)

    def text(self, prompt: list[int], written: Sequence[int]) -> str:
        return self.decode(written)

    def held(self, row: list[int], done: Hypothesis) -> list[int]:
        """All of a prompt, if the model can hold it."""
        whole = [*row, *done.tokens]
        return whole if self.window is None or len(whole) <= self.window else whole[-self._kept :]

    def prediction(self, prompt: list[int], *found: Any) -> Prediction:
        made = super().prediction(prompt, *found)
        long = self.window is not None and len(prompt) > self.window
        return replace(made, status="cut") if long else made

    def samples(self, sides: Sequence[Sequence[str]], choose: Choose) -> list[Sample]:
        """Answers to some prompts."""
        prompts, answers = sides
        chosen = choose(len(prompts))
        greedy = Part("greedy", module("search", "greedy").Config())
        inputs = [prompts[n] for n in chosen]
        found = self.predict(inputs, greedy, WRITTEN, max(1, len(inputs)), 0)
        rows = zip(inputs, (answers[n] for n in chosen), found, strict=True)
        return [Sample(prompt, answer, made.text) for prompt, answer, made in rows]


@dataclass(frozen=True)
class Dialogues:
    """Prompts and answers: of the form of `texts.Texts`."""

    prompt: Prompt
    answer: Field
    words: bool
    said: ClassVar[str] = "answer"
    columns: ClassVar[Mapping[str, str]] = dict(zip(dialogues.SIDES, dialogues.SIDES, strict=True))
    edges: ClassVar[int] = -1
    """The end of a dialogue is one of its tokens, and is not read."""

    def sides(self, values: Sequence[Any]) -> tuple[list[str], ...]:
        """Every answer of every dialogue, each with all that comes before it."""
        found = [turn for each in values for turn in dialogues.turns(*each)]
        return [self.prompt.show(prompt) for prompt, _ in found], [answer for _, answer in found]

    def measured(self, *sides: Sequence[str]) -> list[Text]:
        """The answers, which alone count."""
        prompts, answers = sides
        by, form, found = self.answer.tokenizer, self.answer.form, []
        given = form.prompts([asked(self.prompt, text) for text in prompts])
        for (before, _), answer, tokens in zip(given, answers, form.answers(answers), strict=True):
            extra = spelling(by, by.words(answer), tokens[:-1]) if by.unknown in tokens else 0
            shown = (" ".join(answer.split()) if self.words else answer) + "\n"
            found.append(Text(tokens, len(shown), len(shown.encode()), extra, before))
        return found

    def places(self, texts: Sequence[Text]) -> list[tuple[list[int], int]]:
        """Where some answers begin."""
        return [(each.whole, len(each.given)) for each in texts[:: max(1, len(texts) // PLACES)]]

    def continuer(self, model: Model, window: int | None) -> Continuer:
        by = self.answer.tokenizer
        return Answerer(model, by, by.start, window, ends=True, prompt=self.prompt)


@runtime_checkable
class Converses(Protocol):
    """A task whose texts may be dialogues."""

    texts: Texts


def dialogues_of(task: Any) -> Dialogues | None:
    """How a task's model answers, if it does."""
    texts = task.texts if isinstance(task, Converses) else None
    return texts if isinstance(texts, Dialogues) else None


def asked(prompt: Prompt, text: str) -> dialogues.Dialogue:
    """What a user asks; a dialogue that is none is refused."""
    try:
        return prompt.parse(text)
    except ValueError as error:
        raise UserError(f"{error}: “{excerpt(text)}”") from None


def graded(outputs: Sequence[Prediction], answers: Sequence[str], samples: int) -> dict[str, Score]:
    """Whether answers are those of the data, and how near they come."""
    texts, right = [each.text for each in outputs], [[answer] for answer in answers]
    return metrics.translation(texts, right, metrics=SCORES, samples=samples)
