"""Connections of clients that are slow, silent, or too many: they are cut, others are served."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from regard.serve.guard import HERE, Context

HEADER_BYTES = 32_768
"""Of the line and the headers of a request together."""
LAST = 0.5
"""Seconds for which connections without a request stay open when the server ends."""
TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    + b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


class Limits:
    """What a connection may take; all those of a server share one."""

    def __init__(self, most: int, header_seconds: float, stalled_seconds: float) -> None:
        """`stalled_seconds`: for how long a client may read nothing of what is written to it."""
        self.most, self.header_seconds = most, header_seconds
        self.stalled_seconds = stalled_seconds
        self.waiting: dict[Protocol, None] = {}
        """Connections whose client is to act next: to send headers, the rest of a body, or to read
        its answer. Those that have waited for longest come first."""
        self.count = 0


def limited(limits: Limits) -> type["Protocol"]:
    """The protocol with these limits, as uvicorn takes it."""
    return type("Limited", (Protocol,), {"limits": limits})


class Protocol(HttpToolsProtocol):
    """HTTP with a time for headers and a bound on bytes and connections.

    From the first byte of a request, or the beginning of a connection, its headers have some
    seconds; how long a body may take is the guard's to say. Where there are too many connections,
    the one that has waited for its client for longest is cut."""

    limits: Limits

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._header_bytes = self._counted = 0
        self._here: set[Context] = set()
        """Requests that are being answered."""
        self._late: Any = None
        self._stalled: Any = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.limits.count += 1
        self._await_headers()
        if self.limits.count > self.limits.most:
            next(iter(self.limits.waiting)).cut()

    def connection_lost(self, exc: Exception | None) -> None:
        self.limits.count -= 1
        self._stop_waiting()
        self._not_stalled()
        super().connection_lost(exc)
        for each in self._here:
            each.leave()

    def shutdown(self) -> None:
        """The server ends. A request may be on its way that we have not read: it is to be refused,
        and not to find a closed door."""
        if self.cycle is None or self.cycle.response_complete:
            self.loop.call_later(LAST, super().shutdown)
        else:
            super().shutdown()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.limits.waiting.setdefault(self)
        if self._stalled is None:
            self._stalled = self.loop.call_later(self.limits.stalled_seconds, self.cut)

    def resume_writing(self) -> None:
        self._not_stalled()
        if not (self.cycle.response_complete or self.cycle.more_body):
            self.limits.waiting.pop(self, None)
        super().resume_writing()

    def _not_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def on_header(self, name: bytes, value: bytes) -> None:
        self._counted += len(name) + len(value)
        if self._counted > HEADER_BYTES:
            raise ValueError("too many headers")
        super().on_header(name, value)

    def on_message_begin(self) -> None:
        self._counted = 0
        super().on_message_begin()
        self.scope[HERE] = self._here  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._stop_waiting()
        self.limits.waiting[self] = None

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if not self.cycle.response_complete:
            self.limits.waiting.pop(self, None)

    def cut(self) -> None:
        """Close at once, whatever is still to be read or written."""
        self._stop_waiting()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.abort()

    def _await_headers(self) -> None:
        self.limits.waiting.setdefault(self)
        if self._late is None:
            self._late = self.loop.call_later(self.limits.header_seconds, self.cut)

    def _stop_waiting(self) -> None:
        self.limits.waiting.pop(self, None)
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def data_received(self, data: bytes) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            super().data_received(data)
            return
        self._await_headers()
        self._header_bytes += len(data)
        begun = self.cycle
        super().data_received(data)
        too_many = self.cycle is begun and self._header_bytes > HEADER_BYTES
        if too_many and not self.transport.is_closing():
            self.transport.write(TOO_LARGE)
            self.transport.close()
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            # Idle from now on: uvicorn closes it after a while, and so may we.
            self._header_bytes = 0
            self.limits.waiting[self] = None
