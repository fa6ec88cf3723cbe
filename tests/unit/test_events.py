"""Event files, read back byte by byte by a parser that shares nothing with the writer."""

import math
import struct
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from regard.train.events import Events, crc32c


def slow_crc32c(data: bytes) -> int:
    """Bit by bit, from the polynomial 0x1EDC6F41 in its reflected form."""
    crc = 0xFFFFFFFF
    for bit in (byte >> place & 1 for byte in data for place in range(8)):
        crc = crc >> 1 ^ (0x82F63B78 if (crc ^ bit) & 1 else 0)
    return crc ^ 0xFFFFFFFF


def unmasked(check: int) -> int:
    rotated = (check - 0xA282EAD8) % 2**32
    return (rotated << 15 | rotated >> 17) % 2**32


def records(data: bytes) -> list[bytes]:
    found = []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        body = data[12 : 12 + length]
        assert unmasked(*struct.unpack("<I", data[8:12])) == slow_crc32c(data[:8])
        assert unmasked(*struct.unpack("<I", data[12 + length : 16 + length])) == slow_crc32c(body)
        found.append(body)
        data = data[16 + length :]
    return found


def varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return number, at


def fields(message: bytes) -> dict[int, Any]:
    """{number: value} of a protocol buffer without repeated fields."""
    found: dict[int, Any] = {}
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        match key & 7:
            case 0:
                value, at = varint(message, at)
                found[key >> 3] = value
            case 1:
                (found[key >> 3],) = struct.unpack_from("<d", message, at)
                at += 8
            case 2:
                length, at = varint(message, at)
                found[key >> 3] = message[at : at + length]
                at += length
            case 5:
                (found[key >> 3],) = struct.unpack_from("<f", message, at)
                at += 4
    return found


def scalars(path: Path) -> list[tuple[str, int, float]]:
    """(tag, step, value) of every record that has a summary."""
    found = []
    for event in map(fields, records(path.read_bytes())):
        if 5 in event:
            value = fields(fields(event[5])[1])
            found.append((value[1].decode(), event.get(2, 0), value[2]))
    return found


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_crc32c_check_vectors(data: bytes, crc: int):
    assert crc32c(data) == crc
    assert slow_crc32c(data) == crc


def test_file_starts_with_its_version_and_holds_the_scalars_in_order(tmp_path: Path):
    before = time.time()
    with closing(Events(tmp_path / "new" / "folder")) as events:
        events.scalar("train/loss", 3.25, 1)
        events.scalar("train/loss", 2, 300)
        events.scalar("BLEU größer", -0.1, 2**40)
    first, *rest = map(fields, records(events.path.read_bytes()))
    assert first[3] == b"brain.Event:2" and first.keys() == {1, 3}
    assert all(before <= event[1] <= time.time() for event in [first, *rest])
    assert scalars(events.path) == [
        ("train/loss", 1, 3.25),
        ("train/loss", 300, 2.0),
        ("BLEU größer", 2**40, struct.unpack("<f", struct.pack("<f", -0.1))[0]),
    ]


def test_a_record_is_in_the_file_at_once(tmp_path: Path):
    events = Events(tmp_path)
    for step in range(3):
        events.scalar("x", step, step)
        assert scalars(events.path) == [("x", done, float(done)) for done in range(step + 1)]
    events.close()
    with pytest.raises(ValueError, match="closed"):
        events.scalar("x", 0, 3)


def test_values_that_a_float_cannot_hold(tmp_path: Path):
    with closing(Events(tmp_path)) as events:
        for value in (1e300, -1e300, math.inf, math.nan):
            events.scalar("x", value, 0)
    values = [value for _, _, value in scalars(events.path)]
    assert values[:3] == [math.inf, -math.inf, math.inf]
    assert math.isnan(values[3])


def test_a_refused_step_writes_nothing(tmp_path: Path):
    with closing(Events(tmp_path)) as events:
        size = events.path.stat().st_size
        with pytest.raises(ValueError, match="range"):
            events.scalar("x", 1.0, -1)
        assert events.path.stat().st_size == size


def resumed(folder: Path) -> list[Path]:
    """A run that was killed at update 30 and resumed from the checkpoint of update 20."""
    with closing(Events(folder)) as events:
        for step in (10, 20, 30):
            events.scalar("loss", step, step)
    with closing(Events(folder, step=20)) as again:
        for step in (30, 40):
            again.scalar("loss", step + 0.5, step)
    return [events.path, again.path]


def test_resume_opens_a_later_file_and_leaves_the_first_alone(tmp_path: Path):
    first, second = resumed(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [first.name, second.name]
    assert "tfevents" in first.name
    assert scalars(first) == [("loss", step, float(step)) for step in (10, 20, 30)]
    assert scalars(second) == [("loss", 30, 30.5), ("loss", 40, 40.5)]
    start = fields(records(second.read_bytes())[1])
    assert start[2] == 21, "readers drop what was said of update 21 and later"
    assert fields(start[7]) == {1: 1}


def test_tensorboard_reads_one_curve(tmp_path: Path):
    module = "tensorboard.backend.event_processing.event_accumulator"
    accumulator = pytest.importorskip(module, reason="tensorboard is not installed")
    resumed(tmp_path)
    reader = accumulator.EventAccumulator(str(tmp_path))
    reader.Reload()
    curve = [(event.step, event.value) for event in reader.Scalars("loss")]
    assert curve == [(10, 10.0), (20, 20.0), (30, 30.5), (40, 40.5)]
