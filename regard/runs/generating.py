"""A model that continues texts: what it writes as it is written, and the words that may follow."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from regard.decoding.next_words import Word, next_words
from regard.errors import UserError
from regard.model import Model
from regard.recipe.parts import Part
from regard.recipe.values import Few, Length, check
from regard.runs.shown import ShownModel
from regard.tasks import Continues, Task, check_texts


class Generates(ShownModel):
    """A model with its task, if that continues texts."""

    task: Task
    model: Model

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

    def generate(
        self,
        text: str,
        *,
        search: str | None = None,
        length: int | None = None,
        stop: Sequence[str] = (),
        **options: Any,
    ) -> Iterator[str]:
        """What a language model writes after a text, piece by piece, as it is written; together the
        same as `predict` gives. Options: as there."""
        check_texts("inputs", [text])
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
