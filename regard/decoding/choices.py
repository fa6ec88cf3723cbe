"""The texts that may be written, where not any may: a tree of their tokens."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.errors import UserError

ROOT = 0


class Choices:
    """A node is how some of the texts begin, 0 the empty beginning; an edge adds a token.

    Nodes are numbered by length, then in order. So all edges, each one number node · V + token,
    are sorted, the edges of a node lie side by side, and edge k leads to node k + 1: one sorted
    row of numbers is the whole tree. The end token is an edge, too, to a node that has none.
    """

    def __init__(self, texts: Sequence[Sequence[int]], end: int, size: int) -> None:
        """`texts` are tokens without the end; `size` is the number V of tokens there are."""
        lengths = np.array([len(text) + 1 for text in texts], np.int64)
        symbols = np.fromiter((s for text in texts for s in (*text, end)), np.int64, lengths.sum())
        if symbols.min() < 0 or symbols.max() >= size:
            raise UserError(f"choices: a token is none of the {size:,} that there are")
        first = lengths.cumsum() - lengths  # where each text begins
        nodes, count, edges = np.full(len(texts), ROOT, np.int64), ROOT, []
        self.size, self.longest = size, int(lengths.max()) - 1
        for depth in range(self.longest + 1):
            going = lengths > depth
            nodes, lengths, first = nodes[going], lengths[going], first[going]
            new, which = np.unique(nodes * size + symbols[first + depth], return_inverse=True)
            edges.append(new)
            nodes, count = count + 1 + which, count + len(new)
        self.edges = torch.from_numpy(np.concatenate(edges))

    def to(self, device: torch.device | str) -> None:
        """Go where the decoder is."""
        self.edges = self.edges.to(device)

    def follow(self, nodes: Int[Tensor, "B W"], symbols: Int[Tensor, "B W"]) -> Int[Tensor, "B W"]:
        """The node that each token leads to; −1, from which none goes on, where there is none."""
        wanted = nodes * self.size + symbols
        places = torch.searchsorted(self.edges, wanted).clamp(max=len(self.edges) - 1)
        return torch.where(self.edges[places] == wanted, places + 1, -1)

    def allowed(self, nodes: Int[Tensor, "B W"]) -> Bool[Tensor, "B W V"]:
        """Which tokens may follow."""
        flat = nodes.flatten()
        first, stop = (torch.searchsorted(self.edges, n * self.size) for n in (flat, flat + 1))
        counts = stop - first  # edges of each node
        rows = torch.repeat_interleave(counts)  # … and whose each of all of them is
        before = (counts.cumsum(0) - counts)[rows]
        edges = first[rows] + torch.arange(len(rows), device=rows.device) - before
        found = torch.zeros(len(flat), self.size, dtype=torch.bool, device=flat.device)
        found[rows, self.edges[edges] % self.size] = True
        return found.view(*nodes.shape, self.size)

    def begin(self, symbols: Sequence[int]) -> bool:
        """Whether some text begins so."""
        node = torch.full((1, 1), ROOT, device=self.edges.device)
        for symbol in symbols:
            node = self.follow(node, torch.full_like(node, symbol))
        return bool(node >= ROOT)
