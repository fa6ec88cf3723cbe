"""A picture: from the bytes of a file to pixels (H, W, C) of the size that a model reads.

Pillow decodes. Which formats it may try is fixed here (some of Pillow's run other programs), and a
picture's size is read from its header before memory is taken for it. What is wrong with a file is a
`ValueError` that names a kind of defect.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

Pixels = NDArray[np.uint8]
"""(H, W, C)."""
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
Resize = Literal["stretch", "crop", "pad"]
Resampling = Literal["nearest", "bilinear", "bicubic", "lanczos"]
Background = Literal["white", "black"]
LARGE, ENOUGH = 1 << 24, 1 << 21
"""Pixels above which a picture is halved first, until it has few, as long as it stays twice as
large as wanted."""
STRIP = 1 << 18
"""Pixels of a large picture that are converted together."""
MEMORY, BYTES = 250_000_000, 5
"""Bytes that decoding may take: so many, or so many for each pixel that is allowed."""
LONG = 16
"""Of a picture that is longer than wanted by more than this factor, "crop" reads the middle."""
ORIENTATION = 0x0112
"""The EXIF tag that says how a camera was held."""
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True)
class Form:
    """What every picture becomes."""

    height: int
    width: int
    channels: int
    resize: Resize = "stretch"
    resampling: Resampling = "bilinear"
    background: Background = "white"
    """What stands behind what is transparent, and around what is padded."""


def opened(data: bytes, most: int) -> Image.Image:
    """A picture whose header can be read and has at most so many pixels; nothing is decoded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes, which are checked below
            image = Image.open(BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError:
        raise ValueError("not a picture of a form that is known") from None
    except Image.DecompressionBombError:
        raise ValueError(f"more than {most:,} pixels") from None
    except Exception:  # decoders raise anything for a damaged file
        raise ValueError("the picture's header is damaged") from None
    width, height = image.size
    if width * height > most:
        raise ValueError(f"more than {most:,} pixels")
    allowed = max(MEMORY, BYTES * most)
    if len(data) + _needed(image) > allowed:
        raise ValueError(f"decoding it takes more than {allowed // 10**6:,} MB")
    return image


def _needed(image: Image.Image) -> int:
    """Bytes that a decoder takes: the picture, and what its format asks for beside it."""
    pixels = image.width * image.height
    found = pixels * (2 if image.mode.startswith("I;16") else 1 if image.mode in "1LP" else 4)
    match image.format:
        case "WEBP":  # two canvases and the frame
            return found + 12 * pixels
        case "PPM":
            return 2 * found
        case "TIFF":
            return found + _strip(image)
        case "JPEG" | "MPO" if "progressive" in image.info:  # all coefficients, of two bytes
            parts = [int(part[1] * part[2]) for part in getattr(image, "layer", ())]
            return 2 * pixels * sum(parts) // max([*parts, 1])
    return found


def _strip(image: Image.Image) -> int:
    """Bytes of the part of a TIFF file that is decoded at once: a strip of rows, or a tile."""
    tags = getattr(image, "tag_v2", {})
    try:
        rows = min(int(tags.get(278, image.height)), image.height)
        area = int(tags.get(322, image.width)) * int(tags.get(323, rows))
        return area * sum(map(int, tags.get(258, (8,)))) // 8
    except (TypeError, ValueError):
        raise ValueError("the picture's header is damaged") from None


def check(data: bytes, most: int) -> None:
    """Refuse what cannot be decoded to its end."""
    small(data, most)


def small(data: bytes, most: int) -> tuple[Image.Image, tuple[int, int], int]:
    """A picture that is decoded to its end, JPEG at an eighth of its size, which reads all of its
    data, too; its height and width; and how it is to be turned."""
    image = opened(data, most)
    size, turn = (image.height, image.width), orientation(image)
    if image.format in ("JPEG", "MPO"):  # the latter has several of the former
        image.draft(None, (max(1, image.width // 8), max(1, image.height // 8)))
    _load(image)
    return image, size, turn


def _load(image: Image.Image) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image.load()
    except MemoryError:
        raise ValueError("no memory is left to decode the picture") from None
    except Exception as error:  # decoders raise anything for a damaged file
        cut = "truncated" in str(error) or isinstance(error, EOFError)
        raise ValueError("the picture is truncated" if cut else "the picture is damaged") from None


def decoded(data: bytes, form: Form, most: int) -> Pixels:
    """The first frame of a picture, upright as its EXIF data says, in the form that is wanted."""
    image = opened(data, most)
    turn = orientation(image)
    if (by := _halved(image.size, form)) > 1 and image.format in ("JPEG", "MPO"):
        image.draft(None, (image.width // by, image.height // by))
    _load(image)
    return shaped(image, form, turn)


def orientation(image: Image.Image) -> int:
    """1 for a picture that is upright, or says nothing that can be read."""
    try:
        found = image.getexif().get(ORIENTATION, 1)
    except Exception:  # EXIF data may be damaged where the picture is not
        return 1
    return found if found in TURNS else 1


def shaped(image: Image.Image, form: Form, turn: int = 1) -> Pixels:
    """A decoded picture in the form that is wanted."""
    found = np.asarray(_resized(upright(image, form, turn), form), np.uint8)
    return found[:, :, None] if found.ndim == 2 else found


def upright(image: Image.Image, form: Form, turn: int = 1) -> Image.Image:
    """A decoded picture with the channels that are wanted, turned upright; of a large one no more
    than is needed, in as little memory as may be."""
    box = _middle(image.size, form, turn)
    if box is not None:
        image = image.crop(box)
    unit = image.mode == "F" and all(_unit(strip) for _, strip in _strips(image, 1))
    if image.width * image.height <= LARGE:
        image = _coloured(image, form, unit)
    else:
        image = _smaller(image, form, unit)
    return image.transpose(TURNS[turn]) if turn in TURNS else image


def _halved(size: tuple[int, int], form: Form) -> int:
    """By what a large picture is divided, so that it is still twice as large as wanted."""
    (width, height), by = size, 1
    least = 4 * max(form.height, form.width)
    large = width * height > LARGE
    while large and width * height > ENOUGH * by * by and min(size) >= least * by:
        by *= 2
    return by


def _middle(size: tuple[int, int], form: Form, turn: int) -> tuple[int, int, int, int] | None:
    """What "crop" reads of a picture that is far too long; nothing is said of others."""
    if form.resize != "crop":
        return None
    (width, height), wanted = size, (form.width, form.height)
    across, down = wanted[::-1] if turn >= 5 else wanted
    most = [-(-height * across // down) * LONG, -(-width * down // across) * LONG]
    if width <= most[0] and height <= most[1]:
        return None
    wide, high = min(width, most[0]), min(height, most[1])
    left, top = (width - wide) // 2, (height - high) // 2
    return left, top, left + wide, top + high


def _strips(image: Image.Image, by: int) -> Iterator[tuple[int, Image.Image]]:
    """Parts of a picture, and where they begin, at multiples of a number of rows."""
    rows = max(1, STRIP // (image.width * by)) * by
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _smaller(image: Image.Image, form: Form, unit: bool) -> Image.Image:
    """The same as `_coloured`, strip by strip, and each of them smaller."""
    by = _halved(image.size, form)
    made = Image.new(_mode(form), (-(-image.width // by), -(-image.height // by)))
    for top, strip in _strips(image, by):
        made.paste(_coloured(strip, form, unit).reduce(by), (0, top // by))
    return made


def _mode(form: Form) -> str:
    return "L" if form.channels == 1 else "RGB"


def _coloured(image: Image.Image, form: Form, unit: bool = False) -> Image.Image:
    """Eight bits a channel, of the channels that are wanted, nothing transparent."""
    mode = _mode(form)
    if image.mode == "F" or image.mode.startswith("I"):
        image = _eight_bits(image, unit)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        behind = Image.new("RGBA", image.size, form.background)
        image = Image.alpha_composite(behind, image).convert("RGB")
    elif image.mode not in ("L", "RGB"):
        image = image.convert("L" if image.mode == "1" else "RGB")
    return image if image.mode == mode else image.convert(mode)


def _finite(image: Image.Image) -> NDArray[np.float32]:
    return np.nan_to_num(np.asarray(image, np.float32), posinf=0, neginf=0)


def _unit(image: Image.Image) -> bool:
    return bool(_finite(image).max(initial=0) <= 1)


def _eight_bits(image: Image.Image, unit: bool) -> Image.Image:
    """Of 16 bits the upper eight; real numbers are from 0 to 1, or else from 0 to 255."""
    found: NDArray[Any]
    if image.mode == "F":
        found = np.clip(_finite(image) * (255 if unit else 1), 0, 255).round()
    else:
        found = np.clip(np.asarray(image).astype(np.int64), 0, 65535) >> 8
    return Image.fromarray(found.astype(np.uint8))


def _resized(image: Image.Image, form: Form) -> Image.Image:
    wanted = (form.width, form.height)
    if image.size == wanted:
        return image
    by = Image.Resampling[form.resampling.upper()]
    width, height = image.size
    match form.resize:
        case "stretch":
            return image.resize(wanted, by)
        case "crop":
            size = form.width, int(form.width * height / width)
            if size[1] < form.height:
                size = max(form.width, int(form.height * width / height)), form.height
            left, top = (size[0] - form.width) // 2, (size[1] - form.height) // 2
            whole = image.resize(size, by)
            return whole.crop((left, top, left + form.width, top + form.height))
        case "pad":
            colour = form.background
            return ImageOps.pad(image, wanted, by, color=colour)


def png(image: Image.Image) -> bytes:
    """The bytes of a file."""
    with BytesIO() as file:
        image.save(file, "PNG")
        return file.getvalue()
