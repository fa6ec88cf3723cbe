"""Which runs are seeds of one recipe."""

import re
from collections.abc import Sequence
from dataclasses import replace

from regard.recipe.config import Recipe


def groups(runs: Sequence[tuple[str, Recipe]]) -> dict[str, tuple[str, ...]]:
    """Runs of one recipe that differ in the seed alone, by a name for all of them."""
    found: list[tuple[Recipe, dict[int, str]]] = []
    for run, recipe in runs:
        alike = replace(recipe, seed=0)
        for other, seeds in found:
            if other == alike and recipe.seed not in seeds:
                seeds[recipe.seed] = run
                break
        else:
            found.append((alike, {recipe.seed: run}))
    several = [tuple(seeds.values()) for _, seeds in found if len(seeds) > 1]
    return {_named(names): names for names in several}


def _named(runs: Sequence[str]) -> str:
    """A name for several seeds: what their folders have in common."""
    stems = {re.sub(r"-seed\d+$", "", run) for run in runs}
    stem = stems.pop() if len(stems) == 1 else runs[0]
    return f"{stem} ({len(runs)} seeds)"
