"""A client for load tests: as little of its own as can be, since it shares the machine."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What a request got; status 0 where there was no answer."""

    status: int
    headers: Mapping[bytes, bytes]


@dataclass
class Seen:
    """What clients saw: seconds of each request, by the status that it got."""

    seconds: dict[int, list[float]] = field(default_factory=dict)
    without_wait: int = 0
    """Refusals (503) that do not say when to come again."""
    sent: int = 0
    """Requests of an open load."""
    took: float = 0.0

    def add(self, answer: Answer, seconds: float) -> None:
        self.seconds.setdefault(answer.status, []).append(seconds)
        self.without_wait += answer.status == 503 and b"retry-after" not in answer.headers

    def count(self, status: int = 200) -> int:
        return len(self.seconds.get(status, ()))

    def percentile(self, share: float, status: int = 200) -> float:
        """Milliseconds; 0 where there was none."""
        ranked = sorted(self.seconds.get(status, ()))
        return 1000 * ranked[min(len(ranked) - 1, int(share * len(ranked)))] if ranked else 0.0

    def as_dict(self, items: int = 1) -> dict[str, Any]:
        rate = self.count() * items / max(self.took, 1e-9)
        found = {f"p{round(100 * p)}_ms": round(self.percentile(p), 1) for p in (0.5, 0.95, 0.99)}
        statuses = {str(status): len(times) for status, times in self.seconds.items()}
        return {"sentences_per_second": round(rate, 1), **found, "statuses": statuses}


class Connection:
    """One that is kept."""

    def __init__(self, port: int, path: str) -> None:
        self._port, self._path = port, path
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, body: bytes) -> Answer:
        """All of the answer is read."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            head = (
                f"POST {self._path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\n"
                f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            return await self._answer(reader)
        except (OSError, asyncio.IncompleteReadError):
            await self.close()
            return Answer(0, {})

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
        lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines[1:] if b": " in line)
        await reader.readexactly(int(headers.get(b"content-length", b"0")))
        if headers.get(b"connection") == b"close":
            await self.close()
        return Answer(int(lines[0].split()[1]), headers)

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def bodies(sentences: Sequence[str], items: int, target: str) -> list[bytes]:
    """Requests of LibreTranslate's form, with so many sentences each."""
    groups = [sentences[n : n + items] for n in range(0, len(sentences) - items + 1, items)]
    texts = [list(group) if items > 1 else group[0] for group in groups]
    return [json.dumps({"q": q, "source": "auto", "target": target}).encode() for q in texts]


async def closed(
    port: int, path: str, asked: Sequence[bytes], clients: int, seconds: float
) -> Seen:
    """Clients each of which asks again once it is answered."""
    seen, began = Seen(), time.perf_counter()
    todo = iter(range(10**9))

    async def one() -> None:
        connection = Connection(port, path)
        while (now := time.perf_counter()) - began < seconds:
            answer = await connection.ask(asked[next(todo) % len(asked)])
            seen.add(answer, time.perf_counter() - now)
        await connection.close()

    await asyncio.gather(*(one() for _ in range(clients)))
    seen.took = time.perf_counter() - began
    return seen


async def opened(
    port: int, path: str, asked: Sequence[bytes], rate: float, seconds: float, most: int = 2000
) -> Seen:
    """So many requests a second, whether the last ones are answered or not."""
    seen, began, free = Seen(), time.perf_counter(), list[Connection]()
    pending: set[asyncio.Task[None]] = set()

    async def one(body: bytes) -> None:
        connection = free.pop() if free else Connection(port, path)
        now = time.perf_counter()
        answer = await connection.ask(body)
        seen.add(answer, time.perf_counter() - now)
        free.append(connection)

    while (now := time.perf_counter() - began) < seconds:
        while seen.sent < now * rate and len(pending) < most:
            task = asyncio.ensure_future(one(asked[seen.sent % len(asked)]))
            pending.add(task)
            task.add_done_callback(pending.discard)
            seen.sent += 1
        await asyncio.sleep(0.002)
    if pending:
        await asyncio.wait(pending, timeout=60)
    seen.took = time.perf_counter() - began
    for connection in free:
        await connection.close()
    return seen
