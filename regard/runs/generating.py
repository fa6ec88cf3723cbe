"""A model that continues texts: what it writes as it is written, and the words that may follow."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regard.data import dialogues
from regard.data.template import Template
from regard.decoding.answers import dialogues_of
from regard.decoding.next_words import Word, next_words
from regard.errors import UserError
from regard.recipe.parts import Part
from regard.recipe.values import Few, Length, check
from regard.runs.shown import ShownModel
from regard.tasks import Continues, Task, check_texts


class Generates(ShownModel):
    """A model with its task, if that continues texts."""

    task: Task

    @abstractmethod
    def search(self, kind: str | None = None, **options: Any) -> Part:
        """The recipe's search, or another."""

    def _continuer(self, what: str) -> Any:
        """What goes on where texts stop."""
        if not isinstance(self.task, Continues):
            raise UserError(
                f"the task {self.run.recipe.kind} takes no {what}: it continues no text"
            )
        self.model.eval()
        return self.task.continuer(self.model)

    @property
    def template(self) -> Template | None:
        """How dialogues are written, where the model answers; None of any other."""
        found = dialogues_of(self.task)
        return found.answer.form if found else None

    def prompt_tokens(self, messages: Any) -> list[int]:
        """What the model reads before it answers: a text, or a list of messages."""
        [text] = self.as_texts([messages])
        tokens: list[int] = self._continuer("prompt").tokens(text)
        return tokens

    def has_room(self, messages: Any) -> bool:
        """Whether the model can hold messages that it is to answer, and an answer as long as half
        of what it holds."""
        found = self._continuer("prompt")
        return found.window is None or 2 * len(self.prompt_tokens(messages)) <= found.window

    def as_texts(self, inputs: Sequence[Any]) -> list[str]:
        """Inputs as texts. A model that answers takes lists of messages, too, {"role": "user",
        "content": "…"}, which become JSON; one that reads files takes what stands for them."""
        reads = next(iter(self.task.fields.values()))
        if self.template is not None:
            inputs = [_shown(f"inputs[{n}]", each) for n, each in enumerate(inputs)]
        elif reads.on_disk:
            inputs = [reads.from_python(each, f"inputs[{n}]") for n, each in enumerate(inputs)]
        check_texts("inputs", inputs)
        return [*inputs]

    def generate(
        self,
        text: Any,
        *,
        search: str | None = None,
        length: int | None = None,
        stop: Sequence[str] = (),
        **options: Any,
    ) -> Iterator[str]:
        """What a language model writes after a text, or answers to one or to a list of messages,
        piece by piece, as it is written; together the same as `predict` gives. Options: as
        there."""
        [text] = self.as_texts([text])
        check_texts("stop", stop := [stop] if isinstance(stop, str) else [*stop])
        found, chosen = self._continuer("stream"), self.search(search, **options)
        most = self.run.recipe.task.output.length if length is None else length
        check("length", most, Length)
        pieces: Iterator[str] = found.pieces(text, chosen, most, stop)
        return pieces

    def next_words(self, text: str, count: int = 10) -> list[Word]:
        """The most probable words after a text, each with its probability."""
        check_texts("inputs", [text])
        check("next", count, Few)
        return next_words(self._continuer("next"), text, count)


def _shown(name: str, asked: Any) -> str:
    """A prompt as text."""
    if isinstance(asked, str):
        return asked
    if isinstance(asked, Mapping):
        raise UserError(f"{name}: a message; a dialogue is a list of them: [[…], […]]")
    try:
        return dialogues.show(dialogues.dialogue(asked))
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None
