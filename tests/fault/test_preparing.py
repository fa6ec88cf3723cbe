"""A kill while a run is being made: the next try takes up what is whole, and ends with the same."""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import regard
from regard import cli
from regard.data import shards
from regard.data.readers import Report
from regard.data.store import Column, Store, Writer
from regard.errors import UserError
from regard.examples.preparation import Plan
from regard.front import create, prepared
from regard.runs import Run, preparing
from regard.runs.state import free_folder
from regard.train import lock
from tests import small_runs
from tests.fault import tiny
from tests.fault.conftest import Amount, Tally
from tests.fault.forks import Forks

KILLED = -9
RNN = {"kind": "rnn", "cell": "gru", "layers": 1}
MODELS = {
    "translate": {"dim": 8, "encoder": RNN, "decoder": RNN},
    "language_model": {"dim": 8, "decoder": RNN},
    "classify": {"dim": 8, "encoder": RNN},
    "tag": {"dim": 8, "encoder": RNN},
    "forecast": {"dim": 8, "encoder": RNN},
}


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as made:
        yield made


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the lock, which names a process, and the note that training removes where a
    kill came after all was made."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (lock.NAME, preparing.NAME)
    }


@pytest.mark.timeout(3600)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.parametrize("task", MODELS)
def test_kills_at_writes_syncs_and_renames(
    task: str, forks: Forks, tmp_path: Path, amount: Amount, tally: Tally
):
    """Again and again at some point of what is left, until it is whole between two kills."""
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(tomli_w.dumps(small_runs.table(task, MODELS[task], tmp_path / "data")))
    whole = forks("prepare", tmp_path / "whole", recipe)
    assert whole.code == 0, whole.told
    wanted, chance = contents(tmp_path / "whole"), random.Random(len(task))
    every = range(1, whole.points + 1)
    for point in sorted(chance.sample(every, min(len(every), amount(5, 60)))):
        run = tmp_path / str(point)
        assert forks("prepare", run, recipe, kill_at=point).code == KILLED
        end, kills = forks("prepare", run, recipe, kill_at=chance.choice(every)), 1
        kills += end.code == KILLED
        end = forks("prepare", run, recipe)
        assert end.code == 0, end.told
        assert contents(run) == wanted
        tally("kills while a run was made", kills)
        tally("runs killed there, made as if never killed", 1)


# What is taken over, and what is not


ROWS = [{"a": [n] * (n % 5)} for n in range(40)]


class Work:
    """A task's preparation that writes a store, until it is stopped."""

    def __init__(self, error: BaseException | None) -> None:
        self.error, self.taken = error, -1

    def __call__(self, config: Any, folder: Path) -> Report:
        from regard.data.tokenizers import Tokenizer

        for side in ("source", "target"):
            Tokenizer.train(config.tokenizer, ["ka lo"]).save(folder / f"{side}.tokenizer.json")
        with Writer(folder / "store", "train", {"a": Column("u2")}, shard=50) as writer:
            self.taken = writer.done
            for row in ROWS[writer.done : None if self.error is None else 20]:
                writer.add([row])
            if self.error is not None:
                raise self.error
        return Report(used=len(ROWS))


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return tiny.write("transformer", tmp_path / "data")


def work(monkeypatch: pytest.MonkeyPatch, error: BaseException | None = None) -> Work:
    made = Work(error)

    def prepare(plan: Any, folder: Path, base: Path | None = None, check: Any = None) -> Report:
        return made(plan.config, folder)

    monkeypatch.setattr(Plan, "prepare", prepare)
    return made


@pytest.fixture
def killed(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that a killed process has left: nothing is cleared away."""
    with monkeypatch.context() as patch:
        patch.setattr("regard.runs.creation._empty", lambda *_: None)
        work(patch, InterruptedError())
        with pytest.raises(InterruptedError):
            create(*prepared(recipe, (), tmp_path / "run"))
    assert (tmp_path / "run" / preparing.NAME).is_file()
    return tmp_path / "run"


def texts(warnings: list[dict[str, Any]]) -> list[str]:
    return [each["text"] for each in warnings if "interrupted" in each["text"]]


def test_the_same_command_takes_over_what_is_whole(
    killed: Path, recipe: Path, monkeypatch: pytest.MonkeyPatch
):
    made = work(monkeypatch)
    _, warnings = create(*prepared(recipe, (), killed))
    assert texts(warnings) == [
        f"{killed}: its preparation was interrupted; what is whole is taken over"
    ]
    assert made.taken > 10
    assert [row["a"].tolist() for row in Store(killed / "store", "train")] == [
        row["a"] for row in ROWS
    ]
    assert not list(killed.glob(".prep*")) and not list((killed / "store").glob(".*"))


def test_resume_takes_it_over_too(killed: Path, monkeypatch: pytest.MonkeyPatch):
    made = work(monkeypatch)
    with pytest.raises(UserError, match=r"not finished being made; to go on: regard train --res"):
        Run(killed)
    run, warnings = regard.front.resumed(killed)
    assert made.taken > 10 and len(texts(warnings)) == 1
    assert regard.front.resumed(killed)[1] == [] and run.recipe.kind == "translate"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("data", "train.source has changed since"),
        ("tokenizer.min_frequency=2", "the recipe is another since"),
        ("version", "the version of regard is another since"),
        ("damage", ".preparing.json is damaged since"),
    ],
)
def test_what_has_changed_begins_anew(
    change: str, said: str, killed: Path, recipe: Path, monkeypatch: pytest.MonkeyPatch
):
    made, changes = work(monkeypatch), [change] if "=" in change else []
    if change == "data":
        with (recipe.parent / "train.source").open("a") as file:
            file.write("ka lo\n")
        with (recipe.parent / "train.target").open("a") as file:
            file.write("ka lo\n")
    elif change == "version":
        monkeypatch.setattr("regard.runs.preparing.__version__", "0.0.0")
    elif change == "damage":
        path = killed / preparing.NAME
        path.write_text(path.read_text().replace("train.source", "train.sourcf"))
    (killed / "left").write_text("of the earlier try")
    _, warnings = create(*prepared(recipe, changes, killed))
    (text,) = texts(warnings)
    assert said in text and text.endswith("was interrupted: it begins anew")
    assert made.taken == 0 and not (killed / "left").exists()


def test_what_the_data_does_not_depend_on_may_change(
    killed: Path, recipe: Path, monkeypatch: pytest.MonkeyPatch
):
    made = work(monkeypatch)
    run, _ = create(*prepared(recipe, ["train.updates=3"], killed))
    assert made.taken > 10 and run.recipe.train.updates == 3


def test_a_name_that_an_interrupted_try_has_is_free(
    killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    killed.rename(tmp_path / "runs" / "x")
    assert free_folder("x") == Path("runs/x")
    with lock.held(Path("runs/x")):  # somebody is at work there
        assert free_folder("x") == Path("runs/x-2")
    assert free_folder("x") == Path("runs/x")


def test_a_link_in_it_is_refused(killed: Path, recipe: Path, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (killed / "store").rename(tmp_path / "moved")
    (killed / "store").symlink_to(tmp_path / "elsewhere")
    for go_on in (
        lambda: regard.front.resumed(killed),
        lambda: create(*prepared(recipe, (), killed)),
    ):
        with pytest.raises(UserError, match="store is a link"):
            go_on()
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("text", ["", "{}", '{"base": 7}', '{"base": "a\\nb"}'])
def test_a_forged_note_cannot_be_resumed(killed: Path, text: str):
    (killed / preparing.NAME).write_text(text)
    with pytest.raises(UserError, match=r"never finished being made, and cannot be taken up"):
        regard.front.resumed(killed)


def test_a_note_that_a_kill_left_in_a_whole_run_goes(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setattr("regard.runs.preparing.end", lambda folder: None)
        create(*prepared(recipe, ["train.updates=1"], tmp_path / "run"))
    assert (tmp_path / "run" / preparing.NAME).is_file()
    assert not preparing.is_interrupted(tmp_path / "run")
    regard.train(resume=tmp_path / "run")
    assert not (tmp_path / "run" / preparing.NAME).exists()


# Errors and Ctrl-C


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyboardInterrupt(), "interrupted. What was prepared so far is kept; to go on: regard"),
        (UserError("line 9 is bad."), "line 9 is bad. What was prepared so far is kept; to go on"),
        (OSError(28, "No space left on device", "x.values"), "x.values: No space left on device. "),
    ],
)
def test_what_took_long_is_kept(
    error: BaseException, said: str, recipe: Path, tmp_path: Path, capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.setattr(preparing, "WORTH", -1.0)
    work(monkeypatch, error)
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", str(recipe), "--to", str(tmp_path / "run")])
    assert stop.value.code == (130 if isinstance(error, KeyboardInterrupt) else 1)
    written = capsys.readouterr().err
    assert f"regard: {said}" in written
    assert written.endswith(f"to go on: regard train --resume {tmp_path / 'run'}\n")
    made = work(monkeypatch)
    regard.front.resumed(tmp_path / "run")
    assert made.taken > 10


@pytest.mark.parametrize("again", [False, True])
def test_what_did_not_take_long_is_not(
    again: bool, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also where an interrupted try was before."""
    if again:
        with monkeypatch.context() as patch:
            patch.setattr(preparing, "WORTH", -1.0)
            work(patch, UserError("first"))
            with pytest.raises(UserError, match="first"):
                create(*prepared(recipe, (), tmp_path / "new"))
        assert (tmp_path / "new").exists()
    work(monkeypatch, UserError("second"))
    with pytest.raises(UserError, match=r"^second$"):
        create(*prepared(recipe, (), tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_how_long_it_took_is_what_the_files_say(tmp_path: Path):
    (tmp_path / preparing.NAME).touch()
    (tmp_path / "store").mkdir()
    assert not preparing.is_worth_keeping(tmp_path)
    (tmp_path / "store" / "x").touch()
    later = time.time() + preparing.WORTH + 2
    os.utime(tmp_path / "store" / "x", (later, later))
    assert preparing.is_worth_keeping(tmp_path)
    assert shards.SHARD == 1 << 26
