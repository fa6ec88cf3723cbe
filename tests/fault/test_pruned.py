"""A run that trains removes its old checkpoints; what is loaded meanwhile is a whole one."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import regard
from regard.errors import UserError
from regard.inspect import report
from regard.model import build
from regard.runs.run import TRIES, Run
from regard.train import checkpoint
from regard.train.checkpoint import Checkpoint
from regard.train.progress import Progress
from tests import small_runs
from tests.fault.conftest import Amount, Tally


@contextmanager
def training(run: Run, keep: int = 1) -> Iterator[None]:
    """Save and prune every few milliseconds; all weights of a checkpoint are its number."""
    over, weights = (
        threading.Event(),
        checkpoint.weights_of(build(run.recipe.model, run.task.sizes)),
    )
    failed: list[BaseException] = []

    def save(update: int) -> None:
        filled = {name: torch.full_like(tensor, update) for name, tensor in weights.items()}
        progress = Progress(update=update, best_update=update)
        folder = run.checkpoints / f"{update:08d}"
        checkpoint.save(folder, filled, progress.as_dict(), run=run.files)
        for old in checkpoint.checkpoints(run.checkpoints)[:-keep]:
            checkpoint.remove(old.folder)

    def go() -> None:
        try:
            update = 1
            while not over.is_set():
                update += 1
                save(update)
                time.sleep(0.005)  # an update of a tiny model
        except BaseException as error:
            failed.append(error)

    save(1)
    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not failed, failed


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = small_runs.make("classifier", tmp_path / "run")
    shutil.rmtree(made.folder / "model")
    return made


def test_every_load_is_of_one_whole_checkpoint(run: Run, amount: Amount, tally: Tally):
    seen, opened = set(), run
    with training(run):
        for number in range(amount(210, 1000)):
            which = ("final", "last", "best")[number % 3]
            opened = Run(run.folder) if number % 10 == 0 else opened
            loaded = opened.loaded(which)
            values = {float(v) for p in loaded.model.parameters() for v in p.detach().flatten()[:2]}
            assert values == {float(loaded.progress.update)}, "of one checkpoint, whole"
            seen.add(loaded.progress.update)
    assert len(seen) > 20, "the run went on meanwhile"
    tally("loads while checkpoints were removed", number + 1)


def test_verbs_work_while_checkpoints_are_removed(run: Run):
    with training(run, keep=3):
        for _ in range(3):
            opened = regard.load(run.folder)
            opened.predict(["a dog runs"])
            opened.evaluate("train")
            assert opened.progress.update > 0
            replay = report.build([run], ["a dog"], report.Options(replay=True))
            assert replay.runs[0]["frames"]
            assert regard.doctor(resume=run.folder) is not None


def test_a_checkpoint_that_keeps_vanishing_is_said_in_the_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    """As often as it is looked for, another one is there, and is gone before it is read."""
    tried = []

    def fault(found: Checkpoint, *, resumable: bool = False) -> str | None:
        tried.append(found.update)
        found.folder.rename(found.folder.with_name(f"{found.update + 1:08d}"))
        return "No such file"

    (run.checkpoints / "00000001").mkdir(parents=True)
    monkeypatch.setattr(Checkpoint, "fault", fault)
    with pytest.raises(UserError, match="has no whole checkpoint"):
        run.model()
    assert tried == list(range(1, TRIES + 2))


def test_a_damaged_checkpoint_is_looked_at_once(run: Run, monkeypatch: pytest.MonkeyPatch):
    tried = []

    def fault(found: Checkpoint, *, resumable: bool = False) -> str | None:
        tried.append(found.update)
        return "damaged"

    (run.checkpoints / "00000001").mkdir(parents=True)
    monkeypatch.setattr(Checkpoint, "fault", fault)
    with pytest.raises(UserError, match="00000001: damaged"):
        run.model()
    assert tried == [1]


@pytest.mark.parametrize("which", ["²", "1e3", "-1", "99999", "9" * 40, "", "../x"])
def test_a_name_that_no_checkpoint_has_is_refused(run: Run, which: str):
    with training(run):
        pass
    with pytest.raises(UserError, match="has no checkpoint"):
        run.model(which)
