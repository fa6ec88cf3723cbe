"""Files of sentencepiece, written by hand."""

import struct
from typing import Any


def message(*fields: tuple[int, Any]) -> bytes:
    """Fields of Protocol Buffers, as sentencepiece writes them."""
    found = b""
    for number, value in fields:
        if isinstance(value, float):
            found += bytes([number << 3 | 5]) + struct.pack("<f", value)
        elif isinstance(value, int):
            found += bytes([number << 3, value])
        else:
            data = value.encode() if isinstance(value, str) else value
            found += bytes([number << 3 | 2]) + bytes([len(data)]) + data
    return found


def sentencepieces(pieces: dict[str, float]) -> bytes:
    special = [message((1, name), (3, kind)) for name, kind in (("<unk>", 2), ("</s>", 3))]
    own = [message((1, piece), (2, score)) for piece, score in pieces.items()]
    trainer, normalizer = message((3, 1)), message((3, 1), (4, 1))
    rows = [(1, each) for each in (*special, *own)]
    return message(*rows, (2, trainer), (3, normalizer))
