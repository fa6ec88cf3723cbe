"""The Transformer once more: pure functions in JAX, with the weights of a run.

    weights, shape = load(Path("runs/phrasebook"))
    memory = encoder(weights, shape, source, mask)                   # (B, S, D)
    said = greedy(weights, shape, start, length, end, barred, memory, mask)

Nothing here has state: weights are a dictionary of arrays by the names that the run has for them,
a shape is what the recipe says. `jit`, `grad` and `vmap` therefore apply to every function. Nothing
is dropped out: this is the model as it predicts. Shape letters as in `regard.types`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int
from torch import nn

from regard import model
from regard.errors import UserError
from regard.layers.position import sinusoid
from regard.layers.transformer import Config
from regard.runs.run import Run

Weights = Mapping[str, Array]
Cache = tuple[Float[Array, "B H P K"], Float[Array, "B H P K"]]
"""Keys and values of one layer, with places for tokens that are still to come."""
Memory = tuple[Float[Array, "B H S K"], Float[Array, "B H S K"]]
"""Keys and values of what the encoder gave, for one layer."""

ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "silu": jax.nn.silu,
    "swiglu": jax.nn.silu,
}
EPSILON = {"layer": 1e-5, "rms": 1e-6}


@dataclass(frozen=True)
class Shape:
    """What is fixed of a model: all that is not a weight."""

    dim: int
    factor: float
    """What embeddings are multiplied by."""
    encoder: Config | None
    decoder: Config | None


def load(folder: Path | str, which: str = "final") -> tuple[dict[str, Array], Shape]:
    """The weights and the shape of a run whose encoder and decoder are Transformers."""
    run = Run(Path(folder))
    try:
        shape = shape_of(run.recipe.model)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from None
    return weights_of(run.model(which)), shape


def shape_of(config: model.Config) -> Shape:
    """What is fixed of a model by its recipe; refused if it is more than a Transformer."""
    parts = config.parts()
    for key, found in parts.items():
        kind = "tokens" if key == "input" else "transformer"
        if found.kind != kind and key != "head":
            raise UserError(f"regard.interop.jax reads Transformers: {key} is {found.kind!r}")
    settings = {key: parts[key].config for key in ("encoder", "decoder") if key in parts}
    if not settings:
        raise UserError("regard.interop.jax reads Transformers: it has neither encoder nor decoder")
    factor = config.dim**0.5 if config.scale else 1.0
    return Shape(config.dim, factor, settings.get("encoder"), settings.get("decoder"))


def weights_of(model: nn.Module) -> dict[str, Array]:
    """By their names; what is tied stands under each of its names."""
    named = model.named_parameters(remove_duplicate=False)
    return {name: jnp.asarray(tensor.detach().cpu().numpy()) for name, tensor in named}


def part(weights: Weights, name: str) -> dict[str, Array]:
    """The weights of one part, by their names in it."""
    prefix = f"{name}."
    return {
        key.removeprefix(prefix): weight
        for key, weight in weights.items()
        if key.startswith(prefix)
    }


# Layers


def linear(weights: Weights, x: Float[Array, "*N D"]) -> Float[Array, "*N E"]:
    """x Wᵀ + b."""
    y = x @ weights["weight"].T
    return y + weights["bias"] if "bias" in weights else y


def normalise(weights: Weights, x: Float[Array, "*N D"], kind: str) -> Float[Array, "*N D"]:
    """LayerNorm:  (x − mean x) / √(var x + ε) ⊙ g + b;   RMSNorm:  x / √(mean x² + ε) ⊙ g."""
    if kind == "layer":
        x = x - x.mean(-1, keepdims=True)
    y = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + EPSILON[kind]) * weights["weight"]
    return y + weights["bias"] if "bias" in weights else y


def attention_weights(
    query: Float[Array, "*B T K"],
    key: Float[Array, "*B S K"],
    mask: Bool[Array, "*#B #T S"] | None = None,
) -> Float[Array, "*B T S"]:
    """softmax(Q Kᵀ / √K); exactly 0 where the mask is False, also where nothing may be seen."""
    scores = query @ jnp.swapaxes(key, -1, -2) / query.shape[-1] ** 0.5
    if mask is None:
        return jax.nn.softmax(scores, -1)
    weights = jax.nn.softmax(jnp.where(mask, scores, jnp.finfo(scores.dtype).min), -1)
    return jnp.where(mask, weights, 0)


def attention(
    query: Float[Array, "*B T K"],
    key: Float[Array, "*B S K"],
    value: Float[Array, "*B S E"],
    mask: Bool[Array, "*#B #T S"] | None = None,
) -> Float[Array, "*B T E"]:
    """A V."""
    return attention_weights(query, key, mask) @ value


def feedforward(weights: Weights, x: Float[Array, "B T D"], kind: str) -> Float[Array, "B T D"]:
    """σ(x W₁ + b₁) W₂ + b₂; swiglu: (silu(x W₁ + b₁) ⊙ (x W₃ + b₃)) W₂ + b₂."""
    inner = ACTIVATIONS[kind](linear(part(weights, "up"), x))
    if kind == "swiglu":
        inner = inner * linear(part(weights, "gate"), x)
    return linear(part(weights, "down"), inner)


def residual(
    weights: Weights, config: Config, x: Float[Array, "B T D"], f: Callable[[Array], Array]
) -> Float[Array, "B T D"]:
    """pre-norm: x + f(norm(x));  post-norm: norm(x + f(x))."""
    norm = partial(normalise, part(weights, "norm"), kind=config.normalisation)
    return x + f(norm(x)) if config.norm == "pre" else norm(x + f(x))


# Positions


def positions(
    weights: Weights, config: Config, dim: int, start: Int[Array, ""] | int, length: int, last: int
) -> Float[Array, "T D"] | float:
    """P(start), …, P(start + length − 1) of a text that has at most `last` positions."""
    if config.position in ("none", "rotary"):
        return 0.0
    if config.position == "learned":
        table = weights["position.weight"]
    elif config.position == "one_hot":
        table = jnp.eye(config.limit, dim)
    else:
        table = jnp.asarray(sinusoid(last, dim, config.layout).numpy())
    if config.position != "sinusoidal" and last > len(table):
        raise UserError(f"position {last} is beyond the {len(table)} that the model has")
    return jax.lax.dynamic_slice_in_dim(table, start, length)


def rotate(
    x: Float[Array, "B H T K"], start: Int[Array, ""] | int, last: int
) -> Float[Array, "B H T K"]:
    """Each pair (x_2i, x_2i+1) at position t is turned by the angle t / 10000^(2i/K)."""
    table = jnp.asarray(sinusoid(last, x.shape[-1]).numpy())
    turn = jax.lax.dynamic_slice_in_dim(table, start, x.shape[2])
    sin, cos = turn[:, 0::2], turn[:, 1::2]
    even, odd = x[..., 0::2], x[..., 1::2]
    pairs = jnp.stack((even * cos - odd * sin, even * sin + odd * cos), -1)
    return pairs.reshape(x.shape)


def _split(x: Float[Array, "B T D"], heads: int) -> Float[Array, "B H T K"]:
    return jnp.swapaxes(x.reshape(*x.shape[:-1], heads, -1), 1, 2)


def _merged(x: Float[Array, "B H T K"]) -> Float[Array, "B T D"]:
    return jnp.swapaxes(x, 1, 2).reshape(x.shape[0], x.shape[2], -1)


# Encoder


def encoder(
    weights: Weights, shape: Shape, tokens: Int[Array, "B S"], mask: Bool[Array, "B S"]
) -> Float[Array, "B S D"]:
    """N blocks over embeddings with positions."""
    config = shape.encoder
    assert config is not None
    own, length = part(weights, "encoder"), tokens.shape[1]
    x = weights["input.embedding.weight"][tokens] * shape.factor
    x = x + positions(own, config, shape.dim, 0, length, length)
    for number in range(config.layers):
        x = encoder_block(part(own, f"blocks.{number}"), config, x, mask)
    return normalise(part(own, "norm"), x, config.normalisation) if config.norm == "pre" else x


def encoder_block(
    weights: Weights, config: Config, x: Float[Array, "B S D"], mask: Bool[Array, "B S"]
) -> Float[Array, "B S D"]:
    """x ↦ x + self-attention(x) ↦ x + feed-forward(x), each with its norm."""

    def look(x: Array) -> Array:
        packed = linear(part(weights, "attention.query_key_value"), x)
        query, key, value = (_split(p, config.heads) for p in jnp.split(packed, 3, -1))
        if config.position == "rotary":
            query, key = (rotate(p, 0, x.shape[1]) for p in (query, key))
        heads = attention(query, key, value, mask[:, None, None])
        return linear(part(weights, "attention.output"), _merged(heads))

    x = residual(part(weights, "around_attention"), config, x, look)
    think = partial(feedforward, part(weights, "feedforward"), kind=config.activation)
    return residual(part(weights, "around_feedforward"), config, x, think)


# Decoder


def project(
    weights: Weights, shape: Shape, memory: Float[Array, "B S D"] | None
) -> list[Memory] | None:
    """The memory's keys and values, layer by layer, made once for all steps."""
    if memory is None or shape.decoder is None:
        return None
    heads, found = shape.decoder.heads, list[Memory]()
    for number in range(shape.decoder.layers):
        name = f"decoder.blocks.{number}.cross.key_value"
        key, value = jnp.split(linear(part(weights, name), memory), 2, -1)
        found.append((_split(key, heads), _split(value, heads)))
    return found


def empty(shape: Shape, rows: int, length: int) -> list[Cache]:
    """Room for the keys and values of `length` tokens."""
    config = shape.decoder
    assert config is not None
    room = jnp.zeros((rows, config.heads, length, shape.dim // config.heads))
    return [(room, room)] * config.layers


def decoder(
    weights: Weights,
    shape: Shape,
    tokens: Int[Array, "B T"],
    cache: list[Cache],
    start: Int[Array, ""] | int = 0,
    memory: list[Memory] | None = None,
    mask: Bool[Array, "B S"] | None = None,
) -> tuple[Float[Array, "B T D"], list[Cache]]:
    """Hidden vectors after each of `tokens`, the first of which is at `start`, and the cache with
    their keys and values. Whole texts and single steps are the same function."""
    config = shape.decoder
    assert config is not None
    own, last = part(weights, "decoder"), cache[0][0].shape[2]
    x = own["embedding.weight"][tokens] * shape.factor
    x = x + positions(own, config, shape.dim, start, tokens.shape[1], last)
    written = list[Cache]()
    for number in range(config.layers):
        seen = None if memory is None else memory[number]
        inside = part(own, f"blocks.{number}")
        x, grown = decoder_block(inside, config, x, cache[number], start, seen, mask)
        written.append(grown)
    if config.norm == "pre":
        x = normalise(part(own, "norm"), x, config.normalisation)
    return x, written


def decoder_block(
    weights: Weights,
    config: Config,
    x: Float[Array, "B T D"],
    cache: Cache,
    start: Int[Array, ""] | int,
    memory: Memory | None,
    mask: Bool[Array, "B S"] | None,
) -> tuple[Float[Array, "B T D"], Cache]:
    """Masked self-attention, attention to the memory where there is one, feed-forward."""
    last, length = cache[0].shape[2], x.shape[1]
    places = jnp.arange(last)[None] <= start + jnp.arange(length)[:, None]  # (T, last)
    grown: list[Any] = []

    def look(x: Array) -> Array:
        packed = linear(part(weights, "attention.query_key_value"), x)
        query, key, value = (_split(p, config.heads) for p in jnp.split(packed, 3, -1))
        if config.position == "rotary":
            query, key = (rotate(p, start, last) for p in (query, key))
        for past, new in zip(cache, (key, value), strict=True):
            grown.append(jax.lax.dynamic_update_slice_in_dim(past, new, start, axis=2))
        heads = attention(query, grown[0], grown[1], places[None, None])
        return linear(part(weights, "attention.output"), _merged(heads))

    def look_back(x: Array) -> Array:
        assert memory is not None
        query = _split(linear(part(weights, "cross.query"), x), config.heads)
        heads = attention(query, *memory, None if mask is None else mask[:, None, None])
        return linear(part(weights, "cross.output"), _merged(heads))

    x = residual(part(weights, "around_attention"), config, x, look)
    if memory is not None:
        x = residual(part(weights, "around_cross"), config, x, look_back)
    think = partial(feedforward, part(weights, "feedforward"), kind=config.activation)
    return residual(part(weights, "around_feedforward"), config, x, think), (grown[0], grown[1])


def logits(weights: Weights, hidden: Float[Array, "*N D"]) -> Float[Array, "*N V"]:
    """The head's, for each hidden vector."""
    return linear(part(weights, "head"), hidden)


# Search


@partial(jax.jit, static_argnames=("shape", "length", "end", "barred"))
def greedy(
    weights: Weights,
    shape: Shape,
    prompt: Int[Array, "B T"],
    length: int,
    end: int,
    barred: tuple[int, ...] = (),
    memory: Float[Array, "B S D"] | None = None,
    mask: Bool[Array, "B S"] | None = None,
) -> Int[Array, "B {length}"]:
    """yₜ = argmax_v p(v | y₁ … yₜ₋₁, x), but none of the barred; from `end` on, `end` alone."""
    rows, before = prompt.shape
    seen = project(weights, shape, memory)

    def choose(hidden: Array, ended: Array) -> tuple[Array, Array]:
        scores = logits(weights, hidden[:, -1]).at[:, jnp.array(barred, int)].set(-jnp.inf)
        token = jnp.where(ended, end, scores.argmax(-1))
        return token, ended | (token == end)

    def step(state: Any, place: Array) -> tuple[Any, Array]:
        token, ended, cache = state
        hidden, cache = decoder(weights, shape, token[:, None], cache, place, seen, mask)
        token, ended = choose(hidden, ended)
        return (token, ended, cache), token

    cache = empty(shape, rows, before + length)
    hidden, cache = decoder(weights, shape, prompt, cache, 0, seen, mask)
    token, ended = choose(hidden, jnp.zeros(rows, bool))
    _, rest = jax.lax.scan(step, (token, ended, cache), before + jnp.arange(length - 1))
    return jnp.concatenate([token[:, None], rest.T], 1)
