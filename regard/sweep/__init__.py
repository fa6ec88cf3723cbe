"""A sweep: a recipe trained again and again with other values of some keys, by optuna.

space       ranges and choices of keys, checked by the recipe
folder      what a sweep keeps on the disk
journal     its storage, which survives kills
study       which values a trial has, and what became of it (optuna)
running     trials as runs; pruned, failed, taken up again
processes   several of them
result      a table, the best recipe, a picture
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import RecipeError, UserError

if TYPE_CHECKING:
    from regard.sweep.folder import Folder, Pruning, Sampler
    from regard.sweep.result import Result
    from regard.sweep.running import Watch

TRIALS = 20
"""Where nobody says how many."""


def begin(
    recipe: str | Path | Mapping[str, Any] | None,
    overrides: Sequence[str] = (),
    *,
    to: str | Path | None = None,
    resume: str | Path | None = None,
    trials: int | None = None,
    seed: int = 1,
    sampler: "Sampler" = "tpe",
    pruning: "Pruning" = "median",
) -> "Folder":
    """A new sweep, or one to go on with; all that can be refused is refused now."""
    _check_optuna()
    from regard.sweep import folder

    if (recipe is None) == (resume is None):
        raise RecipeError("sweep: give either a recipe, or a sweep to resume")
    if recipe is None:
        if overrides or to:
            raise RecipeError("sweep: --resume goes on with a sweep as it is, without changes")
        assert resume is not None
        return folder.opened(Path(resume), trials)
    settings = folder.Settings(
        trials=TRIALS if trials is None else trials, seed=seed, sampler=sampler, pruning=pruning
    )
    return folder.create(recipe, overrides, to, settings)


def work(
    sweep: "Folder",
    watch: "Watch | None" = None,
    *,
    minutes: float | None = None,
    processes: int = 1,
) -> tuple["Result", bool]:
    """Train what is left of a sweep; what was found, and whether that is all."""
    from regard.recipe.values import check
    from regard.sweep import folder, processes as many, running
    from regard.sweep.result import Result

    check("processes", processes, folder.Processes)
    if minutes is not None:
        check("minutes", minutes, folder.Minutes)
    if processes > 1:
        done = many.work(sweep, processes, minutes)
    else:
        done = running.work(sweep, watch or running.Watch(), minutes)
    found = Result(sweep, running.study_of(sweep).trials())
    found.write_best()
    found.picture()
    return found, done


def _check_optuna() -> None:
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise UserError("sweep needs optuna: pip install 'regard[sweep]'") from None


__all__ = ["TRIALS", "begin", "work"]
