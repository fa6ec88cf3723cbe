"""What is planned: a run, or a recipe with the sizes that its data has, or is assumed to have."""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.data.batching import first_epoch
from regard.errors import MissingData, RecipeError, UserError
from regard.plan import assumed
from regard.recipe import config
from regard.recipe.config import Recipe
from regard.runs import Run
from regard.types import Batch, Sizes

LOOKED_AT = 32
"""Batches of an epoch that are made to find a middle one and the largest."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model, its loss, and a batch of it."""

    name: str
    recipe: Recipe
    sizes: Sizes
    batch: Batch
    """A middle one."""
    largest: Batch
    """Of those that were looked at."""
    loss: Callable[..., Any]
    source: str
    """Where sizes and batch come from: run, data or assumed."""
    notes: tuple[str, ...] = ()
    """What was assumed."""
    batch_seconds: float = 0.0
    """What it takes to make a batch; 0 where none was made."""

    @property
    def rows(self) -> int:
        """Examples of a micro-batch."""
        return len(self.batch)


def of(
    recipe: str | Path | dict[str, Any],
    overrides: Sequence[str] = (),
    options: assumed.Options = assumed.Options(),  # noqa: B008 - it is a tuple
    *,
    read: bool = True,
) -> Subject:
    """The subject of a recipe, whose data is read if it is there, or of a run's folder."""
    if not isinstance(recipe, dict) and (Path(recipe) / "recipe.toml").is_file():
        if overrides:
            raise RecipeError(f"{recipe} is a run: it is planned as it is, without changes")
        return of_run(Path(recipe).name, Run(Path(recipe)), "run")
    name = "recipe" if isinstance(recipe, dict) else Path(recipe).stem
    loaded = (
        config.from_table(recipe, overrides)
        if isinstance(recipe, dict)
        else config.load(Path(recipe), overrides)
    )
    why = "--assume"
    if read:
        try:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                return of_run(name, Run.create(Path(folder) / "run", loaded), "data")
        except (UserError, OSError) as error:
            if isinstance(error, RecipeError) and not isinstance(error, MissingData):
                raise  # nothing could be assumed for it
            why = str(error).partition("\n")[0]
    found = assumed.assume(loaded, options)
    return Subject(
        name=name,
        recipe=loaded,
        sizes=found.sizes,
        batch=found.batch,
        largest=found.batch,
        loss=found.loss,
        source="assumed",
        notes=(f"the data was not read ({why})", *found.notes),
    )


def of_run(name: str, run: Run, source: str = "run") -> Subject:
    """That of a run, with batches of its first epoch."""
    task = run.task
    batches = task.batches(run.recipe.seed)
    places = list(first_epoch(batches))
    start = time.perf_counter()
    some = [batches.at(place) for place in places[:: -(-len(places) // LOOKED_AT)]]
    making = (time.perf_counter() - start) / len(some)
    ranked = sorted(some, key=lambda each: sum(t.numel() for t in each.tensors.values()))
    middle = ranked[len(ranked) // 2]
    return Subject(
        name=name,
        recipe=run.recipe,
        sizes=task.sizes,
        batch=replace(middle, continues=False),
        largest=replace(ranked[-1], continues=False),
        loss=task.loss,
        source=source,
        batch_seconds=making,
    )
