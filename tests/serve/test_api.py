"""What can be asked, of every task, over HTTP."""

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from regard.front import load
from tests import small_runs
from tests.serve.serving import KINDS, Running

FILES = ("describer", "comparer", "listener")


def ask(client: httpx.Client, model: str, inputs: Any, **keys: Any) -> Any:
    found = client.post("/v1/predict", json={"model": model, "inputs": inputs, **keys})
    assert found.status_code == 200, found.text
    return found.json()["predictions"]


def packed(path: str) -> dict[str, str]:
    return {"base64": base64.b64encode(Path(path).read_bytes()).decode()}


def task_of(server: Running, kind: str) -> str:
    return str(server.service(kind).kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_prediction_is_what_predict_gives(
    kind: str, client: httpx.Client, server: Running, runs: dict[str, Any]
) -> None:
    example = small_runs.example(task_of(server, kind))
    given: Any = example
    if kind in FILES:
        given = packed(example)
    [found] = ask(client, kind, given)
    [expected] = load(runs[kind]).predictions([example])
    wanted = json.loads(json.dumps(expected.as_dict()))
    for name in ("text", "status", "tokens", "entities", "offsets", "times", "filled"):
        assert found.get(name) == wanted.get(name), name
    assert found["score"] == pytest.approx(wanted["score"], abs=1e-4)
    assert found.get("log_probs") == pytest.approx(wanted.get("log_probs"), abs=1e-4)
    assert found.get("probabilities") == pytest.approx(wanted.get("probabilities"), abs=1e-4)


@pytest.mark.parametrize("kind", [*FILES, "forecaster"])
def test_files_of_a_form(kind: str, client: httpx.Client, server: Running) -> None:
    example = small_runs.example(task_of(server, kind))
    content = example.encode()
    if kind in FILES:
        content = Path(example).read_bytes()
    parts: list[tuple[str, Any]] = [("file", ("x", content)), ("file", ("y", content))]
    found = client.post("/v1/predict", files=parts, data={"model": kind, "request": "{}"})
    assert found.status_code == 200, found.text
    one, two = found.json()["predictions"]
    assert one["status"] in ("ok", "capped")
    assert one["text"] == two["text"]


def test_a_broken_file_spoils_no_other(client: httpx.Client) -> None:
    picture = Path(small_runs.example("caption")).read_bytes()
    parts: list[tuple[str, Any]] = [("file", ("x", b"no picture")), ("file", ("y", picture))]
    found = client.post("/v1/predict", files=parts, data={"model": "describer"})
    broken, whole = found.json()["predictions"]
    assert (broken["status"], whole["status"]) == ("broken", "capped")
    assert broken["problem"] == "input 1: not a picture of a form that is known"


@pytest.mark.parametrize(("count", "said"), [(1, "the input cannot"), (3, "none of 3 inputs can")])
def test_a_request_of_broken_files_alone_is_refused(
    count: int, said: str, client: httpx.Client
) -> None:
    for kind in ("describer", "listener"):
        parts: list[tuple[str, Any]] = [("file", ("x", b"no such file"))] * count
        found = client.post("/v1/predict", files=parts, data={"model": kind})
        assert found.status_code == 400
        error = found.json()["error"]
        assert error["message"].startswith(f"{said} be read; input 1: no")
        assert error["code"] == "unreadable"


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("path", ["/etc/passwd", "example", "digits.parquet#1"])
def test_no_text_is_a_path(kind: str, path: str, client: httpx.Client, server: Running) -> None:
    if path == "example":
        path = small_runs.example(task_of(server, kind))
    found = client.post("/v1/predict", json={"model": kind, "inputs": path})
    assert found.status_code == 400
    assert path not in found.text


def test_no_option_names_a_file(client: httpx.Client) -> None:
    sound = packed(small_runs.example("transcribe"))
    asked = {"model": "listener", "inputs": sound, "language_model": "/tmp/run"}
    found = client.post("/v1/predict", json=asked)
    assert found.status_code == 400
    assert found.json()["error"]["param"] == "language_model"


def test_many_inputs_options_and_prefixes(client: httpx.Client) -> None:
    texts = ["a dog runs", "", "two dogs play in the snow"]
    plain = ask(client, "transformer", texts, beams=4, nbest=3, search="beam", align=True)
    assert [each["status"] for each in plain][1] == "empty"
    assert len(plain[0]["alternatives"]) == 3
    assert len(plain[0]["alignment"]) == len(plain[0]["tokens"])
    second = plain[0]["alternatives"][1]["text"].split()[0]
    forced = ask(client, "transformer", texts, prefix=["", "", second])
    assert forced[2]["text"].split()[0] == second


def test_choices_of_a_request_are_its_own(client: httpx.Client) -> None:
    picture = packed(small_runs.example("contrast"))
    before = ask(client, "comparer", picture)
    [found] = ask(client, "comparer", picture, choices=["a red circle", "a blue square"])
    assert {*found["probabilities"]} == {"a red circle", "a blue square"}
    assert ask(client, "comparer", picture) == before


def test_a_dialogue_is_answered(client: httpx.Client) -> None:
    turns = [{"role": "user", "content": "1 dog"}]
    one = ask(client, "chat", "1 dog", length=8)
    assert ask(client, "chat", [turns], length=8) == one
    assert ask(client, "chat", turns, length=8) == one


def stream(client: httpx.Client, route: str, body: dict[str, Any]) -> list[str]:
    with client.stream("POST", route, json=body) as found:
        assert found.status_code == 200, found.read()
        assert found.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in found.iter_lines() if line]
    assert all(line.startswith("data: ") for line in lines)
    return [line.removeprefix("data: ") for line in lines]


@pytest.mark.parametrize("stop", [None, ["snow", "dog"]])
def test_pieces_of_a_stream_are_the_whole(stop: Any, client: httpx.Client) -> None:
    asked = {"search": "sample", "seed": 5, "length": 150, "stop": stop}
    for prompt in ("", "a dog", "two dogs play in the"):
        *pieces, last, done = stream(
            client, "/v1/predict", {"model": "causal", "inputs": prompt, "stream": True, **asked}
        )
        assert done == "[DONE]"
        whole = json.loads(last)["prediction"]
        assert "".join(json.loads(piece)["piece"] for piece in pieces) == whole["text"]
        [expected] = ask(client, "causal", prompt, **asked)
        assert whole == expected
        assert not any(word in whole["text"] for word in stop or ())


@pytest.mark.parametrize(
    ("model", "keys"),
    [
        ("transformer", {}),
        ("causal", {"search": "beam"}),
        ("causal", {"inputs": ["a", "b"]}),
        ("causal", {"nbest": 2}),
    ],
)
def test_what_cannot_be_streamed_is_refused(
    model: str, keys: dict[str, Any], client: httpx.Client
) -> None:
    body = {"model": model, "inputs": "a dog", "stream": True, **keys}
    found = client.post("/v1/predict", json=body)
    assert found.status_code == 400
    assert found.json()["error"]["param"] == "stream"


def test_models_say_what_they_take(client: httpx.Client) -> None:
    found = {each["id"]: each["regard"] for each in client.get("/v1/models").json()["data"]}
    assert {*found} == {*KINDS, "chat"}
    reads = {name: each["reads"] for name, each in found.items()}
    assert reads["describer"] == "image"
    assert reads["listener"] == "audio"
    assert reads["forecaster"] == "series"
    assert reads["chat"] == "dialogue"
    assert found["causal"]["streams"]
    assert not found["transformer"]["streams"]
    assert client.get("/v1/models/causal").json()["id"] == "causal"
    assert client.get("/v1/models/none").status_code == 404


@pytest.mark.parametrize("kind", ["transformer", "classifier", "filler", "comparer", "tagger"])
def test_vectors_of_texts(kind: str, client: httpx.Client) -> None:
    texts = ["a dog runs", "two dogs play in the snow", "a dog runs"]
    body = {"model": kind, "input": texts}
    found = client.post("/v1/embeddings", json=body)
    assert found.status_code == 200, found.text
    one, two, three = (each["embedding"] for each in found.json()["data"])
    assert one == pytest.approx(three, abs=1e-5)
    assert one != pytest.approx(two, abs=1e-2)
    alone = client.post("/v1/embeddings", json={"model": kind, "input": texts[0]}).json()
    assert alone["data"][0]["embedding"] == pytest.approx(one, abs=1e-5)


def test_who_has_no_vectors_says_so(client: httpx.Client) -> None:
    found = client.post("/v1/embeddings", json={"model": "causal", "input": "a"})
    assert found.status_code == 400
    assert found.json()["error"]["code"] == "no_embedding"


def test_health_readiness_figures_and_page(client: httpx.Client) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ready"}
    figures = client.get("/metrics").text
    assert 'regard_requests_total{route="/ready",status="200"}' in figures
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    again = client.get("/", headers={"if-none-match": page.headers["etag"]})
    assert again.status_code == 304
    for name in ("..%2fapp.py", "%2e%2e/app.py", "../app.py", "nothing.js"):
        assert client.get(f"/page/{name}").status_code == 404


@pytest.mark.parametrize("route", ["/", "/health", "/ready"])
def test_head_is_get_without_a_body(route: str, client: httpx.Client) -> None:
    """Monitors ask so."""
    whole, head = client.get(route), client.head(route)
    assert head.status_code == 200
    assert head.content == b""
    for name in ("content-type", "content-length", "content-security-policy"):
        assert head.headers[name] == whole.headers[name]
    assert client.get(route).content == whole.content  # on the same connection
