"""The same recipe from several seeds: how much of a result is luck."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from regard.errors import RecipeError
from regard.metrics.seeds import Spread
from regard.recipe import config
from regard.recipe.values import Range, check
from regard.runs import Run, state
from regard.runs.creation import planned
from regard.train.checkpoint import Checkpoint

MOST = 1000
"""Seeds."""


@dataclass(frozen=True, kw_only=True)
class Reached:
    """What several seeds reached in validation."""

    metric: str
    values: dict[str, float]
    """Best value of each run, by its folder."""

    @property
    def spread(self) -> Spread:
        return Spread.of([*self.values.values()])

    def as_dict(self) -> dict[str, Any]:
        found = {"kind": "seeds", "metric": self.metric, "runs": self.values}
        return found | self.spread._asdict()

    def lines(self) -> list[str]:
        each = [f"{run}: best {self.metric} {value:.4g}" for run, value in self.values.items()]
        mean, deviation = self.spread
        around = "" if deviation is None else f" ± {deviation:.2g} (standard deviation)"
        whole = f"{len(each)} seeds: {self.metric} {mean:.4g}{around} in validation"
        return [*each, whole, f"test: regard compare {' '.join(self.values)}"]


def folders(base: Path, first: int, count: int) -> dict[int, Path]:
    """{seed: folder}: runs/x-seed1, runs/x-seed2, …"""
    check("seeds", count, Annotated[int, Range(2, MOST)])
    if not base.name:
        raise RecipeError(f"to: {base} has no name that could be followed by -seed{first}")
    return {n: base.with_name(f"{base.name}-seed{n}") for n in range(first, first + count)}


def train(
    recipe: Path,
    overrides: Sequence[str],
    to: Path | None,
    count: int,
    begin: Callable[[tuple[str, ...], Path], None],
    go_on: Callable[[Path], None],
) -> Reached | None:
    """Train each seed: a finished run is kept, an unfinished one goes on. None without a
    validation.

    All that is there is checked before anything is trained.
    """
    first = config.load(recipe, overrides).seed
    found = folders(to or state.RUNS / state.name_of(recipe), first, count)
    changes = {seed: (*overrides, f"seed={seed}") for seed in found}
    recipes = {seed: config.load(recipe, changes[seed]) for seed in found}
    there = {seed for seed, folder in found.items() if (folder / "recipe.toml").is_file()}
    for seed in sorted(there):
        run = Run(found[seed])
        if run.recipe.task != recipes[seed].task or run.recipe != planned(recipes[seed], run.task):
            raise RecipeError(f"{found[seed]} is a run of another recipe: give another --to")
    for seed, folder in found.items():
        if seed not in there:
            begin(changes[seed], folder)
        elif state.unfinished(folder):
            go_on(folder)
    best = {str(f): Checkpoint(f / "model").standing().best for f in found.values()}
    reached = {run: value for run, value in best.items() if value is not None}
    metric = Run(found[first]).recipe.train.metric
    return Reached(metric=metric, values=reached) if len(reached) == count else None
