"""Sounds that are damaged, or made to do harm: a pure function of the seed."""

import io
import random
import struct
from collections.abc import Iterator

import numpy as np
import soundfile

RATE = 8000
PLAIN = ("wav", "flac", "ogg")
SUBTYPES = {"wav": "PCM_16", "flac": "PCM_16", "ogg": "VORBIS"}


def encoded(kind: str, samples: np.ndarray, rate: int = RATE, subtype: str = "") -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, format=kind.upper(), subtype=subtype or SUBTYPES[kind])
    return stream.getvalue()


def wav(
    body: bytes,
    *,
    channels: int = 1,
    rate: int = RATE,
    bits: int = 16,
    form: int = 1,
    claimed: int | None = None,
    riff: int | None = None,
) -> bytes:
    """A wav file whose header says what is given here."""
    width = min(65535, max(1, bits // 8 * channels))
    fmt = struct.pack("<HHIIHH", form, channels, rate, min(2**32 - 1, rate * width), width, bits)
    size = len(body) if claimed is None else claimed
    data = b"fmt " + struct.pack("<I", len(fmt)) + fmt + b"data" + struct.pack("<I", size) + body
    total = 4 + len(data) if riff is None else riff
    return b"RIFF" + struct.pack("<I", total) + b"WAVE" + data


def every(count: int) -> Iterator[tuple[str, bytes]]:
    """Names and bytes: first those that are thought out, then damaged ones."""
    tone = 0.3 * np.sin(np.arange(RATE // 2) / 5)
    whole = {kind: encoded(kind, tone) for kind in PLAIN}
    yield from _crafted(tone, whole)
    number = 0
    while number < count:
        dice = random.Random(number)
        kind = PLAIN[number % len(PLAIN)]
        yield f"damaged-{number}.{kind}", _damaged(whole[kind], dice)
        number += 1


def _crafted(tone: np.ndarray, whole: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    short = (tone * 20000).astype("<i2").tobytes()
    real = tone.astype("<f4")
    spoilt = {"nan": np.nan, "infinite": np.inf, "huge": 3e38}
    for name, value in spoilt.items():
        changed = real.copy()
        changed[7] = value
        yield f"{name}.wav", wav(changed.tobytes(), bits=32, form=3)
    yield "empty.wav", b""
    yield "no-samples.wav", wav(b"")
    yield "one-sample.wav", wav(b"\0\1")
    yield "text.wav", b"this is no sound at all\n" * 50
    yield "picture.wav", b"\x89PNG\r\n\x1a\n" + bytes(200)
    yield "flac-called.wav", whole["flac"]
    yield "wav-called.ogg", whole["wav"]
    yield "mp3-like.mp3", b"\xff\xfb\x90\x00" + bytes(4000)
    yield "id3.mp3", b"ID3\x04\0\0\x7f\x7f\x7f\x7f" + bytes(100)
    for channels in (0, 2, 8, 64, 65, 1000, 65535):
        yield f"channels-{channels}.wav", wav(short, channels=channels)
    for rate in (0, 1, 999, 11025, 192000, 768001, 2**31 - 1, 2**32 - 1):
        yield f"rate-{rate}.wav", wav(short, rate=rate)
    for bits in (0, 1, 8, 12, 24, 32, 64, 65535):
        yield f"bits-{bits}.wav", wav(short, bits=bits)
    for form in (0, 2, 3, 6, 7, 17, 49, 0xFFFE, 0xFFFF):
        yield f"form-{form}.wav", wav(short, form=form)
    for claimed in (0, 1, 10, len(short) - 3, len(short) + 2, 2**31 - 1, 2**31, 2**32 - 1):
        yield f"claimed-{claimed}.wav", wav(short, claimed=claimed)
    for riff in (0, 4, 2**31, 2**32 - 1):
        yield f"riff-{riff}.wav", wav(short, riff=riff)
    flac = bytearray(whole["flac"])
    for total in (0, 1, 2**35, 2**36 - 1):  # 36 bits of the header's ten bytes from 18 on
        packed = int.from_bytes(flac[18:26], "big")
        lying = bytearray(flac)
        lying[18:26] = ((packed >> 36 << 36) | total).to_bytes(8, "big")
        yield f"flac-total-{total}.flac", bytes(lying)
    eight = np.stack([tone * n / 8 for n in range(8)], 1)
    for kind in PLAIN:
        yield f"eight.{kind}", encoded(kind, eight)
        for part in (4, 12, 44, 60, len(whole[kind]) // 2, len(whole[kind]) - 5):
            yield f"cut-{part}.{kind}", whole[kind][:part]
    yield "long.flac", encoded("flac", np.zeros(RATE * 120))


def _damaged(content: bytes, dice: random.Random) -> bytes:
    """Some bytes changed, mostly in the header; pieces repeated, left out or exchanged."""
    found = bytearray(content)
    for _ in range(dice.choice([1, 3, 10, 100])):
        place = int(len(found) * dice.random() ** dice.choice([1, 3]))
        match dice.randrange(4):
            case 0:
                found[place] = dice.randrange(256)
            case 1:
                found[place] ^= 1 << dice.randrange(8)
            case 2:
                found[place : place + 4] = dice.randbytes(4)
            case _ if len(found) > 200:
                del found[place : place + dice.randrange(1, 20)]
    return bytes(found)
