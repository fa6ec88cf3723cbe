"""Rows that are read from their files in every epoch: shuffled in windows, resumed exactly."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import RecipeError, UserError
from regard.examples import preparation, streamed
from regard.front import create, prepared
from regard.recipe import config
from regard.runs import Run
from regard.types import Position

WORDS = ["ka", "lo", "mi", "nu", "pe", "sol"]
SIZES = {"a": 95, "b": 7, "c": 40}


def pairs(name: str) -> list[tuple[str, str]]:
    """No two alike: each has its number, spelt."""
    return [
        (f"{name} " + " ".join(WORDS[int(d)] for d in np.base_repr(n, 6)), WORDS[n % 6])
        for n in range(SIZES[name])
    ]


def write(folder: Path, kind: str) -> list[str]:
    names = []
    for name in SIZES:
        rows = pairs(name)
        path = folder / f"{name}.{kind}"
        match kind:
            case "tsv":
                path.write_text("".join(f"{a}\t{b}\n" for a, b in rows))
            case "tsv.gz":
                path.write_bytes(gzip.compress("".join(f"{a}\t{b}\n" for a, b in rows).encode()))
            case "jsonl.gz":
                lines = (json.dumps({"source": a, "target": b}) + "\n" for a, b in rows)
                path.write_bytes(gzip.compress("".join(lines).encode()))
            case "parquet":
                pyarrow = pytest.importorskip("pyarrow")
                from pyarrow import parquet

                source, target = zip(*rows, strict=True)
                table = pyarrow.table({"target": target, "source": source})
                parquet.write_table(table, path, row_group_size=16)
            case _:
                for side, column in zip(("x", "y"), zip(*rows, strict=True), strict=True):
                    text = "".join(f"{line}\n" for line in column).encode()
                    (folder / f"{name}.{side}.gz").write_bytes(gzip.compress(text))
                names.append(f"{name}.x.gz")
                names.append(f"{name}.y.gz")
                continue
        names.append(path.name)
    return names


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(streamed, "BLOCK", 8)
    return {
        "task": "translate",
        "data": {
            "folder": str(tmp_path), "train": write(tmp_path, "tsv"), "streaming": True,
            "shuffle": 24, "validation": ["b.tsv"],
        },
        "tokenizer": {"kind": "word", "vocabulary": 20},
        "batch": {"tokens": 60},
        "model": {"dim": 8, "encoder": {"layers": 1}, "decoder": {"layers": 1}},
        "train": {"updates": 30, "threads": 1, "log_every": 1, "validate_every": 100},
    }  # fmt: skip


def made(table: dict[str, Any], to: Path, *changes: str) -> Run:
    return create(*prepared(table, [*changes, 'train.allow=["data.leaked"]'], to))[0]


def drawn(run: Run, epoch: int) -> list[tuple[int, ...]]:
    batches = run.task.batches(run.recipe.seed)
    count = len(batches.epoch(epoch))  # type: ignore[attr-defined]
    return [batches.at(Position(epoch, n)).ids for n in range(count)]


def sentences(run: Run, epoch: int) -> list[str]:
    """What the batches of an epoch have on both sides, as texts."""
    batches, task = run.task.batches(run.recipe.seed), run.task
    by, found = task.fields["source"].tokenizer, []
    for n in range(len(batches.epoch(epoch))):  # type: ignore[attr-defined]
        tensors = batches.at(Position(epoch, n)).tensors
        both = zip(tensors["source"].tolist(), tensors["target_out"].tolist(), strict=True)
        found += [f"{by.decode(a)}|{by.decode(b)}" for a, b in both]
    return found


@pytest.mark.parametrize("kind", ["tsv", "tsv.gz", "jsonl.gz", "parquet", "plain"])
def test_every_example_comes_once_in_an_epoch(kind: str, table: dict[str, Any], tmp_path: Path):
    table["data"]["train"] = write(tmp_path, kind)
    run = made(table, tmp_path / "run")
    every = sorted(f"{a}|{b}" for name in SIZES for a, b in pairs(name))
    first, second = sentences(run, 0), sentences(run, 1)
    assert sorted(first) == sorted(second) == every and first != second
    names = {path.name.partition(".")[0] for path in (run.folder / "store").iterdir()}
    assert names == {"streamed", "validation", "watched"}


def test_lines_of_a_language_model_are_streamed(table: dict[str, Any], tmp_path: Path):
    names = write(tmp_path, "plain")
    data = table["data"] | {"train": names[::2], "validation": names[:1]}
    model = {"dim": 8, "decoder": {"layers": 1}}
    table = {**table, "task": "language_model", "unit": "line", "data": data, "model": model}
    run = made(table, tmp_path / "run")
    for epoch in (0, 1):
        ids = [n for each in drawn(run, epoch) for n in each]
        assert sorted(ids) == list(range(sum(SIZES.values())))


def test_any_position_is_the_same_without_what_came_before(table: dict[str, Any], tmp_path: Path):
    run = made(table, tmp_path / "run")
    whole = run.task.batches(1)
    for epoch in (1, 0, 2):
        for n in (7, 3, 0):
            place = Position(epoch, n)
            one, other = whole.at(place), run.task.batches(1).at(place)
            assert one.ids == other.ids
            assert all((one.tensors[name] == other.tensors[name]).all() for name in one.tensors)


def test_what_is_in_memory_is_bounded(table: dict[str, Any], tmp_path: Path):
    """A batch has rows of one window, of three blocks of eight here."""
    run = made(table, tmp_path / "run")
    for ids in drawn(run, 0):
        assert len({*ids}) == len(ids)
    held = []
    of = streamed.Rows.of

    def watched(self: Any, ids: Any) -> Any:
        found = of(self, ids)
        held.append(len(self._held))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streamed.Rows, "of", watched)
        drawn(run, 0)
    assert 3 <= max(held) <= 9


def test_a_run_resumes_exactly(table: dict[str, Any], tmp_path: Path):
    changes = ['train.allow=["data.leaked"]']
    whole = regard.train(table, *changes, to=tmp_path / "whole")

    def stop(record: dict[str, Any]) -> None:
        if record.get("update") == 17:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        regard.train(table, *changes, to=tmp_path / "stopped", callback=stop)
    again = regard.train(resume=tmp_path / "stopped")
    a, b = (dict(each.model.named_parameters()) for each in (whole, again))
    assert all((a[name] == b[name]).all() for name in a)


def test_a_file_that_has_changed_is_noticed(table: dict[str, Any], tmp_path: Path):
    run = made(table, tmp_path / "run")
    path = tmp_path / "a.tsv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:20], "ka", *lines[21:]]) + "\n")
    with pytest.raises(UserError, match=r"a\.tsv:\d+: the data has changed since the run was"):
        drawn(run, 0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["data.weights=[1,2,3]"], "data.weights: data.streaming reads files as they stand"),
        (["data.validation=[]", "held_out.validation=0.1"], "held_out: data.streaming stores"),
        (["data.shuffle=0"], "data.shuffle"),
    ],
)
def test_what_cannot_be_streamed(changes: list[str], said: str, table: dict[str, Any]):
    with pytest.raises(RecipeError) as error:
        config.from_table(table, changes)
    assert said in str(error.value)


def test_fields_learn_from_each_of_several_files(
    table: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A file alone would fill the sample; of three files a third each is taken."""
    monkeypatch.setattr(preparation, "SAMPLE", 24)
    for kind in ("tsv", "plain"):
        table["data"]["train"] = write(tmp_path, kind)
        run = made(table, tmp_path / kind)
        words = run.task.fields["source"].tokenizer
        known = {words.decode([n]) for n in range(len(words))}
        assert {"a", "b", "c"} <= known, "the first word of every line names its file"


def test_a_column_that_parquet_lacks_is_named(table: dict[str, Any], tmp_path: Path):
    table["data"] |= {"train": write(tmp_path, "parquet"), "columns": ["source", "said"]}
    with pytest.raises(UserError, match=r"no column “said”; it reads: target, source"):
        Run.create(tmp_path / "run", config.from_table(table))
