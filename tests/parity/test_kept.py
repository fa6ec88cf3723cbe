"""A converted model in a run is used if it is what the run's weights give, and else made again."""

import json
import math
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard import front
from regard.interop import conversion, ctranslate2, kept
from regard.train import manifest
from tests import small_runs
from tests.translators import signed

pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (regard[ctranslate2])")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_runs.make("transformer", tmp_path_factory.mktemp("original") / "run").folder


@pytest.fixture
def copied(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))


def changed(path: Path, place: int) -> None:
    """Another number, of which only the last bits differ."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


FORGED: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "weight": ("model.bin does not hold the weights", lambda f: changed(f / "model.bin", 3000)),
    "count": ("model.bin does not hold the weights", lambda f: changed(f / "model.bin", 25)),
    "cut": ("model.bin does not hold the weights", lambda f: os.truncate(f / "model.bin", 3000)),
    "longer": (
        "model.bin does not hold the weights",
        lambda f: (f / "model.bin").write_bytes((f / "model.bin").read_bytes() + b"x"),
    ),
    "config": ("config.json is damaged", lambda f: (f / "config.json").write_text("{}")),
    "vocabulary": (
        "shared_vocabulary.json is damaged",
        lambda f: (f / "shared_vocabulary.json").write_text("[" * 100_000),
    ),
    "unknown symbol": (
        "vmap.txt is damaged",
        lambda f: (f / "vmap.txt").write_text("\t2 99999\n"),
    ),
    "no end": ("vmap.txt is damaged", lambda f: (f / "vmap.txt").write_text("\t5 6\n")),
    "no list": ("vmap.txt is damaged", lambda f: (f / "vmap.txt").write_text("")),
    "missing": ("vmap.txt is missing", lambda f: (f / "vmap.txt").unlink()),
    "another file": (r"'\\xe9' is not its own", lambda f: (f / "é").write_text("")),
}


@pytest.mark.parametrize(("message", "forge"), FORGED.values(), ids=FORGED)
def test_a_forged_engine_is_made_again(message: str, forge: Callable[[Path], Any], copied: Path):
    before = front.load(copied, shortlist=True).predict(small_runs.LINES)
    [engine] = (copied / "engines").iterdir()
    files = {f.name: f.read_bytes() for f in engine.iterdir()}
    forge(engine)
    signed(engine)
    again = front.load(copied, shortlist=True)
    [note, _] = again.notes  # and how near the new one is
    assert re.fullmatch(f"{re.escape(str(engine))}: {message}.*: the engine is made again", note)
    assert again.predict(small_runs.LINES) == before
    assert {f.name: f.read_bytes() for f in engine.iterdir()} == files
    assert list((copied / "engines").iterdir()) == [engine]
    assert front.load(copied, shortlist=True).notes == []


@pytest.mark.parametrize("name", ["vmap.txt", "config.json", "manifest.json", "model.bin"])
def test_a_damaged_engine_is_made_again(name: str, copied: Path):
    front.load(copied, shortlist=True)
    [path] = copied.glob(f"engines/*/{name}")
    changed(path, path.stat().st_size // 2)
    [note, _] = front.load(copied, shortlist=True).notes
    assert name in note and note.endswith(": the engine is made again")


def test_a_shortlist_of_other_data_is_made_again(copied: Path):
    front.load(copied, shortlist=True)
    [engine] = (copied / "engines").iterdir()
    table = manifest.read(engine)
    table["run"]["store/train.source.00000.values"]["sha256"] = "0" * 64
    (engine / manifest.NAME).write_text(json.dumps(manifest.signed(table)))
    [note, _] = front.load(copied, shortlist=True).notes
    assert note == f"{engine}: vmap.txt was learnt from other data: the engine is made again"


def test_a_forged_engine_that_stays_is_not_used(copied: Path, monkeypatch: pytest.MonkeyPatch):
    """Where it cannot be replaced, another one takes its place in memory alone."""

    def denied(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    before = front.load(copied, engine="ctranslate2").predict(small_runs.LINES)
    [engine] = (copied / "engines").iterdir()
    (engine / "model.bin").write_bytes(b"forged")
    signed(engine)
    monkeypatch.setattr(ctranslate2, "remove", denied)
    again = front.load(copied, engine="ctranslate2")
    assert again.predict(small_runs.LINES) == before and len(again.notes) == 1
    assert (engine / "model.bin").read_bytes() == b"forged"
    assert list((copied / "engines").iterdir()) == [engine]


@pytest.mark.parametrize("kind", ["float32", "int8", "int16", "float16", "bfloat16"])
def test_what_is_written_is_taken(kind: Any, original: Path, tmp_path: Path):
    """The format of model.bin is CTranslate2's; a change in it would have all made again."""
    predictor = front.load(original)
    run, model = predictor.run, predictor.model
    conversion.save(model, run.recipe, tmp_path, kind)
    kept.seal(tmp_path, {})
    made = conversion.specification(model, run.recipe, kind)
    assert kept.fault(tmp_path, made, {}, short=False) is None


def test_positions_may_differ_by_a_rounding():
    """Sines are not the same on all processors, to the last bit."""
    here, there = np.array([[0.5, 1.0], [0.5, 1.0 - 1e-7]], "f4")
    assert here[1] != there[1] and kept._near(there.tobytes(), here.tobytes())
    for other in ([0.5, 0.99999], [0.5, math.nan], [0.5, math.inf], [0.5]):
        assert not kept._near(np.array(other, "f4").tobytes(), here.tobytes())
