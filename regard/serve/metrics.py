"""Figures for Prometheus: of this process, or of all that share a folder of them, taken together.

What was counted is the sum, also of processes that have ended; what is in work is the sum of those
that live.
"""

import os
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

if TYPE_CHECKING:
    from regard.serve.service import Service

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The environment's name for that folder. It is read when their library is imported."""
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """What was asked and answered, and what is in work."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "regard_requests",
            "Requests by route and status.",
            ["route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "regard_request_seconds",
            "Seconds of a request.",
            ["route"],
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._of = lru_cache(1000)(self._found)
        self._inputs = Counter(
            "regard_inputs_answered", "Inputs, so far.", ["run"], registry=self._registry
        )
        self._counted: dict[str, int] = {}
        self._places = self._gauge("queue_requests", "Requests in work.", "livesum")
        self._highest = self._gauge(
            "queue_requests_highest", "The most requests in work at a time, so far.", "livemax"
        )
        self._items = self._gauge("queue_inputs", "Inputs in work.", "livesum")
        self._rate = self._gauge("inputs_a_second", "Inputs answered of late.", "livesum")
        self._version = self._gauge("run_version", "How often it was loaded.", "livemin")

    def _gauge(self, name: str, said: str, together: str) -> Gauge:
        """`together`: what the figures of several processes come to."""
        how = {"registry": self._registry, "multiprocess_mode": together}
        return Gauge(f"regard_{name}", said, ["run"], **how)  # type: ignore[arg-type]

    def seen(self, route: str, status: int, seconds: float) -> None:
        """One request."""
        count, histogram = self._of(route, status)
        count.inc()
        histogram.observe(seconds)

    def _found(self, route: str, status: int) -> tuple[Counter, Histogram]:
        return self._requests.labels(route, str(status)), self._seconds.labels(route)

    def look(self, services: Iterable["Service"]) -> None:
        """Take down how the runs stand. Each process does so now and then, as another may be
        asked."""
        for service in services:
            self._places.labels(service.name).set(service.queue.requests)
            self._highest.labels(service.name).set(service.queue.highest)
            before, now = self._counted.get(service.name, 0), service.queue.answered
            self._inputs.labels(service.name).inc(now - before)
            self._counted[service.name] = now
            self._items.labels(service.name).set(service.queue.items)
            self._rate.labels(service.name).set(service.queue.rate())
            self._version.labels(service.name).set(service.version)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        every = CollectorRegistry()
        MultiProcessCollector(every)  # type: ignore[no-untyped-call]
        return generate_latest(every)
