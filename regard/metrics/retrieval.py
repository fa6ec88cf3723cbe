"""Finding again: of all targets the right one for each source, and the other way round.

    R@k = 100 · (queries of which a right answer is among the k most alike) / (queries)

A wrong answer that is as much alike as the best right one counts as before it: nothing is gained
by ties.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from regard.errors import RecipeError
from regard.metrics import VERSION, Score

AT = (1, 5, 10)
Ranks = Mapping[str, Sequence[int]]
"""Of one example, by the way: at which place a right answer stands, from 1; one for each query."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How pairs are scored, and labels that prompts find."""

    multiple_references: str = ""
    """What stands between the targets that are right for one source on a line of validation and
    test; empty: one each."""
    labelled: tuple[str, ...] = ()
    """Tables of labels and sources, beside the files of the data: `regard evaluate` also finds the
    label of each source by prompts (zero-shot)."""
    prompts: tuple[str, ...] = ()
    """A file for each of these: a line has a label and what is said for it, between tabs."""

    def __post_init__(self) -> None:
        if len(self.labelled) != len(self.prompts):
            raise RecipeError(
                f"prompts: {len(self.prompts)} files for {len(self.labelled)} of `labelled`"
            )

    def answers(self, target: str) -> list[str]:
        """The right targets on a line."""
        return target.split(self.multiple_references) if self.multiple_references else [target]


def ranks(alike: Float[np.ndarray, "N M"], right: Bool[np.ndarray, "N M"]) -> Int[np.ndarray, " N"]:
    """The place of the best right answer of each query, from 1."""
    best = np.where(right, alike, -np.inf).max(1, keepdims=True)
    found: np.ndarray = 1 + (~right & (alike >= best)).sum(1)
    return found


def names(ways: Sequence[str]) -> dict[str, tuple[str, int]]:
    """The scores, each with its way and k."""
    return {f"{way}_r{k}": (way, k) for way in ways for k in AT}


def hits(found: Sequence[Ranks], way: str, k: int) -> tuple[list[float], list[float]]:
    """Of each example the queries that find a right answer, and all queries."""
    counts = [(sum(rank <= k for rank in each[way]), len(each[way])) for each in found]
    return [float(n) for n, _ in counts], [float(n) for _, n in counts]


def scores(found: Sequence[Ranks], among: Mapping[str, int]) -> dict[str, Score]:
    """R@k of every way; `among` is how many there are to find the right one in."""
    made = {}
    for name, (way, k) in names([*among]).items():
        values, counts = hits(found, way, k)
        made[name] = Score(
            name=f"R@{k} {way.replace('_', ' ')}",
            value=100 * sum(values) / sum(counts),
            signature=f"among:{among[way]}|ties:last|version:{VERSION}",
            higher_is_better=True,
        )
    return made


def zero_shot(name: str, right: Sequence[bool]) -> Score:
    """The share of labels that prompts find."""
    return Score(
        name=name.replace("_", " "),
        value=100 * sum(right) / len(right),
        signature=f"zero-shot|n:{len(right)}|version:{VERSION}",
        higher_is_better=True,
    )
