"""Scalars for TensorBoard, without TensorBoard.

An event file is a sequence of records (TFRecord), each one

    length (uint64) · mask(crc(length)) (uint32) · data · mask(crc(data)) (uint32)

in little-endian order, where crc is CRC-32C (Castagnoli) and
mask(c) = rotate_right(c, 15) + 0xa282ead8 mod 2³². The data is a protocol buffer

    Event   { double wall_time = 1; int64 step = 2; string file_version = 3;
              Summary summary = 5; SessionLog session_log = 7; }
    Summary { repeated Value value = 1; }   Value { string tag = 1; float simple_value = 2; }
    SessionLog { enum status = 1; }         START = 1

whose every field is a key (number · 8 + wire type) followed by its value.
"""

import errno
import math
import os
import struct
import time
from pathlib import Path

PREFIX = "events.out.tfevents."
VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5  # the wire types of protocol buffers


class Events:
    """Appends scalars to a new event file in `folder`.

    A run that is resumed from update `step` opens another file in the same folder; TensorBoard
    reads the files in the order of their names as one curve, and forgets what the earlier ones
    said about later updates.
    """

    def __init__(self, folder: Path, step: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        endings = [path.name.removeprefix(PREFIX) for path in folder.glob(f"{PREFIX}*")]
        number = 1 + max((int(ending) for ending in endings if ending.isdecimal()), default=0)
        self.path = folder / f"{PREFIX}{number:06d}"
        self._file = self.path.open("xb", buffering=0)
        self._write(_field(3, BYTES, b"brain.Event:2"))
        if step is not None:
            start = _field(1, VARINT, _varint(1))
            self._write(_field(2, VARINT, _varint(step + 1)) + _field(7, BYTES, start))

    def scalar(self, tag: str, value: float, step: int) -> None:
        """One point of the curve `tag`; it is in the file when this returns."""
        name = tag.encode("utf-8", errors="replace")
        point = _field(1, BYTES, name) + _field(2, FLOAT, _single(value))
        summary = _field(1, BYTES, point)
        self._write(_field(2, VARINT, _varint(step)) + _field(5, BYTES, summary))

    def close(self) -> None:
        self._file.close()

    def _write(self, fields: bytes) -> None:
        framed = record(_field(1, DOUBLE, struct.pack("<d", time.time())) + fields)
        start = self._file.tell()
        try:
            if self._file.write(framed) < len(framed):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        except OSError:
            self._file.truncate(start)  # a broken record would hide all that follow
            self._file.seek(start)
            raise


def record(data: bytes) -> bytes:
    """The data in its frame."""
    length = struct.pack("<Q", len(data))
    return length + _check(length) + data + _check(data)


def crc32c(data: bytes) -> int:
    """CRC-32 with Castagnoli's polynomial, bits reflected: crc ← (crc ≫ 8) ⊕ table[low byte]."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = [_remainder(byte) for byte in range(256)]


def _check(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the high bit says that more follow. `bytes` refuses a
    negative number."""
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def _field(number: int, wire: int, value: bytes) -> bytes:
    length = _varint(len(value)) if wire == BYTES else b""
    return _varint(number << 3 | wire) + length + value


def _single(value: float) -> bytes:
    """The nearest 32-bit float: infinity beyond its range, where struct would refuse."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))
