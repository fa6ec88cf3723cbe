"""Faults planted in pictures and sounds: found with the right place and count."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import soundfile
from PIL import Image

from regard.checks.findings import Finding
from regard.doctor.examination import quick_check
from regard.recipe import config

SIZES = {"train": 40, "test": 10}
RATE = 8000


class Planted(NamedTuple):
    """What a fault does to the folder of the data, and what the doctor says of it."""

    plant: Callable[[Path], None]
    code: str
    severity: str
    place: str
    says: tuple[str, ...]


def found_in(folder: Path, kind: str, **features: Any) -> list[Finding]:
    parts = {part: [f"{part}.tsv"] for part in SIZES}
    table = {
        "task": "classify",
        "data": {"folder": str(folder), "on_bad_line": "skip", **parts},
        "held_out": {"validation": 0.0},
        "source": {"kind": kind, **features},
        "model": {"input": {"kind": "cnn" if kind == "image" else "mel"}},
    }
    return quick_check(config.from_table(table))


def pictures(folder: Path) -> list[Finding]:
    return found_in(folder, "image", size=[12], channels=1)


def sounds(folder: Path) -> list[Finding]:
    return found_in(folder, "audio", features={"rate": RATE, "mels": 8})


def table(folder: Path, suffix: str) -> None:
    for part, count in SIZES.items():
        rows = [f"{'ab'[n % 2]}\t{part}{n}.{suffix}\n" for n in range(count)]
        (folder / f"{part}.tsv").write_text("".join(rows))


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    dice = np.random.default_rng(1)
    table(tmp_path, "png")
    for part, count in SIZES.items():
        for n in range(count):
            noise = dice.integers(0, 256, (14, 16), np.uint8)
            Image.fromarray(noise).save(tmp_path / f"{part}{n}.png")
    return tmp_path


@pytest.fixture
def heard(tmp_path: Path) -> Path:
    dice = np.random.default_rng(1)
    table(tmp_path, "wav")
    for part, count in SIZES.items():
        for n in range(count):
            soundfile.write(tmp_path / f"{part}{n}.wav", 0.3 * dice.uniform(-1, 1, 900), RATE)
    return tmp_path


def copied(source: str, *names: str) -> Callable[[Path], None]:
    def plant(folder: Path) -> None:
        for name in names:
            (folder / name).write_bytes((folder / source).read_bytes())

    return plant


def removed(folder: Path) -> None:
    for name in ("train5", "train6"):
        for path in folder.glob(f"{name}.*"):
            path.unlink()


def deeper(folder: Path) -> None:
    """A picture of the test in sixteen bits, in training."""
    with Image.open(folder / "test3.png") as image:
        shades = np.asarray(image, np.uint16) * 257
    Image.fromarray(shades).save(folder / "train7.png")


def tiny(folder: Path) -> None:
    for n in range(5):
        with Image.open(folder / f"train{n}.png") as image:
            image.resize((5, 5)).save(folder / f"train{n}.png")


def rare(folder: Path) -> None:
    """A label with three examples."""
    rows = (folder / "train.tsv").read_text().splitlines(keepends=True)
    for n in (10, 20, 30):
        rows[n] = rows[n].replace("a\t", "c\t")
    (folder / "train.tsv").write_text("".join(rows))


def sound(name: str, samples: Any, rate: int = RATE) -> Callable[[Path], None]:
    return lambda folder: soundfile.write(folder / name, samples, rate)


LOUD = np.sign(np.sin(np.arange(900) / 9))
TONE = 0.3 * np.sin(np.arange(900) / 9)
PICTURES = [
    Planted(
        copied("train1.png", "train2.png", "train9.png"), "image.repeated", "warning",
        "train.tsv:3", ("train1.png", "2 of 40 pictures"),
    ),
    Planted(
        copied("train4.png", "test0.png"), "image.leaked", "error", "test.tsv:1",
        ("train4.png", "1 of 10 pictures (10 %) of data.test"),
    ),
    Planted(
        deeper, "image.similar", "warning", "test.tsv:4",
        ("training has nearly this picture", "train7.png", "1 of 10 pictures"),
    ),
    Planted(tiny, "image.small", "warning", "train.tsv:1", ("5 × 5", "5 of 40 pictures")),
    Planted(
        removed, "data.broken", "warning", "train.tsv:6",
        ("there is no such file: 2 of 40 lines",),
    ),
    Planted(
        rare, "labels.balance", "warning", "train.tsv:11",
        ("1 of 3 labels have fewer than 5 examples",),
    ),
]  # fmt: skip
SOUNDS = [
    Planted(
        copied("train1.wav", "train2.wav"), "audio.repeated", "warning", "train.tsv:3",
        ("1 of 40",),
    ),
    Planted(
        copied("train4.wav", "test0.wav"), "audio.leaked", "error", "test.tsv:1",
        ("data.train", "1 of 10"),
    ),
    Planted(
        sound("train8.wav", np.zeros(900)), "audio.silent", "warning", "train.tsv:9",
        ("1 of 40 sounds",),
    ),
    Planted(
        sound("train8.wav", LOUD), "audio.clipped", "warning", "train.tsv:9", ("1 of 40 sounds",)
    ),
    Planted(
        sound("train8.wav", TONE[:90]), "audio.short", "warning", "train.tsv:9",
        ("1 of 40 sounds",),
    ),
    Planted(
        sound("train8.wav", np.tile(TONE, 12)), "audio.long", "warning", "train.tsv:9",
        ("1 of 40 sounds",),
    ),
    Planted(
        sound("train8.wav", TONE, 11025), "audio.rates", "warning", "train.tsv:9",
        ("39 of 8,000 Hz, 1 of 11,025 Hz",),
    ),
    Planted(
        removed, "data.broken", "warning", "train.tsv:6",
        ("there is no such file: 2 of 40 lines",),
    ),
]  # fmt: skip


def judge(found: list[Finding], planted: Planted, folder: Path) -> None:
    those = [each for each in found if each.code == planted.code]
    assert [each.severity for each in those] == [planted.severity], [*map(str, found)]
    assert those[0].place in (planted.place, f"{folder}/{planted.place}")
    for part in planted.says:
        assert part in those[0].what
    assert those[0].advice


def named(planted: Planted) -> str:
    return planted.code


def test_clean_pictures_have_no_warning(drawn: Path):
    assert [str(each) for each in pictures(drawn) if each.severity != "note"] == []


def test_clean_sounds_have_no_warning(heard: Path):
    assert [str(each) for each in sounds(heard) if each.severity != "note"] == []


@pytest.mark.parametrize("planted", PICTURES, ids=named)
def test_a_fault_of_pictures(drawn: Path, planted: Planted):
    planted.plant(drawn)
    judge(pictures(drawn), planted, drawn)


@pytest.mark.parametrize("planted", SOUNDS, ids=named)
def test_a_fault_of_sounds(heard: Path, planted: Planted):
    planted.plant(heard)
    judge(sounds(heard), planted, heard)


def test_a_copied_sound_is_found_among_those_that_nobody_listens_to(
    heard: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("regard.checks.audio.LOOKED", 4)
    copied("train39.wav", "test9.wav")(heard)
    soundfile.write(heard / "train0.wav", np.zeros(900), RATE)
    by_code = {each.code: each for each in sounds(heard)}
    assert by_code["audio.leaked"].place == f"{heard}/test.tsv:10"
    assert "1 of 10 " in by_code["audio.leaked"].what
    silent = by_code["audio.silent"].what
    assert "1 of the 4 sounds that were listened to (25 %) of data.train" in silent
