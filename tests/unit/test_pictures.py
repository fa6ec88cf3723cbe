"""Pictures of every mode become bytes of the size that is wanted; others are named defects."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from regard.checks import pictures as checks
from regard.checks.sides import Part, Side
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


def left(data: bytes, form: Form) -> list[int]:
    """The first row of pixels, and all of them are alike in their columns."""
    found = pictures.decoded(data, form, MOST)
    assert (found == found[:1]).all()
    return [int(x) for x in found[0, :, 0]]


@pytest.mark.parametrize("mode", ["I;16", "F", "P", "RGBA"])
def test_a_large_picture_is_the_same_as_a_small_one(mode: str, monkeypatch: pytest.MonkeyPatch):
    ends = {"I;16": (0x1200, 0xFE00), "F": (0.25, 1.0), "P": (0, 1)}
    colours: Any = ends.get(mode, ((9, 9, 9, 0), (9, 9, 9, 255)))
    image = Image.new(mode, (96, 90), colours[0])
    image.paste(colours[1], (48, 0, 96, 90))
    if mode == "P":
        image.putpalette([10, 20, 30, 40, 50, 60])
    options = {"transparency": 0} if mode == "P" else {}
    data = packed(image, "TIFF" if mode == "F" else "PNG", **options)
    small = left(data, COLOUR)
    monkeypatch.setattr(pictures, "LARGE", 500)
    monkeypatch.setattr(pictures, "STRIP", 700)
    assert left(data, COLOUR) == small
    monkeypatch.setattr(pictures, "ENOUGH", 48 * 45)  # it is halved once
    assert left(data, COLOUR) == small


def test_what_would_take_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pictures, "MEMORY", 47_000)
    image = Image.new("RGB", (90, 90))
    kinds: dict[str, dict[str, Any]] = {
        "PNG": {}, "JPEG": {}, "TIFF": {"compression": "tiff_lzw", "tiffinfo": {278: 9}}
    }  # fmt: skip
    for form, options in kinds.items():
        pictures.check(packed(image, form, **options), 9000)
    kinds = {"WEBP": {}, "TIFF": {"compression": "tiff_lzw", "tiffinfo": {278: 90}}}
    kinds["JPEG"] = {"progressive": True, "subsampling": 0}
    for form, options in kinds.items():
        with pytest.raises(ValueError, match="decoding it takes more than 0 MB"):
            pictures.check(packed(image, form, **options), 9000)


@pytest.mark.parametrize("resize", ["crop", "pad", "stretch"])
@pytest.mark.parametrize("turn", [1, 6])
def test_a_picture_that_is_far_too_long(resize: pictures.Resize, turn: int):
    """The shorter side is not enlarged until memory ends."""
    thread = Image.new("L", (1, 2_000_000), 7)
    found = pictures.shaped(thread, Form(16, 24, 1, resize, "nearest"), turn)
    assert found.shape == (16, 24, 1)
    assert resize == "pad" or (found == 7).all()


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


def test_a_hash_is_of_the_picture_as_it_is_seen():
    """Sixteen bits are not all white, and a turned copy has the hash of what it shows."""
    dice = np.random.default_rng(1)
    shades = dice.integers(0, 256, (40, 60), np.uint8)
    exif = Image.Exif()
    exif[pictures.ORIENTATION] = 6
    on_its_side = Image.fromarray(shades).transpose(Image.Transpose.ROTATE_90)
    kinds = {
        "plain": packed(Image.fromarray(shades)),
        "deep": packed(Image.fromarray(shades.astype(np.uint16) * 257)),
        "turned": packed(on_its_side, exif=exif.tobytes()),
    }
    seen = {name: checks.glimpse(*pictures.small(data, MOST)) for name, data in kinds.items()}
    assert len({each.hash for each in seen.values()}) == 1
    assert {(each.height, each.width) for each in seen.values()} == {(40, 60)}


def part(name: Any, count: int) -> Part:
    where = [(Path(f"{name}.tsv"), n + 1) for n in range(count)]
    return Part(name, (Side("image", [f"{name}-{n}" for n in range(count)], where),))


def test_copies_are_found_among_all_and_near_ones_among_those_that_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(checks, "COMPARED", 10)
    dice = np.random.default_rng(1)

    def look(place: str) -> checks.Glimpse:
        small = dice.integers(0, 256, (16, 16), np.uint8)
        if place.endswith("-0"):
            small[:] = np.arange(16) * 9
        return checks.glimpse(Image.fromarray(small), (3, 3))

    copies = {"test-3": "train-28"}
    parts = [part("train", 29), part("test", 5)]
    by_code = {
        each.code: each
        for each in checks.check(parts, look, lambda place: copies.get(place, place), (9, 9))
    }
    assert "1 of 5 pictures (20 %) of data.test" in by_code["image.leaked"].what
    assert by_code["image.leaked"].place == "test.tsv:4"
    assert by_code["image.similar"].place == "test.tsv:1"
    small = [e for e in checks.check(parts, look, str, (9, 9)) if e.code == "image.small"]
    assert "10 of the 10 pictures that were looked at" in small[0].what


def test_several_captions_of_one_picture_are_no_copies():
    """Three pictures with five captions each; one of them is there a second time, as a file."""
    dice = np.random.default_rng(1)
    images = {n: dice.integers(0, 256, (16, 16), np.uint8) for n in "abc"}
    names = [f"{name}.png" for name in "abc" for _ in range(5)]

    def found(places: list[str]) -> dict[str, str]:
        where = [(Path("train.tsv"), n + 1) for n in range(len(places))]
        train = Part("train", (Side("image", [*places], where),))
        seen: list[str] = []

        def look(place: str) -> checks.Glimpse:
            seen.append(place)
            return checks.glimpse(Image.fromarray(images[place[-5]]), (16, 16))

        got = {e.code: e.what for e in checks.check([train], look, lambda p: p[-5], (9, 9))}
        assert len(seen) == len({*places})  # each file is looked at once
        return got

    assert found(names) == {}
    again = found([*names, "copy/b.png", "copy/b.png"])
    assert again.keys() == {"image.repeated"}
    assert "1 of 4 pictures (25 %) of data.train" in again["image.repeated"]
