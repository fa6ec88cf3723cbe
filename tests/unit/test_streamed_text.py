"""Running text that is read in every epoch: streams within windows, resumed exactly."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.data.stream import Config, Layout
from regard.errors import RecipeError, UserError
from regard.examples import streamed
from regard.examples.streamed_text import Joined, StreamedText
from regard.front import create, prepared
from regard.recipe import config
from regard.runs import Run
from regard.types import Batch, Position

SIZES = {"a": 95, "b": 7, "c": 40}
"""Lines of each file."""
STREAMS, LENGTH = 3, 7


def lines(name: str) -> list[str]:
    """No two alike: each has its number."""
    return [f"{name} {n} " + "x " * (n % 5) for n in range(SIZES[name])]


def write(folder: Path, kind: str) -> list[str]:
    for name in SIZES:
        path, text = folder / f"{name}.{kind}", "".join(f"{line}\n" for line in lines(name))
        match kind:
            case "txt":
                path.write_text(text)
            case "txt.gz":
                path.write_bytes(gzip.compress(text.encode()))
            case "jsonl.gz":
                found = "".join(json.dumps({"text": line}) + "\n" for line in lines(name))
                path.write_bytes(gzip.compress(found.encode()))
            case _:
                pyarrow = pytest.importorskip("pyarrow")
                from pyarrow import parquet

                table = pyarrow.table({"text": lines(name)})
                parquet.write_table(table, path, row_group_size=16)
    return [f"{name}.{kind}" for name in SIZES]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(streamed, "BLOCK", 8)
    return {
        "task": "language_model",
        "unit": "stream",
        "data": {
            "folder": str(tmp_path), "train": write(tmp_path, "txt"), "streaming": True,
            "shuffle": 24, "validation": ["b.txt"],
        },
        "tokenizer": {"kind": "character"},
        "stream": {"streams": STREAMS, "length": LENGTH},
        "model": {"dim": 8, "decoder": {"kind": "rnn", "cell": "lstm", "layers": 1}},
        "train": {
            "updates": 45, "threads": 1, "log_every": 1, "validate_every": 100, "save_every": 5,
            "allow": ["data.leaked"],
        },
    }  # fmt: skip


def made(table: dict[str, Any], to: Path, *changes: str) -> Run:
    return create(*prepared(table, changes, to))[0]


def epoch(run: Run, number: int, rows: slice = slice(None)) -> list[Batch]:
    batches, found, position = run.task.batches(run.recipe.seed), [], Position(number, 0)
    while position.epoch == number:
        found.append(batches.at(position, rows))
        position = batches.after(position)
    assert position == Position(number + 1, 0)
    return found


def places(run: Run, number: int, batches: Sequence[Batch]) -> list[int]:
    """Of each token that is said, its place in all of the text; files have another order in each
    epoch, so that one may go on in another."""
    by: Any = run.task.batches(run.recipe.seed)
    blocks = np.concatenate(by._epoch(number).windows)
    order = np.concatenate([by._starts[b] + np.arange(by._sizes[b]) for b in blocks])
    at = np.argsort(order)
    found = []
    for batch in batches:
        within = np.arange(batch["target_out"].shape[1])
        found += [place for first in batch.ids for place in order[at[first] + within].tolist()]
    return found


def stored(run: Run, tmp_path: Path, table: dict[str, Any]) -> list[int]:
    """The tokens of all of the text, as a run that stores it has them."""
    data = {**table["data"], "streaming": False}
    other = made({**table, "data": data}, tmp_path / "stored")
    assert other.task.fields["target"].vocabulary == run.task.fields["target"].vocabulary
    flat = other.task._stored("train").store.flat("target")  # type: ignore[attr-defined]
    return [int(each) for each in flat[0 : len(flat)]]


@pytest.mark.parametrize("kind", ["txt", "txt.gz", "jsonl.gz", "parquet"])
def test_what_is_said_is_the_text_and_no_place_comes_twice(
    kind: str, table: dict[str, Any], tmp_path: Path
):
    """But for what is left over at the ends of windows, each of which has fewer than length + B."""
    table["data"]["train"] = write(tmp_path, kind)
    run = made(table, tmp_path / "run")
    text = stored(run, tmp_path, table)
    for number in (0, 1):
        found = epoch(run, number)
        windows = sum(not batch.continues for batch in found)
        assert windows == 6, "of 12, 1 and 5 blocks three are a window"
        seen = places(run, number, found)
        assert len(seen) == len({*seen})
        assert len(text) - len(seen) < windows * (LENGTH + STREAMS)
        said = np.concatenate([batch["target_out"].flatten().numpy() for batch in found])
        assert said.tolist() == [text[place] for place in seen]
    assert epoch(run, 0)[0].ids != epoch(run, 1)[0].ids
    names = {path.name.partition(".")[0] for path in (run.folder / "store").iterdir()}
    assert names == {"streamed", "watched"}


def test_streams_go_on_within_a_window_and_begin_anew_with_the_next(
    table: dict[str, Any], tmp_path: Path
):
    """What is read is what was said just before."""
    run = made(table, tmp_path / "run")
    before: Batch | None = None
    for batch in epoch(run, 0):
        assert batch["target_in"].shape == batch["target_out"].shape
        assert len(batch.ids) == STREAMS and batch.targets == batch["target_out"].numel()
        assert (batch["target_in"][:, 1:] == batch["target_out"][:, :-1]).all()
        assert batch["target_out"].shape[1] <= LENGTH
        if batch.continues:
            assert before is not None
            assert (batch["target_in"][:, 0] == before["target_out"][:, -1]).all()
        before = batch


def test_any_position_is_the_same_without_what_came_before(table: dict[str, Any], tmp_path: Path):
    run = made(table, tmp_path / "run")
    whole = run.task.batches(1)
    assert isinstance(whole, StreamedText)
    for number in (1, 0, 2):
        for n in (60, 33, 0):
            place = Position(number, n)
            one, other = whole.at(place), run.task.batches(1).at(place)
            assert one.ids == other.ids and one.continues == other.continues
            assert all((one.tensors[name] == other.tensors[name]).all() for name in one.tensors)
            part = run.task.batches(1).at(place, slice(1, 3))
            assert part.ids == one.ids[1:3]
            assert (part["target_out"] == one["target_out"][1:3]).all()


def test_what_is_in_memory_is_bounded(
    table: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Three blocks of eight lines are a window; those of three windows stay at most."""
    run, held, loaded = made(table, tmp_path / "run"), [], []
    blocks, load = streamed.Rows.blocks, streamed.Rows._load

    def watched(self: Any, *given: Any) -> Any:
        found = blocks(self, *given)
        held.append(len(self._held))
        return found

    def counted(self: Any, number: int, *given: Any) -> Any:
        loaded.append(number)
        return load(self, number, *given)

    monkeypatch.setattr(streamed.Rows, "blocks", watched)
    monkeypatch.setattr(streamed.Rows, "_load", counted)
    epoch(run, 0)
    assert 3 <= max(held) <= 9
    assert sorted(loaded) == [*range(18)], "each block once"


def test_long_documents_are_blocks_of_fewer(
    table: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As many as have 60 characters together, or one."""
    monkeypatch.setattr(streamed, "CHARACTERS", 60)
    long = "y" * 100
    (tmp_path / "a.txt").write_text(f"{long}\n\n" + "one two three\n\n" * 10 + f"{long}\n")
    table["data"]["train"] = ["a.txt"]
    table["stream"]["documents"] = "paragraph"
    run = made(table, tmp_path / "run")
    task: Any = run.task
    _, windows = task._learnt_from().known(task.config.data)
    assert np.diff(windows.starts).tolist() == [1, 4, 4, 2, 1]
    text = stored(run, tmp_path, table)
    found = epoch(run, 0)
    said = np.concatenate([batch["target_out"].flatten().numpy() for batch in found])
    assert said.tolist() == [text[place] for place in places(run, 0, found)]


def test_a_window_without_a_token_for_each_stream_is_joined(table: dict[str, Any], tmp_path: Path):
    """The last window has one line, of 3 tokens, and there are 4 streams."""
    (tmp_path / "a.txt").write_text("some words\n" * 24 + "zz\n")
    table["data"]["train"] = ["a.txt"]
    for streams, windows in ((3, 2), (4, 1)):
        table["stream"]["streams"] = streams
        run = made(table, tmp_path / f"run-{streams}")
        assert sum(not batch.continues for batch in epoch(run, 0)) == windows
    table["stream"]["streams"] = 300
    with pytest.raises(UserError, match=r"267 tokens are too few for 300 streams"):
        made(table, tmp_path / "run").task.batches(1)


def test_a_run_resumes_exactly(table: dict[str, Any], tmp_path: Path):
    """Also in the middle of a window, with the state that an LSTM carries."""
    whole = regard.train(table, to=tmp_path / "whole")

    def stop(record: dict[str, Any]) -> None:
        if record.get("update") == 17:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        regard.train(table, to=tmp_path / "stopped", callback=stop)
    again = regard.train(resume=tmp_path / "stopped")
    a, b = (dict(each.model.named_parameters()) for each in (whole, again))
    assert all((a[name] == b[name]).all() for name in a)
    run = Run(tmp_path / "whole")
    assert run.task.batches(run.recipe.seed).at(Position(0, 16)).continues


def test_a_file_that_has_changed_is_noticed(table: dict[str, Any], tmp_path: Path):
    run = made(table, tmp_path / "run")
    path = tmp_path / "a.txt"
    path.write_text(path.read_text().replace("a 20 ", "a 20, "))
    with pytest.raises(UserError, match=r"a\.txt:\d+: the data has changed since the run was"):
        epoch(run, 0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["data.weights=[1,2,3]"], "data.weights: data.streaming reads files as they stand"),
        (["data.validation=[]", "held_out.validation=0.1"], "held_out: data.streaming stores"),
        (["data.streaming=false", "data.temperature=5"], "data.temperature: running text is read"),
    ],
)
def test_what_cannot_be_streamed(changes: list[str], said: str, table: dict[str, Any]):
    with pytest.raises(RecipeError) as error:
        config.from_table(table, changes)
    assert said in str(error.value)


def test_texts_that_are_joined_are_sliced_as_one():
    parts = [np.arange(0, 5), np.arange(5, 6), np.arange(6, 13)]
    joined = Joined(parts)
    assert len(joined) == 13
    for first in range(13):
        for stop in range(first + 1, 14):
            assert joined[first:stop].tolist() == [*range(first, stop)]


def test_a_layout_by_hand():
    """Of 10 places with 3 streams of chunks of 2, from an offset o < 2 on."""
    for key in range(8):
        found = Layout.of(10, Config(streams=3, length=2), [key])
        offset = int(found.begins[0])
        assert offset in (0, 1)
        assert found.begins.tolist() == [offset, offset + 3, offset + 6]
        assert found.borders.tolist() == [0, 1, 3]
        assert len(found) == 2
