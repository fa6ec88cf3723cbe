"""What the head of labels reads: the class token's state by itself, all states, all layers."""

import pytest
import torch

from regard.decoding import pooled
from regard.errors import RecipeError
from regard.layers import some_places
from regard.model import build
from regard.recipe import config
from regard.types import Batch, Sizes

SIZES = Sizes(
    fields={"source": {"height": 6, "width": 10, "channels": 3}, "labels": {"outputs": 5}},
    reads="source",
    writes="labels",
)


def made(pooling: str, **head):
    recipe = {
        "task": "classify",
        "data": {"train": ["unused"]},
        "source": {"kind": "image", "size": [6, 10]},
        "model": {
            "dim": 14,
            "input": {"kind": "patches", "patch": 2},
            "encoder": {
                "kind": "transformer", "layers": 2, "heads": 2, "feedforward": 11,
                "norm": "pre", "position": "none", "dropout": 0.0,
            },
            "head": {"pooling": pooling, **head},
        },
    }  # fmt: skip
    torch.manual_seed(1)
    model = build(config.recipe(recipe).model, SIZES)
    pixels = torch.randn(3, 3, 6, 10)
    return model, Batch(tensors={"source": pixels}, ids=(0, 1, 2), targets=3)


def test_the_first_state_alone(monkeypatch):
    model, batch = made("class")
    found = pooled.memory(model, batch)
    assert found.states.shape == (3, 1, 14) and found.mask.shape == (3, 1)
    whole = model.encode(batch)
    torch.testing.assert_close(found.states, whole.states[:, :1])
    parameters = [p for n, p in model.named_parameters() if n.startswith(("input", "encoder"))]
    gradients = [
        torch.autograd.grad((states[:, 0] * torch.arange(14.0)).sum(), parameters)
        for states in (found.states, whole.states)
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(some_places, "block", None)  # nobody else computes it this way
    with pytest.raises(TypeError):
        pooled.memory(model, batch)


def test_other_poolings_read_all():
    model, batch = made("mean")
    assert pooled.memory(model, batch).states.shape == (3, 16, 14)


@pytest.mark.parametrize("pooling", ["mean", "class"])
def test_a_head_reads_all_layers_side_by_side(pooling):
    model, batch = made(pooling, all_layers=True)
    layers = model.encode_layers(batch)
    assert len(layers) == 3  # what is read, and two blocks
    pick = {"mean": lambda states: states.mean(1), "class": lambda states: states[:, 0]}[pooling]
    vectors = torch.cat([pick(each.states) for each in layers], -1)
    head = model.head
    assert head.project.weight.shape == (5, 3 * 14)
    found = head.logits(head.pool(pooled.memory(model, batch)))
    torch.testing.assert_close(found, vectors @ head.project.weight.T + head.project.bias)


def test_only_the_head_of_an_encoder_reads_layers():
    recipe = {
        "task": "masked_language_model",
        "data": {"train": ["unused"]},
        "pairs": {"next_sentence": True},
        "model": {"heads": {"next": {"kind": "labels", "all_layers": True}}},
    }
    with pytest.raises(RecipeError, match=r"model.heads.next.all_layers: only model.head"):
        config.recipe(recipe)
