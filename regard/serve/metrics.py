"""Figures for Prometheus."""

from collections.abc import Callable, Iterable
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

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
        self._places = Gauge(
            "regard_queue_requests", "Requests in work.", ["run"], registry=self._registry
        )
        self._highest = Gauge(
            "regard_queue_requests_highest",
            "The most requests in work at a time, so far.",
            ["run"],
            registry=self._registry,
        )
        self._items = Gauge(
            "regard_queue_inputs", "Inputs in work.", ["run"], registry=self._registry
        )
        self._rate = Gauge(
            "regard_inputs_a_second", "Inputs answered of late.", ["run"], registry=self._registry
        )
        self._version = Gauge(
            "regard_run_version", "How often it was loaded.", ["run"], registry=self._registry
        )

    def seen(self, route: str, status: int, seconds: float) -> None:
        """One request."""
        count, histogram = self._of(route, status)
        count.inc()
        histogram.observe(seconds)

    def _found(self, route: str, status: int) -> tuple[Counter, Histogram]:
        return self._requests.labels(route, str(status)), self._seconds.labels(route)

    def text(self, services: Callable[[], Iterable[object]]) -> bytes:
        """All of it, as Prometheus reads it."""
        from regard.serve.service import Service

        for service in services():
            assert isinstance(service, Service)
            self._places.labels(service.name).set(service.queue.requests)
            self._highest.labels(service.name).set(service.queue.highest)
            before, now = self._counted.get(service.name, 0), service.queue.answered
            self._inputs.labels(service.name).inc(now - before)
            self._counted[service.name] = now
            self._items.labels(service.name).set(service.queue.items)
            self._rate.labels(service.name).set(service.queue.rate())
            self._version.labels(service.name).set(service.version)
        return generate_latest(self._registry)
