"""Patches are a convolution without overlap, a CNN gives a grid; places are interpolated."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.errors import RecipeError
from regard.inputs import cnn, patches
from regard.layers.filters import Filters
from regard.types import Batch, FieldSize

SIZE = FieldSize("image", {"height": 6, "width": 10, "channels": 3})


def batch(rows: int = 2, height: int = 6, width: int = 10) -> Batch:
    chance = torch.Generator().manual_seed(1)
    pixels = torch.randn(rows, 3, height, width, generator=chance)
    return Batch(tensors={"image": pixels}, ids=tuple(range(rows)), targets=rows)


def make(**options: object) -> patches.Input:
    torch.manual_seed(2)
    config = patches.Config(patch=2, **options)  # type: ignore[arg-type]
    return patches.Input(config, SIZE, 7, shared=None, scale=False).eval()


def test_a_patch_is_a_filter_as_large_as_its_step():
    made = make(class_token=False, position=False)
    found = made(batch()).states
    filters = made.project.weight.reshape(7, 3, 2, 2)
    wanted = F.conv2d(batch()["image"], filters, made.project.bias, stride=2)
    torch.testing.assert_close(found, wanted.flatten(2).transpose(1, 2))


def test_the_class_token_stands_first():
    made = make()
    found = made(batch())
    assert found.states.shape == (2, 16, 7)
    assert found.mask.all()
    assert made.class_token is not None and made.position is not None
    torch.testing.assert_close(found.states[0, 0], made.class_token + made.position[0])
    assert made.names(batch())[:3] == ["[CLASS]", "1,1", "1,2"]
    assert made.names(batch())[-1] == "3,5"


def test_places_of_another_size_are_interpolated():
    made = make()
    assert made.position is not None
    with torch.no_grad():
        made.position[1:] = torch.arange(3.0).repeat_interleave(5)[:, None]  # the row of a place
    found = made.positions(6, 5)[1:].reshape(6, 5, 7)
    assert torch.equal(made.positions(3, 5), made.position)
    torch.testing.assert_close(found[:, 0], found[:, 4])
    assert (found[1:, 0, 0] > found[:-1, 0, 0]).all()  # still from above to below
    torch.testing.assert_close(found.mean(), torch.tensor(1.0))
    assert made(batch(1, 12, 10)).states.shape == (1, 31, 7)


def test_pictures_that_cannot_be_cut_are_refused():
    with pytest.raises(RecipeError, match="patch: pictures of 6 × 10 pixels"):
        patches.Config(patch=4).grid(SIZE)


def test_a_grid_of_features():
    config = cnn.Config(widths=(4, 8), groups=2, stem=1, position=True)
    made = cnn.Input(config, SIZE, 5, shared=None, scale=False).eval()
    found = made(batch()).states
    assert config.grid(SIZE) == (3, 5)
    assert found.shape == (2, config.fixed_length(SIZE), 5) == (2, 15, 5)
    alone = Batch(tensors={"image": batch()["image"][1:]}, ids=(1,), targets=1)
    torch.testing.assert_close(made(alone).states[0], found[1])  # whatever else is in the batch
    assert made.names(batch())[-1] == "3,5"


def test_every_place_of_a_grid_may_be_normalised():
    """Mean 0 and variance 1 over the dimensions of a place."""
    config = cnn.Config(widths=(4, 8), groups=2, norm=True)
    made = cnn.Input(config, SIZE, 7, shared=None, scale=False).eval()
    found = made(batch()).states
    torch.testing.assert_close(found.mean(-1), torch.zeros(2, 15), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.std(-1, correction=0), torch.ones(2, 15), atol=1e-3, rtol=0)


def test_a_block_begins_with_both_of_its_ways():
    """A block whose second way begins at zero learns shapes several times as slowly."""
    block = cnn.Block(4, 4, 1, 2)
    x = torch.randn(1, 4, 5, 3)
    beside = block.second_norm(block.second(F.relu(block.first_norm(block.first(x)))))
    torch.testing.assert_close(block(x), F.relu(x + beside))
    assert beside.std() > 0.5


def test_filters_learn_in_bfloat16_and_predict_in_float32():
    torch.manual_seed(3)
    made = Filters(3, 5, 3, stride=2)
    x = torch.randn(2, 3, 7, 11)
    exact = F.conv2d(x, made.weight, None, 2, 1)
    torch.testing.assert_close(made(x), exact)
    made.precision = torch.bfloat16
    narrow = made(x)
    assert narrow.dtype == torch.bfloat16
    torch.testing.assert_close(narrow.float(), exact, rtol=0.02, atol=0.03)
    narrow.sum().backward()
    assert made.weight.grad is not None and made.weight.grad.dtype == torch.float32
    torch.testing.assert_close(made.eval()(x), exact)


@pytest.mark.parametrize("stem", [1, 2, 4])
def test_odd_sizes(stem: int):
    size = FieldSize("image", {"height": 13, "width": 7, "channels": 1})
    config = cnn.Config(widths=(4, 4, 4), groups=2, stem=stem)
    made = cnn.Input(config, size, 5, shared=None, scale=False)
    pixels = torch.from_numpy(np.zeros((1, 1, 13, 7), np.float32))
    given = Batch(tensors={"image": pixels}, ids=(0,), targets=1)
    assert made(given).states.shape[1] == config.fixed_length(size)


def test_the_base_model_has_the_size_of_the_paper():
    from regard.model import build
    from regard.recipe import config
    from regard.types import Sizes

    recipe = config.load(Path(__file__).resolve().parents[2] / "recipes" / "vit-b16.toml")
    sizes = {"source": {"height": 224, "width": 224, "channels": 3}, "labels": {"outputs": 1000}}
    with torch.device("meta"):
        model = build(recipe.model, Sizes(sizes, "source", "labels"))
    assert model.size() == 86_567_656 + 1  # that of the paper's, and the temperature
