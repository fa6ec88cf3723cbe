"""Damaged and hostile sounds: none ends anything, and each is reported with its path."""

import os
import resource
from pathlib import Path

import numpy as np

from regard import front
from regard.data import sound
from regard.fields import audio
from tests.fault import hostile_sounds

FULL = os.environ.get("REGARD_FAULTS") == "full"
COUNT = 250 if FULL else 20
MOST = 500
"""Megabytes that reading them may take."""


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_each_is_read_or_refused():
    before = megabytes()
    read, refused = {}, {}
    for name, content in hostile_sounds.every(COUNT):
        try:
            found = sound.read(content, max_seconds=30)
        except ValueError as error:
            refused[name] = str(error)
            continue
        assert np.isfinite(found.samples).all() and 0 < len(found.samples) <= 30 * found.rate
        read[name] = found
    assert megabytes() - before < MOST
    assert refused["nan.wav"] == refused["infinite.wav"]
    assert "NaN or infinite" in refused["nan.wav"]
    assert refused["no-samples.wav"] == "a sound without samples"
    assert refused["long.flac"] == "a sound of more than 30 seconds"
    assert "cut off" in refused["cut-60.wav"] and "no sound that can be read" in refused["text.wav"]
    for kind in hostile_sounds.PLAIN:
        assert read[f"eight.{kind}"].channels == 8
    assert read["flac-called.wav"].rate == read["wav-called.ogg"].rate == hostile_sounds.RATE


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
    for path, each in zip(inputs, found, strict=True):
        assert each.status == "ok" or (each.problem and path in each.problem)
