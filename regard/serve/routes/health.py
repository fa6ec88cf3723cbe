"""`/health`: alive; `/ready`: the models are loaded; `/metrics`: figures for Prometheus."""

from fastapi import APIRouter, Response

from regard.serve.described import described
from regard.serve.errors import Refusal
from regard.serve.guard import Guard
from regard.serve.metrics import Metrics
from regard.serve.shelf import Shelf


def router(shelf: Shelf, metrics: Metrics, guard: list[Guard]) -> APIRouter:
    """`guard` is filled once it stands around these routes."""
    made = APIRouter()

    @made.head("/health", include_in_schema=False)
    @made.get("/health", **described(None, "The server is alive."))
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @made.head("/ready", include_in_schema=False)
    @made.get("/ready", **described(None, "All models can be asked."))
    async def ready() -> dict[str, str]:
        if guard and guard[0].draining:
            raise Refusal(503, "the server is going down", code="draining", retry=1)
        if not shelf.ready:
            raise Refusal(503, "the models are being loaded", code="loading", retry=2)
        return {"status": "ready"}

    @made.get(
        "/metrics",
        **described(None, "Figures.", media="text/plain", kind={"type": "string"}),
    )
    async def figures() -> Response:
        metrics.look(shelf)
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return made
