"""Requests made of the OpenAPI description, right and wrong ones: none is a mistake of ours."""

import base64
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings

from tests import small_runs
from tests.serve.serving import FULL, Running, languages, running, until

CASES = 700 if FULL else 6
"""Of each operation that has a body, right and wrong."""
LEAST = 5_000 if FULL else 48
"""Of right and of wrong ones, in all."""
FILES = ("describer", "comparer", "listener")
MODELS = {
    "/v1/completions": ("causal",),
    "/v1/chat/completions": ("chat",),
    "/v1/embeddings": ("transformer", "classifier", "filler", "comparer", "tagger"),
    "/v1/alternatives": ("transformer", "describer"),
}
"""Those that a route has an answer of; others have one of any."""
if not FULL:
    MODELS["/v1/inspect"] = ("classifier", "tagger")  # which are looked into quickly
PLAIN: dict[str, Any] = {
    "inputs": "a dog runs",
    "input": "a dog runs",
    "prompt": "a dog runs",
    "q": "a dog runs",
    "messages": [{"role": "user", "content": "7 dog"}],
}
"""In place of what a model does not read."""


@pytest.fixture(scope="module")
def every(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of every kind of run, one that detects languages among them."""
    folder = tmp_path_factory.mktemp("detects")
    with running(*runs.values(), languages(folder), new_tokens=200) as found:
        yield found


def example(server: Running, model: str) -> bytes:
    return Path(small_runs.example(server.service(model).kind)).read_bytes()


def name_a_model(case: Any, turn: int, server: Running) -> None:
    """Ask one that there is, for what it may know: hardly ever is a name drawn that is one's."""
    known = MODELS.get(case.path, tuple(server.server.shelf.services))
    model = known[turn % len(known)]
    if "name" in case.path_parameters:
        case.path_parameters["name"] = model
    if not isinstance(case.body, dict):
        return
    if case.media_type == "multipart/form-data":
        model = FILES[turn % len(FILES)]
        case.body = {"file": example(server, model), "model": model, "request": "{}"}
    elif case.path == "/translate":
        case.body |= {"source": "auto", "target": "target"}
    elif case.path != "/detect":
        case.body["model"] = model
        key = "input" if "input" in case.body else "inputs"
        if model in FILES and key in case.body:
            case.body[key] = {"base64": base64.b64encode(example(server, model)).decode()}


def mend(case: Any, answer: Any) -> bool:
    """Whether a key for which a model may have refused a request is left out now, or made plain."""
    if answer.status_code != 400 or not isinstance(case.body, dict):
        return False
    error = answer.json()["error"]
    said = error if isinstance(error, str) else error["param"] or error["message"]
    # If no key is named, it may be the input, or any.
    for key in (*re.findall(r"^\w+", said), *PLAIN, *case.body):
        if key in case.body and key != "model" and case.body[key] != PLAIN.get(key):
            plain = PLAIN.get(key)
            case.body = {name: each for name, each in case.body.items() if name != key}
            case.body |= {} if plain is None else {key: plain}
            return True
    return False


@pytest.mark.timeout(7200 if FULL else 120)
@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_no_request_is_a_mistake_of_ours(mode: str, every: Running) -> None:
    """None is answered by 5xx, hangs, or leaves a place taken. Half of the cases name a model that
    there is; of the right ones what it cannot do is then left out, so that it is reached."""
    found = schemathesis.openapi.from_url(f"{every.url}/openapi.json")
    seen, session = Counter[str](), requests.Session()
    answered = Counter[str]()
    each: Any
    for each in found.get_all_operations():
        operation = each.ok()
        if mode == "NEGATIVE" and not operation.body:
            continue  # there is nothing that could be wrong
        how = {"generation_mode": schemathesis.GenerationMode[mode]}

        @settings(
            max_examples=CASES,
            deadline=None,
            database=None,
            derandomize=not FULL,  # a sample is the same one every time
            suppress_health_check=[*HealthCheck],
        )
        @given(case=operation.as_strategy(**how))
        def ask(case: Any) -> None:
            turn = seen[case.path]
            seen[case.path] += 1
            if named := turn % 2 == 1:
                name_a_model(case, turn // 2, every)
            again = True
            while again:
                answer = case.call(session=session, timeout=60)
                assert answer.status_code < 500, answer.text
                if answer.status_code != 200:
                    assert answer.json()["error"]
                again = named and mode == "POSITIVE" and mend(case, answer)
            answered[case.path] += answer.status_code == 200

        ask()
    print(f"{mode}: {seen.total():,} cases; with 200: {dict(answered)}")
    assert seen.total() >= LEAST
    if mode == "POSITIVE":
        assert all(answered.values()), answered
    until(every.idle)


def test_all_routes_are_described(every: Running) -> None:
    with every.client() as client:
        found = client.get("/openapi.json").json()["paths"]
    assert {"/v1/predict", "/v1/completions", "/translate", "/languages", "/health"} <= {*found}
    body = found["/v1/predict"]["post"]["requestBody"]["content"]
    assert {"application/json", "multipart/form-data"} <= {*body}
    assert "beams" in body["application/json"]["schema"]["properties"]
