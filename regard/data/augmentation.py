"""Pictures varied while a model learns: pure functions of what was drawn for each.

    x′ = colour(x(A p))     for each pixel p of the result and an affine map A: shift, rotation,
                            zoom, flip, part of the picture; between pixels, bilinear

Everything is computed for a whole batch at once. A picture is varied in the same way whatever
others are computed with it; mixup reads a second one, the next of the batch as it was planned.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from regard.errors import RecipeError
from regard.recipe.values import Range, Share

Values = NDArray[np.float32]
"""(B, H, W, C), from 0 to 255."""
Drawn = Float[np.ndarray, "B 17"]
"""Numbers from 0 up to 1 for each picture."""
(
    TURN, ZOOM, DOWN, RIGHT, TOP, LEFT, MIRROR, AREA, ASPECT, BRIGHTNESS, CONTRAST, SATURATION,
    ERASE, ERASED_AREA, ERASED_ASPECT, ERASED_TOP, ERASED_LEFT,
) = range(17)  # fmt: skip
"""What each of the numbers that are drawn for a picture decides."""
DRAWS = 17
FRAME = (0, 2, 2, 0)
"""How much larger (B, H, W, C) is with a border of one pixel."""
GREY = np.array([0.299, 0.587, 0.114], np.float32)
"""How bright red, green and blue look."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """How pictures are varied in training; by default not at all."""

    shift: Share = 0.0
    """Move by at most this fraction of the size, up, down, left or right; black comes in."""
    rotate: Annotated[float, Range(0, 180)] = 0.0
    """Turn by at most so many degrees."""
    zoom: Share = 0.0
    """Make larger or smaller by at most this fraction."""
    area: Annotated[float, Range(0, 1, open_low=True)] = 1.0
    """Take a part of the picture with at least this fraction of its area, in full size."""
    aspect: Annotated[float, Range(1, 10)] = 1.0
    """With `area`: that part is stretched by at most this factor."""
    flip: Share = 0.0
    """The probability of left and right being exchanged."""
    brightness: Share = 0.0
    """Lighter or darker by at most this fraction."""
    contrast: Share = 0.0
    """The same of the distance from the picture's mean."""
    saturation: Share = 0.0
    """The same of the distance from grey."""
    erase: Share = 0.0
    """The probability that a rectangle, up to a third of the picture, becomes grey (Zhong et al.
    2020)."""
    mixup: Annotated[float, Range(0, 10)] = 0.0
    """α > 0: λ x + (1 − λ) x′ of two pictures, and as much of their labels, λ from Beta(α, α)
    (Zhang et al. 2018)."""

    def __post_init__(self) -> None:
        if self.aspect > 1 and self.area == 1:
            raise RecipeError("aspect: it needs area below 1")

    @property
    def moves(self) -> bool:
        return bool(self.shift or self.rotate or self.zoom or self.flip or self.area < 1)

    @property
    def colours(self) -> bool:
        return bool(self.brightness or self.contrast or self.saturation)

    @property
    def varies(self) -> bool:
        return bool(self.moves or self.colours or self.erase)


def varied(pixels: NDArray[np.uint8], drawn: Drawn, config: Config) -> Values:
    """Pictures (B, H, W, C), each varied by the numbers that were drawn for it."""
    found = pixels.astype(np.float32)
    if config.moves:
        found = sampled(found, maps(drawn, config, *pixels.shape[1:3]))
    if config.colours:
        found = _coloured(found, drawn, config)
    if config.erase:
        found = _erased(found, drawn, config)
    return found


def maps(drawn: Drawn, config: Config, height: int, width: int) -> Float[np.ndarray, "B 2 3"]:
    """Where in the picture a pixel of the result lies, both (y, x) from its middle: A = [R | t]."""
    either = 2 * drawn - 1  # from −1 to 1
    angle = np.radians(config.rotate) * either[:, TURN]
    larger = 1 / (1 + config.zoom * either[:, ZOOM])
    down, right = (
        config.shift * either[:, n] * size for n, size in ((DOWN, height), (RIGHT, width))
    )
    if config.area < 1:
        share = np.sqrt(config.area + (1 - config.area) * drawn[:, AREA])  # of a side
        stretch = np.exp(math.log(config.aspect) * either[:, ASPECT] / 2)
        tall, wide = np.minimum(share * stretch, 1), np.minimum(share / stretch, 1)
        down = down + (1 - tall) * (height - 1) * either[:, TOP] / 2
        right = right + (1 - wide) * (width - 1) * either[:, LEFT] / 2
    else:
        tall = wide = np.ones(len(drawn))
    mirror = np.where(drawn[:, MIRROR] < config.flip, -1.0, 1.0)
    sine, cosine = np.sin(angle) * larger, np.cos(angle) * larger
    turned = np.stack(
        [
            np.stack([cosine * tall, sine * mirror * wide, down], -1),
            np.stack([-sine * tall, cosine * mirror * wide, right], -1),
        ],
        1,
    )
    return turned


def sampled(pixels: Values, affine: Float[np.ndarray, "B 2 3"]) -> Values:
    """x(A p), bilinear between pixels; black outside of the picture. Where no picture is turned,
    columns and rows are read one after the other: the same numbers in a quarter of the time."""
    turned = affine[:, [0, 1], [1, 0]].any()
    # A border of black: whatever lies outside is read there.
    framed = np.pad(pixels, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return turned_from(framed, affine) if turned else upright_from(framed, affine)


def _between(places: Float[np.ndarray, "B *P"], size: int) -> tuple[NDArray[np.int32], Values]:
    """Where the pixels before these places are in a framed row or column, and how far beyond them
    the places lie."""
    np.clip(places, 0, size + 1, out=places)
    first = np.minimum(places.astype(np.int32), size)
    return first, places - first.astype(np.float32)


def upright_from(framed: Values, affine: Float[np.ndarray, "B 2 3"]) -> Values:
    """x(A p) for A that turn nothing, of pictures with a border of one pixel."""
    count, height, width, channels = (n - m for n, m in zip(framed.shape, FRAME, strict=True))
    y = np.arange(height, dtype=np.float32) - (height - 1) / 2
    x = np.arange(width, dtype=np.float32) - (width - 1) / 2
    a = affine.astype(np.float32)[:, :, :, None]
    top, below = _between(a[:, 0, 0] * y + a[:, 0, 2] + (height + 1) / 2, height)  # (B, H)
    left, beside = _between(a[:, 1, 1] * x + a[:, 1, 2] + (width + 1) / 2, width)  # (B, W)
    found = np.empty((count, height, width, channels), np.float32)
    for n, (picture, by, down) in enumerate(zip(framed, beside[..., None], below, strict=True)):
        wide = picture.take(left[n], 1) * (1 - by) + picture.take(left[n] + 1, 1) * by
        upper, lower = wide.take(top[n], 0), wide.take(top[n] + 1, 0)
        found[n] = upper + (lower - upper) * down[:, None, None]
    return found


def turned_from(framed: Values, affine: Float[np.ndarray, "B 2 3"]) -> Values:
    """x(A p) for any A, of pictures with a border of one pixel."""
    count, height, width, channels = (n - m for n, m in zip(framed.shape, FRAME, strict=True))
    y = np.arange(height, dtype=np.float32) - (height - 1) / 2
    x = np.arange(width, dtype=np.float32) - (width - 1) / 2
    a = affine.astype(np.float32)[:, :, :, None, None]
    rows = a[:, 0, 0] * y[:, None] + a[:, 0, 1] * x + a[:, 0, 2] + (height + 1) / 2  # (B, H, W)
    columns = a[:, 1, 0] * y[:, None] + a[:, 1, 1] * x + a[:, 1, 2] + (width + 1) / 2
    top, below = _between(rows, height)
    left, beside = _between(columns, width)
    below, beside = below[..., None], beside[..., None]
    flat = framed.reshape(-1, channels)
    first = (np.arange(count, dtype=np.int32) * ((height + 2) * (width + 2)))[:, None, None]
    place = first + top * (width + 2) + left
    upper = flat[place] * (1 - beside) + flat[place + 1] * beside
    place = place + (width + 2)
    lower = flat[place] * (1 - beside) + flat[place + 1] * beside
    found: Values = upper + (lower - upper) * below
    return found


def _coloured(pixels: Values, drawn: Drawn, config: Config) -> Values:
    most = [config.brightness, config.contrast, config.saturation]
    factors = 1 + (2 * drawn[:, [BRIGHTNESS, CONTRAST, SATURATION]] - 1) * most
    by: Values = factors.astype(np.float32)[:, :, None, None, None]
    found = pixels * by[:, 0]
    if config.contrast:
        mean = found.mean((1, 2, 3), keepdims=True)
        found = mean + (found - mean) * by[:, 1]
    if config.saturation and found.shape[3] == 3:
        grey = (found @ GREY)[..., None]
        found = grey + (found - grey) * by[:, 2]
    return np.asarray(np.clip(found, 0, 255), np.float32)


def _erased(pixels: Values, drawn: Drawn, config: Config) -> Values:
    """A rectangle of 2 to 33 % of the area, its sides at most 3 : 1, becomes its picture's mean."""
    _, height, width, _ = pixels.shape
    side = np.sqrt(0.02 + 0.31 * drawn[:, ERASED_AREA])
    stretch = np.exp(math.log(3) * (2 * drawn[:, ERASED_ASPECT] - 1) / 2)
    inside = []
    sides = (height, side * stretch, ERASED_TOP), (width, side / stretch, ERASED_LEFT)
    for size, share, where in sides:
        length = np.minimum(share, 1) * size
        start = ((size - length) * drawn[:, where]).round()[:, None]
        place = np.arange(size)
        inside.append((place >= start) & (place < start + length[:, None].round()))
    chosen = drawn[:, ERASE] < config.erase
    hidden = inside[0][:, :, None] & inside[1][:, None, :] & chosen[:, None, None]
    return np.where(hidden[..., None], pixels.mean((1, 2), keepdims=True), pixels)
