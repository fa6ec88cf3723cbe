"""The news of each step of a search, and the hypotheses that come of it."""

from collections.abc import Generator, Sequence as Rows
from typing import NamedTuple

from regard.search._frontier import Hypothesis, Request, Sentence
from regard.types import DecoderState


class History:
    """The hypotheses of the sentences that are done, by their numbers."""

    def __init__(self) -> None:
        self.results: dict[int, list[Hypothesis]] = {}
        self._new: list[int] = []  # not given yet

    def add(self, done: Rows[Sentence]) -> None:
        """Sentences have come to their end."""
        self.results |= {sentence.number: sentence.hypotheses() for sentence in done}
        self._new += [sentence.number for sentence in done]

    def news(self, sentences: Rows[Sentence]) -> "News":
        """Of the last step, in which these took part."""
        done, self._new = self._new, []
        return News(sentences, {number: self.results[number] for number in done})

    def all(self) -> list[list[Hypothesis]]:
        """Of all sentences, in the order in which they came."""
        return [self.results[number] for number in sorted(self.results)]


class News(NamedTuple):
    """What one step has brought: to be looked at before the next."""

    sentences: Rows[Sentence]
    """Those that took part; their `tokens` are what each hypothesis has written at last, of beam
    search those that are followed."""
    finished: dict[int, list[Hypothesis]]
    """The hypotheses of the sentences that came to their end, by their numbers: the first that
    came is 0."""

    def best(self) -> dict[int, Hypothesis]:
        """The best hypothesis of each sentence, as far as it was written."""
        return {sentence.number: sentence.best() for sentence in self.sentences}


Arrival = tuple[DecoderState, Request]
"""Sentences that come into a running batch."""
Steps = Generator[News, Arrival | None, list[list[Hypothesis]]]
"""Gives the news of each step, takes sentences that come, returns the hypotheses of all."""


def drain(steps: Steps) -> list[list[Hypothesis]]:
    """Take all steps."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            found: list[list[Hypothesis]] = stop.value
            return found
