"""The layers of a Transformer as pure functions in JAX: `regard.interop.jax` makes encoders and
decoders of them. Weights are arrays by their names in the layer, a config is that of the recipe."""

from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from regard.errors import UserError
from regard.layers.position import sinusoid, turned_numbers
from regard.layers.residual import EPSILON, Normalisation
from regard.layers.transformer import Config

Weights = Mapping[str, Array]
Place = Int[Array, ""] | int

ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": partial(jax.nn.gelu, approximate=True),
    "quick_gelu": lambda x: x * jax.nn.sigmoid(1.702 * x),
    "silu": jax.nn.silu,
    "swiglu": jax.nn.silu,
}


def part(weights: Weights, name: str) -> dict[str, Array]:
    """The weights of one part, by their names in it."""
    prefix = f"{name}."
    return {
        key.removeprefix(prefix): weight
        for key, weight in weights.items()
        if key.startswith(prefix)
    }


def linear(weights: Weights, x: Float[Array, "*N D"]) -> Float[Array, "*N E"]:
    """x Wᵀ + b."""
    y = x @ weights["weight"].T
    return y + weights["bias"] if "bias" in weights else y


def normalise(
    weights: Weights, x: Float[Array, "*N D"], kind: Normalisation, epsilon: float
) -> Float[Array, "*N D"]:
    """LayerNorm:  (x − mean x) / √(var x + ε) ⊙ g + b;   RMSNorm:  x / √(mean x² + ε) ⊙ g."""
    if kind == "layer":
        x = x - x.mean(-1, keepdims=True)
    epsilon = epsilon or EPSILON[kind]
    y = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + epsilon) * weights["weight"]
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
    own, kind = part(weights, "norm"), config.normalisation

    def norm(x: Array) -> Array:
        return normalise(own, x, kind, config.epsilon)

    return x + f(norm(x)) if config.norm == "pre" else norm(x + f(x))


def sublayers(
    weights: Weights,
    config: Config,
    x: Float[Array, "B T D"],
    look: Callable[[Array], Array],
    look_back: Callable[[Array], Array] | None = None,
) -> Float[Array, "B T D"]:
    """Self-attention, attention to a memory where there is one, feed-forward, one after the other;
    `parallel`: the network reads what self-attention read."""
    think = partial(feedforward, part(weights, "feedforward"), kind=config.activation)
    y = residual(part(weights, "around_attention"), config, x, look)
    if look_back is not None:
        y = residual(part(weights, "around_cross"), config, y, look_back)
    if config.parallel:
        return y + residual(part(weights, "around_feedforward"), config, x, think) - x
    return residual(part(weights, "around_feedforward"), config, y, think)


# Positions


def positions(
    weights: Weights, config: Config, dim: int, start: Place, length: int, last: int
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
    config: Config, x: Float[Array, "B H T K"], start: Place, last: int
) -> Float[Array, "B H T K"]:
    """Pairs of a head's first R numbers at position t, neighbours or of both halves, are turned by
    t / base^(2i/R)."""
    turned = turned_numbers(x.shape[-1], config.rotary_fraction)
    table = sinusoid(last, turned, base=config.rotary_base, slowing=config.slowing)
    table = jnp.asarray(table.numpy())
    turn = jax.lax.dynamic_slice_in_dim(table, start, x.shape[2])
    sin, cos = turn[:, 0::2], turn[:, 1::2]
    x, rest = x[..., :turned], x[..., turned:]
    if config.rotary_layout == "halves":
        first, second = jnp.split(x, 2, -1)
        y = jnp.concatenate((first * cos - second * sin, first * sin + second * cos), -1)
    else:
        even, odd = x[..., 0::2], x[..., 1::2]
        pairs = jnp.stack((even * cos - odd * sin, even * sin + odd * cos), -1)
        y = pairs.reshape(x.shape)
    return jnp.concatenate((y, rest), -1)


def split(x: Float[Array, "B T D"], heads: int) -> Float[Array, "B H T K"]:
    """Head by head."""
    return jnp.swapaxes(x.reshape(*x.shape[:-1], heads, -1), 1, 2)


def merged(x: Float[Array, "B H T K"]) -> Float[Array, "B T D"]:
    """All heads side by side."""
    return jnp.swapaxes(x, 1, 2).reshape(x.shape[0], x.shape[2], -1)


def groups(config: Config) -> int:
    """G: heads of keys and values."""
    return config.key_value_heads or config.heads


def queries_keys_values(
    weights: Weights, config: Config, x: Float[Array, "B T D"], start: Place, last: int
) -> tuple[Float[Array, "B H T K"], Float[Array, "B G T K"], Float[Array, "B G T K"]]:
    """Of self-attention, in one product; turned by their positions where these are rotary."""
    packed = linear(part(weights, "attention.query_key_value"), x)
    shared = x.shape[-1] // config.heads * groups(config)
    query, key, value = jnp.split(packed, (x.shape[-1], x.shape[-1] + shared), -1)
    query, key = split(query, config.heads), split(key, groups(config))
    if config.position == "rotary":
        query, key = (rotate(config, each, start, last) for each in (query, key))
    return query, key, split(value, groups(config))


def grouped(
    config: Config,
    query: Float[Array, "B H T K"],
    key: Float[Array, "B G S K"],
    value: Float[Array, "B G S K"],
    mask: Bool[Array, "#B 1 #T S"],
) -> Float[Array, "B T D"]:
    """Attention of all heads; keys and values of a group serve several heads of queries."""
    times = config.heads // groups(config)
    return merged(attention(query, key.repeat(times, 1), value.repeat(times, 1), mask))
