"""A store that several processes build in pieces: the same bytes, whoever makes which."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from regard import cli
from regard.data import pieces, shards
from regard.data.pieces import Pieces
from regard.data.store import Column, Store
from regard.errors import UserError
from regard.examples import piecework, raw
from regard.front import create, prepared
from regard.runs import Run, encoding
from regard.train import lock

PAIRS = 5_000
BLOCKS = 4
"""So many raw blocks have that many pairs, each a piece here."""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(piecework, "BLOCKS", 1)
    monkeypatch.setattr(raw, "BLOCK", -(-PAIRS // BLOCKS))
    monkeypatch.setattr(piecework, "BLOCK", -(-PAIRS // BLOCKS))
    words = ["ka", "lo", "mi", "nu", "pe", "sol"]
    for side in ("source", "target"):
        lines = (f"{words[n % 6]} {words[n % 5]} {words[n % 3]}" for n in range(PAIRS))
        (tmp_path / f"train.{side}").write_text("\n".join(lines) + "\n")
    path = tmp_path / "mine.toml"
    table = {
        "task": "translate",
        "data": {"train": ["train.source", "train.target"]},
        "tokenizer": {"kind": "word", "vocabulary": 20},
        "model": {"dim": 8, "encoder": {"layers": 1}, "decoder": {"layers": 1}},
        "train": {"updates": 1},
    }
    path.write_text(tomli_w.dumps(table))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != lock.NAME
    }


ALONE = encoding.by_processes(1)


def made(recipe: Path, to: Path, helpers: encoding.Helpers = ALONE) -> dict[str, bytes]:
    create(*prepared(recipe, (), to), helpers)
    return contents(to)


@pytest.fixture
def alone(recipe: Path, tmp_path: Path) -> dict[str, bytes]:
    return made(recipe, tmp_path / "alone")


def in_order(order: list[int], error: type[BaseException] | None = None) -> encoding.Helpers:
    """Helpers that make these pieces before the process that asks makes any."""

    @contextmanager
    def helpers(folder: Path, part: str, missing: int) -> Iterator[piecework.Wait]:
        assert missing == BLOCKS
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Pieces, "unclaimed", lambda _: order)
            encoding.help_with(folder, part)
        if error is not None:
            raise error
        yield lambda: None

    return helpers


@pytest.mark.parametrize("order", [[], [2], [3, 1], [3, 2, 1, 0]])
def test_the_store_is_the_same_whoever_makes_which_piece(
    order: list[int], recipe: Path, alone: dict[str, bytes], tmp_path: Path
):
    assert made(recipe, tmp_path / "shared", in_order(order)) == alone
    names = [name for name in alone if name.startswith("store/train.source")]
    assert len(names) == 2 * BLOCKS


def test_processes_of_their_own_make_the_same(
    recipe: Path, alone: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """This process makes none: all pieces are those of two others, one of which is killed."""
    start, started = encoding._start, []

    def watched(order: Any) -> subprocess.Popen[bytes]:
        started.append(start(order))
        if len(started) == 1:
            started[0].kill()
        return started[-1]

    monkeypatch.setattr(encoding, "_start", watched)
    make, by_us = Pieces.make, []

    def noted(self: Pieces, number: int, *rest: Any) -> None:
        by_us.append(number)
        make(self, number, *rest)

    monkeypatch.setattr(Pieces, "make", noted)
    monkeypatch.setattr(Pieces, "unclaimed", lambda self: ())
    assert made(recipe, tmp_path / "shared", encoding.by_processes(3)) == alone
    assert len(started) == 2 and all(each.returncode is not None for each in started)
    assert by_us == []


def test_a_kill_half_way_loses_no_piece_that_was_whole(
    recipe: Path, alone: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run, make = tmp_path / "run", Pieces.make
    monkeypatch.setattr("regard.runs.creation._empty", lambda *_: None)  # as a kill leaves it
    with pytest.raises(InterruptedError):
        made(recipe, run, in_order([2, 0], InterruptedError))
    (run / "store" / ".train" / "00001.claim").touch()
    (run / "store" / ".train" / "00003.12345678").mkdir()
    again: list[int] = []

    def noted(self: Pieces, number: int, *rest: Any) -> None:
        again.append(number)
        make(self, number, *rest)

    monkeypatch.setattr(Pieces, "make", noted)
    assert made(recipe, run) == alone
    assert again == [1, 3]


def test_a_process_that_is_killed_takes_its_helpers_along(recipe: Path, tmp_path: Path):
    """And the next try ends with the same."""
    run = tmp_path / "run"
    script = (
        "import json, sys, time\nfrom pathlib import Path\nfrom regard.runs import encoding\n"
        "from regard.runs.encoding import _start\n"
        "made = _start({'folder': sys.argv[1], 'part': 'train', 'parts': []})\n"
        "print(made.pid, flush=True)\ntime.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(run)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        helper = int(process.stdout.readline())
        process.kill()
    for _ in range(600):
        if not _lives(helper):
            return
        time.sleep(0.1)
    os.kill(helper, signal.SIGKILL)
    pytest.fail("the helper lives on")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False


# What has changed


@pytest.mark.parametrize("change", ["source", "tokenizer"])
def test_pieces_of_something_else_are_made_again(
    change: str, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Where the note of the run says that all is the same: as if sizes and times were."""
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("regard.runs.creation._empty", lambda *_: None)
        with pytest.raises(InterruptedError):
            made(recipe, run, in_order([0, 1, 2, 3], InterruptedError))
    if change == "source":
        path = tmp_path / "train.source"
        path.write_text(path.read_text().replace("sol", "sul"))
        for each in (run / "store").glob("raw_*"):
            each.unlink()
    else:
        path = run / "source.tokenizer.json"
        path.write_text(path.read_text().replace('"sol"', '"sul"'))
    monkeypatch.setattr("regard.runs.preparing.difference", lambda *_: None)
    _, warnings = create(*prepared(recipe, (), run), ALONE)
    assert any("has changed since pieces of it were made" in each["text"] for each in warnings)
    lengths = Store(run / "store", "train").lengths("source")
    assert len(lengths) == PAIRS


def test_a_damaged_piece_is_made_again(
    recipe: Path, alone: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = tmp_path / "run"
    monkeypatch.setattr("regard.runs.creation._empty", lambda *_: None)
    with pytest.raises(InterruptedError):
        made(recipe, run, in_order([0, 1, 2, 3], InterruptedError))
    path = next((run / "store" / ".train" / "00002").glob("*.values"))
    path.write_bytes(path.read_bytes()[:-2])
    assert made(recipe, run) == alone


# Defects


def test_the_first_defect_is_reported_whoever_meets_another(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for side in ("source", "target"):
        path = tmp_path / f"train.{side}"
        lines = path.read_text().splitlines()
        lines[4000] = "ka " * 300
        lines[1500] = "lo " * 300
        path.write_text("\n".join(lines) + "\n")
    given = prepared(recipe, ['data.on_too_long="refuse"'], tmp_path / "run")
    monkeypatch.setattr(Pieces, "unclaimed", lambda _: [3, 1])
    with pytest.raises(UserError, match=r"train\.source:1501: more than 256 tokens"):
        Run.create(*given, helpers=encoding.by_processes(1))


# Pieces themselves

COLUMNS = {"a": Column("u2")}


def block(*rows: list[int]) -> dict[str, Any]:
    return {"a": (np.concatenate(rows).astype(np.uint16), np.array([len(row) for row in rows]))}


def test_a_claim_is_for_one(tmp_path: Path):
    some = Pieces(tmp_path, "x", COLUMNS, 3, "key")
    assert some.begin()
    one, other = some.unclaimed(), some.unclaimed()
    assert [next(one), next(other), next(one)] == [0, 1, 2]
    assert [*one] == [*other] == []
    assert some.missing() == [0, 1, 2]


def test_two_who_make_the_same_piece_leave_one(tmp_path: Path):
    some = Pieces(tmp_path, "x", COLUMNS, 1, "key")
    some.begin()

    def slow() -> Iterator[dict[str, Any]]:
        yield block([1], [2, 3])
        some.make(0, lambda: [block([1], [2, 3])], lambda: {"used": 2})

    some.make(0, slow, lambda: {"used": 2})
    assert sorted(path.name for path in some.place.iterdir()) == ["00000", pieces.PLAN]
    some.join()
    assert [row["a"].tolist() for row in Store(tmp_path, "x")] == [[1], [2, 3]]
    assert some.notes() == [{"used": 2}]


def test_pieces_without_examples_are_joined_too(tmp_path: Path):
    some = Pieces(tmp_path, "x", COLUMNS, 3, "key")
    some.begin()
    for number, rows in enumerate([[block([1])], [], [block([2])]]):
        some.make(number, partial(list, rows), dict)
    some.join()
    assert [row["a"].tolist() for row in Store(tmp_path, "x")] == [[1], [2]]
    assert len(shards.read_index(tmp_path, "x").shards) == 2


# The verb


def test_the_verb_prepares_and_says_how_to_train(recipe: Path, tmp_path: Path, capsys: Any):
    run = tmp_path / "run"
    cli.main(["prepare", str(recipe), "--to", str(run), "--processes", "1", "--json"])
    assert json.loads(capsys.readouterr().out) == {"run": str(run), "used": PAIRS, "skipped": 0}
    with pytest.raises(SystemExit):
        cli.main(["prepare", str(recipe), "--to", str(run)])
    assert f"to go on with it: regard train --resume {run}" in capsys.readouterr().err
    cli.main(["train", "--resume", str(run)])
    assert (run / "model").is_dir()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give either a recipe or --join RUN"),
        (["mine.toml", "--join", "x"], "give either a recipe or --join RUN"),
        (["--join", "x", "--processes", "2"], "it takes no other option"),
        (["--join", "x"], "x: no run is being prepared there"),
        (["mine.toml", "--processes", "0"], "processes"),
    ],
)
def test_what_the_verb_refuses(words: list[str], said: str, capsys: Any):
    with pytest.raises(SystemExit):
        cli.main(["prepare", *words])
    assert said in capsys.readouterr().err


def test_another_machine_joins(
    recipe: Path, alone: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It makes all pieces here, and ends with the preparation."""
    run, made_by = tmp_path / "run", dict[int, int]()
    make = Pieces.make

    def noted(self: Pieces, number: int, *rest: Any) -> None:
        make(self, number, *rest)
        made_by[number] = threading.get_ident()

    monkeypatch.setattr(Pieces, "make", noted)
    monkeypatch.setattr(encoding, "POLL", 0.01)
    joined = threading.Thread(target=encoding.join, args=(run,), daemon=True)

    @contextmanager
    def waiting(folder: Path, part: str, missing: int) -> Iterator[piecework.Wait]:
        joined.start()
        while len(made_by) < missing and joined.is_alive():
            time.sleep(0.01)
        yield lambda: None

    assert made(recipe, run, waiting) == alone
    joined.join()
    assert {*made_by.values()} == {joined.ident}
