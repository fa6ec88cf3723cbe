"""The compiled part of word2vec: all pairs of a piece of text, one gradient step for each.

Every word w has a vector v_w as an input, and each target t a vector u_t as an output. For an
input vector x and a target t with label y (1: seen, or left in the tree; 0: drawn, or right)

    L = −log σ(x·u_t) if y = 1,  −log σ(−x·u_t) if y = 0
    g = y − σ(x·u_t)                     so that  −∂L/∂x = g u_t,  −∂L/∂u_t = g x
    x ← x + η Σ_t g_t u_t,  u_t ← u_t + η g_t x        with the x and u from before the step

(Mikolov et al. 2013b, equations 3 and 4; Goldberg and Levy 2014.)

    skip-gram                x = v_c for each word c near the word w; the targets are w's
    CBOW                     x = the mean of all v_c; each v_c takes the whole step, as in word2vec
    negative sampling        w's targets: w with y = 1, and K words drawn for this pair, y = 0
    hierarchical softmax     w's targets: the inner nodes on its path in the Huffman tree

Threads write into the same arrays without locks (Hogwild, Recht et al. 2011). Nothing is drawn from
a shared generator: a piece of text begins with a state that is a function of seed, epoch and piece.
Types are numba's to check (`no_type_check`), and what it compiles nobody may wrap.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast, no_type_check

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError

try:
    from numba import njit
except ImportError:
    raise UserError("word2vec needs numba: pip install 'regard[word2vec]'") from None

Function = TypeVar("Function", bound=Callable[..., Any])
STEPS = 1024
"""Entries of the table of σ."""
EDGE = 6.0
"""Beyond ±6 the sigmoid is taken for 0 or 1: a target that is right by then is left as it is."""

# Reductions may be reordered, so that they use whole vector registers.
OPTIONS = {"nogil": True, "fastmath": {"reassoc", "contract", "nsz", "arcp"}}


def inlined(function: Function) -> Function:
    """A function that becomes a part of what calls it: sizes known there are known here."""
    return cast(Function, cast(Any, njit)(inline="always", **OPTIONS)(function))


def _sigmoids() -> NDArray[np.float32]:
    """σ at the middle of each of STEPS pieces of [−EDGE, EDGE)."""
    z = (np.arange(STEPS) + 0.5) / STEPS * 2 * EDGE - EDGE
    return (1 / (1 + np.exp(-z))).astype(np.float32)


SIGMOIDS = _sigmoids()


class Targets(NamedTuple):
    """What is asked of an output: about drawn words, or about a tree."""

    threshold: NDArray[np.uint32]
    """(V,) of the alias table (`draws.alias`); empty for a tree."""
    other: NDArray[np.int32]
    """(V,) of the alias table."""
    starts: NDArray[np.int64]
    """(V + 1,) where the path of each word begins in the next two; empty for drawn words."""
    nodes: NDArray[np.int32]
    """Inner nodes of the tree."""
    labels: NDArray[np.float32]
    """1 where the path turns left, 0 where right."""


@inlined
@no_type_check
def following(state: np.uint64) -> np.uint64:
    """The next state of xorshift64 (Marsaglia 2003); its upper and lower half are drawn from."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


@inlined
@no_type_check
def drawn(state: np.uint64, threshold: NDArray[np.uint32], other: NDArray[np.int32]) -> np.int64:
    """A word by the alias method (Walker 1977): a column by the upper half of the state, and the
    word itself or its other by the lower half."""
    column = np.int64(((state >> np.uint64(32)) * np.uint64(len(threshold))) >> np.uint64(32))
    lower = state & np.uint64(0xFFFFFFFF)
    return column if lower < threshold[column] else np.int64(other[column])


@inlined
@no_type_check
def force(dot: np.float32, label: np.float32) -> np.float32:
    """g = y − σ(z), of a table."""
    if dot >= np.float32(EDGE):
        return label - np.float32(1)
    if dot >= np.float32(-EDGE):
        place = np.int64((dot + np.float32(EDGE)) * np.float32(STEPS / (2 * EDGE)))
        return label - SIGMOIDS[min(place, STEPS - 1)]
    return label  # also of what is no number: that has no place in a table


@inlined
@no_type_check
def learn(
    x: NDArray[np.float32],
    outputs: NDArray[np.float32],
    rows: NDArray[np.int64],
    labels: NDArray[np.float32],
    count: int,
    rate: np.float32,
    step: NDArray[np.float32],
    forces: NDArray[np.float32],
    dim: int,
) -> None:
    """One step of `count` targets for x (D,): the u_t are changed, and η Σ g_t u_t is put into
    `step` (D,), which the caller adds to x, or to all that x is the mean of. A target that was
    drawn twice takes two steps."""
    for n in range(count):  # all products first: none waits for what another has changed
        u = outputs[rows[n]]
        dot = np.float32(0)
        for d in range(dim):
            dot += x[d] * u[d]
        forces[n] = dot
    for n in range(count):
        forces[n] = force(forces[n], labels[n]) * rate
    for d in range(dim):
        step[d] = np.float32(0)
    for n in range(count):
        u, g = outputs[rows[n]], forces[n]
        for d in range(dim):
            before = u[d]
            step[d] += g * before
            u[d] = before + g * x[d]


@inlined
@no_type_check
def choose(
    word: int,
    targets: Targets,
    negatives: int,
    state: np.uint64,
    rows: NDArray[np.int64],
    labels: NDArray[np.float32],
) -> tuple[int, np.uint64]:
    """Put the targets of a word into `rows` and `labels`; how many there are, and the new state.
    A drawn word that is the word itself is left out."""
    count = 0
    if len(targets.starts) > 0:
        for place in range(targets.starts[word], targets.starts[word + 1]):
            rows[count], labels[count] = targets.nodes[place], targets.labels[place]
            count += 1
    else:
        rows[0], labels[0] = word, np.float32(1)
        count = 1
        for _ in range(negatives):
            state = following(state)
            other = drawn(state, targets.threshold, targets.other)
            if other != word:
                rows[count], labels[count] = other, np.float32(0)
                count += 1
    return count, state


@cache
@no_type_check
def piece(dim: int) -> Callable[..., int]:
    """The engine for vectors of one dimension, which the compiler knows: half as fast again.

    engine(tokens, ends, rates, inputs, outputs, keep, targets, longest, window, negatives, cbow,
    state) learns from the sentences of a piece of text; how many pairs there were. `tokens` holds
    all sentences, `ends` where each one ends, `rates` the learning rate of each; inputs (V, D) and
    outputs are changed; `keep` (V,) is the chance of a word to stay, in parts of 2³²; `longest` is
    the most targets of a word.
    """

    def engine(
        tokens: NDArray[np.int32],
        ends: NDArray[np.int64],
        rates: NDArray[np.float32],
        inputs: NDArray[np.float32],
        outputs: NDArray[np.float32],
        keep: NDArray[np.uint64],
        targets: Targets,
        longest: int,
        window: int,
        negatives: int,
        cbow: bool,
        state: np.uint64,
    ) -> int:
        kept = np.empty(len(tokens), np.int32)
        rows, labels = np.empty(longest, np.int64), np.empty(longest, np.float32)
        forces = np.empty(longest, np.float32)
        step, mean = np.empty(dim, np.float32), np.empty(dim, np.float32)
        first, pairs = 0, 0
        for number in range(len(ends)):
            length, rate = 0, rates[number]
            for place in range(first, ends[number]):
                state = following(state)
                if (state >> np.uint64(32)) < keep[tokens[place]]:
                    kept[length] = tokens[place]
                    length += 1
            first = ends[number]
            for place in range(length):
                state = following(state)
                reach = window - np.int64((state >> np.uint64(32)) % np.uint64(window))
                low, high = max(0, place - reach), min(length, place + reach + 1)
                if high - low < 2:
                    continue
                pairs += high - low - 1
                # CBOW takes one turn for all words near, skip-gram one for each.
                for turn in range(low, low + 1 if cbow else high):
                    if not cbow and turn == place:
                        continue
                    x = mean if cbow else inputs[kept[turn]]
                    if cbow:
                        part = np.float32(1) / np.float32(high - low - 1)
                        for d in range(dim):
                            mean[d] = np.float32(0)
                        for near in range(low, high):
                            if near != place:
                                v = inputs[kept[near]]
                                for d in range(dim):
                                    mean[d] += part * v[d]
                    count, state = choose(kept[place], targets, negatives, state, rows, labels)
                    learn(x, outputs, rows, labels, count, rate, step, forces, dim)
                    first_near, last_near = (low, high) if cbow else (turn, turn + 1)
                    for near in range(first_near, last_near):
                        if near != place:
                            v = inputs[kept[near]]
                            for d in range(dim):
                                v[d] += step[d]
        return pairs

    return cast(Callable[..., int], njit(cache=True, **OPTIONS)(engine))
