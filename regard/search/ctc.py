"""Search among the texts of a CTC model: its likeliest path, or prefixes with a beam.

A path has one output for each frame, a token or a blank; what is repeated is written once, and
blanks are left out. The likeliest path is found frame by frame. The likeliest text may be another:
many paths write it. A prefix search (Hannun et al. 2014) keeps, for each of the best beginnings y,
the probability of all paths that write it, those that end with a blank (b) and those that end with
its last token (n) apart:

    b_t(y) = (b_{t−1}(y) + n_{t−1}(y)) p_t(blank)
    n_t(y) = n_{t−1}(y) p_t(y's last token)          + what comes from y without its last token c:
             b_{t−1}(y') p_t(c)     and, unless y' ends with c, too,     n_{t−1}(y') p_t(c)

A language model says how a text goes on. Its texts score log p(y | x) + weight · log p(y) +
bonus · |y|: shallow fusion.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from regard.recipe.values import Few, Range, Weight
from regard.search import check_ranges

Table = NDArray[np.float32]
Prefix = tuple[int, ...]
Follow = Callable[[Sequence[Prefix]], Float[np.ndarray, "N V"]]
"""What a language model says of prefixes: log p of each token that may follow, that of the end of
the text in the place of the blank."""
BLANK = 0


@dataclass(frozen=True, kw_only=True)
class Config:
    """The likeliest texts of a CTC model."""

    beams: Few = 1
    """Beginnings that are kept at each frame; 1: the likeliest path."""
    nbest: Few = 1
    """How many texts are given for each sound."""
    prune: Annotated[float, Range(0, 1000)] = 7.0
    """Outputs of a frame that are less likely than its best by a factor of exp(prune) are not
    tried; 0: all are."""
    language_model: str = ""
    """A run of language_model whose tokens are those of this one: how texts go on. It is asked
    only with beams > 1."""
    weight: Weight = 0.5
    """Of log p by the language model."""
    bonus: Annotated[float, Range(0, 100)] = 0.0
    """Added for each token, as a language model makes texts short."""

    def __post_init__(self) -> None:
        check_ranges(self)


class Found(NamedTuple):
    """A text, and what it scores."""

    tokens: Prefix
    score: float
    """log p(y | x), with what the language model and the bonus add."""


def search(table: Table, config: Config, follow: Follow | None = None) -> list[Found]:
    """The best texts of one sound, whose outputs have log p (T, V); best first."""
    if config.beams == 1 and config.nbest == 1:
        return [greedy(table)]
    return prefixes(table, config, follow)[: config.nbest]


def greedy(table: Table) -> Found:
    """What the likeliest path writes, and log p of that path."""
    best = table.argmax(1)
    score = float(table.max(1).astype(np.float64).sum())
    return Found(tuple(merged(best.tolist())), score)


def merged(path: Sequence[int]) -> list[int]:
    """What a path writes."""
    pairs = zip([BLANK, *path], path, strict=False)
    return [token for before, token in pairs if token not in (before, BLANK)]


def prefixes(table: Table, config: Config, follow: Follow | None = None) -> list[Found]:
    """The best of all texts that a beam of prefixes reaches."""
    width = max(config.beams, config.nbest)
    beams: dict[Prefix, tuple[float, float]] = {(): (0.0, -inf)}  # log b, log n
    model = _Model(follow, config)
    for frame in table:
        lowest = frame.max() - config.prune if config.prune else -inf
        tokens = [int(token) for token in np.flatnonzero(frame >= lowest) if token != BLANK]
        found: dict[Prefix, tuple[float, float]] = {}
        for prefix, (blank, last) in beams.items():
            _add(found, prefix, float(np.logaddexp(blank, last) + frame[BLANK]), -inf)
            if prefix:
                _add(found, prefix, -inf, last + float(frame[prefix[-1]]))
            for token in tokens:
                before = blank if prefix and token == prefix[-1] else np.logaddexp(blank, last)
                if before > -inf:  # or no path leads there
                    _add(found, (*prefix, token), -inf, float(before + frame[token]))
        ranked = sorted(found.items(), key=lambda each: (-model.score(*each), each[0]))
        beams = dict(ranked[:width])
        model.read(beams)
    ended = [Found(prefix, model.score(prefix, ends, over=True)) for prefix, ends in beams.items()]
    return sorted(ended, key=lambda each: (-each.score, each.tokens))


def _add(found: dict[Prefix, tuple[float, float]], prefix: Prefix, blank: float, n: float) -> None:
    """Paths that write a prefix have come together."""
    known = found.get(prefix)
    if known is not None:
        blank, n = float(np.logaddexp(known[0], blank)), float(np.logaddexp(known[1], n))
    found[prefix] = (blank, n)


class _Model:
    """log p of prefixes by a language model, if there is one; each is asked for once."""

    def __init__(self, follow: Follow | None, config: Config) -> None:
        self._follow, self._config = follow, config
        self._chances: dict[Prefix, NDArray[np.floating]] = {}
        self._sums: dict[Prefix, float] = {(): 0.0}
        self.read([()])

    def read(self, prefixes: Sequence[Prefix] | dict[Prefix, tuple[float, float]]) -> None:
        """Ask how prefixes go on that have come into the beam."""
        new = [each for each in prefixes if each not in self._chances]
        if self._follow is not None and new:
            self._chances |= zip(new, self._follow(new), strict=True)

    def score(self, prefix: Prefix, ends: tuple[float, float], *, over: bool = False) -> float:
        total = float(np.logaddexp(*ends)) + self._config.bonus * len(prefix)
        if self._follow is None:
            return total
        said = self._log_prob(prefix)
        if over:
            said += float(self._chances[prefix][BLANK])
        return total + self._config.weight * said

    def _log_prob(self, prefix: Prefix) -> float:
        if prefix not in self._sums:  # all but its last token has been in the beam
            before, token = prefix[:-1], prefix[-1]
            self._sums[prefix] = self._sums[before] + float(self._chances[before][token])
        return self._sums[prefix]


def align(table: Table, tokens: Sequence[int]) -> list[tuple[int, int]]:
    """The frames of each token on the likeliest path that writes them all: from, up to; empty of a
    text that has no path.

    δ_t(s) = p_t(s's output) · max(δ_{t−1}(s), δ_{t−1}(s−1), and δ_{t−1}(s−2) from a token to
    another one) over the states s = blank, y₁, blank, y₂, …, blank.
    """
    states = np.array([BLANK, *(each for token in tokens for each in (token, BLANK))])
    skips = np.zeros(len(states), bool)
    skips[3::2] = states[3::2] != states[1:-2:2]
    best = np.full(len(states), -inf)
    best[:2] = table[0, states[:2]]
    origins = np.zeros((len(table), len(states)), np.int8)
    for t in range(1, len(table)):
        ways = np.full((3, len(states)), -inf)
        ways[0], ways[1, 1:] = best, best[:-1]
        ways[2, 2:] = np.where(skips[2:], best[:-2], -inf)
        origins[t] = ways.argmax(0)
        best = ways.max(0) + table[t, states]
    state = len(states) - 1 if len(states) == 1 or best[-1] >= best[-2] else len(states) - 2
    if not tokens or not np.isfinite(best[state]):
        return []
    spans = [(len(table), 0)] * len(tokens)
    for t in range(len(table) - 1, -1, -1):
        if state % 2:
            first, end = spans[state // 2]
            spans[state // 2] = (min(first, t), max(end, t + 1))
        state -= int(origins[t, state])
    return spans


def needed(tokens: Sequence[int]) -> int:
    """How many frames a text needs: one for each token, and a blank between equal ones."""
    return len(tokens) + sum(a == b for a, b in pairwise(tokens))
