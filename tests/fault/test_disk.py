"""Full disks, disks that only can be read, data that is gone: nothing that is saved is lost."""

import errno
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import cli, plots
from regard.errors import UserError
from regard.runs import Run
from regard.train import checkpoint, events, log, manifest
from tests.fault import tiny
from tests.fault.conftest import Amount, Tally


def full(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write("transformer", tmp_path_factory.mktemp("disk") / "data")


@pytest.fixture(scope="module")
def whole(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "curves", lambda records, path: None)
        return regard.train(recipe, to=tmp_path_factory.mktemp("whole") / "run").run.folder


def checkpoints(run: Path) -> list[int]:
    return [c.update for c in checkpoint.checkpoints(run / "checkpoints") if c.fault() is None]


@pytest.mark.parametrize("target", ["append", "scalar"])
def test_records_wait_for_room(
    target: str, recipe: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Full from update 5 to 10: training goes on, says so once, and all records are there."""
    told: list[dict[str, Any]] = []
    owner: Any = log if target == "append" else events.Events
    real = getattr(owner, target)

    def write(*given: Any) -> None:
        last = max((r["update"] for r in told if "update" in r), default=0)
        full() if 4 <= last < 10 else real(*given)

    monkeypatch.setattr(owner, target, write)
    regard.train(recipe, to=tmp_path / "run", callback=told.append)
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(whole)
    [warning] = [r["text"] for r in told if r["kind"] == "warning"]
    assert "No space left on device" in warning
    assert "make room" in warning


def test_a_line_that_was_cut_off_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "records"
    path.write_text("{}\n")
    real = Path.open

    class Cut:
        def __enter__(self) -> "Cut":
            return self

        def __exit__(self, *_: object) -> None:
            full()

        def write(self, text: str) -> None:
            with real(path, "a") as file:
                file.write(text[:2])

    monkeypatch.setattr(Path, "open", lambda *_, **options: Cut())
    with pytest.raises(OSError, match="No space"):
        log.append(path, [{"two": 2}])
    monkeypatch.undo()
    assert path.read_text() == "{}\n"


@pytest.mark.parametrize("where", ["save_file", "manifest"])
def test_a_checkpoint_that_cannot_be_written(
    where: str, recipe: Path, whole: Path, tmp_path: Path, monkeypatch: Any, tally: Tally
):
    """At update 6: the older ones are untouched, nothing half written stays, and it goes on."""
    folder = tmp_path / "run"
    owner: Any = checkpoint if where == "save_file" else manifest
    name = "save_file" if where == "save_file" else "write"
    with monkeypatch.context() as patch:
        real = getattr(owner, name)

        def save(*given: Any) -> Any:
            return full() if (folder / "checkpoints" / "00000004").exists() else real(*given)

        patch.setattr(owner, name, save)
        with pytest.raises(UserError, match=r"could not be written: No space left .* then resume"):
            regard.train(recipe, to=folder)
    assert checkpoints(folder)[-1] == 4
    assert not list((folder / "checkpoints").glob(".*"))
    regard.train(resume=folder)
    assert tiny.outcome(folder) == tiny.outcome(whole)
    tally("full disks, nothing that was saved is lost", 1)


@pytest.mark.parametrize("name", ["write_text", "mkdir"])
def test_a_full_disk_when_resuming(
    name: str, recipe: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "run"
    stop(recipe, folder)
    before = checkpoints(folder)
    with monkeypatch.context() as patch:
        patch.setattr(Path, name, full)
        with pytest.raises(UserError, match=r"cannot be written: No space .* then resume"):
            regard.train(resume=folder)
    assert checkpoints(folder) == before
    regard.train(resume=folder)
    assert tiny.outcome(folder) == tiny.outcome(whole)


class Stop(Exception):
    pass


def stop(recipe: Path, folder: Path, update: int = 8) -> None:
    def callback(record: dict[str, Any]) -> None:
        if (record["kind"], record["update"]) == ("validation", update):
            raise Stop

    with pytest.raises(Stop):
        regard.train(recipe, to=folder, callback=callback)


@pytest.mark.usefixtures("pictures")
def test_curves_that_cannot_be_drawn_are_no_loss(recipe: Path, tmp_path: Path, monkeypatch: Any):
    monkeypatch.setattr(plots, "curves", full)
    told: list[dict[str, Any]] = []
    regard.train(recipe, "train.updates=2", to=tmp_path / "run", callback=told.append)
    assert (tmp_path / "run" / "model").is_dir()
    assert "no picture of the curves" in told[-1]["text"]


def test_data_that_is_gone(whole: Path, tmp_path: Path, tally: Tally):
    """What is validated by vanishes after update 5: update 8 is saved, and that it is still to be
    validated, which happens when the file is back."""
    recipe, aside = tiny.write("transformer", tmp_path / "data"), tmp_path / "aside"
    source = tmp_path / "run" / "store" / "watched.source.00000.values"

    def vanish(record: dict[str, Any]) -> None:
        if record["update"] == 5:
            shutil.move(source, aside)

    with pytest.raises(UserError, match=r"watched\.source"):
        regard.train(recipe, to=tmp_path / "run", callback=vanish)
    saved = Run(tmp_path / "run").find("last").progress()
    assert (saved["update"], saved["validated"]) == (8, 4)
    with pytest.raises(UserError, match=r"watched\.source"):
        regard.train(resume=tmp_path / "run")
    shutil.move(aside, source)
    regard.train(resume=tmp_path / "run")
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(whole)
    tally("vanished files, nothing lost", 1)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_stored_data_that_is_cut_off_in_use(kind: str, tmp_path: Path, tally: Tally):
    """What is learnt is saved; with the file back, all is as if nothing had happened."""
    recipe = tiny.write(kind, tmp_path / "data")
    regard.train(recipe, to=tmp_path / "whole")
    stored = tmp_path / "run" / "store" / "train.target.00000.values"
    kept: list[bytes] = []

    def cut(record: dict[str, Any]) -> None:
        if record["update"] == 5 and not kept:
            kept.append(stored.read_bytes())
            os.truncate(stored, 4)

    with pytest.raises(
        UserError, match=r"train\.target\.00000\.values has been cut off .* --resume"
    ):
        regard.train(recipe, to=tmp_path / "run", callback=cut)
    assert checkpoints(tmp_path / "run")[-1] == 5
    with pytest.raises(UserError, match=re.escape(stored.name)):
        regard.train(resume=tmp_path / "run")
    stored.write_bytes(kept[0])
    regard.train(resume=tmp_path / "run")
    assert tiny.outcome(tmp_path / "run") == tiny.outcome(tmp_path / "whole")
    tally("stored data cut off in use, nothing lost", 1)


def test_a_store_that_is_gone_is_named(recipe: Path, tmp_path: Path):
    folder = tmp_path / "run"
    stop(recipe, folder)
    before = checkpoints(folder)
    (folder / "store" / "train.source.00000.values").unlink()
    with pytest.raises(UserError, match=r"train\.source\.00000\.values"):
        regard.train(resume=folder)
    assert checkpoints(folder) == before


# Disks of their own


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one MB."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True
    ) if shutil.which("mount") and os.name == "posix" else None  # fmt: skip
    if made is None or made.returncode:
        pytest.skip("to make a small disk (mount -t tmpfs) one must be root")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.timeout(600)
def test_a_disk_that_is_really_full(
    disk: Path, recipe: Path, whole: Path, amount: Amount, tally: Tally
):
    """Filled up to a few kB more or less, again and again; then there is room."""
    run, ends = disk / "run", 0
    stop(recipe, run)
    whole_ones = checkpoints(run)
    filler = disk / "filler"
    for n in range(amount(4, 30)):
        fill(filler, left=n * 120_000 // amount(4, 30))
        try:
            regard.train(resume=run)
            break
        except UserError as error:
            assert "No space left on device" in str(error)
            ends += 1
        finally:
            filler.unlink()
        assert set(checkpoints(run)) >= set(whole_ones), "what was saved is still there"
        whole_ones = checkpoints(run)[-1:]
    assert ends > 0
    regard.train(resume=run)
    mine, other = tiny.outcome(run), tiny.outcome(whole)
    assert (mine["weights"], mine["records"]) == (other["weights"], other["records"])
    tally("full disks, nothing that was saved is lost", ends)


def fill(path: Path, left: int) -> None:
    """Take all of a disk's room but some bytes."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    os.truncate(path, max(0, path.stat().st_size - left))


def test_a_disk_that_can_only_be_read(disk: Path, recipe: Path, capsys: Any):
    stop(recipe, disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(SystemExit) as end:
        cli.main(["train", "--resume", str(disk / "run")])
    assert end.value.code == 1
    told = capsys.readouterr().err
    assert "cannot be written: Read-only file system" in told
    assert "Traceback" not in told
    assert regard.load(disk / "run").predict(["ka"]), "it can be used"
