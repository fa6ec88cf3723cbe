"""Adapters of low rank: what they compute, what is trained, and that merging changes nothing."""

from typing import Any

import pytest
import torch

from regard.errors import RecipeError
from regard.layers.linear import Linear
from regard.layers.lora import Adapter
from regard.model import Config, Model, build
from regard.recipe.model_section import read
from regard.recipe.parts import Lora, module
from regard.recipe.typed import Place
from regard.tuning import lora
from regard.types import Batch, Sizes

SIZES = Sizes({"source": {"tokens": 11}, "labels": {"outputs": 3}}, reads="source", writes="labels")
BLOCKS = {"kind": "transformer", "layers": 2, "heads": 2, "feedforward": 14, "norm": "pre"}


def model(**encoder: object) -> Model:
    torch.manual_seed(1)
    table = {"dim": 10, "encoder": BLOCKS | encoder}
    made: Config = read(module("tasks", "classify"), table, Place())
    return build(made, SIZES)


def shaken(made: Model) -> Model:
    """With adapters that do something."""
    for name, parameter in made.named_parameters():
        if name.endswith("adapter.up"):
            torch.nn.init.normal_(parameter, std=0.3)
    return made.eval()


def batch() -> Batch:
    torch.manual_seed(2)
    tokens = torch.randint(4, 11, (3, 7))
    mask = torch.arange(7) < torch.tensor([7, 5, 2])[:, None]
    tensors = {"source": tokens, "source_mask": mask, "labels": torch.tensor([0, 2, 1])}
    return Batch(tensors=tensors, ids=(0, 1, 2), targets=3)


def test_an_adapter_by_hand():
    """A = [1 2], B = [3; 0], α/r = 2: x = (5, 7) becomes 2 · 19 · (3, 0)."""
    adapter = Adapter(2, 2, 1, 2.0)
    with torch.no_grad():
        adapter.down.copy_(torch.tensor([[1.0, 2.0]]))
        adapter.up.copy_(torch.tensor([[3.0], [0.0]]))
    assert adapter(torch.tensor([5.0, 7.0])).tolist() == [114.0, 0.0]
    assert adapter.change().tolist() == [[6.0, 12.0], [0.0, 0.0]]


def test_a_layer_begins_as_it_was():
    plain, adapted = model().eval(), model(lora={"rank": 3}).eval()
    with torch.no_grad():
        assert torch.equal(plain.encode(batch()).states, adapted.encode(batch()).states)  # type: ignore[union-attr]


def test_merged_equals_unmerged():
    made = shaken(model(lora={"rank": 3, "alpha": 6}))
    with torch.no_grad():
        before = made.encode(batch()).states  # type: ignore[union-attr]
        merged = lora.merge(made)
        after = merged.encode(batch()).states  # type: ignore[union-attr]
    assert not any(lora.is_adapter(name) for name, _ in merged.named_parameters())
    assert torch.allclose(before, after, atol=1e-5)
    assert not torch.allclose(before, model().eval().encode(batch()).states, atol=1e-2)  # type: ignore[union-attr]


def test_weights_by_name_are_merged_as_the_model_is():
    made = shaken(model(lora={"rank": 2}))
    by_name = {name: p.detach().clone() for name, p in made.named_parameters()}
    found = lora.merged_weights(made, by_name)
    expected = dict(lora.merge(made).named_parameters())
    assert found.keys() == expected.keys()
    assert all(torch.allclose(found[name], expected[name], atol=1e-6) for name in found)


def test_only_adapters_and_other_parts_are_trained():
    """r (I + O) numbers for each layer of I inputs and O outputs: 2 blocks with 10 → 30, 10 → 10,
    10 → 14 and 14 → 10."""
    made = model(lora={"rank": 3})
    trained = {n: p.numel() for n, p in made.encoder.named_parameters() if p.requires_grad}  # type: ignore[union-attr]
    assert all(lora.is_adapter(name) for name in trained)
    assert sum(trained.values()) == 2 * 3 * (40 + 20 + 24 + 24)
    assert made.head.project.weight.requires_grad  # type: ignore[attr-defined]


def test_targets_are_named_by_how_they_end():
    made = model(lora={"targets": ["query_key_value", "attention.output"]})
    encoder: Any = made.encoder
    names = [name for name, _ in encoder.named_parameters()]
    found = {name.partition("adapter")[0] for name in names if "adapter" in name}
    wanted = ("attention.query_key_value.", "attention.output.")
    assert found == {f"blocks.{n}.{each}" for n in range(2) for each in wanted}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"lora": {"targets": ["query"]}},
            r"model\.encoder\.lora\.targets: no linear layer .*query",
        ),
        ({"lora": {}, "frozen": True}, r"model\.encoder\.frozen: its adapters"),
    ],
)
def test_what_does_not_fit_is_refused(keys: dict[str, object], message: str):
    with pytest.raises(RecipeError, match=message):
        model(**keys)


def test_a_part_without_linear_layers_has_no_adapters():
    with pytest.raises(RecipeError, match="no linear layer"):
        lora.add(torch.nn.LayerNorm(3), Lora())


def test_products_in_bfloat16_have_adapters_too():
    torch.manual_seed(3)
    layer = Linear(256, 192)
    layer.weight.requires_grad_(False)
    layer.bias.requires_grad_(False)
    layer.adapter = Adapter(256, 192, 4, 8.0)
    torch.nn.init.normal_(layer.adapter.up, std=0.1)
    x = torch.randn(5, 256, requires_grad=True)
    wide = layer(x)
    layer.precision = torch.bfloat16
    layer(x).sum().backward()
    assert layer.weight.grad is None and layer.adapter.down.grad is not None
    assert torch.allclose(layer(x), wide, atol=0.1)
    assert layer.narrow(x).dtype == torch.bfloat16


# Rates of layers


def test_lower_layers_learn_more_slowly():
    """Two layers and d = 0.5: the input and what is before the first 1/4, then 1/2, then 1."""
    made = model(layer_decay=0.5, position="learned", limit=9)
    names = {parameter: name for name, parameter in made.named_parameters()}
    rates = {names[parameter]: rate for parameter, rate in made.rates().items()}  # type: ignore[index]
    assert rates["input.embedding.weight"] == rates["encoder.position.weight"] == 0.25
    assert rates["encoder.blocks.0.feedforward.up.weight"] == 0.5
    assert rates["encoder.blocks.1.feedforward.up.weight"] == 1.0
    assert rates["encoder.norm.weight"] == 1.0
    assert "head.project.weight" not in rates


def test_the_rate_of_a_part_multiplies_those_of_its_layers():
    made = model(layer_decay=0.5, rate=0.1)
    names = dict(made.named_parameters())
    rates = made.rates()
    assert rates[names["encoder.blocks.0.attention.output.weight"]] == pytest.approx(0.05)
    assert rates[names["encoder.norm.bias"]] == pytest.approx(0.1)
    assert rates[names["input.embedding.weight"]] == pytest.approx(0.025)


def test_a_part_without_layers_has_no_rates_of_them():
    with pytest.raises(RecipeError, match=r"model\.encoder\.layer_decay: the part has no layers"):
        table = {"dim": 10, "encoder": {"kind": "bag", "layer_decay": 0.5}}
        build(read(module("tasks", "classify"), table, Place()), SIZES)
