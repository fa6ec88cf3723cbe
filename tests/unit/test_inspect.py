"""Looking into models: what is shown is what was computed, and looking changes nothing."""

import math
import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.decoders import rnn as rnn_decoder, transformer
from regard.encoders import rnn as rnn_encoder
from regard.errors import UserError
from regard.heads import labels, vocabulary
from regard.inputs import tokens
from regard.inspect.attribution import (
    attribute,
    embeddings,
    given as replaced,
    integrated_gradients,
    repeated,
)
from regard.inspect.capture import capture
from regard.inspect.intervene import Position, Replace, WithoutHead, head, intervene
from regard.inspect.reading import likely
from regard.layers.probe import watched
from regard.model import Config, Model, build
from regard.recipe.parts import Part
from regard.types import Batch, Sequence
from tests.field_sizes import labelled, texts

LAYERS, HEADS, DIM, SOURCE, TARGET, LABELS = 2, 3, 24, 19, 23, 5
S, T = 7, 11


def make(kind: str = "transformer", **options: Any) -> Model:
    """A small model of one of the families, every weight drawn."""
    blocks = transformer.Config(**{"layers": LAYERS, "heads": HEADS, "feedforward": 13, **options})
    parts: dict[str, Any] = {
        "input": Part("tokens", tokens.Config()),
        "encoder": Part("transformer", blocks),
        "decoder": Part("transformer", blocks),
        "head": Part("vocabulary", vocabulary.Config()),
    }
    if kind == "lstm":
        parts["encoder"] = Part("rnn", rnn_encoder.Config(layers=LAYERS, cell="lstm"))
        parts["decoder"] = Part("rnn", rnn_decoder.Config(layers=LAYERS, cell="lstm"))
    if kind == "gru":
        gru: Any = {"cell": "gru", "order": "before", "attention": "additive"}
        parts["encoder"] = Part("rnn", rnn_encoder.Config(layers=LAYERS, cell="gru"))
        parts["decoder"] = Part("rnn", rnn_decoder.Config(**gru))
    if kind == "causal":
        parts |= {"input": None, "encoder": None}
    if kind == "classifier":
        parts |= {"decoder": None, "head": Part("labels", labels.Config())}
    sizes = labelled(SOURCE, LABELS) if kind == "classifier" else texts(TARGET, SOURCE)
    model = build(Config(dim=DIM, tie="none", **parts), sizes).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=1.0 if parameter.ndim == 1 else 0.0, std=0.3)
    return model


def batch(rows: int = 1) -> Batch:
    source, read = torch.randint(4, SOURCE, (rows, S)), torch.randint(4, TARGET, (rows, T))
    tensors = {
        "source": source,
        "source_mask": torch.ones_like(source, dtype=torch.bool),
        "target_in": read,
        "target_out": read.roll(-1, 1),
        "target_mask": torch.ones_like(read, dtype=torch.bool),
    }
    return Batch(tensors=tensors, ids=tuple(range(rows)), targets=rows * T)


def logits(model: Model, given: Batch) -> Tensor:
    if model.decoder is None:
        head: Any = model.head
        logits: Tensor = head.logits(head.pool(model.encode(given)))
        return logits
    hidden, _ = model.decode(given["target_in"], model.start(given))
    return model.head.logits(hidden)


FAMILIES = ("transformer", "lstm", "gru", "causal", "classifier")
EACH = pytest.mark.parametrize("kind", FAMILIES)


@EACH
def test_looking_changes_nothing(kind: str):
    model, given = make(kind), batch(2)
    plain = logits(model, given).log_softmax(-1)
    with capture(model) as seen:
        captured = logits(model, given).log_softmax(-1)
    assert len(seen) > 0
    assert not watched()
    # Logits of random weights are as large as 350, where float32 rounds by 3e-5.
    torch.testing.assert_close(captured, plain, atol=1e-4, rtol=1e-6)
    assert torch.equal(captured.argmax(-1), plain.argmax(-1))


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("transformer", {"encoder.block", "decoder.block"}),
        ("causal", {"decoder.block"}),
        ("classifier", {"encoder.block"}),
        ("lstm", {"decoder.cross"}),
        ("gru", {"decoder.cross"}),
    ],
)
def test_rows_of_attention_sum_to_one(kind: str, names: set[str]):
    model, given = make(kind), batch(2)
    with capture(model) as seen:
        logits(model, given)
    found = seen.attention()
    assert {".".join(name.split(".")[:2]) for name in found} == names
    for name, weights in found.items():
        assert weights.ndim == 4 and weights.shape[0] == 2, name
        torch.testing.assert_close(
            weights.sum(-1), torch.ones(weights.shape[:3]), atol=1e-5, rtol=0
        )


def test_attention_equals_a_recomputation_by_hand():
    model, given = make(norm="pre"), batch()
    with capture(model) as seen:
        logits(model, given)
    encoder: Any = model.encoder
    x = seen.hidden("encoder")["input"]  # (1, S, D)
    block = encoder.blocks[0]
    with torch.no_grad():
        packed = block.attention.query_key_value(block.around_attention.norm(x))[0]
    width = DIM // HEADS
    for number in range(HEADS):
        query, key = (packed[:, p * DIM + number * width :][:, :width] for p in (0, 1))
        scores = torch.tensor(
            [[float(q @ k) / math.sqrt(width) for k in key] for q in query]
        )  # (S, S)
        expected = scores.exp() / scores.exp().sum(1, keepdim=True)
        shown = seen["encoder.block.0.attention.weights"][0, number]
        torch.testing.assert_close(shown, expected, atol=1e-5, rtol=1e-4)


def test_causal_attention_sees_nothing_ahead():
    model, given = make("causal"), batch()
    with capture(model) as seen:
        logits(model, given)
    for weights in seen.attention().values():
        assert torch.equal(weights, weights.tril())


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("kind", ["transformer", "causal", "classifier"])
def test_the_last_layer_of_the_lens_is_the_model(kind: str, norm: str):
    model, given = make(kind, norm=norm), batch()
    with capture(model) as seen:
        own = logits(model, given)
    lens = seen.lens()
    assert list(lens) == ["input", "block.0.output", "block.1.output"]
    torch.testing.assert_close(lens["block.1.output"], own, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(lens["block.0.output"], own, atol=1e-2)


def test_a_recurrent_model_has_no_lens():
    model, given = make("lstm"), batch()
    with capture(model) as seen:
        logits(model, given)
    assert seen.lens() == {}


def test_gates_obey_the_equations_of_the_lstm():
    model, given = make("lstm"), batch()
    with capture(model) as seen:
        logits(model, given)
    found = seen.recurrent()
    layers = {f"encoder.layer.{n}.{d}" for n in range(LAYERS) for d in ("forward", "backward")}
    layers |= {f"decoder.layer.{n}" for n in range(LAYERS)}
    kinds = ("gates.input", "gates.forget", "gates.output", "candidate", "cell", "state")
    assert set(found) == {f"{layer}.{kind}" for layer in layers for kind in kinds}
    for layer in layers:
        i, f, o, g, c, h = (found[f"{layer}.{kind}"][0] for kind in kinds)  # (T, H) each
        assert ((i > 0) & (i < 1)).all()
        torch.testing.assert_close(h, o * c.tanh())
        before, after = (c[:-1], slice(1, None)) if "backward" not in layer else (c[1:], slice(-1))
        torch.testing.assert_close(c[after], f[after] * before + i[after] * g[after])


def test_steps_are_what_the_loop_had():
    model, given = make("gru"), batch()
    with capture(model, graph=True) as seen:
        loss = logits(model, given).logsumexp(-1).sum()
    steps = seen.steps("decoder.layer.0.state")
    assert torch.equal(torch.stack(steps, 1), seen["decoder.layer.0.state"])
    assert len(seen.steps("decoder.layer.0.gates.reset")) == T
    assert all(g.abs().sum() > 0 for g in torch.autograd.grad(loss, steps))


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_a_head_switched_off_is_a_slice_of_zeros_in_the_output_projection(kind: str):
    model, given = make(), batch()
    before = logits(model, given)
    with intervene(model, WithoutHead(kind, 1, 2)):
        changed = logits(model, given)
    part: Any = model.encoder if kind == "encoder" else model.decoder
    block = part.blocks[1]
    projection = (block.cross if kind == "cross" else block.attention).output
    width = DIM // HEADS
    with torch.no_grad():
        projection.weight[:, 2 * width : 3 * width] = 0
    torch.testing.assert_close(changed, logits(model, given), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(changed, before, atol=1e-3)


def test_heads_are_named_as_they_are_on_the_command_line():
    both, causal = make(), make("causal")
    assert head("cross.1.2", both) == WithoutHead("cross", 1, 2)
    assert head("1.2", causal) == WithoutHead("decoder", 1, 2)
    with pytest.raises(UserError, match=r"which attention.*encoder\.0\.0 to encoder.1.2"):
        head("1.2", both)
    with pytest.raises(UserError, match=r"KIND\.LAYER\.HEAD"):
        head("first", both)
    with (
        pytest.raises(UserError, match=r"no attention head encoder\.1\.3"),
        intervene(both, head("encoder.1.3", both)),
    ):
        pass
    with (
        pytest.raises(UserError, match="none in this model"),
        intervene(make("lstm"), WithoutHead("encoder", 0, 0)),
    ):
        pass


def test_an_activation_can_be_replaced():
    model, given = make(), batch()
    other = batch()
    with capture(model) as seen:
        expected = logits(model, other)
    patched = Replace("encoder.input", seen["encoder.input"])
    decoded = Replace("decoder.input", lambda value: seen["decoder.input"])
    with intervene(model, patched, decoded):
        torch.testing.assert_close(logits(model, given), expected)
    with intervene(model, Replace("encoder.input", 0.0, position=3)), capture(model) as changed:
        logits(model, given)
    assert (changed["encoder.input"][0, 3] == 0).all()
    assert (changed["encoder.input"][0, [0, 1, 2, 4, 5, 6]] != 0).any(-1).all()
    with (
        pytest.raises(UserError, match=r"no probe is called 'encoder.inptu'.*encoder.input"),
        intervene(model, Replace("encoder.inptu", 0.0)),
    ):
        logits(model, given)


def test_a_position_can_be_told_to_be_another():
    """Two tokens that swap their positions' encodings are, to attention, two swapped tokens."""
    model, given = make(), batch()
    swapped = given["source"].clone()
    swapped[:, [1, 4]] = swapped[:, [4, 1]]
    tensors = {**given.tensors, "source": swapped}
    expected = logits(model, Batch(tensors=tensors, ids=(0,), targets=T))
    with intervene(model, Position("encoder", 1, 4), Position("encoder", 4, 1)):
        torch.testing.assert_close(logits(model, given), expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(logits(model, given), expected, atol=1e-3)
    assert "rows" not in vars(model.encoder.position)  # type: ignore[union-attr]
    rotary = make(position="rotary")
    with (
        pytest.raises(UserError, match="adds no positions"),
        intervene(rotary, Position("encoder", 1, 4)),
    ):
        pass


def test_a_position_is_the_same_step_by_step():
    model, given = make("causal"), batch()
    encoding = torch.randn(DIM)
    with intervene(model, Position("decoder", 5, encoding)):
        together = logits(model, given)
        state, steps = model.start(given), []
        for t in range(T):
            one, state = model.step(given["target_in"][:, t : t + 1], state)
            steps.append(one)
    torch.testing.assert_close(torch.stack(steps, 1), together, atol=1e-4, rtol=1e-4)


def test_integrated_gradients_of_a_polynomial():
    """f = Σ w x³ has a_i = w_i x_i³ exactly: two points of Gauss and Legendre are enough."""
    weight = torch.tensor([[1.0, -2.0, 3.0]])
    x = torch.tensor([[2.0, 1.0, -1.0]])
    found = integrated_gradients(
        lambda path: (weight * path**3).sum((1, 2)), x, torch.zeros_like(x), points=2
    )
    torch.testing.assert_close(found, torch.tensor([[8.0, -2.0, -3.0]]))


@EACH
def test_integrated_gradients_are_complete(kind: str):
    model, given = make(kind), batch()
    place = 0 if kind == "classifier" else 6
    symbol = 3 if kind == "classifier" else int(given["target_out"][0, place])
    measure = (lambda x: x[:, None].log_softmax(-1)) if kind == "classifier" else likely
    found = attribute(model, given, place, symbol, measure)
    total = float(found.source.sum() + found.target.sum())
    assert total == pytest.approx(found.value, rel=0.01)
    assert found.error <= 0.01
    full = logits(model, given).log_softmax(-1)
    assert len(found.source) == (0 if kind == "causal" else S)
    if kind != "classifier":
        assert (found.target[7:] == 0).all()
        # A causal model from which all vectors are taken away, by hand.
        if kind == "causal":
            with intervene(model, Replace("decoder.input", _positions(model, T))):
                empty = logits(model, given).log_softmax(-1)
            said = int(given["target_out"][0, 6])
            assert found.value == pytest.approx((full - empty)[0, 6, said].item(), abs=1e-4)


def _positions(model: Model, length: int) -> Tensor:
    decoder: Any = model.decoder
    rows: Tensor = decoder.position.rows(0, length)
    return rows


def test_integrated_gradients_agree_with_captum():
    captum = pytest.importorskip("captum.attr", reason="captum is not installed")
    model, given = make(norm="pre"), batch()
    source, target = embeddings(model, given)

    def function(path: Tensor) -> Tensor:
        """log p of the token that follows the first three, of vectors (N, S + T, D)."""
        many = repeated(given, len(path))
        encoder: Any = model.encoder
        real = torch.ones(len(path), S, dtype=torch.bool)
        decoder: Any = model.decoder
        state = decoder.start(encoder(Sequence(path[:, :S], real)), len(path))
        with replaced(decoder.embedding, lambda _: path[:, S : S + 4]):
            hidden, _ = model.decode(many["target_in"][:, :4], state)
        return model.head.logits(hidden[:, 3]).log_softmax(-1)[:, 5]

    x = torch.cat([source, target])
    ours = integrated_gradients(function, x, torch.zeros_like(x), points=50)
    theirs = captum.IntegratedGradients(function).attribute(x[None], n_steps=50)[0]
    torch.testing.assert_close(ours, theirs.to(ours.dtype), atol=1e-4, rtol=1e-3)
    whole = attribute(model, given, 3, 5, likely)
    torch.testing.assert_close(whole.source.sum(), ours[:S].sum(), atol=0.05, rtol=0.02)


def test_who_watches_is_a_matter_of_one_thread():
    """While one thread captures and changes a model, another uses it as it is."""
    model, given = make(), batch()
    plain = logits(model, given)
    found: list[Any] = []

    def other() -> None:
        found.append((watched(), logits(model, given)))

    def inside(_: Any) -> Tensor:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return torch.zeros(1, T, DIM)

    decoder: Any = model.decoder
    changes = (
        WithoutHead("encoder", 0, 1),
        Position("encoder", 1, 4),
        Replace("decoder.input", 0.0),
    )
    with intervene(model, *changes), capture(model) as seen, replaced(decoder.embedding, inside):
        changed = logits(model, given)
    assert len(found) == 1 and found[0][0] is False
    torch.testing.assert_close(found[0][1], plain, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(changed, plain, atol=1e-2)
    assert len(seen.calls("decoder.block.0.cross.weights")) == 1


def test_weights_are_kept_for_each_step_of_a_search():
    model, given = make(), batch()
    with capture(model) as seen:
        state = model.start(given)
        for t in range(3):
            _, state = model.step(given["target_in"][:, t : t + 1], state)
    lengths = [w.shape[-1] for w in seen.calls("decoder.block.0.attention.weights")]
    assert lengths == [1, 2, 3]
    assert seen["decoder.block.0.attention.weights"].shape == (1, HEADS, 1, 3)
