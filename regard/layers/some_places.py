"""The last block of a Transformer's encoder for those places alone that somebody asks for.

What a block gives at place t depends on all states that it reads, but on no other that it gives:

    y_t = x_t + attention(norm(x)_t, norm(x)),   z_t = y_t + feedforward(norm(y_t))

So where few places are asked for, as the hidden ones of a masked language model are, keys and
values are needed of all places, and queries, outputs and the feed-forward network of these few.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.layers.position import Rotary
from regard.layers.probe import watched


def suits(block: Any) -> bool:
    """Whether a block can be asked for some places: not one that is watched, that shares keys among
    heads of queries, or whose sublayers stand side by side."""
    attention = block.attention
    return attention.groups == attention.heads and not block.parallel and not watched()


def chosen(x: Float[Tensor, "B S D"], places: Int[Tensor, "B M"]) -> Float[Tensor, "B M D"]:
    """The vectors at some places of each row."""
    return x.gather(1, places[..., None].expand(-1, -1, x.shape[-1]))


def block(
    block: Any,
    x: Float[Tensor, "B S D"],
    mask: Bool[Tensor, "B 1 1 S"] | None,
    places: Int[Tensor, "B M"],
    rotary: Rotary | None = None,
) -> Float[Tensor, "B M D"]:
    """What an encoder's block gives at some places of each row."""
    inside, attention = block.around_attention.enter(x), block.attention
    dim, project = x.shape[-1], attention.query_key_value
    query = project.part(chosen(inside, places), 0, dim)
    both = project.part(inside, dim, 3 * dim)  # (B, S, 2 D)
    key, value = both.unflatten(-1, (2, attention.heads, -1)).permute(2, 0, 3, 1, 4).unbind()
    if rotary is not None:
        heads = query.unflatten(-1, (attention.heads, -1)).transpose(1, 2)  # (B, H, M, K)
        query, key = rotary(heads, places).transpose(1, 2).flatten(2), rotary(key)
    y = attention.output(attention.ask(query, (key, value), mask))
    z = block.around_attention.leave(chosen(x, places), y)
    inner = block.feedforward(block.around_feedforward.enter(z))
    found: Tensor = block.around_feedforward.leave(z, inner)
    return found


def places_of(mask: Bool[Tensor, "B S"]) -> tuple[Int[Tensor, "B M"], Bool[Tensor, "B M"]]:
    """Where a mask is True, row by row, filled up with place 0; and which of these are real."""
    counts = mask.sum(1)
    real = torch.arange(int(counts.max()), device=mask.device) < counts[:, None]
    found = torch.zeros_like(real, dtype=torch.int64)
    found[real] = mask.nonzero()[:, 1]
    return found, real
