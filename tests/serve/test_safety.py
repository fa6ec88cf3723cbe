"""Keys before every route, and whatever else clients may send: a clear refusal each."""

import gzip
import json
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from regard.serve import guard
from regard.serve.app import is_open
from regard.serve.keys import Rates
from regard.serve.server import more_files
from tests.fault import hostile_pictures
from tests.serve.serving import FULL, PATIENCE, Held, Running, asked, others_served, running, until

KEY = "a-key-that-nobody-guesses"
JSON = {"content-type": "application/json"}
PREDICT = {"model": "transformer", "inputs": "a dog runs"}


@pytest.fixture(scope="module")
def locked(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"{KEY} me\n")
    with running(runs["transformer"], keys=keys) as found:
        yield found


@pytest.fixture
def others(server: Running) -> Iterator[None]:
    """Whatever a test does to the server, another client is served meanwhile."""
    with others_served(server, "transformer"):
        yield


def routes(server: Running) -> list[tuple[str, str]]:
    """Every path of the application with each of its methods."""
    app: Any = server.server.guard._app
    own = [each for each in app.routes if isinstance(each, Route)]
    own += [each for router in app.state.routers for each in router.routes]
    assert len(own) > 12
    paths = [(re.sub(r"\{\w+\}", "x", each.path), each.methods) for each in own]
    return [(method, path) for path, methods in paths for method in methods or ()]


def test_every_route_but_few_wants_a_key(locked: Running) -> None:
    with locked.client() as client:
        free = set()
        for method, path in [*routes(locked), ("GET", "/nothing"), ("POST", "/v1/nothing")]:
            found = client.request(method, path, content=b"{}", headers=JSON)
            if is_open(path):
                free.add(path)
                assert found.status_code in (200, 304, 404, 405), path
                continue
            assert found.status_code == 401, (method, path)
            wrong = {"authorization": f"Bearer {KEY}x"}
            assert client.request(method, path, headers=wrong).status_code == 401
            right = {"authorization": f"Bearer {KEY}", **JSON}
            found = client.request(method, path, headers=right, content=b"{}")
            assert found.status_code not in (401, 500, 503), (method, path, found.text)
            query = client.request(method, path, params={"api_key": KEY})
            assert query.status_code != 401
    assert free == {"/health", "/", "/favicon.ico", "/page/x", "/page/inside/x"}


def test_every_answer_has_its_headers(client: httpx.Client) -> None:
    for path in ("/", "/health", "/nothing", "/v1/models", "/page/none"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-request-id"].startswith("req-")
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_other_pages_and_other_names_are_refused(server: Running, runs: dict[str, Path]) -> None:
    with server.client() as client:
        for headers in (
            {"host": "evil.example"},
            {"host": "127.0.0.1.evil.example"},
            {"host": "a b"},
            {"origin": "http://evil.example"},
            {"origin": "null"},
        ):
            found = client.post("/v1/predict", json=PREDICT, headers=headers)
            assert found.status_code in (400, 403), headers
        own = {"origin": server.url}
        assert client.post("/v1/predict", json=PREDICT, headers=own).status_code == 200
        asked = {"origin": "http://evil.example", "access-control-request-method": "POST"}
        assert client.options("/v1/predict", headers=asked).status_code == 403


def deep(depth: int) -> bytes:
    return b'{"inputs": ' + b"[" * depth + b"]" * depth + b"}"


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "no json": b"{",
    "a list": b"[1]",
    "a number": b"7",
    "latin-1": '{"inputs": "ä"}'.encode("latin-1"),
    "cut utf-8": b'{"inputs": "\xe2\x82"}',
    "nul": b'{"inputs": "a\\u0000b"}',
    "a raw nul": b'{"inputs": "a\0b"}',
    "half a character": b'{"inputs": "\\ud800"}',
    "deep": deep(100),
    "very deep": deep(200_000),
    "nan": b'{"inputs": "a", "temperature": NaN}',
    "infinity": b'{"inputs": "a", "temperature": 1e999}',
    "a long number": b'{"inputs": "a", "seed": ' + b"9" * 5000 + b"}",
    "wrong types": b'{"inputs": 5}',
    "a table": b'{"inputs": {"a": 1}}',
    "no inputs": b'{"inputs": []}',
    "null": b'{"inputs": null}',
    "many": json.dumps({"inputs": ["a"] * 300}).encode(),
    "long": json.dumps({"inputs": "a " * 60_000}).encode(),
    "unknown model": b'{"model": "../../etc/passwd", "inputs": "a"}',
    "unknown key": b'{"inputs": "a", "__class__": 1}',
    "a bool": b'{"inputs": "a", "beams": true}',
    "negative": b'{"inputs": "a", "beams": -1}',
    "many beams": b'{"inputs": "a", "beams": 100000}',
    "long output": b'{"model": "causal", "inputs": "a", "length": 100000000}',
    "empty stop": b'{"model": "causal", "inputs": "a", "stop": ""}',
    "not base64": b'{"model": "describer", "inputs": {"base64": "%%%"}}',
    "prefixes": b'{"inputs": "a", "prefix": ["a", "b"]}',
    "a long prefix": json.dumps({"inputs": "a", "prefix": "a " * 5000, "length": 5}).encode(),
    "a foreign search": b'{"inputs": "a", "search": "ctc"}',
}


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies(name: str, client: httpx.Client, runs: dict[str, Path]) -> None:
    found = client.post("/v1/predict", content=HOSTILE[name], headers=JSON)
    assert 400 <= found.status_code < 500, found.text
    said = found.json()["error"]
    assert said["message"]
    assert str(next(iter(runs.values())).parent) not in found.text
    assert "Traceback" not in found.text


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "", "multipart/form-data"])
def test_other_kinds_of_bodies(kind: str, client: httpx.Client) -> None:
    for route in ("/v1/predict", "/v1/completions", "/translate", "/detect", "/v1/embeddings"):
        found = client.post(route, content=b"\xff{", headers={"content-type": kind})
        assert found.status_code in (400, 415), found.text


@pytest.mark.usefixtures("others")
def test_a_form_that_is_no_text(client: httpx.Client) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    for body in (b"q=%ff&source=source&target=target", b"q=%00&source=source&target=target"):
        assert client.post("/translate", content=body, headers=headers).status_code == 400


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large(chunked: bool, client: httpx.Client) -> None:
    """50 MB: refused by its length at once, or where the limit is passed."""
    size = 50_000_000

    def chunks() -> Iterator[bytes]:
        for _ in range(size // 100_000):
            yield b"a" * 100_000

    try:
        found = client.post(
            "/v1/predict", content=chunks() if chunked else b"a" * size, headers=JSON
        )
        assert found.status_code == 413
    except httpx.TransportError:
        pass  # the answer came, and the connection was closed, before all was sent


@pytest.mark.usefixtures("others")
def test_a_packed_body_is_no_bomb(client: httpx.Client) -> None:
    body = gzip.compress(b'{"inputs": "' + b"a" * 10_000_000 + b'"}')
    found = client.post("/v1/predict", content=body, headers={**JSON, "content-encoding": "gzip"})
    assert found.status_code == 400


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("make", [hostile_pictures.bomb, hostile_pictures.packed_bomb])
def test_a_picture_bomb(make: Callable[..., Any], client: httpx.Client) -> None:
    data, _ = make(random.Random(3))
    for files in ([("file", ("x.png", data))], [("file", ("x.png", data))] * 2):
        found = client.post("/v1/predict", files=files, data={"model": "describer"})
        assert found.status_code == 400
        said = found.json()["error"]
        assert said["code"] == "unreadable"
        assert said["message"].endswith("pixels")
        assert "/" not in said["message"]


def test_errors_of_ours_tell_nothing(
    server: Running, client: httpx.Client, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("the secret is in /root/secret/file")

    monkeypatch.setattr(server.service("classifier").predictor, "predictions", fail)
    found = client.post("/v1/predict", json={"model": "classifier", "inputs": "the users' text"})
    assert found.status_code == 500
    assert "secret" not in found.text
    number = found.headers["x-request-id"]
    assert number in found.json()["error"]["message"]
    said = capfd.readouterr().err
    assert "secret" in said
    assert number in said
    assert "the users' text" not in said


def test_a_clients_rate(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(server.server.guard, "_rates", Rates(30, lambda: now))
    with server.client() as client:
        codes = [client.get("/v1/models").status_code for _ in range(8)]
        assert codes == [200] * 5 + [429] * 3
        assert client.get("/v1/models").headers["retry-after"] == "2"
        assert client.get("/health").status_code == 200
        now += 2
        assert client.get("/v1/models").status_code == 200


# Slow and silent clients


@pytest.fixture(scope="module")
def hasty(runs: dict[str, Path]) -> Iterator[Running]:
    """A server that waits for a fifth of a second."""
    with running(runs["classifier"], header_seconds=0.2, body_seconds=0.2) as found:
        yield found


def connected(server: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


def closed(client: socket.socket) -> bytes:
    """What comes before the server closes the connection."""
    found = b""
    try:
        while data := client.recv(65536):
            found += data
    except ConnectionError:
        pass
    return found


HEADERS = b"POST /v1/predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    ("first", "then", "answer"),
    [
        (b"", b"", b""),
        (b"GET / HT", b"", b""),
        (HEADERS, b"x-a: b\r\n", b""),
        (HEADERS + b"content-length: 1000\r\n\r\n{", b" ", b"408"),
        (HEADERS + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n", b"1\r\n \r\n", b"408"),
    ],
)
def test_slow_clients_are_cut(first: bytes, then: bytes, answer: bytes, hasty: Running) -> None:
    with others_served(hasty, "classifier"), connected(hasty) as client:
        client.sendall(first)
        done = threading.Event()

        def drip() -> None:
            while then and not done.wait(0.05):
                try:
                    client.sendall(then)
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        found = closed(client)
        done.set()
        thread.join()
        assert answer in found
        assert bool(answer) == bool(found)


def test_who_never_reads_an_answer_is_cut(hasty: Running) -> None:
    """Requests in a row whose answers would fill all buffers."""
    with others_served(hasty, "classifier"), socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(PATIENCE)
        client.connect(("127.0.0.1", hasty.port))
        client.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 500)

        def cut() -> bool:
            try:
                client.sendall(b"\r\n")
            except ConnectionError:
                return True
            return False

        until(cut)
    until(lambda: hasty.server.limits.count == 0)


SLOW = {
    "nothing": b"",
    "headers": HEADERS,
    "a body": HEADERS + b"content-length: 1000\r\n\r\n{",
    "chunks": HEADERS + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n",
}


@pytest.mark.timeout(1200 if FULL else 120)
@pytest.mark.parametrize("begun", SLOW.values(), ids=SLOW)
def test_more_slow_clients_than_there_is_room_for(
    begun: bytes, server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that have waited for longest are closed, and others served."""
    count = (10_000 if begun == b"" else 2000) if FULL else 100
    more_files()
    limits = server.server.limits
    monkeypatch.setattr(limits, "most", 50)
    slow: list[socket.socket] = []
    try:
        with others_served(server, "transformer"):
            while len(slow) < count:
                slow.append(connected(server))
                slow[-1].sendall(begun)
                if len(slow) % 20 == 0:  # else fifty may come before anybody is looked at
                    assert asked(server, "transformer") == 200
            until(lambda: limits.count <= 51)
            assert closed(slow[0]) == b""
        assert limits.count > 1, "they have gone away, and are no test"
    finally:
        for each in slow:
            each.close()
    until(lambda: limits.count <= 1)
    until(server.idle)


def test_bodies_that_fill_the_memory_make_room(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is held of bodies is bounded; the oldest that has not come whole is given up."""
    monkeypatch.setattr(guard, "HELD", 300_000)
    begun = HEADERS + b"content-length: 100000\r\n\r\n" + b" " * 60_000
    slow: list[socket.socket] = []
    try:
        with others_served(server, "transformer"):
            for _ in range(12):
                slow.append(connected(server))
                slow[-1].sendall(begun)
            assert b"503" in slow[0].recv(100)
    finally:
        for each in slow:
            each.close()
    until(lambda: server.server.guard._held == 0)


@pytest.mark.usefixtures("others")
def test_header_floods(server: Running) -> None:
    for flood in (
        HEADERS + b"x: " + b"a" * 200_000,
        HEADERS + b"".join(b"x-%d: a\r\n" % n for n in range(20_000)) + b"\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01" + bytes(500),
        b"\0" * 1000,
    ):
        with connected(server) as client:
            try:
                client.sendall(flood)
            except OSError:
                continue
            assert closed(client)[9:12] in (b"", b"400", b"431")


@pytest.mark.timeout(600 if FULL else 120)
def test_clients_that_vanish_leave_no_place(server: Running) -> None:
    count = 500 if FULL else 40
    chance = random.Random(1)
    bodies = [
        {"model": "causal", "inputs": "a dog", "length": 200, "stream": True},
        {"model": "causal", "inputs": ["a dog", "two"], "length": 200},
        {"model": "transformer", "inputs": ["a dog runs"] * 16},
        {"model": "forecaster", "inputs": "1,2"},
    ]
    for n in range(count):
        body = json.dumps(bodies[n % len(bodies)]).encode()
        head = HEADERS + b"content-length: %d\r\n\r\n" % len(body)
        with connected(server) as client:
            client.sendall((head + body)[: chance.choice((len(head) + len(body), len(head) + 5))])
            time.sleep(chance.random() * 0.02)
    until(server.idle)
    with server.client() as fresh:
        assert fresh.post("/v1/predict", json=PREDICT).status_code == 200


def test_a_full_queue_refuses_at_once(runs: dict[str, Path]) -> None:
    body = {"model": "causal", "inputs": "a dog", "length": 5}
    with running(runs["causal"], queue=4, queue_items=6) as server:
        held, queue = Held(server, "causal"), server.service("causal").queue

        def ask(inputs: int = 1) -> httpx.Response:
            with server.client() as client:
                return client.post("/v1/predict", json=body | {"inputs": ["a dog"] * inputs})

        with ThreadPoolExecutor(4) as crowd:
            admitted = [crowd.submit(ask) for _ in range(3)]
            until(lambda: queue.requests == 3)
            assert (
                ask(4).json()["error"]["code"] == "queue_full"
            )  # of places for inputs three are left
            admitted.append(crowd.submit(ask))
            until(lambda: queue.requests == 4)
            for _ in range(20):  # nobody is answered meanwhile: a refusal waits for nothing
                refused = ask()
                assert refused.status_code == 503
                assert int(refused.headers["retry-after"]) >= 1
            held.go()
            assert [each.result().status_code for each in admitted] == [200] * 4
        assert (queue.highest, queue.most_requests) == (4, 4)
        assert ask().status_code == 200
        assert server.idle()


def test_a_deadline(runs: dict[str, Path]) -> None:
    with running(runs["causal"], deadline=0.05) as server, server.client() as client:
        body = {"model": "causal", "inputs": ["a dog"] * 30, "length": 2000, "search": "greedy"}
        found = client.post("/v1/predict", json=body)
        assert found.status_code == 504
        assert found.json()["error"]["code"] == "deadline"
        until(server.idle)
