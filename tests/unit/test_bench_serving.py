"""What the benchmark of serving makes of its figures, and the client that it has them from."""

import asyncio
from typing import Any

import pytest

from bench import load, serving


def figures(rate: float) -> dict[str, Any]:
    return {"sentences_per_second": rate, "of_offline": rate / 100}


def sizes(**over: Any) -> dict[str, Any]:
    """Of a server that is as good as it should be."""
    servers = {
        "regard": {"1": figures(70), "16": figures(90)},
        "FastAPI, CTranslate2": {"1": figures(60), "16": figures(80)},
        "FastAPI, Hugging Face": {"1": figures(10)},
    }
    base = {"regard": {"1": figures(90), "16": figures(90)}}
    usual: dict[str, Any] = {
        "times_usual": 10.0,
        "most_in_queue": 96,
        "admitted": {"statuses": {"200": 500, "503": 4000}},
        "without_wait": 0,
        "refused_p99_ms": 20.0,
        "admitted_p99_times_usual": 1.5,
        "megabytes": [90.0, 100.0, 102.0, 104.0, 102.0, 101.0, 103.0],
    }
    return {"run": {"servers": servers}, "base": {"servers": base, "overload": usual | over}}


def test_a_server_that_is_good_enough_misses_nothing() -> None:
    lines = serving._verdicts(sizes())
    assert serving._judged(lines) == []
    names = [name for name, *_ in lines]
    assert "run, 16 each, of FastAPI, CTranslate2" in names


@pytest.mark.parametrize(
    ("over", "missed"),
    [
        ({"times_usual": 6.0}, "times the usual rate"),
        ({"most_in_queue": 97}, "requests in the queue"),
        ({"admitted": {"statuses": {"200": 500}}}, "refused requests"),
        ({"admitted": {"statuses": {"200": 9, "503": 9, "504": 1}}}, "neither 200 nor 503"),
        ({"admitted": {"statuses": {"200": 9, "503": 9, "0": 1}}}, "neither 200 nor 503"),
        ({"without_wait": 1}, "refusals without Retry-After"),
        ({"refused_p99_ms": 51.0}, "refusals, p99 in ms"),
        ({"admitted_p99_times_usual": 2.1}, "admitted, p99 of the usual"),
        ({"megabytes": [90.0, 100.0, 106.0, 101.0, 100.0, 100.0]}, "memory, of that after a sixth"),
    ],
)
def test_what_is_missed_is_named(
    over: dict[str, Any], missed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = serving._judged(serving._verdicts(sizes(**over)))
    assert found == [f"overload: {missed}"]
    assert f"missed: {found[0]}" in capsys.readouterr().out


def test_the_client_counts_what_it_is_answered() -> None:
    """Every second request is refused, every fourth without saying when to come again."""
    answers = (b"200 OK", b"503 Busy\r\nRetry-After: 2", b"200 OK", b"503 Busy")

    async def go() -> tuple[load.Seen, load.Seen]:
        turn = iter(range(10**6))

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(1000):
                status = answers[next(turn) % 4]
                writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\n\r\n{}")
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            asked = load.bodies(["a dog"], 1, "de")
            return (
                await load.opened(port, "/", asked, 400, 0.2),
                await load.closed(port, "/", asked, 2, 0.1),
            )

    opened, closed = asyncio.run(go())
    assert opened.sent == opened.count(200) + opened.count(503) > 20
    assert abs(opened.count(200) - opened.count(503)) <= 1
    assert abs(2 * opened.without_wait - opened.count(503)) <= 2
    assert closed.count(200) > 1
    assert {*closed.seconds} == {200, 503}
