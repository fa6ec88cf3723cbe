"""All layers of an encoder at once: the same numbers as its forward pass, on the fast path."""

from typing import Any

import pytest
import torch

from regard.encoders import attention, bag, both_ways, cnn, rnn, transformer
from regard.inputs import tokens
from regard.layers import probe
from regard.layers.draws import seeded
from regard.model import Model
from regard.recipe.parts import kinds, module
from regard.types import Batch, FieldSize, Layered, Sequence

B, S, D, V = 3, 7, 8, 11
STACK: dict[str, Any] = {"layers": 2, "heads": 2, "feedforward": 13, "dropout": 0.25}
ENCODERS = {
    "post-norm": (transformer, STACK, 3),
    "pre-norm": (transformer, STACK | {"norm": "pre", "position": "rotary"}, 3),
    "two directions": (rnn, {"layers": 3, "hidden": 5, "dropout": 0.25}, 4),
    "one direction": (rnn, {"layers": 2, "bidirectional": False, "residual": True}, 3),
    "both ways": (both_ways, {"layers": 3, "hidden": 5, "dropout": 0.25}, 4),
    "cnn": (cnn, {"layers": 2, "widths": (2, 3), "residual": True}, 3),
    "attention": (attention, {"layers": 3}, 4),
}


def made(name: str) -> tuple[Any, Sequence, int]:
    torch.manual_seed(0)
    room, keys, count = ENCODERS[name]
    mask = torch.arange(S) < torch.tensor([[7], [5], [1]])
    return room.Encoder(room.Config(**keys), D), Sequence(torch.randn(B, S, D), mask), count


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("training", [False, True])
def test_the_last_layer_is_what_the_encoder_gives(name: str, training: bool):
    """To the last bit: it is the same computation."""
    encoder, source, count = made(name)
    encoder.train(training)
    with seeded(3):
        given = encoder(source)
    with seeded(3):
        layers = encoder.all_layers(source)
    assert len(layers) == count, "what is read, and each layer"
    assert torch.equal(layers[-1].states, given.states)
    assert all(layer.mask is source.mask for layer in layers)
    assert encoder.widths() == tuple(layer.states.shape[-1] for layer in layers)


@pytest.mark.parametrize("name", ENCODERS)
def test_the_other_layers_are_what_the_probes_show(name: str):
    """To 1e-6: with a watcher, attention and recurrence take their explicit paths."""
    encoder, source, count = made(name)
    encoder.eval()
    layers = encoder.all_layers(source)
    seen: dict[str, torch.Tensor] = {}

    def note(name: str, value: torch.Tensor) -> torch.Tensor:
        seen[name] = value
        return value

    with probe.watch(note):
        encoder(source)
    inner = "block" if f"block.{count - 2}.output" in seen else "layer"
    names = ["input", *(f"{inner}.{n}.output" for n in range(count - 2))]
    for place, layer in zip(names, layers, strict=False):
        found, wanted = (x[source.mask] for x in (layer.states, seen[place]))
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-6)


def test_nobody_watches_where_all_layers_are_asked_for(monkeypatch: pytest.MonkeyPatch):
    """The fast kernels stay: the encoder's attention makes no weights (B, H, S, S)."""
    encoder, source, _ = made("attention")

    def refuse(*_: Any) -> Any:
        raise AssertionError("the slow path")

    monkeypatch.setattr(attention, "attention_weights", refuse)
    assert len(encoder.all_layers(source)) == 4


def test_gradients_reach_every_layer():
    encoder, source, _ = made("pre-norm")
    states = source.states.requires_grad_()
    layers = encoder.all_layers(Sequence(states, source.mask))
    sum(layer.states.square().sum() for layer in layers[:-1]).backward()
    assert states.grad is not None and bool((states.grad[source.mask] != 0).any(-1).all())


def test_a_model_gives_its_layers():
    encoder, source, count = made("post-norm")
    size = FieldSize("source", {"tokens": V})
    reads = tokens.Input(tokens.Config(), size, D, shared=None, scale=False)
    given = {"source": torch.randint(0, V, (B, S)), "source_mask": source.mask}
    batch = Batch(tensors=given, ids=tuple(range(B)), targets=B)
    model = Model(reads, encoder, None, None).eval()
    found = model.encode_layers(batch)
    assert len(found) == count
    assert torch.equal(found[-1].states, model.encode(batch).states)  # type: ignore[union-attr]
    one = Model(reads, bag.Encoder(bag.Config(), D), None, None).eval()
    states = reads.embedding(given["source"])
    assert [torch.equal(layer.states, states) for layer in one.encode_layers(batch)] == [True, True]
    alone = Model(reads, None, None, None)
    assert torch.equal(alone.encode_layers(batch)[0].states, states)
    assert Model(None, None, None, None).encode_layers(batch) == []


def test_every_encoder_of_several_layers_gives_them():
    for kind in kinds("encoders"):
        config = module("encoders", kind).Config
        several = "layers" in config.__dataclass_fields__
        assert issubclass(module("encoders", kind).Encoder, Layered) == several
