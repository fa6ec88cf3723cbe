"""What a client asks of a model, on its way from the event loop to the model's threads and back."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from regard.decoding.prediction import Prediction


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is asked beside the inputs: those with equal options can be answered together."""

    search: str | None = None
    """The kind of search; the recipe's own otherwise."""
    how: tuple[tuple[str, Any], ...] = ()
    """Keys of the search's section."""
    length: int | None = None
    stop: tuple[str, ...] = ()
    align: bool = False
    split: bool = False
    top: int | None = None
    details: bool = True
    choices: tuple[str, ...] = ()
    """Texts to choose from, of a model that compares."""

    def keywords(self) -> dict[str, Any]:
        """As `Predictor.predictions` takes them."""
        return {
            "search": self.search,
            "length": self.length,
            "stop": self.stop,
            "align": self.align,
            "split": self.split,
            "top": self.top,
            "details": self.details,
            **dict(self.how),
        }


class Work:
    """The inputs of one request, and the way back for what is made of them.

    Made in the event loop; the model's threads call `answer`, `fail` and `say` alone."""

    def __init__(
        self,
        inputs: Sequence[str],
        options: Options,
        *,
        prefixes: Sequence[str] | None = None,
        streams: bool = False,
    ) -> None:
        self.inputs, self.options = list(inputs), options
        self.prefixes = list(prefixes) if prefixes and any(prefixes) else None
        self.size = sum(len(text.encode()) for text in self.inputs)
        """Bytes of the texts, in UTF-8."""
        self.alone = False
        """Whether it draws by chance: draws go by an input's number in its own request, so that no
        other can be answered in the same call."""
        self.cancelled = False
        """Nobody waits for it any more."""
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[list[Prediction]] = self._loop.create_future()
        self.pieces: asyncio.Queue[str | None] | None = asyncio.Queue() if streams else None
        """What is written, as it is written; None at its end. Nothing is dropped: a request has an
        upper limit of tokens."""

    @property
    def forced(self) -> bool:
        """Whether any output must begin as the client says."""
        return self.prefixes is not None

    def answer(self, found: list[Prediction]) -> Callable[[], None]:
        """For `deliver`: what came of it."""

        def put() -> None:
            if not self.done.done():
                self.done.set_result(found)
            if self.pieces is not None:
                self.pieces.put_nowait(None)

        return put

    def fail(self, error: Exception) -> Callable[[], None]:
        """For `deliver`: why nothing came of it. What an error knows of where it was raised holds
        the model; the log has it by now."""
        error.__traceback__ = error.__context__ = error.__cause__ = None

        def put() -> None:
            if not self.done.done():
                self.done.set_exception(error)
            if self.pieces is not None:
                self.pieces.put_nowait(None)

        return put

    def say(self, piece: str) -> Callable[[], None]:
        """For `deliver`: a piece of what is written."""
        assert self.pieces is not None
        queue = self.pieces
        return lambda: queue.put_nowait(piece)

    def deliver(self, news: Iterable[Callable[[], None]]) -> None:
        """Let the event loop take news, of this request and of others, all in one go; once the loop
        is gone nobody listens."""
        todo = list(news)
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(_each, todo)


def _each(todo: list[Callable[[], None]]) -> None:
    for put in todo:
        put()
