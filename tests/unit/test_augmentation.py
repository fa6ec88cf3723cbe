"""Pictures are varied by pure functions of what was drawn, one as if the others were not there."""

import numpy as np
import pytest

from regard.data import augmentation
from regard.data.augmentation import DRAWS, Config
from regard.data.batching import Draw
from regard.errors import RecipeError

PIXELS = np.random.default_rng(5).integers(0, 256, (7, 11, 13, 3), np.uint8)
DRAWN = Draw(1, 2, 3).uniform(range(7), DRAWS)
ALL = Config(
    shift=0.2, rotate=20, zoom=0.1, area=0.5, aspect=1.5, flip=0.5, brightness=0.3, contrast=0.3,
    saturation=0.3, erase=0.5,
)  # fmt: skip


def test_draws_are_of_the_example_alone():
    both = Draw(1, 2, 3).uniform([7, 8, 10**12], 5)
    assert np.array_equal(both[1:2], Draw(1, 2, 3).uniform([8], 5))
    assert not np.array_equal(both, Draw(1, 2, 4).uniform([7, 8, 10**12], 5))
    assert len(np.unique(both)) == 15


def test_draws_are_uniform():
    found = Draw(1).uniform(range(20_000), 3)
    assert found.min() >= 0
    assert found.max() < 1
    counts = np.histogram(found, 20, (0, 1))[0]
    assert np.abs(counts - 3000).max() < 6 * 3000**0.5
    assert abs(np.corrcoef(found[:-1, 0], found[1:, 0])[0, 1]) < 0.03
    assert abs(np.corrcoef(found[:, 0], found[:, 1])[0, 1]) < 0.03


def test_nothing_is_varied_by_default():
    assert not Config().varies
    assert np.array_equal(augmentation.varied(PIXELS, DRAWN, Config()), PIXELS)


def test_each_picture_as_if_it_were_alone():
    both = augmentation.varied(PIXELS, DRAWN, ALL)
    alone = augmentation.varied(PIXELS[3:4], DRAWN[3:4], ALL)
    assert both.shape == PIXELS.shape
    np.testing.assert_allclose(both[3], alone[0], atol=1e-3)
    assert both.min() >= 0
    assert both.max() <= 255


def test_the_identity_gives_every_pixel_back():
    same = np.tile(np.array([[1.0, 0, 0], [0, 1.0, 0]]), (7, 1, 1))
    np.testing.assert_allclose(augmentation.sampled(PIXELS.astype(np.float32), same), PIXELS)


def test_a_shift_of_whole_pixels_moves_them():
    moved = np.tile(np.array([[1.0, 0, 2], [0, 1.0, -3]]), (7, 1, 1))
    found = augmentation.sampled(PIXELS.astype(np.float32), moved)
    np.testing.assert_allclose(found[:, :-2, 3:], PIXELS[:, 2:, :-3])
    assert (found[:, -2:] == 0).all()  # black comes in
    assert (found[:, :, :3] == 0).all()


@pytest.mark.parametrize("shape", [PIXELS.shape, (7, 5, 1, 1)])
def test_rows_and_columns_one_after_the_other_are_the_same_numbers(shape: tuple[int, ...]):
    """Bit by bit, at the borders and beyond them, so that no run changes."""
    pixels = np.random.default_rng(2).integers(0, 256, shape).astype(np.float32)
    framed = np.pad(pixels, ((0, 0), (1, 1), (1, 1), (0, 0)))
    for vary in (Config(area=0.3, aspect=2, flip=0.5), Config(shift=1.0, zoom=0.5), Config(flip=1)):
        affine = augmentation.maps(DRAWN, vary, *shape[1:3])
        found = augmentation.upright_from(framed, affine)
        assert found.tobytes() == augmentation.turned_from(framed, affine).tobytes()
        assert found.tobytes() == augmentation.sampled(pixels, affine).tobytes()


def test_a_flip_exchanges_left_and_right():
    found = augmentation.varied(PIXELS, np.zeros_like(DRAWN), Config(flip=0.5))
    np.testing.assert_allclose(found, PIXELS[:, :, ::-1])


def test_a_quarter_turn():
    square = PIXELS[:, :, :11]
    drawn = np.full_like(DRAWN, 0.5)
    drawn[:, augmentation.TURN] = 1.0
    found = augmentation.varied(square, drawn, Config(rotate=90))
    np.testing.assert_allclose(found, np.rot90(square, 1, (1, 2)), atol=1e-2)


def test_a_part_of_the_picture_lies_inside_of_it():
    white = np.full((500, 9, 9, 1), 255, np.uint8)
    drawn = Draw(4).uniform(range(500), DRAWS)
    found = augmentation.varied(white, drawn, Config(area=0.2, aspect=2.0))
    assert found.min() > 254  # no black comes in


def test_erased_is_a_rectangle_of_the_mean():
    drawn = DRAWN.copy()
    drawn[:, augmentation.ERASE] = 0.0
    found = augmentation.varied(PIXELS, drawn, Config(erase=0.9))
    for before, after in zip(PIXELS, found, strict=True):
        hidden = (np.abs(after - before.mean((0, 1))) < 1e-3).all(2)
        rows, columns = np.flatnonzero(hidden.any(1)), np.flatnonzero(hidden.any(0))
        assert hidden.sum() == len(rows) * len(columns) > 0
        assert hidden.mean() < 0.5
        assert np.array_equal(after[~hidden], before[~hidden])


def test_grey_stays_grey_and_contrast_keeps_the_mean():
    grey = np.repeat(PIXELS[..., :1] // 2 + 64, 3, -1)
    found = augmentation.varied(grey, DRAWN, Config(saturation=0.9))
    np.testing.assert_allclose(found, grey, atol=1e-3)
    found = augmentation.varied(grey, DRAWN, Config(contrast=0.5))
    np.testing.assert_allclose(found.mean((1, 2, 3)), grey.mean((1, 2, 3)), rtol=1e-4)


def test_settings_that_say_nothing_together_are_refused():
    with pytest.raises(RecipeError, match="aspect: it needs area"):
        Config(aspect=1.3)
