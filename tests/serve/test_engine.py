"""What happens beside the batches, and to requests whose neighbours go wrong."""

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from regard.decoding.prediction import Prediction
from regard.serve.aside import Aside
from regard.serve.dynamic import Dynamic
from regard.serve.errors import Gone
from regard.serve.guard import Context
from regard.serve.service import Service, Source
from regard.serve.settings import Settings
from regard.serve.work import Options, Work
from tests.serve.serving import languages, running, until


def test_a_thread_that_nobody_waits_for_keeps_its_place() -> None:
    held = threading.Event()

    async def go() -> list[bool]:
        aside, ended = Aside(1), list[bool]()
        first = asyncio.ensure_future(aside.run(held.wait, ended.append))
        await asyncio.sleep(0.05)
        second = asyncio.ensure_future(aside.run(lambda: True, ended.append))
        await asyncio.sleep(0)
        second.cancel()  # it never began: its place is free at once
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert ended == [False]
        held.set()
        assert await aside.run(lambda: 7, ended.append) == 7
        return ended

    assert asyncio.run(go()) == [False, True, True]


def test_what_fails_aside_is_raised() -> None:
    def fail() -> None:
        raise KeyError("x")

    async def go() -> list[bool]:
        ended = list[bool]()
        with pytest.raises(KeyError):
            await Aside(1).run(fail, ended.append)
        return ended

    assert asyncio.run(go()) == [False]


def test_who_goes_away_is_waited_for_no_longer() -> None:
    async def go() -> None:
        about, given_back = Context(id="x"), list[int]()

        async def answer() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                given_back.append(1)

        asyncio.get_running_loop().call_later(0.01, about.leave)
        with pytest.raises(Gone):
            await about.unless_gone(answer())
        assert given_back == [1]
        with pytest.raises(Gone):  # who has gone is not answered at all
            await about.unless_gone(answer())
        await asyncio.sleep(0.01)  # nothing is left of the cancellation
        # Another's cancellation is no client that went away.
        stays = asyncio.ensure_future(Context(id="y").unless_gone(answer()))
        await asyncio.sleep(0)
        stays.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stays

    asyncio.run(go())


@pytest.mark.parametrize("kind", ["transformer", "causal"])
def test_one_that_cannot_be_read_spoils_no_other(
    kind: str, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source("x", runs[kind], (("engine", "torch"),))
    opened = source.open()
    writer: Any = opened._writer
    arrival, ended = type(writer).arrival, type(writer).ended

    def unlucky(each: Any) -> bool:
        return bool(each.work.inputs[0].startswith("two"))

    def arrive(self: Any, some: Any) -> Any:
        if any(map(unlucky, some)):
            raise RuntimeError("unreadable")
        return arrival(self, some)

    def end(self: Any, each: Any, best: Any) -> Any:
        if each.work.inputs[0].startswith("a man"):
            raise RuntimeError("unwritable")
        return ended(self, each, best)

    monkeypatch.setattr(type(writer), "arrival", arrive)
    monkeypatch.setattr(type(writer), "ended", end)

    async def go() -> list[Any]:
        service = Service(source, opened, Settings())
        asked = ["a dog", "two dogs", "a man sits", "a dog runs", "in the snow"]
        options = [service.check([text], Options(length=6)) for text in asked]
        work = [service.answer(Work([text], how)) for text, how in zip(asked, options, strict=True)]
        found = await asyncio.gather(*work, return_exceptions=True)
        assert (service.queue.requests, service.queue.items) == (0, 0)
        return found

    found = asyncio.run(go())
    opened.close()
    opened.join()
    assert [isinstance(each, RuntimeError) for each in found] == [False, True, True, False, False]


def test_a_batch_has_so_many_inputs_and_bytes_and_no_more() -> None:
    """That of one request stays together, however large it is."""
    begun, held, batches = threading.Event(), threading.Event(), list[list[int]]()

    class Slow:
        task = None

        def predictions(self, inputs: list[str], **options: Any) -> list[Prediction]:
            begun.set()
            held.wait()
            batches.append([len(text.encode()) for text in inputs])
            return [Prediction(text="") for _ in inputs]

    async def go() -> None:
        dynamic = Dynamic(cast(Any, Slow()), threads=1, items=6)
        asked = [["a"], ["ä" * 5_000] * 2, ["ä" * 10_000], *[["b" * 40]] * 8, ["c" * 20_000] * 9]
        works = [Work(inputs, Options()) for inputs in asked]
        dynamic.put(works[0])
        await asyncio.to_thread(begun.wait)
        for work in works[1:]:
            dynamic.put(work)
        held.set()
        await asyncio.gather(*(work.done for work in works))
        dynamic.close()
        dynamic.join()

    asyncio.run(go())
    first, second, third, *rest = batches
    assert first == [1]
    assert second == [10_000] * 2 + [40] * 4
    assert third == [20_000] + [40] * 4
    assert rest == [[20_000] * 9]


def test_vectors_have_a_deadline(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.serve import embedding

    held = threading.Event()
    monkeypatch.setattr(embedding, "_vectors", lambda engine, texts: held.wait())
    with running(runs["classifier"], deadline=0.2) as server, server.client() as client:
        found = client.post("/v1/embeddings", json={"model": "classifier", "input": "a"})
        assert found.status_code == 504
        assert not server.idle(), "the thread is still at work"
        held.set()
        until(server.idle)


def test_very_many_values_keep_nobody_waiting(client: httpx.Client) -> None:
    headers = {"content-type": "application/json"}
    for each in (b"1", b"[]", b'""', b'{"a":1}'):
        body = b'{"inputs": [' + b",".join([each] * 1_000_000) + b"]}"
        began = time.process_time()
        found = client.post("/v1/predict", content=body[:9_000_000], headers=headers)
        assert found.status_code == 413, found.text
        # It was eleven seconds for each megabyte, of which there are nine.
        assert time.process_time() - began < 20
    long = json.dumps({"model": "describer", "inputs": {"base64": "A" * 4_000_000}})
    found = client.post("/v1/predict", content=long.encode(), headers=headers)
    assert found.status_code == 400  # one long string is a picture, if a broken one
    assert found.json()["error"]["code"] == "unreadable"


def test_languages_are_detected_where_a_model_can(tmp_path: Path) -> None:
    with running(languages(tmp_path)) as server, server.client() as client:
        found = client.post("/detect", data={"q": "ein hund"}).json()
        assert {each["language"] for each in found} <= {"en", "de", "fr"}
        chances = [each["confidence"] for each in found]
        assert chances == sorted(chances, reverse=True)
        assert sum(chances) == pytest.approx(100, abs=3)
        assert LibreTranslateAPI(server.url).detect("ein hund") == found
