"""The Huffman tree of a vocabulary (Huffman 1952): frequent words have short paths.

Hierarchical softmax (Morin and Bengio 2005; Mikolov et al. 2013b, section 2.1) asks V − 1 inner
nodes which way to go instead of V words which it is:

    p(w | x) = Π_j σ(±x·u_{n(w, j)})         over the inner nodes n(w, 1) … on the path to w

with + where the path turns left (label 1) and − where right. Σ_w p(w | x) = 1 for any x.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Paths(NamedTuple):
    """The path of word w is what stands from starts[w] to starts[w + 1]."""

    starts: NDArray[np.int64]
    """(V + 1,)"""
    nodes: NDArray[np.int32]
    """Inner nodes, by number from 0; the root is V − 2."""
    labels: NDArray[np.float32]
    """1: left, 0: right."""

    def code(self, word: int) -> str:
        """A path by its turns: 0 for left, 1 for right."""
        turns = self.labels[self.starts[word] : self.starts[word + 1]]
        return "".join("0" if turn else "1" for turn in turns)

    @property
    def longest(self) -> int:
        return int(np.diff(self.starts).max())


def paths(counts: Sequence[int] | NDArray[np.int64]) -> Paths:
    """Of words by falling count. Words and then inner nodes, which come by rising count, are two
    queues; the two least of both become the children of the next inner node, in linear time."""
    words = [int(count) for count in counts]
    size = len(words)
    weight = words + [0] * max(0, size - 1)
    parent, right = [0] * len(weight), [False] * len(weight)
    word, inner = size - 1, size
    for new in range(size, len(weight)):
        for turned in (False, True):
            if word >= 0 and (inner >= new or weight[word] <= weight[inner]):
                child, word = word, word - 1
            else:
                child, inner = inner, inner + 1
            weight[new] += weight[child]
            parent[child], right[child] = new, turned
    return _listed(size, parent, right)


def _listed(size: int, parent: list[int], right: list[bool]) -> Paths:
    nodes: list[int] = []
    labels: list[float] = []
    starts = [0]
    for word in range(size):
        place, path = word, []
        while place < 2 * size - 2:
            path.append((parent[place] - size, 0.0 if right[place] else 1.0))
            place = parent[place]
        for node, label in reversed(path):
            nodes.append(node)
            labels.append(label)
        starts.append(len(nodes))
    return Paths(
        np.array(starts, np.int64), np.array(nodes, np.int32), np.array(labels, np.float32)
    )
