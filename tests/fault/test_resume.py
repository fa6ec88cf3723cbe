"""Whatever stops a run, it goes on as if nothing had happened."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import regard
from regard import cli, plots, runs
from regard.errors import RecipeError, UserError
from regard.runs import Run
from regard.train import checkpoint, loop
from tests import corpus

# All that could go wrong together: dropout, accumulated batches, epochs of three and a half
# updates, records that begin before and end after a checkpoint, early stopping, averaging,
# retention.
CHANGES = (
    "train.updates=24",
    "train.accumulate=2",
    "train.log_every=5",
    "train.validate_every=3",
    "train.save_every=4",
    "train.keep=3",
    "train.average=3",
    "train.patience=6",
    "model.encoder.dropout=0.2",
    "model.decoder.feedforward_dropout=0.2",
    "evaluation.lines=2",
    "batch.tokens=26",
)
PASSING = ("seconds", "cpu_seconds", "tokens_per_second", "memory")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus.write(tmp_path_factory.mktemp("corpus"), train=40)


@pytest.fixture(scope="module")
def whole(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run that nothing interrupted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "curves", lambda records, path: None)
        return regard.train(recipe, *CHANGES, to=tmp_path_factory.mktemp("whole") / "run").run


class Stop(Exception):
    pass


def at(update: int, kind: str) -> Callable[[dict[str, Any]], None]:
    """A callback that fails at a record."""

    def callback(record: dict[str, Any]) -> None:
        if (record["kind"], record["update"]) == (kind, update):
            raise Stop

    return callback


def losses(run: Run) -> list[dict[str, Any]]:
    return [{k: v for k, v in r.items() if k not in PASSING} for r in run.records()]


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def assert_same(run: Run, other: Run) -> None:
    """The same weights to the last bit, the same records, the same checkpoints."""
    mine, others = weights(run.folder / "model"), weights(other.folder / "model")
    assert mine.keys() == others.keys()
    assert all(torch.equal(mine[name], others[name]) for name in mine)
    assert losses(run) == losses(other)
    kept = [[c.update for c in checkpoint.checkpoints(r.checkpoints)] for r in (run, other)]
    assert kept[0] == kept[1]
    ends = [r.find("last").progress() for r in (run, other)]
    for end in ends:
        del end["seconds"], end["cpu_seconds"], end["machine"]["memory"]
    assert ends[0] == ends[1]


def test_the_whole_run_is_worth_comparing(whole: Run):
    end = whole.find("last").progress()
    assert end["update"] == 24
    assert end["position"]["epoch"] > 2
    assert end["position"]["index"] > 0
    assert whole.find("final").progress()["mean_of"] == [16, 20, 24]


@pytest.mark.parametrize(
    "stops",
    [
        [("train", 5)],  # a checkpoint at 3 or 4 has half of this record
        [("validation", 3)],  # before anything was saved
        [("train", 10), ("validation", 12), ("train", 15), ("train", 20), ("validation", 24)],
    ],
)
def test_an_error_anywhere(stops: list[tuple[str, int]], whole: Run, recipe: Path, tmp_path: Path):
    folder = tmp_path / "run"
    for number, (kind, update) in enumerate(stops):
        with pytest.raises(Stop):
            if number:
                regard.train(resume=folder, callback=at(update, kind))
            else:
                regard.train(recipe, *CHANGES, to=folder, callback=at(update, kind))
    regard.train(resume=folder)
    assert_same(Run(folder), whole)


def test_an_interruption_saves_and_leaves_no_trace(whole: Run, recipe: Path, tmp_path: Path):
    """After every single update from the sixth to the eleventh."""
    folder = tmp_path / "run"

    def interrupt(record: dict[str, Any]) -> None:
        if record["kind"] not in ("start", "samples"):  # a second signal stops at once
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match=r"regard\.train\(resume="):
        regard.train(recipe, *CHANGES, to=folder, callback=interrupt)
    assert Run(folder).find("last").progress()["update"] == 3, "the first record"
    run = Run(folder)
    for update in range(4, 12):
        one_update(run)
        assert run.find("last").progress()["update"] == update
    regard.train(resume=folder)
    assert_same(Run(folder), whole)


def one_update(run: Run) -> None:
    """Resume, and press Ctrl-C at once."""

    def fit(job: Any, progress: Any, carry: Any) -> Any:
        take = job.batches.at

        def at(position: Any) -> Any:
            signal.raise_signal(signal.SIGINT) if job.batches.at is at else None
            job.batches.at = take
            return take(position)

        job.batches.at = at
        return loop.fit(job, progress, carry)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.runs.training.fit", fit)
        assert not runs.train(run).finished


def test_a_finished_run_stays_as_it_is(whole: Run, tmp_path: Path):
    shutil.copytree(whole.folder, tmp_path / "run")
    before = (tmp_path / "run" / "checkpoints" / "00000024" / "manifest.json").stat().st_mtime_ns
    regard.train(resume=tmp_path / "run")
    assert_same(Run(tmp_path / "run"), whole)
    after = (tmp_path / "run" / "checkpoints" / "00000024" / "manifest.json").stat().st_mtime_ns
    assert before == after


# Processes of their own


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "regard", "train", *map(str, arguments), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def stopped(process: subprocess.Popen[str], number: int, records: int) -> tuple[int, str]:
    """Let it write some records, send it a signal, see it end."""
    assert process.stdout is not None
    for _ in range(records):
        assert process.stdout.readline().startswith("{")
    process.send_signal(number)
    _, errors = process.communicate()
    return process.returncode, errors


@pytest.mark.timeout(300)
@pytest.mark.skipif(os.name == "nt", reason="Windows sends no such signal to another process")
def test_signals(whole: Run, recipe: Path, tmp_path: Path):
    """Ctrl-C, then kill -9, then to the end."""
    folder = tmp_path / "run"
    code, errors = stopped(start(recipe, *CHANGES, "--to", folder), signal.SIGINT, 3)
    assert code == 130
    assert "stopped and saved at update" in errors
    assert f"to go on: regard train --resume {folder}" in errors
    assert "Traceback" not in errors
    saved = Run(folder).find("last").progress()
    assert 0 < saved["update"] < 24
    assert not (folder / "model").exists()

    code, _ = stopped(start("--resume", folder), signal.SIGKILL, 2)
    assert code == -signal.SIGKILL
    cli.main(["train", "--resume", str(folder)])
    assert_same(Run(folder), whole)


def test_ctrl_c_while_the_data_is_read_leaves_nothing(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.data.store.Writer.add", interrupt)
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", str(recipe), "--to", str(tmp_path / "new" / "run")])
    assert stop.value.code == 130
    assert capsys.readouterr().err == "regard: interrupted\n"
    assert not (tmp_path / "new").exists()


# Damage


@pytest.fixture(scope="module")
def half(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped at update 15, with checkpoints at 4, 8 and 12 or better ones."""
    folder = tmp_path_factory.mktemp("half") / "run"
    with pytest.raises(Stop):
        regard.train(recipe, *CHANGES, to=folder, callback=at(15, "train"))
    return folder


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "name", "message"),
    [
        (flip, "model.safetensors", "model.safetensors is damaged"),
        (flip, "progress.json", "progress.json is damaged"),
        (cut, "optimizer.safetensors", "optimizer.safetensors is damaged"),
        (Path.unlink, "model.safetensors", "model.safetensors is missing"),
        (Path.unlink, "manifest.json", "manifest.json"),
        (empty, "manifest.json", "manifest.json"),
        (flip, "manifest.json", ""),
    ],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(
    damage: Callable[[Path], Any], name: str, message: str, half: Path, whole: Run, tmp_path: Path
):
    folder = tmp_path / "run"
    shutil.copytree(half, folder)
    *_, before, newest = checkpoint.checkpoints(folder / "checkpoints")
    damage(newest.folder / name)
    records: list[dict[str, Any]] = []
    regard.train(resume=folder, callback=records.append)
    warning, first = records[0], records[1]
    assert warning["kind"] == "warning"
    assert f"{newest.folder}: " in warning["text"]
    assert message in warning["text"]
    assert before.update < first["update"] <= newest.update + 5
    kept = newest.folder.with_name(f"{newest.folder.name}.damaged")
    assert kept.is_dir(), "it is set aside, not deleted"
    assert_same(Run(folder), whole)


def test_a_damaged_model_is_not_used(whole: Run, tmp_path: Path):
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    flip(folder / "model" / "model.safetensors")
    with pytest.raises(UserError, match=r"model: model\.safetensors is damaged"):
        regard.load(folder)
    with pytest.raises(UserError, match=r"is damaged"):
        regard.train(folder / "recipe.toml", to=tmp_path / "new", start_from=folder)
    assert not (tmp_path / "new").exists()
    assert regard.load(folder, checkpoint="last").predict(["ka"])


def test_a_damaged_one_among_those_to_be_averaged_is_left_out(half: Path, tmp_path: Path):
    folder = tmp_path / "run"
    shutil.copytree(half, folder)
    warnings: list[str] = []

    def spoil(record: dict[str, Any]) -> None:
        if (record["kind"], record.get("update")) == ("train", 24):
            flip(folder / "checkpoints" / "00000020" / "model.safetensors")
        if record["kind"] == "warning":
            warnings.append(record["text"])

    regard.train(resume=folder, callback=spoil)
    assert len(warnings) == 1
    assert "00000020: model.safetensors is damaged: left out" in warnings[0]
    assert 20 not in Run(folder).find("final").progress()["mean_of"]


def test_a_killed_run_leaves_half_a_line_and_half_a_checkpoint(
    half: Path, whole: Run, tmp_path: Path
):
    folder = tmp_path / "run"
    shutil.copytree(half, folder)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "upda')
    left = folder / "checkpoints" / ".writing-00000016"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    regard.train(resume=folder)
    assert_same(Run(folder), whole)
    assert not left.exists()


def test_a_full_disk(half: Path, whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "run"
    shutil.copytree(half, folder)
    before = {c.update for c in checkpoint.checkpoints(folder / "checkpoints")}
    with monkeypatch.context() as patch:

        def full(tensors: object, path: Path) -> None:
            path.write_bytes(b"some")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr(checkpoint, "save_file", full)
        with pytest.raises(UserError, match=r"could not be written: No space left .* then resume"):
            regard.train(resume=folder)
    assert {c.update for c in checkpoint.checkpoints(folder / "checkpoints")} == before
    assert not list((folder / "checkpoints").glob(".*"))
    regard.train(resume=folder)
    assert_same(Run(folder), whole)


def test_events_of_a_resumed_run_begin_anew(half: Path, tmp_path: Path):
    shutil.copytree(half, tmp_path / "run")
    assert len(list((tmp_path / "run" / "events").iterdir())) == 1
    regard.train(resume=tmp_path / "run")
    assert len(list((tmp_path / "run" / "events").iterdir())) == 2


# Another run's model


def other(folder: Path) -> Path:
    """New data, with a word that the first run has never seen."""
    recipe = corpus.write(folder, train=30)
    for name, word in (("train.source", "zz"), ("train.target", "neu")):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(f"{word}\n")
    return recipe


def test_training_goes_on_from_another_runs_model(whole: Run, tmp_path: Path):
    recipe = other(tmp_path / "data")
    changes = ("train.updates=1", "train.optimizer.learning_rate=1e-9")
    predictor = regard.train(recipe, *changes, to=tmp_path / "run", start_from=whole.folder)
    for side in ("source", "target"):
        name = f"{side}.tokenizer.json"
        assert (tmp_path / "run" / name).read_bytes() == (whole.folder / name).read_bytes()
    assert predictor.run.recipe.task.tokenizer == whole.recipe.task.tokenizer
    mine, before = weights(tmp_path / "run" / "model"), weights(whole.folder / "model")
    assert all(torch.allclose(mine[name], before[name], atol=1e-6) for name in before)
    assert json.loads((tmp_path / "run" / "data.json").read_text())["used"] == 31


def test_going_on_is_resumed_like_any_run(whole: Run, tmp_path: Path):
    """Also where the first run is gone and the second had saved nothing yet."""
    recipe, first = other(tmp_path / "data"), tmp_path / "first"
    shutil.copytree(whole.folder, first)
    changes = ("train.updates=7", "train.log_every=2", "train.save_every=5")
    folders = [tmp_path / "straight", tmp_path / "stopped"]
    regard.train(recipe, *changes, to=folders[0], start_from=first)
    with pytest.raises(Stop):
        stop = at(2, "train")
        regard.train(recipe, *changes, to=folders[1], start_from=first, callback=stop)
    shutil.rmtree(first)
    with pytest.raises(Stop):
        regard.train(resume=folders[1], callback=at(6, "train"))
    regard.train(resume=folders[1])
    assert_same(Run(folders[1]), Run(folders[0]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("model.dim=32",), r"model: dim is 32 here and 16 in "),
        (("model.encoder.layers=2",), r"encoder\.layers is 2 here and 1 in "),
        (("model.head.bias=true",), r"head\.bias is True here and False in "),
        (("tokenizer.joint=true", "model.tie=all"), r"model\.tie: 'all' needs one vocabulary"),
        (("tokenizer.kind=bpe",), r"tokenizer\.kind: 'bpe' here and 'word' in "),
    ],
)
def test_a_model_of_other_sizes_is_refused_before_anything_is_made(
    changes: tuple[str, ...], message: str, whole: Run, tmp_path: Path
):
    recipe = other(tmp_path / "data")
    with pytest.raises(RecipeError, match=message):
        regard.train(recipe, *changes, to=tmp_path / "new" / "run", start_from=whole.folder)
    assert not (tmp_path / "new").exists()


def test_what_is_shipped_is_enough_to_predict(whole: Run, tmp_path: Path):
    """The recipe, the tokenizers and the model, in another place."""
    shipped = tmp_path / "elsewhere"
    shutil.copytree(whole.folder / "model", shipped / "model")
    for name in ("recipe.toml", "source.tokenizer.json", "target.tokenizer.json"):
        shutil.copy(whole.folder / name, shipped)
    lines = corpus.sentences(5, seed=9)
    assert regard.load(shipped).predict(lines) == regard.load(whole.folder).predict(lines)
