"""A picture: from the bytes of a file to pixels (H, W, C) of the size that a model reads.

Pillow decodes. Which formats it may try is fixed here (some of Pillow's run other programs), and a
picture's size is read from its header before memory is taken for it. What is wrong with a file is a
`ValueError` that names a kind of defect.
"""

import warnings
from dataclasses import dataclass
from io import BytesIO
from typing import Literal

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
LARGE = 1 << 24
"""Pixels above which a picture is halved first, as often as it stays twice as large as wanted."""
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
    return image


def check(data: bytes, most: int) -> None:
    """Refuse what cannot be decoded to its end."""
    small(data, most)


def small(data: bytes, most: int) -> tuple[Image.Image, tuple[int, int]]:
    """A picture that is decoded to its end, JPEG at an eighth of its size, which reads all of its
    data, too; and its height and width."""
    image = opened(data, most)
    size = image.height, image.width
    if image.format in ("JPEG", "MPO"):  # the latter has several of the former
        image.draft(None, (max(1, image.width // 8), max(1, image.height // 8)))
    _load(image)
    return image, size


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
    turn = _orientation(image)
    _load(image)
    return shaped(image, form, turn)


def _orientation(image: Image.Image) -> int:
    """1 for a picture that is upright, or says nothing that can be read."""
    try:
        found = image.getexif().get(ORIENTATION, 1)
    except Exception:  # EXIF data may be damaged where the picture is not
        return 1
    return found if found in TURNS else 1


def shaped(image: Image.Image, form: Form, turn: int = 1) -> Pixels:
    """A decoded picture in the form that is wanted."""
    least = 2 * max(form.height, form.width)
    while image.width * image.height > LARGE and min(image.size) >= 2 * least and _plain(image):
        image = image.reduce(2)
    image = _coloured(image, form)
    if turn in TURNS:
        image = image.transpose(TURNS[turn])
    image = _resized(image, form)
    found = np.asarray(image, np.uint8)
    return found[:, :, None] if found.ndim == 2 else found


def _plain(image: Image.Image) -> bool:
    """Whether neighbours can be averaged: not where numbers stand for colours."""
    return image.mode in ("L", "LA", "RGB", "RGBA", "CMYK", "YCbCr")


def _coloured(image: Image.Image, form: Form) -> Image.Image:
    """Eight bits a channel, of the channels that are wanted, nothing transparent."""
    mode = "L" if form.channels == 1 else "RGB"
    if image.mode == "F" or image.mode.startswith("I"):
        image = _eight_bits(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        behind = Image.new("RGBA", image.size, form.background)
        image = Image.alpha_composite(behind, image).convert("RGB")
    elif image.mode not in ("L", "RGB"):
        image = image.convert("L" if image.mode == "1" else "RGB")
    return image if image.mode == mode else image.convert(mode)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Of 16 bits the upper eight; real numbers are from 0 to 1, or else from 0 to 255."""
    values = np.asarray(image)
    if image.mode == "F":
        values = np.nan_to_num(values.astype(np.float32), posinf=0, neginf=0)
        unit = values.size and values.max() <= 1
        found = np.clip(values * (255 if unit else 1), 0, 255).round()
    else:
        found = np.clip(values.astype(np.int64), 0, 65535) >> 8
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
