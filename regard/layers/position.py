"""What tells a position apart (Vaswani et al. 2017, section 3.5; Su et al. 2021 for rotary).

Sinusoidal, learned and one-hot encodings are added to the embeddings, rotary ones turn queries
and keys inside the attention. All are functions of the position alone.
"""

import math
import sys
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.probe import probe

Kind = Literal["sinusoidal", "learned", "one_hot", "rotary", "none"]
Layout = Literal["interleaved", "halves"]
TABLES = ("learned", "one_hot")
"""Kinds of positions that end."""
Scaling = Literal["none", "linear", "llama3"]
LOW, HIGH = 1.0, 4.0
"""Turns within the first texts: slower pairs are slowed down wholly, faster ones not at all."""


class Slowing(NamedTuple):
    """How rotary positions reach beyond the texts that a model first learnt from.

        linear   r ↦ r / f
        llama3   r ↦ (1 − s) r / f + s r,   s = (n − 1) / 3 within 0 … 1,   n = L r / 2π

    for a factor f and first texts of L positions, in which a pair of rate r turns n times (Llama
    3.1): pairs that turn often tell neighbours apart, and stay as they are.
    """

    kind: Scaling
    factor: float
    original: float
    """L."""

    def __call__(self, rate: Float[Tensor, "R"]) -> Float[Tensor, "R"]:
        if self.kind == "none":
            return rate
        turns = self.original * rate / (2 * math.pi)
        kept = ((turns - LOW) / (HIGH - LOW)).clamp(0, 1) * (self.kind == "llama3")
        return (1 - kept) * rate / self.factor + kept * rate


def sinusoid(
    length: int,
    dim: int,
    layout: Layout = "interleaved",
    *,
    base: float = 10_000.0,
    slowing: "Slowing | None" = None,
) -> Float[Tensor, "{length} {dim}"]:
    """P(t, 2i) = sin(t / base^(2i/D)),  P(t, 2i+1) = cos(t / base^(2i/D)).

    The paper interleaves sines and cosines; `halves` puts all sines before all cosines, as
    Marian does. For an odd dimension the last column is a sine. Rates may be slowed down.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, dim, 2, dtype=torch.float64) * (-math.log(base) / dim))
    rate = slowing(rate) if slowing else rate
    angle = position * rate  # (length, ⌈dim/2⌉)
    table = torch.empty(length, dim, dtype=torch.float64)
    if layout == "interleaved":
        table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()[:, : dim // 2]
    else:
        half = angle.shape[1]
        table[:, :half], table[:, half:] = angle.sin(), angle.cos()[:, : dim // 2]
    return table.float()


def grid_sinusoid(rows: int, columns: int, dim: int) -> Float[Tensor, "N {dim}"]:
    """[P(r), P(c)] for the places (r, c) of a grid, N = rows · columns, row by row: half of the
    dimensions know the row, the others the column. Grids have tens of places, not thousands, so
    that rates go down to 1/100."""
    across = dim // 2
    row, column = sinusoid(rows, dim - across, base=100.0), sinusoid(columns, across, base=100.0)
    return torch.cat([row.repeat_interleave(columns, 0), column.repeat(rows, 1)], 1)


def places(start: Int[Tensor, "B"] | Int[Tensor, "B T"], length: int) -> Int[Tensor, "B {length}"]:
    """The positions of `length` vectors of each row, from its own first on, or as given."""
    return start if start.ndim == 2 else start[:, None] + torch.arange(length, device=start.device)


def _end(start: int | Int[Tensor, "B"] | Int[Tensor, "B T"], length: int) -> int:
    """The first position beyond those of `length` vectors."""
    if isinstance(start, int):
        return start + length
    return int(start.max()) + (length if start.ndim == 1 else 1)


class PositionalEncoding(nn.Module):
    """x_t ↦ x_t + P(t).

    `sinusoidal` has no parameters and reaches any length; `learned` has a row per position up to
    `limit`; `one_hot` adds the t-th unit vector to the t-th dimension, so it needs limit ≤ dim;
    `rotary` and `none` add nothing here.
    """

    table: Tensor

    def __init__(
        self, kind: Kind, dim: int, limit: int = 1024, layout: Layout = "interleaved"
    ) -> None:
        super().__init__()
        self.kind, self.dim, self.limit, self.layout = kind, dim, limit, layout
        match kind:
            case "learned":
                self.weight = nn.Parameter(torch.empty(limit, dim))
                nn.init.normal_(self.weight, std=dim**-0.5)
            case "sinusoidal":
                self.register_buffer("table", sinusoid(limit, dim, layout), persistent=False)
            case "one_hot":
                if limit > dim:
                    raise UserError(f"one_hot positions need limit ≤ dim, not {limit} > {dim}")
                self.register_buffer("table", torch.eye(limit, dim), persistent=False)

    def forward(
        self, x: Float[Tensor, "B T D"], start: int | Int[Tensor, "B"] | Int[Tensor, "B T"] = 0
    ) -> Float[Tensor, "B T D"]:
        """`start` is the position of each row's first vector, of all rows', or of each."""
        if self.kind in ("none", "rotary"):
            return x
        # A part of a text does not begin at 0: the name says where it does.
        length = x.shape[1]
        if isinstance(start, int):
            rows = probe(f"step.{start}.position", self.rows(start, length))
        else:
            rows = probe("step.0.position", self.rows(0, _end(start, length)))
            rows = rows[places(start, length)]  # (B, T, D)
        return x + rows.to(x.dtype)

    def rows(self, start: int, length: int) -> Float[Tensor, "{length} D"]:
        """P(start), …, P(start + length − 1)."""
        table = self.weight if self.kind == "learned" else self.table
        if start + length <= table.shape[0]:
            return table[start : start + length]
        if self.kind == "sinusoidal":
            longer = sinusoid(start + length, self.dim, self.layout)
            return longer[start:].to(table.device)
        raise UserError(
            f"position {start + length} is beyond the {table.shape[0]} that the model has learnt: "
            "cut the text, or train with a larger model.encoder.limit and model.decoder.limit"
        )


Angles = tuple[Float[Tensor, "*#B T P"], Float[Tensor, "*#B T P"]]
"""Sines and cosines, of the P = R/2 pairs."""
LONGEST = 2**15
"""Positions whose angles are kept; those of later ones are computed when they are needed."""


class Rotary(nn.Module):
    """Turn each pair (x_2i, x_2i+1) of a query or key at position t by the angle t / base^(2i/R).

    The product of a query at t and a key at s then depends on t − s alone. `halves` pairs
    (x_i, x_i+R/2) instead, as Llama and GPT-NeoX do. Of the K numbers of a head the first R are
    turned, all by default; the others, in GPT-NeoX, say nothing of the position.
    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self,
        dim: int,
        limit: int = 1024,
        *,
        base: float = 10_000.0,
        fraction: float = 1.0,
        layout: Layout = "interleaved",
        slowing: Slowing | None = None,
    ) -> None:
        super().__init__()
        if (turned := turned_numbers(dim, fraction)) % 2 or not turned:
            raise UserError(f"rotary positions need an even dimension per head, not {turned}")
        self.dim, self.base, self.layout, self.slowing = turned, base, layout, slowing
        self._set(min(limit, LONGEST))

    def _set(self, limit: int) -> None:
        table = sinusoid(limit, self.dim, base=self.base, slowing=self.slowing)
        self.register_buffer("sin", table[:, 0::2].contiguous(), persistent=False)
        self.register_buffer("cos", table[:, 1::2].contiguous(), persistent=False)

    def forward(
        self,
        x: Float[Tensor, "B H T K"],
        start: int | Int[Tensor, "B"] | Int[Tensor, "B T"] = 0,
    ) -> Float[Tensor, "B H T K"]:
        """`start` is the position of each row's first vector, of all rows', or of each."""
        return self.turn(x, self.angles(start, x.shape[2]))

    def angles(self, start: int | Int[Tensor, "B"] | Int[Tensor, "B T"], length: int) -> Angles:
        """Those of `length` positions, from each row's first on, or all rows', or as given."""
        end = _end(start, length)
        sin, cos = self.sin, self.cos
        if end > sin.shape[0]:
            table = sinusoid(end, self.dim, base=self.base, slowing=self.slowing).to(sin.device)
            sin, cos = table[:, 0::2], table[:, 1::2]
        if isinstance(start, int):
            where: slice | Tensor = slice(start, end)
        else:
            where = places(start, length)[:, None]  # (B, 1, T): of every head
        return sin[where], cos[where]

    def turn(self, x: Float[Tensor, "B H T K"], by: Angles) -> Float[Tensor, "B H T K"]:
        sin, cos = (each.to(x.dtype) for each in by)
        if x.shape[-1] == self.dim:
            return self._turn(x, sin, cos)
        return torch.cat((self._turn(x[..., : self.dim], sin, cos), x[..., self.dim :]), -1)

    def _turn(self, x: Tensor, sin: Tensor, cos: Tensor) -> Float[Tensor, "B H T R"]:
        if self.layout == "halves":
            first, second = x.chunk(2, -1)
            return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def turned_numbers(dim: int, fraction: float) -> int:
    """R: how many of the numbers of a head are turned."""
    return int(dim * fraction)


def limit(part: Any) -> int:
    """How many positions a part of a model has; without end for most kinds."""
    inside = part.children() if isinstance(part, nn.Module) else ()
    encodings = (each for each in inside if isinstance(each, PositionalEncoding))
    return min((each.limit for each in encodings if each.kind in TABLES), default=sys.maxsize)
