"""What the pages that look inside and that watch ask of the server."""

import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from regard import cli
from regard.runs import preparing
from regard.serve.routes import watch
from tests.serve import serving


def inspected(client: httpx.Client, **asked: Any) -> dict[str, Any]:
    found = client.post("/v1/inspect", json=asked)
    assert found.status_code == 200, found.text
    return dict(found.json())


def test_a_head_that_is_switched_off_changes_what_is_said(client: httpx.Client):
    asked = {"model": "transformer", "input": "two dogs play", "target": "a man"}
    whole, without = (
        inspected(client, **asked, without_heads=off) for off in ([], ["cross.1.0", "cross.0.1"])
    )
    heads = {(each["kind"], each["layer"], each["heads"]) for each in whole["heads"]}
    assert heads == {(kind, n, 2) for kind in ("encoder", "decoder", "cross") for n in (0, 1)}
    scores = []
    for each in (whole, without):
        [run] = each["content"]["runs"]
        assert run["name"] == "transformer"
        scores.append([row["p"] for row in run["frames"][0]["readings"][0]["tokens"]["rows"]])
    assert scores[0] != scores[1]
    assert without["content"]["runs"][0]["frames"][0]["without"] == ["cross.1.0", "cross.0.1"]
    # Others are answered by the whole model meanwhile and afterwards.
    again = inspected(client, **asked)["content"]["runs"][0]["frames"][0]["readings"][0]
    assert [row["p"] for row in again["tokens"]["rows"]] == scores[0]


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"input": ""}, 400, "empty"),
        ({"input": "a" * 2001}, 413, "2,000"),
        ({"input": "a dog", "without_heads": ["cross.9.9"]}, 400, "no attention head"),
        ({"input": "a dog", "without_heads": ["/etc/passwd"]}, 400, "names no head"),
        ({"input": "a dog", "length": 1000}, 400, "length"),
        ({"input": "a dog", "file": "x"}, 400, "file"),
        ({"model": "nobody", "input": "a dog"}, 404, "no such model"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(
    asked: dict[str, Any], status: int, said: str, client: httpx.Client
):
    found = client.post("/v1/inspect", json=asked)
    assert found.status_code == status
    assert said in found.json()["error"]["message"]


def test_the_viewers_files_are_there_and_no_others(client: httpx.Client):
    assert client.get("/page/inside/base.css").headers["content-type"].startswith("text/css")
    for name in ("report.py", "..%2freport.py", "%2e%2e/views.py", "nothing.js"):
        assert client.get(f"/page/inside/{name}").status_code == 404
    live = client.get("/page/inside.html").headers["content-security-policy"]
    assert "script-src 'self';" in live and "media-src data:" in live
    assert "data:" not in client.get("/").headers["content-security-policy"].split("media-src")[1]


def line(kind: str, update: int, **figures: float | str) -> str:
    return json.dumps({"kind": kind, "update": update, "tokens": 9 * update, **figures}) + "\n"


def test_records_of_a_run_are_read_as_it_trains(runs: dict[str, Path], tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    records = folder / "metrics.jsonl"
    records.write_text(line("train", 1, nll=3.0) + '{"kind": "train", "upd')
    made = serving.Running([], watched={"run": folder})
    try:
        with made.client() as client:
            first = client.get("/v1/runs/run")
            assert [record["update"] for record in first.json()["records"]] == [1]
            tag = {"if-none-match": first.headers["etag"]}
            assert client.get("/v1/runs/run", headers=tag).status_code == 304
            records.write_text(line("train", 1, nll=3.0) + line("train", 2, nll=2.0))
            second = client.get("/v1/runs/run", headers=tag)
            assert [record["nll"] for record in second.json()["records"]] == [3.0, 2.0]
            assert "watching" in client.get("/").text
            listed = client.get("/v1/runs").json()["data"]
            assert [(each["id"], each["finished"]) for each in listed] == [("run", False)]
            assert client.get("/v1/runs/other").status_code == 404
            assert client.post("/v1/predict", json={"inputs": "x"}).status_code == 404
    finally:
        made.stop()


def test_long_runs_are_thinned_but_for_their_validations():
    steps = [{"kind": "train", "update": n} for n in range(5000)]
    others = [{"kind": "validation", "update": n} for n in range(0, 5000, 10)]
    samples = [{"kind": "samples", "update": n} for n in range(100)]
    found = watch.thinned([*steps, *others, *samples])
    kinds = [record["kind"] for record in found]
    assert kinds.count("validation") == 500 and kinds.count("samples") == watch.SAMPLES
    assert 300 <= kinds.count("train") <= watch.POINTS + 1
    trained = [record["update"] for record in found if record["kind"] == "train"]
    assert trained[0] == 0 and trained[-1] == 4999


def test_alternatives_begin_alike_and_go_on_in_other_ways(client: httpx.Client):
    asked = {"model": "transformer", "input": "two dogs play", "prefix": "a man", "top": 5}
    found = client.post("/v1/alternatives", json=asked).json()["data"]
    texts = [each["text"] for each in found]
    chances = [each["p"] for each in found]
    assert len({*texts}) == 5 and all(text.startswith("a man ") for text in texts)
    assert chances == sorted(chances, reverse=True) and 0 < sum(chances) < 1
    # The same as forcing by hand.
    forced = " ".join(texts[1].split()[:3])
    body = {"model": "transformer", "inputs": ["two dogs play"], "prefix": forced}
    [same] = client.post("/v1/predict", json=body).json()["predictions"]
    assert same["text"] == texts[1]
    refused = client.post("/v1/alternatives", json={"model": "classifier", "input": "a dog"})
    assert refused.status_code == 400


@pytest.mark.parametrize("route", ["alternatives", "inspect"])
def test_no_input_is_refused(client: httpx.Client, route: str):
    found = client.post(f"/v1/{route}", json={"model": "transformer", "input": []})
    assert found.status_code == 400
    assert found.json()["error"]["code"] == "no_input"


def test_a_run_that_is_not_there_yet_is_waited_for(
    runs: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also while it is being made."""
    folder = tmp_path / "mine"

    def begin() -> None:
        folder.mkdir()
        (folder / ".recipe.toml").touch()

    def prepare() -> None:
        (folder / preparing.NAME).touch()
        (folder / "store").mkdir()

    def finish() -> None:
        shutil.copytree(runs["classifier"], folder, dirs_exist_ok=True)

    steps, served = [begin, prepare, finish], list[Any]()
    monkeypatch.setattr("time.sleep", lambda seconds: steps.pop(0)())
    monkeypatch.setattr("regard.verbs.serving.own_process", lambda: None)
    monkeypatch.setattr(
        "regard.serve.server.serve", lambda runs, settings, say, watched: served.append(watched)
    )
    cli.main(["watch", f"other={folder}", str(runs["causal"])])
    assert served == [{"other": folder, "causal": runs["causal"]}]
    assert not steps
    said = capsys.readouterr().out.splitlines()
    assert said == [f"waiting for {folder}, which is not there yet; Ctrl-C ends this"]


def test_waiting_for_a_run_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    with pytest.raises(SystemExit) as end:
        cli.main(["watch", str(tmp_path / "mine")])
    assert end.value.code == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(SystemExit) as end:
        cli.main(["watch", str(tmp_path)])
    assert end.value.code == 1
    assert str(tmp_path) in capsys.readouterr().err
