"""What examples are as texts that a language model says: plain ones here, answers in answers.py."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from regard.decoding.continuation import Continuer
from regard.decoding.likelihood import Text, measured
from regard.fields import text
from regard.model import Model

PLACES = 16
"""About how many places of texts validation looks at."""


class Texts(Protocol):
    """The texts of a unit."""

    said: ClassVar[str]
    """What is written, as a column of a table."""
    columns: ClassVar[Mapping[str, str]]
    """The sides of an example, and their columns in a table."""
    edges: ClassVar[int]
    """Positions that are read of a text beside its tokens."""

    def sides(self, values: Sequence[Any]) -> tuple[list[str], ...]:
        """The texts of the values of examples, a list for each side."""
        ...

    def measured(self, *sides: Sequence[str]) -> list[Text]:
        """Their tokens, and what these stand for."""
        ...

    def places(self, texts: Sequence[Text]) -> list[tuple[list[int], int]]:
        """Some places of texts, where validation looks how a model goes on."""
        ...

    def continuer(self, model: Model, window: int | None) -> Continuer:
        """What goes on where texts stop."""
        ...


@dataclass(frozen=True)
class Plain:
    """Lines, documents, or one running text."""

    field: text.Field
    words: bool
    """Whether tokens are words, which know nothing of how many blanks part them."""
    running: bool
    """Whether all are one text, without an end."""
    packed: bool
    """Whether they are documents, which may have several lines."""
    said: ClassVar[str] = "continuation"
    columns: ClassVar[Mapping[str, str]] = {"target": "text"}
    edges: ClassVar[int] = 1

    def sides(self, values: Sequence[Any]) -> tuple[list[str], ...]:
        """Each of them a text, or all of them together."""
        lines = [line for (line,) in values]
        return (["\n".join(lines)] if self.running else lines,)

    def measured(self, *sides: Sequence[str]) -> list[Text]:
        [texts] = sides
        return measured(self.field.tokenizer, texts, words=self.words, documents=self.packed)

    def places(self, texts: Sequence[Text]) -> list[tuple[list[int], int]]:
        rows = [each.tokens for each in texts]
        if self.running:
            return [(rows[0], len(rows[0]) * n // (PLACES + 1)) for n in range(1, PLACES + 1)]
        return [(row, len(row) // 2) for row in rows[:: max(1, len(rows) // PLACES)]]

    def continuer(self, model: Model, window: int | None) -> Continuer:
        by, before = self.field.tokenizer, self.field.before
        return Continuer(model, by, before, window, not self.running, self.packed)
