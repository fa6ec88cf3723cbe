"""Keys and values of what a Transformer's decoder has read (Vaswani et al. 2017, section 3.2.3).

The hypotheses of one sentence share how they begin, so what they have read is a tree. Each of its
tokens has one place n = 0 … N − 1, whose key and value serve every hypothesis that goes through it:

    zᵣ = softmax_n(qᵣ · kₙ / √K + hᵣₙ) vₙ        hᵣₙ = 0 if row r has read place n, else −10³⁰

So to choose among hypotheses is to choose among rows of h ∈ ℝᴿˣᴺ: no key is copied or moved. Rows
may have read unlike numbers of tokens: places that a sentence has less than another are hidden.

Places are preallocated and filled in turn. When they are used up, those that no hypothesis goes
through any more are dropped, and there are a quarter more than are needed.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.layers.short_attention import HIDDEN

Cache = tuple[Float[Tensor, "_ H _ K"], Float[Tensor, "_ H _ K"]]
"""Keys and values, of the places of a sentence or of the memory."""
LEAST = 64
"""Places that are allocated at first."""


class Room:
    """Memory for the keys and values of P places, of which the first `filled` are taken."""

    def __init__(self, caches: Iterable[Cache], places: int) -> None:
        """What the first places hold is copied layer by layer: no more than one is held twice."""
        self.layers: list[Float[Tensor, "2 B H P K"]] = []
        for cache in caches:
            size, heads, self.filled, dim = cache[0].shape
            self.layers.append(cache[0].new_empty(2, size, heads, places, dim))
            for whole, part in zip(self.layers[-1], cache, strict=True):
                whole[:, :, : self.filled] = part

    def fits(self, count: int, new: int) -> bool:
        """Whether `new` places after the first `count` may be written to.

        They may not if another state has taken them, which has read something else.
        """
        layer = self.layers[0]
        return (
            self.filled == count
            and count + new <= layer.shape[3]
            and (torch.is_inference_mode_enabled() or not layer.is_inference())
        )

    def caches(self, count: int) -> tuple[Cache, ...]:
        """Keys and values of the first places."""
        return tuple((layer[0, :, :, :count], layer[1, :, :, :count]) for layer in self.layers)

    def keep(self, sentences: Int[Tensor, "B2"], count: int) -> "Room":
        """As many places for some of the sentences; what stands in the first `count` is copied."""
        kept = Room.__new__(Room)
        kept.filled, kept.layers = count, []
        for layer in self.layers:
            two, _, *rest = layer.shape
            new = layer.new_empty(two, len(sentences), *rest)
            used = (part[:, :, :, :count] for part in (layer, new))
            torch.index_select(next(used), 1, sentences, out=next(used))
            kept.layers.append(new)
        return kept


class Past(NamedTuple):
    """What R rows of B sentences have read: N places of each sentence."""

    sentences: int
    """B."""
    rows: int
    """R, a multiple W of B; the rows of a sentence stand together."""
    places: int = 0
    """N."""
    hidden: Float[Tensor, "R N"] | None = None
    """h; None where every row has read all places of its sentence."""
    fixed: tuple[Cache, ...] = ()
    """Keys and values (B, H, N, K) of each layer, as they were computed …"""
    room: Room | None = None
    """… or where they are written to."""

    @property
    def caches(self) -> tuple[Cache, ...]:
        return self.room.caches(self.places) if self.room else self.fixed

    def grown(self, length: int) -> "tuple[Past, Tensor | None]":
        """Places for `length` tokens more of each row, and what is added to the new tokens' scores.

        That is (B, H, W · T, N), the same for all heads, for T tokens; None if it is zero.
        """
        width = self.rows // self.sentences
        past = self._roomy(width * length)
        count = past.places + width * length
        if past.room is not None:
            past.room.filled = count
        if width == 1 and past.hidden is None:
            bias = None if length == 1 else F.pad(self._own(length), (past.places, 0))[None, None]
            return past._replace(places=count), bias
        seen = past._seen()
        hidden = torch.cat([seen, self._after(length)], 1)
        if length == 1:
            bias = hidden.view(self.sentences, 1, width, count)
        else:
            each = seen.repeat_interleave(length, 0).view(self.sentences, width * length, -1)
            bias = torch.cat([each, self._own(length).expand(self.sentences, -1, -1)], 2)[:, None]
        heads = past._like.shape[-3]
        return past._replace(places=count, hidden=hidden), bias.expand(
            -1, heads, -1, -1
        ).contiguous()

    def opened(self, layers: int, heads: int, dim: int, like: Tensor) -> "Past":
        """The same that has read nothing, with a room for what it will read."""
        nothing = like.new_empty(self.sentences, heads, 0, dim)
        return self._replace(room=Room(((nothing, nothing),) * layers, LEAST))

    def begun(self, caches: list[Cache]) -> "Past":
        """What was read first: keys and values (R, H, T, K) of each layer."""
        rows, heads, length, dim = caches[0][0].shape
        width = rows // self.sentences
        if width == 1:
            return self._replace(places=length, fixed=tuple(caches))

        def beside(part: Tensor) -> Float[Tensor, "B H N K"]:
            apart = part.reshape(self.sentences, width, heads, length, dim)
            return apart.transpose(1, 2).reshape(self.sentences, heads, width * length, dim)

        past = self._replace(
            places=width * length, fixed=tuple((beside(k), beside(v)) for k, v in caches)
        )
        return past._replace(hidden=past._after(length))

    @property
    def _like(self) -> Tensor:
        return self.room.layers[0] if self.room else self.fixed[0][0]

    def _seen(self) -> Float[Tensor, "R N"]:
        return self._like.new_zeros(self.rows, self.places) if self.hidden is None else self.hidden

    def _own(self, length: int) -> Float[Tensor, "N N"]:
        return _own(self.rows // self.sentences, length, self._like.dtype, self._like.device)

    def _after(self, length: int) -> Float[Tensor, "R N"]:
        """h of the places of the last tokens: after them a row has read all of its own."""
        last = self._own(length)[length - 1 :: length]
        return last if self.sentences == 1 else last.repeat(self.sentences, 1)

    def _roomy(self, new: int) -> "Past":
        """The same with a room that has so many free places; without one if there are gradients."""
        if torch.is_grad_enabled():
            return self._replace(fixed=self.caches, room=None)
        if self.room is not None and self.room.fits(self.places, new):
            return self
        past, caches = self._squeezed()
        room = Room(caches, max(LEAST, (past.places + new) * 5 // 4))
        return past._replace(fixed=(), room=room)

    def write(self, layer: int, new: Float[Tensor, "2 B H _ K"]) -> Cache:
        """Put keys and values of one layer into the last places; gives those of all places."""
        if self.room is None:
            keys, values = (torch.cat(pair, 2) for pair in zip(self.fixed[layer], new, strict=True))
            return keys, values
        whole, count = self.room.layers[layer], new.shape[3]
        whole.narrow(3, self.places - count, count).copy_(new)
        keys, values = whole.narrow(3, 0, self.places).unbind(0)
        return keys, values

    def written(self, caches: list[Cache]) -> "Past":
        """The same once all layers have written: `caches` are what that gave."""
        if not self.places:
            return self.begun(caches)
        return self if self.room else self._replace(fixed=tuple(caches))

    def squeezed(self) -> "Past":
        """Without places that no row of their sentence sees, where that makes N much smaller."""
        past, caches = self._squeezed()
        return self if past is self else past._replace(fixed=tuple(caches), room=None)

    def _squeezed(self) -> "tuple[Past, Iterable[Cache]]":
        """The same, and its keys and values, each layer's made when it is asked for."""
        if self.hidden is None or not self.sentences:
            return self, self.caches
        hidden = self.hidden.view(self.sentences, -1, self.places)  # (B, W, N)
        live = (hidden == 0).any(1)  # (B, N)
        most = int(live.sum(1).max())
        if most > 0.75 * self.places:
            return self, self.caches
        # A sentence with fewer gets some dead ones after them: no row sees those either.
        order = live.int().argsort(dim=1, descending=True, stable=True)[:, :most]  # (B, N2)
        hidden = hidden.gather(2, order[:, None].expand(-1, hidden.shape[1], -1))
        past = self._replace(places=most, hidden=hidden.flatten(0, 1))
        return past, _gathered(self.caches, order)

    def select(self, rows: Int[Tensor, "R2"]) -> "Past":
        """Other rows of the same sentences."""
        hidden = None if self.hidden is None else self.hidden.index_select(0, rows)
        return self._replace(rows=len(rows), hidden=hidden)

    def keep(self, sentences: Int[Tensor, "B2"], rows: Int[Tensor, "R2"]) -> "Past":
        """The sentences at `sentences`, whose rows are `rows`."""
        past = self.select(rows)._replace(sentences=len(sentences))
        if self.room is not None:
            return past._replace(room=self.room.keep(sentences, self.places))
        fixed = (
            (k.index_select(0, sentences), v.index_select(0, sentences)) for k, v in self.fixed
        )
        return past._replace(fixed=tuple(fixed))

    def expand(self, beams: int) -> "Past":
        """Each row repeated."""
        hidden = None if self.hidden is None else self.hidden.repeat_interleave(beams, 0)
        return self._replace(rows=self.rows * beams, hidden=hidden)

    def detach(self) -> "Past":
        fixed = tuple((k.detach(), v.detach()) for k, v in self.caches)
        return self._replace(fixed=fixed, room=None)


def joined(pasts: Sequence[Past]) -> Past:
    """What the sentences of several states have read; all have as many rows for each sentence."""
    sentences, rows = sum(past.sentences for past in pasts), sum(past.rows for past in pasts)
    most = max(pasts, key=lambda past: past.places)
    count = most.places
    if not count:
        return Past(sentences, rows)
    like = most.caches[0][0]
    caches, hidden = [], []
    for past in pasts:
        nothing = like.new_zeros(past.sentences, like.shape[1], 0, like.shape[3])
        caches.append(past.caches or ((nothing, nothing),) * len(most.caches))
        hidden.append(past._seen() if past.places else like.new_zeros(past.rows, 0))
    alike = all(past.hidden is None and past.places == count for past in pasts)
    together = None if alike else stacked_rows(hidden, 1, HIDDEN)
    return Past(sentences, rows, count, together, joined_caches(caches))


def joined_caches(parts: Sequence[tuple[Cache, ...]]) -> tuple[Cache, ...]:
    """Keys and values of several batches in one, layer by layer; short ones are padded."""
    return tuple(
        (stacked_rows([k for k, _ in layer], 2), stacked_rows([v for _, v in layer], 2))
        for layer in zip(*parts, strict=True)
    )


def stacked_rows(parts: Sequence[Tensor], dim: int, value: float = 0.0) -> Tensor:
    """Rows of several tensors, all padded to the longest in `dim`."""
    longest = max(part.shape[dim] for part in parts)
    before = (0, 0) * (parts[0].ndim - 1 - dim)
    return torch.cat(
        [F.pad(part, (*before, 0, longest - part.shape[dim]), value=value) for part in parts]
    )


def _gathered(caches: tuple[Cache, ...], order: Int[Tensor, "B N2"]) -> Iterator[Cache]:
    """The places `order` of each sentence, row by row of memory: much faster than `gather`."""
    size, heads, places, dim = caches[0][0].shape
    first = torch.arange(0, size * heads * places, places, device=order.device)
    rows = (first.view(size, heads, 1) + order[:, None]).flatten()

    def chosen(part: Tensor) -> Tensor:
        return part.reshape(-1, dim).index_select(0, rows).view(size, heads, -1, dim)

    return ((chosen(k), chosen(v)) for k, v in caches)


@lru_cache(16)
def _own(width: int, length: int, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "N N"]:
    """h of W · T new places for as many new tokens: each sees its row's, up to itself."""
    with torch.inference_mode(False):
        seen = torch.eye(width).kron(torch.ones(length, length).tril())
        return torch.where(seen > 0, 0.0, HIDDEN).to(device, dtype)
