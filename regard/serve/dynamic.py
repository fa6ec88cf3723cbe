"""Dynamic batches: what waits with the same options is answered together.

A request that came while a batch was in work waits for its end; then as many as there are, up to a
budget of inputs and of tokens, go on together. With several threads the next batch begins while the
last is still going on, so that no core waits for the longest sentence of a batch.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from regard.data.readers import Report
from regard.decoding.matching import Choices, Retrieves
from regard.decoding.prediction import Prediction
from regard.errors import UserError
from regard.front import Predictor
from regard.serve import log
from regard.serve.work import Options, Work

ITEMS = 64
"""Inputs of a batch, but that one request's inputs stay together."""
BYTES = 32_768
"""Of the texts of a batch, with the same exception. A token is a byte of UTF-8 at least, whatever
the tokenizer, so that a batch has no more tokens than this; usually it has a quarter as many. To
count them would be to tokenize twice."""


class Dynamic:
    """Threads that answer requests by `Predictor.predictions`."""

    def __init__(self, predictor: Predictor, threads: int, items: int = ITEMS) -> None:
        self._predictor, self._items = predictor, items
        self._waiting: deque[Work] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def put(self, work: Work) -> None:
        with self._changed:
            self._waiting.append(work)
            self._changed.notify()

    def close(self) -> None:
        """Answer what is here, and take no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while group := self._take():
            self._answer(group)  # of which nothing is held while the next is waited for
            del group

    def _answer(self, group: list[Work]) -> None:
        news: list[Callable[[], None]] = []
        for work, found in self._answered(group):
            failed = isinstance(found, Exception)
            news.append(work.fail(found) if failed else work.answer(found))  # type: ignore[arg-type]
        group[0].deliver(news)

    def _take(self) -> list[Work]:
        """The oldest request and those that can be answered with it; none at the end of all."""
        with self._changed:
            while True:
                while self._waiting and self._waiting[0].cancelled:
                    self._waiting.popleft()
                if self._waiting:
                    break
                if self._closed:
                    return []
                self._changed.wait()
            first = self._waiting.popleft()
            group, left = [first], deque[Work]()
            count, size = len(first.inputs), first.size
            while self._waiting:
                work = self._waiting.popleft()
                fits = count + len(work.inputs) <= self._items and size + work.size <= BYTES
                if work.cancelled:
                    continue
                if fits and _together(first, work):
                    group.append(work)
                    count, size = count + len(work.inputs), size + work.size
                else:
                    left.append(work)
                if count >= self._items:
                    break
            left.extend(self._waiting)
            self._waiting = left
            if left:
                self._changed.notify()
            return group

    def _answered(self, group: list[Work]) -> list[tuple[Work, list[Prediction] | Exception]]:
        """What is found for each request, or why nothing is: one that cannot be answered spoils no
        other."""
        inputs = [text for work in group for text in work.inputs]
        prefixes = None
        if any(work.forced for work in group):
            prefixes = [p for work in group for p in work.prefixes or [""] * len(work.inputs)]
        try:
            every = iter(self._predictions(inputs, prefixes, group[0].options))
            return [(work, [next(every) for _ in work.inputs]) for work in group]
        except Exception as error:
            if len(group) > 1:
                return [pair for work in group for pair in self._answered([work])]
            if not isinstance(error, UserError):
                log.failure("prediction failed", error)
            return [(group[0], error)]

    def _predictions(
        self, inputs: list[str], prefixes: list[str] | None, options: Options
    ) -> list[Prediction]:
        compares = isinstance(self._predictor.task, Retrieves)
        if options.choices and compares:
            among = Choices.read(options.choices, Report())
            task: Any = self._predictor.task
            model = self._predictor.model
            found: list[Prediction] = task.matcher.predict(model, inputs, choices=among)
            return found
        keywords = options.keywords()
        return list(self._predictor.predictions(inputs, prefixes=prefixes, **keywords))


def _together(one: Work, other: Work) -> bool:
    """Whether two requests can be answered in one call."""
    return one.options == other.options and not (one.alone or other.alone)
