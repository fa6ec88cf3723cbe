"""A run's folder that is renamed, deleted or replaced while it trains: noticed, and said."""

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.recipe.config import load
from regard.runs import Run, train
from regard.train import checkpoint, lock
from tests.fault import tiny

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="no folder is renamed there while a file in it is open"
)
FOREIGN = {"notes.txt": "mine", "metrics.jsonl": "{}\n", "checkpoints/00000003/x": "mine, too"}
AT = 7
"""The update after which the folder is no longer where it was; 3 and 6 are saved, 9 is next."""


def begun(tmp_path: Path, *keys: str) -> Run:
    recipe = tiny.write("lstm", tmp_path / "data")
    return Run.create(
        tmp_path / "run", load(recipe, ["train.validate_every=0", "train.keep=9", *keys])
    )


def disturbed(run: Run, harm: Callable[[Path], None]) -> str:
    """Train, and do harm on the way; what training says of it."""

    def tick(progress: object) -> None:
        if getattr(progress, "update", 0) == AT:
            harm(run.folder)

    with pytest.raises(UserError) as said:
        train(run, tick=tick)
    return str(said.value)


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def rename(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def replace(folder: Path) -> None:
    """Another folder has the name, with things in it that bear the names of a run's."""
    rename(folder)
    for name, text in FOREIGN.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize("record", [1, 1000], ids=["at a record", "at a save"])
def test_a_renamed_folder_is_named_and_goes_on_under_its_new_name(tmp_path: Path, record: int):
    straight = begun(tmp_path / "straight")
    train(straight)
    run, moved = begun(tmp_path, f"train.log_every={record}"), tmp_path / "moved"
    said = disturbed(run, rename)
    assert str(run.folder) in said
    assert "renamed" in said
    if Path("/proc/self/fd").is_dir():
        assert f"regard train --resume {moved}" in said
    assert not run.folder.exists(), "nothing is made under the old name"
    assert [c.update for c in checkpoint.checkpoints(moved / "checkpoints")] == [3, 6]
    again = Run(moved)
    assert train(again).update == 12
    ends = [r.folder / "model" / "model.safetensors" for r in (straight, again)]
    assert ends[0].read_bytes() == ends[1].read_bytes()


def test_a_deleted_folder_is_named(tmp_path: Path):
    run = begun(tmp_path, "train.log_every=1000")
    said = disturbed(run, shutil.rmtree)
    assert str(run.folder) in said
    assert "renamed or deleted" in said
    assert not run.folder.exists()


@pytest.mark.parametrize("record", [1, 1000], ids=["at a record", "at a save"])
def test_nothing_is_written_into_a_folder_that_took_the_name(tmp_path: Path, record: int):
    run = begun(tmp_path, f"train.log_every={record}")
    said = disturbed(run, replace)
    assert str(run.folder) in said
    assert content(run.folder) == {name: text.encode() for name, text in FOREIGN.items()}
    assert train(Run(tmp_path / "moved")).update == 12


def test_nothing_of_another_run_that_took_the_name_is_removed(tmp_path: Path):
    other = begun(tmp_path / "other")
    train(other)
    before = content(other.folder)

    def swap(folder: Path) -> None:
        rename(folder)
        shutil.copytree(other.folder, folder)

    run = begun(tmp_path, "train.keep=1", "train.average=1")
    disturbed(run, swap)
    assert content(run.folder) == before


def test_what_is_made_in_vain_is_not_cleared_away_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(*_: object) -> None:
        replace(tmp_path / "run")
        raise UserError("the data is bad")

    monkeypatch.setattr("regard.runs.creation._fill", fails)
    with pytest.raises(UserError, match="the data is bad"):
        begun(tmp_path)
    assert content(tmp_path / "run") == {name: text.encode() for name, text in FOREIGN.items()}


def test_a_lock_that_was_removed_is_taken_again(tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    with lock.held(folder):
        (folder / lock.NAME).unlink()
        lock.check(folder)
        with pytest.raises(UserError, match=f"in use by process {os.getpid()}"), lock.held(folder):
            pass
        lock.check(folder)
    with lock.held(folder):
        pass


def test_a_lock_that_another_has_taken_meanwhile_ends_the_first(tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    with lock.held(folder):
        (folder / lock.NAME).unlink()
        with closing(lock.Hold(folder)), pytest.raises(UserError, match="in use by process"):
            lock.check(folder)


def test_a_folder_that_is_not_held_is_not_asked(tmp_path: Path):
    lock.check(tmp_path / "nowhere")
