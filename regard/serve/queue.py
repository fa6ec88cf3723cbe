"""Who is let in: a request's inputs find places, all of them, or it is refused at once.

How long a refused client should wait is what the places that are taken will take, by the rate at
which inputs were answered of late:

    seconds = inputs in work / (inputs answered a second)
"""

import time
from collections import deque
from collections.abc import Callable

from regard.serve.errors import Refusal

RECENT = 10.0
"""Seconds whose answers count in the rate."""
UNKNOWN = 1.0
"""Seconds to wait where no rate is known."""


class Place:
    """That of one request; given back once."""

    def __init__(self, queue: "Queue", items: int) -> None:
        self._queue, self._items = queue, items

    def leave(self, *, answered: bool) -> None:
        """Answered, or given up; a second call does nothing."""
        items, self._items = self._items, 0
        if items:
            self._queue.release(items, answered=answered)


class Queue:
    """The places of a run. Belongs to the event loop: no other thread may touch it."""

    def __init__(
        self, requests: int, items: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.most_requests, self.most_items = requests, items
        self.requests = self.items = 0
        """In work or waiting."""
        self.answered = 0
        """Inputs, since the beginning."""
        self.highest = 0
        """The most requests that ever were."""
        self._clock = clock
        self._answers: deque[tuple[float, int]] = deque()
        self._recent = 0

    def admit(self, items: int) -> Place:
        """Places for so many inputs; Refusal if there are none."""
        if items > self.most_items:
            raise Refusal(400, f"at most {self.most_items:,} inputs", code="too_many_items")
        if self.full or self.items + items > self.most_items:
            raise self.refusal()
        self.requests += 1
        self.items += items
        self.highest = max(self.highest, self.requests)
        return Place(self, items)

    @property
    def full(self) -> bool:
        return self.requests >= self.most_requests or self.items >= self.most_items

    def refusal(self) -> Refusal:
        return Refusal(503, "busy: try again later", code="queue_full", retry=self.wait())

    def release(self, items: int, *, answered: bool) -> None:
        self.requests -= 1
        self.items -= items
        if answered:
            self.answered += items
            self._answers.append((self._clock(), items))
            self._recent += items
            self._forget()

    def _forget(self) -> None:
        oldest = self._clock() - RECENT
        while self._answers and self._answers[0][0] < oldest:
            self._recent -= self._answers.popleft()[1]

    def rate(self) -> float:
        """Inputs answered a second, of late; 0 if none were."""
        self._forget()
        if not self._answers:
            return 0.0
        # Of a queue that has just begun to answer, not all of the time has passed.
        return self._recent / max(1.0, self._clock() - self._answers[0][0])

    def wait(self) -> float:
        """Seconds until what is here now will have been answered."""
        rate = self.rate()
        return self.items / rate if rate else UNKNOWN
