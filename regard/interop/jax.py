"""The Transformer once more: pure functions in JAX, with the weights of a run.

    weights, shape = load(Path("runs/phrasebook"))
    memory = encoder(weights, shape, source, mask)                   # (B, S, D)
    said = greedy(weights, shape, start, length, end, barred, memory, mask)

Nothing here has state: weights are a dictionary of arrays by the names that the run has for them,
a shape is what the recipe says. `jit`, `grad` and `vmap` therefore apply to every function. Nothing
is dropped out: this is the model as it predicts. Shape letters as in `regard.types`.
"""

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
from regard.heads import masked, vocabulary
from regard.interop.jax_layers import (
    ACTIVATIONS,
    Place,
    Weights,
    attention,
    grouped,
    groups,
    linear,
    merged,
    normalise,
    part,
    positions,
    queries_keys_values,
    split,
    sublayers,
)
from regard.layers.transformer import Config
from regard.runs.run import Run

KINDS = {
    "input": ("tokens",),
    "encoder": ("transformer",),
    "decoder": ("transformer",),
    "head": ("vocabulary", "masked"),
}
"""What is here, by the keys of a recipe's parts."""
Cache = tuple[Float[Array, "B G P K"], Float[Array, "B G P K"]]
"""Keys and values of one layer, with places for tokens that are still to come."""
Memory = tuple[Float[Array, "B H S K"], Float[Array, "B H S K"]]
"""Keys and values of what the encoder gave, for one layer."""


@dataclass(frozen=True)
class Shape:
    """What is fixed of a model: all that is not a weight."""

    dim: int
    factor: float
    """What embeddings are multiplied by."""
    encoder: Config | None
    decoder: Config | None
    head: vocabulary.Config | masked.Config


def load(folder: Path | str, which: str = "final") -> tuple[dict[str, Array], Shape]:
    """The weights and the shape of a run whose encoder and decoder are Transformers and whose head
    predicts tokens."""
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
        if found.kind not in (known := KINDS.get(key, ())):
            has = " or ".join(map(repr, known)) or f"no {key}"
            raise UserError(f"regard.interop.jax has {has}: model.{key}.kind is {found.kind!r}")
    if "head" not in parts:
        raise UserError("regard.interop.jax predicts tokens: there is no model.head")
    settings = {key: parts[key].config for key in ("encoder", "decoder") if key in parts}
    if not settings:
        raise UserError("regard.interop.jax reads Transformers: it has neither encoder nor decoder")
    factor = config.dim**0.5 if config.scale else 1.0
    head = parts["head"].config
    return Shape(config.dim, factor, settings.get("encoder"), settings.get("decoder"), head)


def weights_of(model: nn.Module) -> dict[str, Array]:
    """By their names; what is tied stands under each of its names."""
    named = model.named_parameters(remove_duplicate=False)
    return {name: jnp.asarray(tensor.detach().cpu().numpy()) for name, tensor in named}


# Encoder


def encoder(
    weights: Weights,
    shape: Shape,
    tokens: Int[Array, "B S"],
    mask: Bool[Array, "B S"],
    segments: Int[Array, "B S"] | None = None,
) -> Float[Array, "B S D"]:
    """N blocks over embeddings with positions; `segments` says which segment of a pair each token
    is of, where the model distinguishes them. A single text is of the first."""
    config = shape.encoder
    assert config is not None
    own, length = part(weights, "encoder"), tokens.shape[1]
    x = weights["input.embedding.weight"][tokens] * shape.factor
    if "input.segments" in weights:
        table = weights["input.segments"]
        x = x + table[0 if segments is None else jnp.minimum(segments, len(table) - 1)]
    x = _entered(own, config, x + positions(own, config, shape.dim, 0, length, length))
    for number in range(config.layers):
        x = encoder_block(part(own, f"blocks.{number}"), config, x, mask)
    return _left(own, config, x)


def encoder_block(
    weights: Weights, config: Config, x: Float[Array, "B S D"], mask: Bool[Array, "B S"]
) -> Float[Array, "B S D"]:
    """x ↦ x + self-attention(x) ↦ x + feed-forward(x), each with its norm."""

    def look(x: Array) -> Array:
        query, key, value = queries_keys_values(weights, config, x, 0, x.shape[1])
        heads = grouped(config, query, key, value, mask[:, None, None])
        return linear(part(weights, "attention.output"), heads)

    return sublayers(weights, config, x, look)


def _entered(weights: Weights, config: Config, x: Array) -> Float[Array, "B T D"]:
    """What the first block reads."""
    if not config.embedding_norm:
        return x
    return normalise(part(weights, "embedding_norm"), x, config.normalisation, config.epsilon)


def _left(weights: Weights, config: Config, x: Array) -> Float[Array, "B T D"]:
    """What stands behind the last block."""
    if config.norm == "post":
        return x
    return normalise(part(weights, "norm"), x, config.normalisation, config.epsilon)


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
        found.append((split(key, heads), split(value, heads)))
    return found


def empty(shape: Shape, rows: int, length: int) -> list[Cache]:
    """Room for the keys and values of `length` tokens."""
    config = shape.decoder
    assert config is not None
    room = jnp.zeros((rows, groups(config), length, shape.dim // config.heads))
    return [(room, room)] * config.layers


def decoder(
    weights: Weights,
    shape: Shape,
    tokens: Int[Array, "B T"],
    cache: list[Cache],
    start: Place = 0,
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
    x, written = _entered(own, config, x), list[Cache]()
    for number in range(config.layers):
        seen = None if memory is None else memory[number]
        inside = part(own, f"blocks.{number}")
        x, grown = decoder_block(inside, config, x, cache[number], start, seen, mask)
        written.append(grown)
    return _left(own, config, x), written


def decoder_block(
    weights: Weights,
    config: Config,
    x: Float[Array, "B T D"],
    cache: Cache,
    start: Place,
    memory: Memory | None,
    mask: Bool[Array, "B S"] | None,
) -> tuple[Float[Array, "B T D"], Cache]:
    """Masked self-attention, attention to the memory where there is one, feed-forward."""
    last, length = cache[0].shape[2], x.shape[1]
    places = jnp.arange(last)[None] <= start + jnp.arange(length)[:, None]  # (T, last)
    grown: list[Any] = []

    def look(x: Array) -> Array:
        query, *new = queries_keys_values(weights, config, x, start, last)
        for past, added in zip(cache, new, strict=True):
            grown.append(jax.lax.dynamic_update_slice_in_dim(past, added, start, axis=2))
        heads = grouped(config, query, grown[0], grown[1], places[None, None])
        return linear(part(weights, "attention.output"), heads)

    def look_back(x: Array) -> Array:
        assert memory is not None
        query = split(linear(part(weights, "cross.query"), x), config.heads)
        heads = attention(query, *memory, None if mask is None else mask[:, None, None])
        return linear(part(weights, "cross.output"), merged(heads))

    x = sublayers(weights, config, x, look, None if memory is None else look_back)
    return x, (grown[0], grown[1])


def logits(weights: Weights, shape: Shape, hidden: Float[Array, "*N D"]) -> Float[Array, "*N V"]:
    """h Wᵀ + b, for each hidden vector h; of a masked head f(h) Wᵀ + b with
    f(h) = LayerNorm(gelu(W′ h + b′))."""
    own, head = part(weights, "head"), shape.head
    if isinstance(head, masked.Config) and head.transform:
        inner = ACTIVATIONS["gelu"](linear(part(own, "dense"), hidden))
        hidden = normalise(part(own, "norm"), inner, "layer", head.epsilon)
    return linear(own, hidden)


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
        scores = logits(weights, shape, hidden[:, -1]).at[:, jnp.array(barred, int)].set(-jnp.inf)
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
