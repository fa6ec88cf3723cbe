"""`regard.sweep`: the best values of some keys."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from regard.sweep.result import Result


def sweep(
    recipe: str | Path | dict[str, Any] | None = None,
    *overrides: str,
    to: str | Path | None = None,
    resume: str | Path | None = None,
    trials: int | None = None,
    minutes: float | None = None,
    processes: int = 1,
    seed: int = 1,
    sampler: Literal["tpe", "random"] = "tpe",
    pruning: Literal["median", "none"] = "median",
    parts: str | Path | None = None,
) -> "Result":
    """Train a recipe with many values of some keys, and find the best.

    >>> found = regard.sweep("mine.toml", "train.optimizer.learning_rate=log:1e-3:1e-1", trials=2)
    >>> found.best.number in (0, 1), found.recipe.name
    (True, 'best.toml')

    Ctrl-C saves, and raises KeyboardInterrupt; the same call goes on.

    Args:
        recipe: A recipe's file, the name of a shipped one, or a table (dict).
        overrides: "KEY=log:1e-4:1e-2", "KEY=0.1:0.4", "KEY=a,b,c"; "KEY=VALUE" is a plain change.
        to: The folder of the sweep; otherwise runs/NAME-sweep.
        resume: A sweep to go on with.
        trials: How many there are to be in all; 20 unless you say otherwise.
        minutes: Stop and save after so many; the result is what is known then.
        processes: That train trials at once, each on its share of the cores.
        seed: By which values are drawn; the seed of the trainings is the recipe's.
        sampler: tpe learns from the trials before, random does not.
        pruning: median stops a trial that is worse than half of the others were at its time.
        parts: A folder with parts of your own.
    """
    from regard.recipe.parts import add_folder
    from regard.sweep import begin, work

    if parts is not None:
        add_folder(Path(parts))
    found = begin(
        recipe, overrides, to=to, resume=resume, trials=trials, seed=seed, sampler=sampler,
        pruning=pruning,
    )  # fmt: skip
    result, done = work(found, minutes=minutes, processes=processes)
    if not done and minutes is None:
        raise KeyboardInterrupt(
            f"stopped and saved; to go on: regard.sweep(resume={str(found.path)!r})"
        )
    return result
