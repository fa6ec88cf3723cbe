"""Where CTranslate2 serves a run, torch's weights are there only while somebody needs them."""

import asyncio
import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from regard.front import load
from regard.model import Model
from regard.runs.on_demand import Changed, OnDemand
from regard.runs.run import Loaded, Run
from regard.serve import service
from regard.serve.service import Source
from regard.serve.work import Options, Work
from tests import small_runs
from tests.serve.serving import Running, running, until

TEXTS = ["a dog runs", "two dogs play in the snow"]
TRANSLATE = {"q": TEXTS, "source": "source", "target": "target"}
ALIGN = {"inputs": TEXTS, "align": True}


def known(server: Running) -> weakref.ref[Model]:
    """The torch model of the one run, if it is anywhere."""
    found: weakref.ref[Model] = next(iter(server.server.shelf)).predictor._weights._known
    return found


@pytest.fixture
def served(runs: dict[str, Path], tmp_path: Path) -> Path:
    """A run whose files a test may change."""
    return Path(shutil.copytree(runs["transformer"], tmp_path / "served"))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "IDLE", 0.1)


@pytest.fixture
def server(served: Path) -> Iterator[Running]:
    with running(served) as found:
        yield found


def ask(client: httpx.Client, route: str, body: dict[str, Any]) -> Any:
    found = client.post(route, json=body)
    assert found.status_code == 200, found.text
    return found.json()


def test_what_ctranslate2_answers_needs_no_torch(server: Running, served: Path) -> None:
    with server.client() as client:
        assert ask(client, "/translate", TRANSLATE)["translatedText"] == load(served).predict(TEXTS)
        plain = ask(client, "/v1/predict", {"inputs": TEXTS, "nbest": 2})["predictions"]
        assert all(each["log_probs"] for each in plain)
        about = client.get("/v1/models/served").json()["regard"]
        assert about["engine"] == "ctranslate2"
        assert about["parameters"] == load(served).model.size()
        wrong = client.post("/v1/predict", json={"inputs": "a", "search": "ctc"})
        assert wrong.status_code == 400
    assert known(server)() is None


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/predict", ALIGN),
        ("/v1/predict", {"inputs": TEXTS, "search": "sample", "seed": 4}),
        ("/v1/predict", {"inputs": TEXTS, "prefix": "ein"}),
        ("/v1/embeddings", {"model": "served", "input": TEXTS}),
        ("/v1/alternatives", {"input": "a dog runs"}),
    ],
)
def test_torch_is_opened_when_it_is_needed(
    route: str, body: dict[str, Any], short: None, server: Running, served: Path
) -> None:
    """And let go once nobody has asked for a while; the answer is the same every time."""
    assert known(server)() is None
    before = known(server)
    with server.client() as client:
        first = ask(client, route, body)
        assert known(server) is not before, "it was opened"
        until(lambda: known(server)() is None)
        again = ask(client, route, body)
    kept = ("predictions", "data")
    assert [first.get(key) for key in kept] == [again.get(key) for key in kept]
    if body is ALIGN:
        wanted = [each.alignment for each in load(served).predictions(TEXTS, align=True)]
        assert [each["alignment"] for each in first["predictions"]] == wanted


def test_an_error_keeps_nothing_of_where_it_was_raised() -> None:
    """The frames there hold the model, and the last request of all is kept."""

    async def go() -> None:
        try:
            try:
                raise KeyError
            except KeyError as inner:
                raise ValueError from inner
        except ValueError as error:
            work = Work(["a"], Options())
            work.fail(error)()
        found = work.done.exception()
        assert isinstance(found, ValueError)
        kept = (found.__traceback__, found.__context__, found.__cause__)
        assert kept == (None, None, None)

    asyncio.run(go())


def test_another_version_is_refused_until_it_is_taken_up(
    server: Running, served: Path, tmp_path: Path
) -> None:
    newer = small_runs.create(*small_runs.FAMILIES["transformer"], tmp_path / "newer", (1,))
    with server.client() as client:
        before = ask(client, "/translate", TRANSLATE)
        shutil.rmtree(served / "model")
        refused(client, "cannot be opened as it was")
        shutil.copytree(newer.folder / "model", served / "model")
        refused(client, "is another version by now")
        assert ask(client, "/translate", TRANSLATE) == before
        asyncio.run_coroutine_threadsafe(server.server.shelf.reload(), server.loop).result()
        [one, two] = ask(client, "/v1/predict", ALIGN)["predictions"]
    assert [one["text"], two["text"]] == load(newer.folder).predict(TEXTS)


def refused(client: httpx.Client, said: str) -> None:
    for route, body in (
        ("/v1/predict", ALIGN),
        ("/v1/predict", {"inputs": TEXTS, "prefix": "ein"}),
        ("/v1/embeddings", {"model": "served", "input": TEXTS}),
    ):
        found = client.post(route, json=body)
        assert found.status_code == 503, found.text
        assert said in found.json()["error"]["message"]
        assert int(found.headers["retry-after"]) > 0


def test_who_computes_with_a_model_keeps_it(runs: dict[str, Path]) -> None:
    opened: list[Loaded] = []

    def open_() -> Loaded:
        opened.append(Run(runs["transformer"]).loaded())
        return opened.pop()

    weights = OnDemand(open_)
    busy = weights.get()
    size = busy.size()
    assert not weights.release(60), "it has just been asked for"
    assert weights.release()
    assert weights.get() is busy, "no second copy"
    assert weights.release()
    del busy
    assert weights._known() is None
    bare = weights.outline()
    assert bare.size() == size
    assert {each.device.type for each in bare.parameters()} == {"meta"}
    assert weights._known() is None, "an outline opens nothing"
    assert weights.get().size() == size
    weights.sha256 = "another"
    weights.release()
    with pytest.raises(Changed, match="another version"):
        weights.get()


def test_a_predictor_that_nobody_releases_keeps_its_model(runs: dict[str, Path]) -> None:
    predictor = load(runs["transformer"])
    model = predictor.model
    assert predictor.predict(TEXTS)
    assert predictor.outline is predictor.model is model


def test_runs_of_torch_alone_stay_open(short: None, runs: dict[str, Path]) -> None:
    opened = Source("x", runs["causal"]).open()
    assert not opened.rest()
    opened.close()
    opened.join()
