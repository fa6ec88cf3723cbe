"""Pictures that somebody damaged, or made to do damage: each with what is to become of it."""

import random
import struct
import zlib
from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

Verdict = bool | None
"""Whether it can be read; None where either is right, as long as it is said."""


class Case(NamedTuple):
    name: str
    data: bytes
    sound: Verdict


def packed(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    with BytesIO() as file:
        image.save(file, form, **options)
        return file.getvalue()


def picture(dice: random.Random, mode: str = "RGB") -> Image.Image:
    size = dice.randint(1, 60), dice.randint(1, 60)
    bands = {"L": 1, "RGB": 3, "RGBA": 4, "CMYK": 4, "LA": 2}[mode]
    noise = np.random.default_rng(dice.randrange(2**32)).integers(0, 256, (*size, bands), np.uint8)
    return Image.fromarray(noise[:, :, 0] if bands == 1 else noise, mode)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, data: bytes, *, depth: int = 8, colour: int = 2) -> bytes:
    """Of any size that it says, whatever there is."""
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def bomb(dice: random.Random) -> tuple[bytes, Verdict]:
    side = dice.choice([10_000, 30_000, 65_000, 2**31 - 1])
    return png(side, side, zlib.compress(bytes(1 << 20))), False


def packed_bomb(dice: random.Random) -> tuple[bytes, Verdict]:
    """All of its pixels are there, in a few kilobytes."""
    rows = zlib.compressobj(9)
    data = b"".join(rows.compress(bytes(1 + 9000 // 8)) for _ in range(9000)) + rows.flush()
    return png(9000, 9000, data, depth=1, colour=0), False


def lying(dice: random.Random) -> tuple[bytes, Verdict]:
    """The header says more than there is."""
    return png(dice.randint(500, 3000), dice.randint(500, 3000), zlib.compress(bytes(999))), False


def text_bomb(dice: random.Random) -> tuple[bytes, Verdict]:
    whole = packed(picture(dice))
    extra = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1 << 24)))
    return whole[:33] + extra + whole[33:], None


def truncated(dice: random.Random) -> tuple[bytes, Verdict]:
    form = dice.choice(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
    data = packed(picture(dice), form)
    return data[: dice.randrange(1, len(data))], None


def flipped(dice: random.Random) -> tuple[bytes, Verdict]:
    data = bytearray(
        packed(picture(dice), dice.choice(["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP"]))
    )
    for _ in range(dice.randint(1, 20)):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data), None


def noise(dice: random.Random) -> tuple[bytes, Verdict]:
    magic = dice.choice(
        [
            b"\x89PNG\r\n\x1a\n",
            b"\xff\xd8\xff\xe0",
            b"GIF89a",
            b"BM",
            b"II*\0",
            b"P6 9 9 255\n",
            b"RIFF\x99\0\0\0WEBPVP8 ",
            b"",
        ]
    )
    return magic + dice.randbytes(dice.randint(1, 400)), None


def animated(dice: random.Random) -> tuple[bytes, Verdict]:
    frames = [Image.new("RGB", (20, 10), (n, 9 * n, 200)) for n in range(12)]
    form = dice.choice(["GIF", "WEBP", "PNG", "TIFF"])
    return packed(frames[0], form, save_all=True, append_images=frames[1:]), True


def deep(dice: random.Random) -> tuple[bytes, Verdict]:
    values = np.random.default_rng(dice.randrange(99)).integers(0, 65536, (9, 13)).astype(np.uint16)
    return packed(Image.fromarray(values), dice.choice(["PNG", "TIFF"])), True


def cmyk(dice: random.Random) -> tuple[bytes, Verdict]:
    return packed(picture(dice, "CMYK"), dice.choice(["JPEG", "TIFF"])), True


def palette(dice: random.Random) -> tuple[bytes, Verdict]:
    options = {"transparency": 0} if dice.random() < 0.5 else {}
    return packed(picture(dice).quantize(7), dice.choice(["PNG", "GIF"]), **options), True


def turned(dice: random.Random) -> tuple[bytes, Verdict]:
    exif = Image.Exif()
    exif[0x0112] = dice.choice([0, 3, 6, 8, 9, 77])
    return packed(picture(dice), "JPEG", exif=exif.tobytes()), True


def broken_exif(dice: random.Random) -> tuple[bytes, Verdict]:
    exif = b"Exif\0\0II*\0\x08\0\0\0" + dice.randbytes(30)
    return packed(picture(dice), "JPEG", exif=exif), True


def alpha(dice: random.Random) -> tuple[bytes, Verdict]:
    return packed(picture(dice, dice.choice(["RGBA", "LA"]))), True


def misnamed(dice: random.Random) -> tuple[bytes, Verdict]:
    return packed(picture(dice), dice.choice(["GIF", "BMP", "TIFF", "WEBP"])), True


def program(dice: random.Random) -> tuple[bytes, Verdict]:
    """What Pillow would hand on to another program."""
    return b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 99 99\n%%EndComments\nshowpage\n", False


def empty(dice: random.Random) -> tuple[bytes, Verdict]:
    return b"", False


def text(dice: random.Random) -> tuple[bytes, Verdict]:
    return b"<html>404 Not Found</html>", False


MAKERS: list[Callable[[random.Random], tuple[bytes, Verdict]]] = [
    bomb, packed_bomb, lying, text_bomb, truncated, truncated, flipped, flipped, noise, animated,
    deep, cmyk, palette, turned, broken_exif, alpha, misnamed, program, empty, text,
]  # fmt: skip


SIDE = 7000
"""That of pictures with nearly as many pixels as are allowed: some kilobytes, all of one colour."""
ONE_STRIP = {"form": "TIFF", "tiffinfo": {278: SIDE}, "compression": "tiff_lzw"}
LARGE: list[tuple[str, Any, Verdict, dict[str, Any]]] = [
    ("I;16", 999, True, {"form": "PNG"}),
    ("P", 1, True, {"form": "PNG", "transparency": 0}),
    ("F", 0.5, True, {"form": "TIFF", "compression": "tiff_adobe_deflate"}),
    ("RGBA", (1, 2, 3, 9), True, {"form": "PNG"}),
    ("LA", (1, 9), True, {"form": "PNG"}),
    ("CMYK", (1, 2, 3, 9), True, {"form": "TIFF", "compression": "tiff_lzw"}),
    ("CMYK", (1, 2, 3, 9), True, {"form": "JPEG"}),
    ("I", 999, True, {"form": "TIFF", "compression": "tiff_lzw"}),
    ("CMYK", (1, 2, 3, 9), False, {"form": "JPEG", "progressive": True}),
    ("RGB", (1, 2, 3), False, {"form": "WEBP", "lossless": True, "method": 0}),
    ("RGBA", (1, 2, 3, 9), False, ONE_STRIP),
    ("P", 0, True, {"form": "GIF", "transparency": 0}),
]  # fmt: skip
"""Mode and colour, whether it may be decoded in the memory that there is, and how it is written."""


def large(number: int) -> Case:
    mode, colour, sound, options = LARGE[number]
    image = Image.new(mode, (SIDE, SIDE), colour)
    if mode == "P":
        image.putpalette([1, 2, 3, 4, 5, 6])
    return Case(f"large-{number:02}.png", packed(image, **options), sound)


@cache
def cases(count: int) -> list[Case]:
    """The same ones every time; of large ones, which take seconds, as many as the others are
    times all kinds."""
    found = []
    for n in range(count):
        dice, make = random.Random(n), MAKERS[n % len(MAKERS)]
        found.append(Case(f"{n:03}-{make.__name__}.{dice.choice(['png', 'jpg'])}", *make(dice)))
    return found + [large(n) for n in range(min(count // len(MAKERS), len(LARGE)))]
