"""Requests made of the OpenAPI description, right and wrong ones: none is a mistake of ours."""

from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings

from tests.serve.serving import FULL, Running, until

CASES = 600 if FULL else 4
"""Of each operation that has a body, right and wrong."""
LEAST = 5_000 if FULL else 30
"""Of right and of wrong ones, in all."""


@pytest.mark.timeout(7200 if FULL else 120)
@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_no_request_is_a_mistake_of_ours(mode: str, server: Running) -> None:
    """None is answered by 5xx, hangs, or leaves a place taken."""
    found = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    seen, session = 0, requests.Session()
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
            nonlocal seen
            seen += 1
            answer = case.call(session=session, timeout=60)
            assert answer.status_code < 500, answer.text
            if answer.status_code != 200:
                assert answer.json()["error"]

        ask()
    assert seen >= LEAST
    until(server.idle)


def test_all_routes_are_described(server: Running) -> None:
    with server.client() as client:
        found = client.get("/openapi.json").json()["paths"]
    assert {"/v1/predict", "/v1/completions", "/translate", "/languages", "/health"} <= {*found}
    body = found["/v1/predict"]["post"]["requestBody"]["content"]
    assert {"application/json", "multipart/form-data"} <= {*body}
    assert "beams" in body["application/json"]["schema"]["properties"]
