"""Several documents in one row, one after the other, none of which knows of another.

A row of tokens x₁ … x_T may hold the end of one document, whole ones, and how another begins. A
document begins with a certain token, the one that ends the document before it. With f(t) the place
where the document of place t begins (1, if that is before the row),

    attention     A_ts = 0 unless f(t) ≤ s ≤ t
    positions     t − f(t)
    recurrence    the state before place f(t) is zero, for all but what the row goes on with

so that each document is read as if it were alone.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.layers.recurrent import Recurrent, State
from regard.layers.short_attention import hide


def positions(tokens: Int[Tensor, "R T"], first: int) -> Int[Tensor, "R T"]:
    """t − f(t), where a document begins with the token `first`."""
    place = torch.arange(tokens.shape[1], device=tokens.device)
    return place - torch.where(tokens == first, place, 0).cummax(1).values


def hidden(positions: Int[Tensor, "R T"]) -> Float[Tensor, "R 1 T T"]:
    """What is added to the scores of places: 0 for those of the same document that are not later.

    Made once for all layers and heads."""
    place = torch.arange(positions.shape[1], device=positions.device)
    begins = (place - positions)[:, :, None]  # (R, T, 1)
    seen: Bool[Tensor, "R T T"] = (begins <= place) & (place <= place[:, None])
    return hide(seen[:, None])


class Segments(NamedTuple):
    """Rows cut where documents begin, each piece a row of its own: for what reads step by step."""

    rows: Int[Tensor, "N L"]
    """The place of each token among all R · T; anything beyond a segment's end."""
    mask: Bool[Tensor, "N L"]
    places: Int[Tensor, "R_T"]
    """The reverse: where each of the R · T tokens is among all N · L."""
    begins: Int[Tensor, "R"]
    """The segment that each row begins with, and so goes on from the row's state."""
    ends: Int[Tensor, "R"]
    """The segment that each row ends with, and so gives its state."""

    @classmethod
    def of(cls, tokens: Int[Tensor, "R T"], first: int) -> "Segments":
        rows, length = tokens.shape
        starting = tokens == first
        starting[:, 0] = True
        starts = starting.flatten().nonzero()[:, 0]  # (N,)
        total = starts.new_full((1,), rows * length)
        lengths = torch.diff(starts, append=total)
        longest = int(lengths.max())
        step = torch.arange(longest, device=tokens.device)
        number = starting.flatten().cumsum(0) - 1  # (R T,): the segment of each token
        place = torch.arange(rows * length, device=tokens.device)
        edge = place.view(rows, length)
        return cls(
            (starts[:, None] + step).clamp(max=rows * length - 1),
            step < lengths[:, None],
            number * longest + place - starts[number],
            number[edge[:, 0]],
            number[edge[:, -1]],
        )

    def cut(self, x: Float[Tensor, "R T D"]) -> Float[Tensor, "N L D"]:
        # Whole rows of a matrix: on a processor `gather` and its gradient are several times slower.
        return x.flatten(0, 1).index_select(0, self.rows.flatten()).view(*self.rows.shape, -1)

    def join(self, y: Float[Tensor, "N L H"], rows: int) -> Float[Tensor, "R T H"]:
        return y.flatten(0, 1).index_select(0, self.places).view(rows, -1, y.shape[-1])

    def read(
        self, layer: Recurrent, x: Float[Tensor, "N L D"], state: State
    ) -> tuple[Float[Tensor, "N L H"], State]:
        """All segments through a layer: h of each place, and the state after each row's last token.

        Padding on the right cannot reach what is left of it, but it does reach a final state: that
        of rows that end with a short segment is found by itself, and has no history.
        """
        before = tuple(self._first(each) for each in state)
        y, after = layer(x, before)
        after = tuple(each.index_select(0, self.ends) for each in after)
        short = self.mask[self.ends].logical_not().any(1).nonzero()[:, 0]  # rows
        if not len(short):
            return y, after
        chosen = self.ends[short]
        with torch.no_grad():
            _, exact = layer(x[chosen], tuple(s[chosen] for s in before), self.mask[chosen])
        pairs = zip(after, exact, strict=True)
        return y, tuple(each.detach().index_copy(0, short, own) for each, own in pairs)

    def _first(self, state: Float[Tensor, "R H"]) -> Float[Tensor, "N H"]:
        """The row's state for segments that go on from it, zero for the others."""
        zero = state.new_zeros(len(self.rows), state.shape[1])
        return zero.index_copy(0, self.begins, state)
