"""Damaged and hostile pictures: none ends anything, each is read or reported with its path, and
memory stays small."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from regard import front
from regard.data.readers import Policy, Report
from regard.fields import image
from regard.tasks import parsed_cell
from tests.fault.conftest import FULL, Tally
from tests.fault.hostile_pictures import MAKERS, Case, cases

COUNT = 500 if FULL else len(MAKERS)
MEGABYTES = 500
PROGRAM = """\
import sys
from pathlib import Path
from tests.fault.test_hostile_pictures import read
read(Path(sys.argv[1]))
status = Path("/proc/self/status").read_text()
print(int(status.split("VmHWM:")[1].split()[0]) // 1024)
"""
"""ru_maxrss would begin with what the parent has when it starts the process."""


def field() -> image.Field:
    return image.Field("source", image.Config(size=(16, 16), normalise="none")).fit([])


def read(folder: Path) -> tuple[list[str], Report]:
    """What training does: every file is checked, what passes is decoded."""
    skip, report, reads = Policy(broken="skip"), Report(), field()
    passed = []
    for row in reads.labelled([folder], (), skip, report):
        if parsed_cell(reads, row.value, row.path, row.line, skip, report) is not None:
            [found] = reads.encode([row.value])
            assert found["source"].shape == (1, 16, 16, 3)
            assert found["source"].dtype == np.uint8
            passed.append(row.value)
    return passed, report


def written(place: Path, found: Sequence[Case]) -> Path:
    for n, case in enumerate(found):
        label = place / f"label{n % 3}"
        label.mkdir(parents=True, exist_ok=True)
        (label / case.name).write_bytes(case.data)
    (place / "label0" / "nowhere.png").symlink_to("missing.png")
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("pictures"), cases(COUNT))


def test_each_is_read_or_reported_with_its_path(folder: Path, tally: Tally):
    passed, report = read(folder)
    reported = {each.excerpt for found in report.findings.values() for each in found}
    assert sum(report.counts.values()) == len(reported)
    assert not reported & {*passed}
    every = {str(path) for path in folder.glob("*/*")}
    assert reported | {*passed} == every
    by_name = {Path(path).name for path in passed}
    for case in cases(COUNT):
        if case.sound is not None:
            assert (case.name in by_name) == case.sound, case.name
    tally("hostile pictures: read, or reported with their path, in 500 MB", len(every))


def test_a_run_goes_on(tmp_path: Path):
    """All but the large ones in a folder of classes, with data.on_bad_line = "skip"."""
    folder = written(tmp_path / "pictures", cases(COUNT)[:COUNT])
    made = front.train(
        {
            "task": "classify",
            "data": {"folder": str(folder.parent), "train": [folder.name], "on_bad_line": "skip"},
            "held_out": {"validation": 0.0, "stratified": False},
            "source": {"kind": "image", "size": [16]},
            "model": {
                "dim": 4,
                "input": {"kind": "cnn", "stem": 2, "widths": [4], "groups": 2},
                "encoder": {"kind": "none"},
                "head": {"pooling": "mean"},
            },
            "train": {"updates": 1, "threads": 1},
        },
        to=tmp_path / "run",
    )
    everything = (tmp_path / "run" / "data.json").read_text()
    passed, report = read(folder)
    for found in report.findings.values():
        assert all(each.excerpt in everything for each in found)
    inputs = sorted(str(path) for path in folder.glob("*/*"))
    said = dict(zip(inputs, made.predictions(inputs), strict=True))
    assert {path for path, each in said.items() if each.status == "ok"} == {*passed}
    for path, each in said.items():
        assert each.status == "ok" or (each.problem and path in each.problem)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to ask for memory")
def test_memory_stays_small(folder: Path):
    words = [sys.executable, "-c", PROGRAM, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) < MEGABYTES
