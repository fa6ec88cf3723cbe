"""An unfinished run is not final: what uses it says so, and nothing quietly begins beside it."""

import json
import re
import shutil
from pathlib import Path

import pytest
from pytest import CaptureFixture, MonkeyPatch

import regard
from regard import cli
from regard.compare import Comparison, Entry, learning_curves
from regard.errors import UserError
from regard.runs import state
from regard.train import lock
from tests import small_runs

UPDATES = 100_000
"""That the recipes of small runs ask for."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, with checkpoints."""
    return small_runs.make("causal", tmp_path_factory.mktemp("unfinished") / "run", (3, 40)).folder


@pytest.fixture
def stopped(whole: Path, tmp_path: Path, monkeypatch: MonkeyPatch) -> Path:
    """The same without its final model, as runs/x in the present folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(whole, "runs/x")
    shutil.rmtree("runs/x/model")
    return Path("runs/x")


def call(capsys: CaptureFixture[str], *words: object) -> tuple[str, str]:
    capsys.readouterr()
    cli.main([*map(str, words)])
    out, err = capsys.readouterr()
    return out, err


SAID = "regard: runs/x is unfinished: update 40 of 100,000; to go on: regard train --resume runs/x"


def test_predict_and_score_say_at_which_update_it_is(
    stopped: Path, capsys: CaptureFixture[str], monkeypatch: MonkeyPatch
):
    Path("in.txt").write_text("a dog\n")
    out, err = call(capsys, "predict", stopped, "in.txt", "--length", 2, "--json")
    assert err.splitlines() == [SAID]
    assert json.loads(out)["unfinished"] == {"update": 40, "updates": UPDATES}
    out, err = call(capsys, "predict", stopped, "in.txt", "--length", 2, "--checkpoint", 3)
    assert "update 3 of 100,000" in err and "unfinished" not in out
    out, err = call(capsys, "score", stopped, "in.txt", "--json")
    assert SAID in err.splitlines()
    assert json.loads(out)["unfinished"]["update"] == 40


def test_evaluate_and_inspect_say_so(stopped: Path, capsys: CaptureFixture[str]):
    out, err = call(capsys, "evaluate", stopped, "--part", "validation", "--json")
    assert SAID in err.splitlines()
    assert json.loads(out)["unfinished"] == {"update": 40, "updates": UPDATES}
    out, err = call(capsys, "inspect", stopped, "a dog", "--length", 2, "--json")
    assert SAID in err.splitlines()
    assert json.loads(out)["unfinished"] == {"update": 40, "updates": UPDATES}


def test_nothing_is_said_of_a_finished_run(
    whole: Path, tmp_path: Path, capsys: CaptureFixture[str]
):
    (tmp_path / "empty.txt").touch()
    for which in ("final", "3"):
        words = ("predict", whole, tmp_path / "empty.txt", "--checkpoint", which)
        assert call(capsys, *words) == ("", "")
    assert regard.load(whole, checkpoint="last").unfinished is None


def test_compare_says_so_and_has_a_row(whole: Path, stopped: Path, capsys: CaptureFixture[str]):
    words = ("compare", stopped, whole, "--part", "validation", "--samples", 10)
    out, err = call(capsys, *words)
    assert SAID in err.splitlines()
    [row] = [line for line in out.splitlines() if line.startswith("state")]
    assert row.split() == ["state", "update", "40", "of", "100,000", "finished"]
    found = json.loads(call(capsys, *words, "--json")[0])["runs"]
    assert [run["unfinished"] for run in found] == [{"update": 40, "updates": UPDATES}, None]


def entry(name: str, *points: tuple[int, float]) -> Entry:
    curve = ([tokens for tokens, _ in points], [value for _, value in points])
    return Entry(
        run=name, scores={}, lengths={}, parameters=1, updates=1, tokens=points[-1][0],
        cpu_seconds=1.0, threads=1, fastest=None, median=None, metric="nll",
        curves={"nll": curve},
    )  # fmt: skip


def test_compare_has_no_value_where_a_run_did_not_get_to():
    short = entry("short", (1_000_000, 5.0), (2_000_000, 4.0))
    long = entry("long", (3_000_000, 3.5), (6_000_000, 3.0))
    found = Comparison(part="test", quality="nll", unit="words", runs=(short, long))
    rows = [row for row in found.rows() if row[0].startswith("nll at")]
    assert rows == [
        ("nll at 1 M targets", "5", "–"),
        ("nll at 2 M targets", "4", "–"),
        ("nll at 3 M targets", "–", "3.5"),
        ("nll at 4 M targets", "–", "3.5"),
        ("nll at 5 M targets", "–", "3.5"),
        ("nll at 6 M targets", "–", "3"),
    ]
    assert learning_curves([]) == {}


# The next run of the same recipe


def recipe(stopped: Path) -> Path:
    """The recipe of a run, as a user has it."""
    text = (stopped / "recipe.toml").read_text(encoding="utf-8")
    Path("x.toml").write_text(text, encoding="utf-8")
    return Path("x.toml")


AGAIN = "; to begin a new run: regard train x.toml seed=2 --to runs/x-2"


def test_a_rerun_is_refused_with_both_commands(stopped: Path, capsys: CaptureFixture[str]):
    made = recipe(stopped)
    with pytest.raises(SystemExit) as stop:
        call(capsys, "train", made, "seed=2")
    assert stop.value.code == 1
    assert capsys.readouterr().err == f"{SAID}{AGAIN}\n"
    assert [*Path("runs").iterdir()] == [stopped]
    with pytest.raises(
        UserError, match=r"update 40 of 100,000.* --resume runs/x; .* --to runs/x-2"
    ):
        regard.train(made)


def test_an_unfinished_run_after_finished_ones_is_seen(whole: Path, stopped: Path):
    stopped.rename("runs/x-2")
    shutil.copytree(whole, "runs/x")
    with pytest.raises(UserError, match=r"runs/x-2 is unfinished.* --to runs/x-3$"):
        state.check_rerun("somewhere/x.toml")


def test_one_that_trains_now_is_not_to_be_resumed(stopped: Path):
    with lock.held(stopped), pytest.raises(UserError) as refused:
        state.check_rerun("x.toml")
    assert str(refused.value) == (
        "runs/x trains now and is unfinished: update 40 of 100,000; "
        "to begin a new run: regard train x.toml --to runs/x-2"
    )


def test_after_a_finished_run_the_next_begins_and_says_so(
    whole: Path, tmp_path: Path, monkeypatch: MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert state.check_rerun("x.toml") == []
    shutil.copytree(whole, "runs/x")
    [record] = state.check_rerun("x.toml")
    assert record["text"] == "runs/x is a finished run and stays as it is: the new run is runs/x-2"
    assert state.free_folder("x") == Path("runs/x-2")


def test_minutes_and_missing_parts_give_no_total(stopped: Path):
    path = stopped / "recipe.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"(?m)^minutes = .*$", "minutes = 5.0", text), encoding="utf-8")
    found = state.unfinished(stopped)
    assert found is not None and found.reached == "update 40"
    path.write_text(text.replace('task = "language_model"', 'task = "mine"'), encoding="utf-8")
    found = state.unfinished(stopped)
    assert found is not None and found.reached == "update 40"
