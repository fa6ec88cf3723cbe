"""What stands before every route: who asks, how much, how often; and the headers of every answer.

The body of a request is read here, within its limits of bytes and seconds, so that no route waits
for a client, and what a route sees is whole.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from regard.serve import log
from regard.serve.errors import Gone, Refusal, broken
from regard.serve.keys import Keys, Rates
from regard.serve.metrics import Metrics
from regard.serve.settings import LOOPBACK, Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Endpoint = Callable[[Request], Awaitable[Response]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; connect-src 'self'; font-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"microphone=(self), camera=(self), geolocation=()",
    b"cache-control": b"no-store",
}
"""Of every answer, but for those that a route sets itself."""
IN_BODY = ("/translate", "/detect", "/languages", "/frontend/settings")
"""Where LibreTranslate's clients may have their key in the body."""
HELD = 200_000_000
"""Bytes of all bodies that are held at a time."""
EXCERPT = 200
"""Characters of a request that are logged, if any are."""
SMALL = 1_000_000
"""Bytes of a body that is searched for a key."""
HERE = "regard.here"
"""Where a connection keeps the contexts of its requests: they hear of its end."""
Found = TypeVar("Found")


@dataclass(eq=False)
class Context:
    """What is known of a request before its route is: `scope["regard"]`."""

    id: str
    client: str = ""
    body: bytes = b""
    run: str = ""
    """The run that answers, for the log."""
    items: int = 0
    refused: str = ""
    """Why it was not answered, for the log."""
    _gone: bool = False
    _waits: "asyncio.Task[Any] | None" = None

    def leave(self) -> None:
        """The client has gone away: the connection says so (`regard.serve.protocol`)."""
        self._gone = True
        if self._waits is not None:
            self._waits.cancel()

    def _has_left(self) -> bool:
        return self._gone

    async def unless_gone(self, answer: Coroutine[Any, Any, Found]) -> Found:
        """What is awaited; Gone, and it is cancelled, if the client goes away before. No task of
        its own: there is one of these in every request."""
        if self._has_left():
            answer.close()
            raise Gone
        task = self._waits = asyncio.current_task()
        try:
            return await answer
        except asyncio.CancelledError:
            if self._has_left() and task is not None and not task.uncancel():
                raise Gone from None
            raise
        finally:
            self._waits = None


class Guard:
    """An ASGI application around another."""

    def __init__(
        self,
        app: App,
        settings: Settings,
        keys: Keys | None,
        metrics: Metrics,
        is_open: Callable[[str], bool],
        busy: Callable[[], Refusal | None],
    ) -> None:
        """`is_open`: whether a path needs no key; `busy`: why nobody can be answered now."""
        self._app, self._settings, self._keys = app, settings, keys
        self.metrics, self._is_open, self._busy = metrics, is_open, busy
        self._rates = Rates(settings.rate)
        self._held = 0
        self._reading: dict[asyncio.Timeout, None] = {}
        """The time that is left to each body that has not come whole, the oldest first."""
        self.paths: frozenset[str] = frozenset()
        """Of routes without parameters."""
        self.direct: dict[tuple[str, str], Endpoint] = {}
        """By method and path: routes that take a request as it is, without the application's
        layers between, which would cost more than all else that is done for a short text."""
        self.draining = False
        """Nothing more is taken on: the server is about to end."""
        self._hosts = {name.lower() for name in settings.hosts}
        if not self._hosts and settings.local and not settings.behind_proxy:
            self._hosts = {*LOOPBACK, settings.host.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await _Exchange(self, scope, receive, send).run()
        else:  # a websocket, of which there is none
            await send({"type": "websocket.close", "code": 1008})

    # What an exchange asks

    def check_origin(self, headers: dict[bytes, bytes]) -> None:
        """Refuse what another page, or another name for this machine, makes a browser send."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = urlsplit(f"//{host}").hostname if _is_host(host) else None
        if name is None:
            raise Refusal(400, "the header Host is not one", code="bad_host")
        if self._hosts and name not in self._hosts:
            raise Refusal(403, "this server goes by another name", code="wrong_host")
        origin = headers.get(b"origin")
        if origin is not None and urlsplit(origin.decode("latin-1")).netloc.lower() != host:
            raise Refusal(403, "requests from other pages are refused", code="cross_origin")

    def known(self, scope: Scope, headers: dict[bytes, bytes]) -> str | None:
        """The client, if it has said enough before its body; None if its key may be in there."""
        address = (scope.get("client") or ("unknown", 0))[0]
        if self._keys is None:
            return str(address)
        scheme, _, key = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not key:
            query = parse_qs(scope["query_string"].decode("latin-1"))
            key = query.get("api_key", [""])[0]
        if not key and scope["path"] in IN_BODY:
            return None
        return self.named(key.strip(), str(address))

    def named(self, key: str, address: str) -> str:
        """The client with a key; 401 if there is none."""
        assert self._keys is not None
        found = self._keys.who(key) if key else None
        if found is None:
            self._rates.take(f"address {address}")
            what = "this API key is not known" if key else "an API key is needed"
            raise Refusal(401, what, code="invalid_api_key")
        return found

    async def read(self, scope: Scope, receive: Receive, headers: dict[bytes, bytes]) -> bytes:
        """The body, whole; it counts as held until `drop`."""
        limit, seconds = self._settings.body_bytes, self._settings.body_seconds
        too_large = Refusal(413, f"at most {limit:,} bytes in a request", code="too_large")
        if (length := headers.get(b"content-length", b"0")).isdigit() and int(length) > limit:
            raise too_large
        chunks, size = [], 0
        end = asyncio.timeout(seconds)
        self._reading[end] = None
        try:
            async with end:
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Gone
                    chunks.append(message.get("body", b""))
                    size += len(chunks[-1])
                    self._held += len(chunks[-1])
                    if size > limit:
                        raise too_large
                    if self._held > HELD:
                        self._make_room(end)
                    if not message.get("more_body", False):
                        kept, size = b"".join(chunks), 0
                        return kept
        except TimeoutError:
            if end not in self._reading:
                raise _no_room() from None
            late = f"the body did not come within {seconds:g} seconds"
            raise Refusal(408, late, code="slow_body") from None
        finally:
            self._reading.pop(end, None)
            self._held -= size

    def _make_room(self, end: asyncio.Timeout) -> None:
        """Give up the oldest body that has not come whole, which may be the one that asks."""
        oldest = next(iter(self._reading), end)
        self._reading.pop(oldest, None)
        if oldest is end:
            raise _no_room()
        oldest.reschedule(0)

    def route(self, path: str) -> str:
        """What was asked for, of a request that was refused before it found its route; for figures,
        whose names must be few."""
        return path if path in self.paths else "other"

    def drop(self, body: bytes) -> None:
        """A body is needed no more."""
        self._held -= len(body)


class _Exchange:
    """One request and its answer."""

    def __init__(self, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        self._guard, self._scope, self._receive, self._send = guard, scope, receive, send
        self._began = time.perf_counter()
        self._status = 0
        self.context = Context(id=f"req-{secrets.token_hex(8)}")
        scope["regard"] = self.context

    async def run(self) -> None:
        here: set[Context] = self._scope.get(HERE, set())
        here.add(self.context)
        try:
            await self._checked()
        except Gone:
            self.context.refused = "gone"
            self._status = self._status or 499
        except Refusal as refusal:
            self.context.refused = refusal.code or "refused"
            await self._refuse(refusal)
        except Exception as error:
            if self.context.refused != "internal":  # else the app has said so
                log.failure("request failed", error, request=self.context.id)
            self.context.refused = "internal"
            await self._refuse(broken(self.context.id))
        finally:
            here.discard(self.context)
            self._log()
            self._guard.drop(self.context.body)

    async def _checked(self) -> None:
        guard, scope, context = self._guard, self._scope, self.context
        headers = dict(scope["headers"])
        if guard.draining and not guard._is_open(scope["path"]):
            raise Refusal(503, "the server is going down", code="draining", retry=1)
        guard.check_origin(headers)
        if guard._is_open(scope["path"]):
            context.client = "anybody"
        else:
            context.client = guard.known(scope, headers) or ""
        if context.client not in ("", "anybody"):
            guard._rates.take(context.client)
        if scope["method"] == "POST" and (refusal := guard._busy()):
            raise refusal
        has_body = b"content-length" in headers or b"transfer-encoding" in headers
        if has_body and headers.get(b"content-length") != b"0":
            context.body = await guard.read(scope, self._receive, headers)
        if not context.client:
            address = str((scope.get("client") or ("unknown", 0))[0])
            context.client = guard.named(await self._key_in_body(headers), address)
            guard._rates.take(context.client)
        direct = guard.direct.get((scope["method"], scope["path"]))
        if direct is None:
            await guard._app(scope, self._replayed(), self._answer)
        else:
            answer = await direct(Request(scope, self._replayed()))
            await answer(scope, self._receive, self._answer)

    def _replayed(self) -> Receive:
        """The body once more, for who reads it as if it were new."""
        first = True

        async def receive() -> Message:
            nonlocal first
            if first:
                first = False
                return {"type": "http.request", "body": self.context.body, "more_body": False}
            return await self._receive()

        return receive

    async def _key_in_body(self, headers: dict[bytes, bytes]) -> str:
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        try:
            if kind == b"application/json" and len(self.context.body) <= SMALL:
                found = json.loads(self.context.body)
                return str(found.get("api_key", "")) if isinstance(found, dict) else ""
            form = await Request(self._scope, self._replayed()).form(max_files=1, max_fields=20)
            return str(form.get("api_key", ""))
        except Exception:  # whatever is wrong with the body, it has no key
            return ""

    async def _answer(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            given = {name.lower() for name, _ in message["headers"]}
            added = [(n, v) for n, v in HEADERS.items() if n not in given]
            added.append((b"x-request-id", self.context.id.encode()))
            if self._guard.draining:
                added.append((b"connection", b"close"))
            message = {**message, "headers": [*message["headers"], *added]}
        await self._send(message)

    async def _refuse(self, refusal: Refusal) -> None:
        """Unless an answer has begun, which then ends where it is."""
        if self._status:
            return
        body = json.dumps(refusal.body(self._scope["path"])).encode()
        extra = [(n.encode(), v.encode()) for n, v in refusal.headers.items()]
        if refusal.status in (408, 413):
            extra.append((b"connection", b"close"))
        kind = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        start = {"type": "http.response.start", "status": refusal.status}
        await self._answer({**start, "headers": [*kind, *extra]})
        await self._answer({"type": "http.response.body", "body": body})

    def _log(self) -> None:
        guard, context, scope = self._guard, self.context, self._scope
        seconds = time.perf_counter() - self._began
        route = scope.get("route")
        path = route.path if route is not None else guard.route(scope["path"])
        guard.metrics.seen(path, self._status, seconds)
        if guard._settings.log == "errors" and self._status < 500:
            return
        about: dict[str, Any] = {
            "request": context.id,
            "method": scope["method"],
            "route": path,
            "status": self._status,
            "ms": round(1000 * seconds, 1),
            "client": context.client,
            "bytes": len(context.body),
        }
        if context.run:
            about |= {"run": context.run, "items": context.items}
        if context.refused:
            about["refused"] = context.refused
        if guard._settings.log_texts and context.body:
            about["body"] = context.body[:EXCERPT].decode("utf-8", "replace")
        log.say("request", **about)


def _no_room() -> Refusal:
    return Refusal(503, "busy: try again later", code="memory", retry=1)


def _is_host(host: str) -> bool:
    """Whether it can be a name with a port."""
    try:
        found = urlsplit(f"//{host}")
        return bool(found.hostname) and found.netloc == host and (found.port or 1) > 0
    except ValueError:
        return False
