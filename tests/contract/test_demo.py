"""The demonstrations of pictures and sounds, from nothing to a picture, with tiny settings."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from regard.data import scenes, tones
from regard.verbs import demo

TINY = (
    "model.dim=16", "train.updates=2", "train.validate_every=1", "train.save_every=1",
    "train.threads=1",
)  # fmt: skip
SMALL = ("source.size=[16]",)
WAYS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "caption": (scenes, (*SMALL, "train.epochs=0", "evaluation.lines=2", "model.input.widths=[8]")),
    "contrast": (scenes, (*SMALL, "train.epochs=0", "model.towers.source.input.widths=[8]")),
    "transcribe": (tones, ("model.input.channels=2", "source.features.mels=8")),
}
"""What makes the data, and what is smaller than in the recipe."""


@pytest.mark.parametrize("task", WAYS)
def test_a_demonstration(
    task: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    task_defaults: None,
):
    made, changes = WAYS[task]
    whole = demo.of(task, "en-de")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    monkeypatch.setattr(demo, "of", lambda *_: replace(whole, changes=(*changes, *TINY)))
    made.write(tmp_path / whole.dataset, {"train": 16, "validation": 4, "test": 4})
    assert demo.demo("en-de", tmp_path / "run", as_json=True, name=task)
    result = json.loads(capsys.readouterr().out)
    assert result["scores"] and len(result["samples"]) == 4
    with Image.open(result["picture"]) as picture:
        assert Path(result["picture"]).name == whole.picture and min(picture.size) > 100
    hints = whole.next(tmp_path / "run", result["samples"][0]["source"])
    assert any("regard train" in hint for hint in hints)
