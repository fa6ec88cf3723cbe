"""The Transformer's encoder and decoder: what must not change its output, and what must."""

from typing import Any

import pytest
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.decoders import transformer
from regard.errors import RecipeError
from regard.heads import vocabulary
from regard.inputs import tokens
from regard.layers.attention import MultiHeadAttention
from regard.layers.feedforward import Activation, FeedForward
from regard.layers.probe import probe, scope, watch, watched
from regard.layers.residual import Norm, Residual, normalisation
from regard.model import Config, Model, build
from regard.recipe.parts import Part
from regard.types import Batch
from tests.field_sizes import texts

LAYERS, HEADS, DIM, INNER, SOURCE, TARGET = 2, 3, 30, 13, 19, 23
LENGTHS = (11, 7, 5)  # of the sources
T = 17

VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "pre-norm": {"norm": "pre", "activation": "gelu"},
    "modern": {
        "norm": "pre",
        "activation": "swiglu",
        "normalisation": "rms",
        "bias": False,
        "position": "rotary",
        "limit": 3,
    },
    "rms": {"normalisation": "rms", "activation": "silu"},
    "no bias": {"bias": False},
    "learned": {"position": "learned", "limit": 29},
    "one-hot": {"position": "one_hot", "limit": 29},
    "halves": {"layout": "halves", "limit": 3},
    "no position": {"position": "none"},
    "grouped": {"key_value_heads": 1, "position": "learned", "limit": 29},
    "qwen": {
        "norm": "pre",
        "activation": "swiglu",
        "normalisation": "rms",
        "epsilon": 1e-4,
        "bias": False,
        "query_key_value_bias": True,
        "key_value_heads": 1,
        "position": "rotary",
        "rotary_base": 1e6,
        "rotary_layout": "halves",
    },
    "neox": {
        "norm": "pre",
        "parallel": True,
        "position": "rotary",
        "rotary_fraction": 0.45,
        "rotary_layout": "halves",
    },
    "parallel": {"norm": "pre", "parallel": True, "activation": "gelu_tanh"},
    "bert": {"embedding_norm": True, "epsilon": 1e-12, "activation": "gelu"},
}
EACH = pytest.mark.parametrize("variant", VARIANTS)


def make(variant: str = "paper", *, encoder: bool = True, **options: Any) -> Model:
    """A small model whose every weight is drawn, biases and norms too."""
    chosen = transformer.Config(
        **{"layers": LAYERS, "heads": HEADS, "feedforward": INNER, **VARIANTS[variant], **options}
    )
    config = Config(
        dim=DIM,
        tie="none",
        input=Part("tokens", tokens.Config()) if encoder else None,
        encoder=Part("transformer", chosen) if encoder else None,
        decoder=Part("transformer", chosen),
        head=Part("vocabulary", vocabulary.Config()),
    )
    model = build(config, texts(TARGET, SOURCE)).eval()
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, mean=float(name.endswith("norm.weight")), std=0.3)
    return model


def batch(lengths: tuple[int, ...] = LENGTHS) -> Batch:
    source = torch.randint(SOURCE, (len(lengths), max(lengths)))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return of(source, mask)


def of(source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None = None) -> Batch:
    mask = torch.ones_like(source, dtype=torch.bool) if mask is None else mask
    ids = tuple(range(len(source)))
    return Batch(tensors={"source": source, "source_mask": mask}, ids=ids, targets=0)


def targets(rows: int = len(LENGTHS), length: int = T) -> Int[Tensor, "{rows} {length}"]:
    return torch.randint(TARGET, (rows, length))


def encode(model: Model, given: Batch) -> Float[Tensor, "B S D"]:
    memory = model.encode(given)
    assert memory is not None
    return memory.states


def read(model: Model, given: Batch, target: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
    """All hidden vectors in parallel."""
    return model.decode(target, model.start(given))[0]


def close(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


# Padding and the future


@EACH
def test_padding_changes_nothing(variant: str) -> None:
    model, given, target = make(variant), batch(), targets()
    states, hidden = encode(model, given), read(model, given, target)
    for row, length in enumerate(LENGTHS):
        alone = of(given["source"][row : row + 1, :length])
        close(encode(model, alone), states[row : row + 1, :length])
        close(read(model, alone, target[row : row + 1]), hidden[row : row + 1])


@EACH
def test_what_stands_in_the_padding_changes_nothing(variant: str) -> None:
    model, given, target = make(variant), batch(), targets()
    mask = given["source_mask"]
    other = of(torch.where(mask, given["source"], (given["source"] + 1) % SOURCE), mask)
    assert not other["source"].equal(given["source"])
    close(encode(model, other)[mask], encode(model, given)[mask], 1e-6)
    close(read(model, other, target), read(model, given, target), 1e-6)


@EACH
def test_the_future_changes_nothing(variant: str) -> None:
    model, given, target = make(variant), batch(), targets()
    before = read(model, given, target)
    for t in (0, 5, T - 1):
        changed = target.clone()
        changed[:, t] = (changed[:, t] + 1) % TARGET
        after = read(model, given, changed)
        close(after[:, :t], before[:, :t], 1e-6)
        assert bool(((after[:, t:] - before[:, t:]).abs().amax(-1) > 1e-4).all())


def test_no_gradient_comes_from_the_future() -> None:
    model, given, target = make(), batch((7,)), torch.arange(13)[None]
    read(model, given, target)[0, 5].square().sum().backward()
    by_token = model.get_parameter("decoder.embedding.weight").grad
    assert by_token is not None
    assert (by_token.abs().sum(-1) > 0).tolist() == [n <= 5 for n in range(TARGET)]


def test_every_real_source_position_matters() -> None:
    model, given, target = make(), batch((5,)), targets(1)
    before = read(model, given, target)
    for s in range(5):
        source = given["source"].clone()
        source[0, s] = (source[0, s] + 1) % SOURCE
        assert bool((read(model, of(source), target) - before).abs().max() > 1e-4)


# One form for parallel, prefill and steps


@EACH
@pytest.mark.parametrize("pieces", [[1] * 5, [4, 1, 1], [3, 2, 4]])
def test_step_by_step_equals_in_parallel(variant: str, pieces: list[int]) -> None:
    """Single steps; a prefill, then steps; pieces of several tokens each."""
    model, given, target = make(variant), batch(), targets(length=sum(pieces))
    state, found = model.start(given), []
    for piece in target.split(pieces, 1):
        hidden, state = model.decode(piece, state)
        found.append(hidden)
    close(torch.cat(found, 1), read(model, given, target))


@EACH
@pytest.mark.parametrize("encoder", [True, False])
@pytest.mark.parametrize("lengths", [(11,), LENGTHS, (11, 7, 5, 3, 2)])
def test_the_steps_of_a_search_equal_in_parallel(
    variant: str, encoder: bool, lengths: tuple[int, ...]
) -> None:
    """Nothing is learnt, so single steps go their own way; then two hypotheses of each sentence."""
    model, given, size = make(variant, encoder=encoder), batch(lengths), len(lengths)
    first, second = targets(size, 3), targets(2 * size, 2)
    twice = torch.arange(size).repeat_interleave(2)
    whole = torch.cat([first[twice], second], 1)
    wide = of(given["source"][twice], given["source_mask"][twice])
    wanted = read(model, wide, whole)  # with gradients: the general way
    with torch.inference_mode():
        state, found = model.start(given), []
        assert isinstance(state, transformer.State)
        assert state.blocks
        for token in first.split(1, 1):
            hidden, state = model.decode(token, state)
            found.append(hidden[twice])
        state = state.expand(2)
        for token in second.split(1, 1):
            hidden, state = model.decode(token, state)
            found.append(hidden)
    close(torch.cat(found, 1), wanted)


@pytest.mark.parametrize("variant", ["learned", "modern", "qwen", "neox"])
def test_a_step_goes_on_from_texts_of_unlike_lengths(variant: str) -> None:
    """Each row has a position of its own."""
    model, texts = make(variant, encoder=False), [targets(2, 7), targets(1, 3), targets(3, 5)]
    more = targets(6, 4)
    with torch.inference_mode():
        states = [model.decode(text, model.start(batch((3,) * len(text))))[1] for text in texts]
        state, found = states[0].join(states[1:]), []
        for token in more.split(1, 1):
            hidden, state = model.decode(token, state)
            found.append(hidden)
    first = 0
    for text in texts:
        rows = slice(first, first + len(text))
        whole = torch.cat([text, more[rows]], 1)
        alone = read(model, batch((3,) * len(text)), whole)[:, text.shape[1] :]
        close(torch.cat(found, 1)[rows], alone)
        first += len(text)


@pytest.mark.parametrize("encoder", [True, False])
@pytest.mark.parametrize("variant", ["paper", "modern", "qwen", "neox"])
def test_hypotheses_are_expanded_selected_and_kept(variant: str, encoder: bool) -> None:
    """Follows three sentences through a search; a fresh reading of each row must agree."""
    model, given = make(variant, encoder=encoder), batch()
    first, second, third, fourth = targets(3, 5), targets(6, 2), targets(6, 1), targets(4, 1)
    _, state = model.decode(first, model.start(given))
    state = state.expand(2)
    _, state = model.decode(second, state)
    rows = torch.tensor([1, 1, 2, 3, 5, 4])  # each stays with its sentence
    hidden, state = model.decode(third, state.select(rows))
    history = torch.cat([first.repeat_interleave(2, 0), second], 1)[rows]
    history = torch.cat([history, third], 1)
    owners = torch.tensor([0, 0, 1, 1, 2, 2])

    def fresh(owner: Tensor, target: Tensor) -> Tensor:
        return read(model, of(given["source"][owner], given["source_mask"][owner]), target)[:, -1:]

    close(hidden, fresh(owners, history))
    hidden, state = model.decode(fourth, state.keep(torch.tensor([2, 0])))
    left = torch.tensor([4, 5, 0, 1])
    close(hidden, fresh(owners[left], torch.cat([history[left], fourth], 1)))


def test_expanding_copies_nothing_of_the_memory() -> None:
    model, given = make(), batch()
    state = model.start(given)
    wide = state.expand(5)
    assert isinstance(state, transformer.State) and isinstance(wide, transformer.State)
    for before, after in zip(state.memory, wide.memory, strict=True):
        assert before[0] is after[0] and before[1] is after[1]
    assert (wide.rows, wide.sentences) == (15, 3)


def test_a_detached_state_has_its_values_and_no_history() -> None:
    model, given, target = make(), batch(), targets()
    _, state = model.decode(target[:, :7], model.start(given))
    cut = state.detach()
    hidden, _ = model.decode(target[:, 7:], cut)
    close(hidden, read(model, given, target)[:, 7:])
    hidden.sum().backward()
    source = model.get_parameter("input.embedding.weight")
    table = model.get_parameter("decoder.embedding.weight")
    assert source.grad is None and table.grad is not None
    assert set(table.grad.abs().sum(-1).nonzero().flatten().tolist()) == set(
        target[:, 7:].flatten().tolist()
    )


# Order


@pytest.mark.parametrize(
    ("position", "blind"),
    [
        ("none", True),
        ("sinusoidal", False),
        ("learned", False),
        ("one_hot", False),
        ("rotary", False),
    ],
)
def test_only_positions_tell_the_order(position: str, blind: bool) -> None:
    """Without them the encoder is equivariant: permuted in, permuted out."""
    model = make(position=position, limit=29)
    source = torch.arange(11)[None]
    order = torch.randperm(11)
    difference = encode(model, of(source[:, order])) - encode(model, of(source))[:, order]
    assert bool(difference.abs().max() < 1e-5) == blind


# Dropout


@pytest.mark.parametrize("where", ["dropout", "feedforward_dropout"])
def test_the_seed_decides_what_is_dropped(where: str) -> None:
    shares: dict[str, Any] = {"dropout": 0.0, "feedforward_dropout": 0.0, where: 0.3}
    model = make(**shares)
    given, target = batch(), targets()
    calm = read(model, given, target)
    model.train()
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(read(model, given, target))
    assert found[0].equal(found[1])
    assert not found[0].allclose(found[2], atol=1e-2)
    assert not found[0].allclose(calm, atol=1e-2)
    close(read(model.eval(), given, target), calm, 0)


def test_without_dropout_training_is_no_different() -> None:
    model, given, target = make(dropout=0.0), batch(), targets()
    close(read(model.train(), given, target), read(model.eval(), given, target), 0)


# Looking inside


class Seen(dict[str, Tensor]):
    """A watcher that remembers everything and changes nothing."""

    def __call__(self, name: str, value: Tensor) -> Tensor:
        self[name] = value
        return value


def test_unwatched_a_probe_is_the_identity() -> None:
    x = torch.randn(3)
    assert not watched()
    assert probe("anything", x) is x
    with watch(Seen()):
        assert watched()
    assert not watched() and probe("anything", x) is x


def test_watchers_and_scopes_end_with_an_error() -> None:
    seen = Seen()
    with pytest.raises(ZeroDivisionError), watch(seen), scope("outer"):
        raise ZeroDivisionError
    assert not watched()
    with watch(seen):
        probe("name", torch.zeros(1))
    assert list(seen) == ["name"]


def test_watchers_are_asked_in_turn() -> None:
    with watch(lambda name, x: x + 1), watch(lambda name, x: x * 10):
        assert float(probe("x", torch.tensor(1.0))) == 20.0


@EACH
def test_a_watched_model_says_the_same(variant: str) -> None:
    model, given, target = make(variant), batch(), targets()
    calm = read(model, given, target)
    with watch(Seen()):
        close(read(model, given, target), calm)


@pytest.mark.parametrize("variant", ["paper", "modern"])
def test_the_weights_of_every_layer_and_head_are_seen(variant: str) -> None:
    model, given, target = make(variant), batch(), targets()
    with watch(seen := Seen()):
        read(model, given, target)
    real, size, longest = given["source_mask"], len(LENGTHS), max(LENGTHS)
    triangle = torch.ones(T, T, dtype=torch.bool).tril()
    allowed = {
        "encoder.block.{}.attention.weights": real[:, None].expand(size, longest, longest),
        "decoder.block.{}.attention.weights": triangle.expand(size, T, T),
        "decoder.block.{}.cross.weights": real[:, None].expand(size, T, longest),
    }
    for pattern, mask in allowed.items():
        for number in range(LAYERS):
            weights = seen[pattern.format(number)]
            assert weights.shape == (size, HEADS, *mask.shape[1:])
            close(weights.sum(-1), torch.ones(size, HEADS, mask.shape[1]))
            assert (weights != 0).equal(mask[:, None].expand_as(weights))
    assert len([name for name in seen if name.endswith(".weights")]) == 3 * LAYERS
    assert seen["decoder.block.1.cross.heads"].shape == (size, HEADS, T, DIM // HEADS)
    assert seen["encoder.block.0.feedforward.inner"].shape == (size, longest, INNER)
    assert seen["decoder.input"].shape == seen["decoder.block.0.output"].shape == (size, T, DIM)


@pytest.mark.parametrize("place", ["encoder.block.1.attention", "decoder.block.0.cross"])
def test_silencing_a_head_equals_zeroing_its_part_of_the_output(place: str) -> None:
    model, given, target, head = make(), batch(), targets(), 1

    def silence(name: str, value: Tensor) -> Tensor:
        if name != f"{place}.heads":
            return value
        value = value.clone()
        value[:, head] = 0
        return value

    calm = read(model, given, target)
    with watch(silence):
        silenced = read(model, given, target)
    layer = model.get_submodule(place.replace("block.", "blocks."))
    assert isinstance(layer, MultiHeadAttention)
    size = DIM // HEADS
    with torch.no_grad():
        layer.output.weight[:, head * size : (head + 1) * size] = 0
    close(silenced, read(model, given, target))
    assert not silenced.allclose(calm, atol=1e-3)


# Sublayers, as their equations have them


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu", "swiglu"])
def test_the_feed_forward_network_is_its_equation(activation: Activation) -> None:
    layer, x = FeedForward(DIM, INNER, activation), torch.randn(2, 5, DIM)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.3)
    inner = x @ layer.up.weight.T + layer.up.bias
    sigmoid, normal = 1 / (1 + torch.exp(-inner)), (1 + torch.erf(inner / 2**0.5)) / 2
    near = (1 + torch.tanh((2 / torch.pi) ** 0.5 * (inner + 0.044715 * inner**3))) / 2
    known = {"relu": inner.clamp(min=0), "gelu": inner * normal, "gelu_tanh": inner * near}
    active = known.get(activation, inner * sigmoid)
    if layer.gate is not None:
        active = active * (x @ layer.gate.weight.T + layer.gate.bias)
    close(layer(x), active @ layer.down.weight.T + layer.down.bias)
    assert (layer.gate is not None) == (activation == "swiglu")


def test_norms_by_hand() -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 6.0])  # mean 3, variance 3.5, mean square 12.5
    close(normalisation("layer", 4)(x), torch.tensor([-2.0, -1.0, 0.0, 3.0]) / 3.5**0.5)
    close(normalisation("rms", 4)(x), x / 12.5**0.5)
    close(normalisation("rms", 4, 12.5)(x), x / 5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_residual_connections_are_their_equation(norm: Norm) -> None:
    around, x = Residual(DIM, norm, "layer", 0.0), torch.randn(2, 5, DIM)
    nn.init.normal_(around.norm.get_parameter("weight"))

    def f(x: Tensor) -> Tensor:
        return x.square() - 1

    expected = around.norm(x + f(x)) if norm == "post" else x + f(around.norm(x))
    close(around.leave(x, f(around.enter(x))), expected)


def test_grouped_queries_share_the_keys_and_values_of_their_group() -> None:
    """G = 2 groups of 3 heads are 6 heads of which each 3 neighbours have the same projections."""
    grouped = MultiHeadAttention(DIM, 6, key_value_heads=2)
    whole, x = MultiHeadAttention(DIM, 6), torch.randn(2, 5, DIM)
    for kind in ("weight", "bias"):
        query, *both = getattr(grouped.query_key_value, kind).detach().split([DIM, 10, 10])
        same = [each.unflatten(0, (2, 5)).repeat_interleave(3, 0).flatten(0, 1) for each in both]
        getattr(whole.query_key_value, kind).data.copy_(torch.cat([query, *same]))
        getattr(whole.output, kind).data.copy_(getattr(grouped.output, kind).detach())
    close(grouped(x, None)[0], whole(x, None)[0])
    close(grouped(x, None, causal=True)[0], whole(x, None, causal=True)[0])
    assert [tuple(each.shape) for each in grouped(x, None)[1]] == [(2, 2, 5, 5)] * 2


def test_parallel_sublayers_read_the_same_states() -> None:
    """x ↦ x + attention(norm(x)) + feedforward(norm′(x)), as GPT-NeoX has it."""
    block: Any = make("parallel").get_submodule("encoder.blocks.0")
    x = torch.randn(2, 5, DIM)
    beside, _ = block.attention(block.around_attention.norm(x), None)
    network = block.feedforward(block.around_feedforward.norm(x))
    close(block(x, None, None), x + beside + network)


def test_what_the_first_block_reads_is_normalised_if_asked() -> None:
    model = make("bert", layers=1)
    norm = model.get_submodule("encoder.embedding_norm")
    given, encoder = batch((7,)), model.encoder
    assert model.input is not None and isinstance(encoder, nn.Module)
    first = model.encode_layers(given)[0].states
    close(first, norm(encoder.get_submodule("position")(model.input(given).states)))


def test_queries_keys_and_values_alone_may_have_biases() -> None:
    names = {name for name, _ in make("qwen", encoder=False).named_parameters()}
    assert [name for name in sorted(names) if name.endswith("bias")] == [
        f"decoder.blocks.{n}.attention.query_key_value.bias" for n in range(LAYERS)
    ]


# Settings that do not fit together


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key_value_heads": 2}, "key_value_heads: 2 does not divide heads = 3"),
        ({"parallel": True}, 'parallel: it needs norm = "pre"'),
        (
            {"position": "rotary", "rotary_fraction": 0.3},
            "rotary needs an even dimension per head, not 3",
        ),
        ({"heads": 7}, r"model\.encoder\.heads: 7 does not divide model\.dim = 30"),
        ({"heads": 2, "position": "rotary"}, r"model\.encoder\.position: .* even .* not 15"),
        ({"position": "one_hot", "limit": 31}, r"model\.encoder\.limit: one_hot needs .* not 31"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        make(**options)
