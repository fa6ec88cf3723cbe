"""Tiny runs, and a server of all of them, for the whole session."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.serve import serving


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return serving.make(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def server(runs: dict[str, Path]) -> Iterator[serving.Running]:
    with serving.running(*runs.values(), new_tokens=200) as found:
        yield found


@pytest.fixture
def client(server: serving.Running) -> Iterator[httpx.Client]:
    with server.client() as found:
        yield found
