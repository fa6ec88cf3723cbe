"""Pictures of every mode become bytes of the size that is wanted; others are named defects."""

from io import BytesIO
from typing import Any

import numpy as np
import pytest
from PIL import Image

from regard.data import pictures
from regard.data.pictures import Form

MOST = 10**6
GREY, COLOUR = Form(6, 6, 1), Form(6, 6, 3)


def packed(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    with BytesIO() as file:
        image.save(file, form, **options)
        return file.getvalue()


def halves(mode: str, left: Any, right: Any) -> Image.Image:
    """6 × 6 pixels, of one colour on the left and another on the right."""
    image = Image.new(mode, (6, 6), left)
    image.paste(right, (3, 0, 6, 6))
    return image


def ends(data: bytes, form: Form) -> tuple[Any, Any]:
    found = pictures.decoded(data, form, MOST)
    assert found.shape == (6, 6, form.channels)
    assert found.dtype == np.uint8
    return found[0, 0].tolist(), found[5, 5].tolist()


def test_grey_and_colour():
    assert ends(packed(halves("L", 10, 200)), GREY) == ([10], [200])
    assert ends(packed(halves("L", 10, 200)), COLOUR) == ([10] * 3, [200] * 3)
    assert ends(packed(halves("RGB", (255, 0, 0), (0, 0, 255))), GREY) == ([76], [29])
    assert ends(packed(halves("1", 0, 1)), GREY) == ([0], [255])


def test_what_is_transparent_lies_on_the_background():
    clear = packed(halves("RGBA", (9, 9, 9, 0), (9, 9, 9, 255)))
    assert ends(clear, COLOUR) == ([255] * 3, [9] * 3)
    black = Form(6, 6, 3, background="black")
    assert ends(clear, black) == ([0] * 3, [9] * 3)
    palette = halves("P", 0, 1)
    palette.putpalette([10, 20, 30, 40, 50, 60])
    assert ends(packed(palette), COLOUR) == ([10, 20, 30], [40, 50, 60])
    assert ends(packed(palette, transparency=0), COLOUR) == ([255] * 3, [40, 50, 60])
    assert ends(packed(halves("LA", (7, 0), (7, 255))), GREY) == ([255], [7])


def test_sixteen_bits_keep_their_upper_eight():
    deep = Image.fromarray(np.array([[0x12FF] * 3 + [0xFE00] * 3] * 6, np.uint16))
    assert ends(packed(deep), GREY) == ([0x12], [0xFE])
    assert ends(packed(deep, "TIFF"), COLOUR) == ([0x12] * 3, [0xFE] * 3)
    real = Image.fromarray(np.array([[0.0] * 3 + [1.0] * 3] * 6, np.float32))
    assert ends(packed(real, "TIFF"), GREY) == ([0], [255])


def test_cmyk():
    first, last = ends(packed(halves("CMYK", (0, 0, 0, 0), (0, 0, 0, 255)), "TIFF"), GREY)
    assert (first, last) == ([255], [0])


def test_a_camera_that_was_turned():
    image = halves("L", 0, 255)
    exif = Image.Exif()
    exif[pictures.ORIENTATION] = 6  # the camera was turned: what is left belongs above
    found = pictures.decoded(packed(image, exif=exif.tobytes()), GREY, MOST)[:, :, 0]
    assert found[0].tolist() == [0] * 6
    assert found[5].tolist() == [255] * 6


def test_the_first_frame_counts():
    frames = [Image.new("L", (6, 6), n) for n in (40, 200)]
    data = packed(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert ends(data, GREY) == ([40], [40])


def test_resizing():
    wide = Image.new("L", (40, 20), 0)
    wide.paste(255, (10, 0, 30, 20))  # the middle is white
    data = packed(wide)
    stretched = pictures.decoded(data, Form(20, 20, 1, "stretch", "nearest"), MOST)[0, :, 0]
    assert stretched.tolist() == [0] * 5 + [255] * 10 + [0] * 5
    assert (pictures.decoded(data, Form(20, 20, 1, "crop"), MOST) == 255).all()
    padded = pictures.decoded(data, Form(20, 20, 1, "pad", "nearest", "black"), MOST)[:, 10, 0]
    assert padded.tolist() == [0] * 5 + [255] * 10 + [0] * 5


def test_a_large_picture_is_halved_first():
    side = 4200
    image = Image.new("L", (side, side), 30)
    assert side * side > pictures.LARGE
    found = pictures.shaped(image, GREY)
    assert found.shape == (6, 6, 1)
    assert (found == 30).all()


def test_defects_are_named():
    whole = packed(
        Image.fromarray(np.random.default_rng(1).integers(0, 255, (40, 40, 3), np.uint8))
    )
    jpeg = packed(Image.new("RGB", (80, 80), "red"), "JPEG")
    for data, what in {
        b"no picture": "not a picture",
        whole[: len(whole) // 2]: "the picture is truncated",
        jpeg[:-100]: "the picture is truncated",
        packed(Image.new("1", (1001, 1000))): "more than 1,000,000 pixels",
        packed(Image.new("1", (20000, 20000))): "more than 1,000,000 pixels",
    }.items():
        for read in (lambda x: pictures.check(x, MOST), lambda x: pictures.decoded(x, GREY, MOST)):
            with pytest.raises(ValueError, match=what):
                read(data)


def test_formats_that_run_other_programs_are_not_tried():
    with pytest.raises(ValueError, match="not a picture"):
        pictures.check(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", MOST)
