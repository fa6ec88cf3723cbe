"""Damaged and hostile sounds: none ends anything, and each is reported with its path."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from regard import front
from regard.data import sound
from regard.fields import audio
from tests.fault import hostile_sounds
from tests.fault.conftest import FULL, Tally

COUNT = 250 if FULL else 20
MEGABYTES = 500
PROGRAM = f"""\
from pathlib import Path
from tests.fault.test_sounds import read_all
read_all({COUNT})
status = Path("/proc/self/status").read_text()
print(int(status.split("VmHWM:")[1].split()[0]) // 1024)
"""
"""ru_maxrss would begin with what the parent has when it starts the process."""


def read_all(count: int) -> tuple[dict[str, sound.Recorded], dict[str, str]]:
    """Those that can be read, and why others cannot."""
    read, refused = {}, {}
    for name, content in hostile_sounds.every(count):
        try:
            found = sound.read(content, max_seconds=30)
        except ValueError as error:
            refused[name] = str(error)
            continue
        assert np.isfinite(found.samples).all() and 0 < len(found.samples) <= 30 * found.rate
        read[name] = found
    return read, refused


def test_each_is_read_or_refused(tally: Tally):
    read, refused = read_all(COUNT)
    assert refused["nan.wav"] == refused["infinite.wav"]
    assert "NaN or infinite" in refused["nan.wav"]
    assert refused["no-samples.wav"] == "a sound without samples"
    assert refused["long.flac"] == "a sound of more than 30 seconds"
    assert "cut off" in refused["cut-60.wav"] and "no sound that can be read" in refused["text.wav"]
    for kind in hostile_sounds.PLAIN:
        assert read[f"eight.{kind}"].channels == 8
    assert read["flac-called.wav"].rate == read["wav-called.ogg"].rate == hostile_sounds.RATE
    tally("hostile sounds: read, or refused with the reason, in 500 MB", len(read) + len(refused))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to ask for memory")
def test_memory_stays_small():
    words = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) < MEGABYTES


def test_a_run_goes_on(tmp_path: Path):
    """A folder of classes, most of whose sounds are hostile, with data.on_bad_line = "skip"."""
    classes = [tmp_path / "data" / name for name in ("a", "b")]
    for number, (name, content) in enumerate(hostile_sounds.every(COUNT)):
        folder = classes[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    made = front.train(
        {
            "task": "classify",
            "data": {
                "folder": str(tmp_path),
                "train": ["data"],
                "on_bad_line": "skip",
            },
            "source": {"kind": "audio", "features": {"rate": 8000, "mels": 5}},
            "model": {
                "dim": 4,
                "input": {"kind": "mel", "channels": 2},
                "encoder": {"kind": "bag"},
            },
            "train": {"updates": 1, "threads": 1, "allow": ["audio.leaked"]},
        },
        to=tmp_path / "run",
    )
    field = made.task.fields["audio"]
    assert isinstance(field, audio.Field)
    everything = (tmp_path / "run" / "data.json").read_text()
    for path in sorted((tmp_path / "data").glob("*/*")):
        try:
            field.recorded(str(path))
        except ValueError:
            assert f"{path.parent.name}/{path.name}" in everything, path
    inputs = [str(path) for path in sorted((tmp_path / "data").glob("*/*"))]
    found = [*made.predictions(inputs)]
    assert len(found) == len(inputs)
    for place, each in zip(inputs, found, strict=True):
        assert each.status == "ok" or (each.problem and place in each.problem)
