"""All routes together, behind the guard."""

from collections.abc import Mapping
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from regard import __version__
from regard.serve import log
from regard.serve.bodies import context
from regard.serve.errors import Gone, Refusal, broken
from regard.serve.guard import Guard
from regard.serve.keys import Keys
from regard.serve.metrics import Metrics
from regard.serve.routes import (
    alternatives,
    health,
    inside,
    libretranslate,
    openai,
    page,
    predict,
    watch,
)
from regard.serve.settings import Settings
from regard.serve.shelf import Shelf


def make(
    shelf: Shelf,
    settings: Settings,
    keys: Keys | None = None,
    watched: Mapping[str, Path] | None = None,
) -> tuple[FastAPI, Guard]:
    """The application, and what stands before it. `watched`: runs whose records are shown."""
    app = FastAPI(
        title="regard",
        version=__version__,
        description="Sequence models: predictions, translations, completions.",
        docs_url=None,  # they would fetch scripts from elsewhere
        redoc_url=None,
    )
    metrics, guards = Metrics(), list[Guard]()
    app.state.routers = [
        predict.router(shelf),
        openai.router(shelf),
        libretranslate.router(shelf),
        alternatives.router(shelf),
        inside.router(shelf),
        health.router(shelf, metrics, guards),
        page.router(page.WATCHING if watched else page.INDEX),
    ]
    if watched:
        app.state.routers.append(watch.router(watched))
    for each in app.state.routers:
        app.include_router(each)
    app.add_exception_handler(Refusal, _refuse)
    app.add_exception_handler(HTTPException, _missing)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Gone, _gone)
    app.add_exception_handler(Exception, _failed)
    guard = Guard(app, settings, keys, metrics, is_open, shelf.busy)
    guards.append(guard)
    plain = [r for each in app.state.routers for r in each.routes if "{" not in r.path]
    guard.paths = frozenset(route.path for route in plain)
    guard.direct = {("POST", r.path): r.endpoint for r in plain if "POST" in r.methods}
    return app, guard


def is_open(path: str) -> bool:
    """Whether a path needs no key."""
    return path == "/health" or page.is_page(path)


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    context(request).refused = error.code or "refused"
    body = error.body(request.url.path)
    return JSONResponse(body, status_code=error.status, headers=error.headers)


async def _missing(request: Request, error: Exception) -> Response:
    """Of Starlette's own: no such route, no such method."""
    assert isinstance(error, HTTPException)
    said = {404: "there is no such route", 405: "this route takes another method"}
    text = said.get(error.status_code, "the request is refused")
    found = await _refuse(request, Refusal(error.status_code, text, code="no_route"))
    found.headers.update(error.headers or {})
    return found


async def _invalid(request: Request, error: Exception) -> Response:
    said = "the request is not what this route takes"
    return await _refuse(request, Refusal(400, said, code="invalid"))


async def _gone(request: Request, error: Exception) -> Response:
    """For nobody."""
    context(request).refused = "gone"
    return Response(status_code=499)


async def _failed(request: Request, error: Exception) -> Response:
    """What went wrong is in the log alone, and there before anybody can ask for it."""
    log.failure("request failed", error, request=context(request).id)
    return await _refuse(request, broken(context(request).id))
