"""The page: files that were made by hand, and nothing else of this machine."""

import hashlib
import mimetypes
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request, Response

from regard.serve.errors import Refusal
from regard.serve.guard import POLICY

FILES = files("regard.serve") / "page"
INDEX, LOOKING, WATCHING = "index.html", "inside.html", "watch.html"
PREFIX, INSIDE = "/page/", "/page/inside/"
SHARED = files("regard.inspect") / "page"
"""Files of the page that looks inside models: this one is of their family."""
HEAD = b"<!-- head.html -->\n"
"""Stands in each of the pages for what all of them begin with."""
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def is_page(path: str) -> bool:
    """Whether a path is the page's own, which needs no key."""
    return path in ("/", "/favicon.ico") or path.startswith(PREFIX)


def router(first: str = INDEX) -> APIRouter:
    """`first`: the page at /."""
    made = APIRouter(include_in_schema=False)

    @made.head("/")
    @made.get("/")
    async def index(request: Request) -> Response:
        return _file(first, request)

    @made.get("/favicon.ico")
    async def icon(request: Request) -> Response:
        return _file("icon.svg", request)

    @made.get(PREFIX + "{name}")
    async def file(name: str, request: Request) -> Response:
        return _file(name, request)

    @made.get(INSIDE + "{name}")
    async def shared(name: str, request: Request) -> Response:
        return _file(name, request, SHARED)

    return made


def _file(name: str, request: Request, folder: Traversable = FILES) -> Response:
    """A file of the page, by its name: no path can be asked for, as those that are there are looked
    through, and not the disk."""
    found = next((each for each in folder.iterdir() if each.name == name and each.is_file()), None)
    if found is None:
        raise Refusal(404, "there is no such file", code="not_found")
    data = found.read_bytes()
    if name in (INDEX, LOOKING, WATCHING):
        data = data.replace(HEAD, (FILES / "head.html").read_bytes())
    tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if name == LOOKING:  # sounds that were read travel inside the answer
        sounds = POLICY.replace("media-src", "media-src data:")
        headers["content-security-policy"] = sounds
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    ending = "." + name.rpartition(".")[2]
    kind = TYPES.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(data, media_type=kind, headers=headers)
