"""The verb sweep: a recipe with many values of some keys, and which are best."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from regard.verbs.common import (
    INTERRUPTED,
    Flag,
    Maybe,
    Override,
    Parts,
    add_parts,
    own_process,
    say,
)

if TYPE_CHECKING:
    from regard.runs import Run
    from regard.sweep.folder import Folder
    from regard.sweep.result import Result
    from regard.sweep.running import Watch
    from regard.sweep.study import Trial


def sweep(
    recipe: Positional[Maybe[Path]] = None,
    overrides: Positional[Override] = (),
    *,
    to: Maybe[Path] = None,
    resume: Maybe[Path] = None,
    trials: Maybe[int] = None,
    minutes: Maybe[float] = None,
    processes: int = 1,
    seed: int = 1,
    sampler: Literal["tpe", "random"] = "tpe",
    pruning: Literal["median", "none"] = "median",
    parts: Parts = None,
    json: Flag = False,
) -> None:
    """Train a recipe with many values of some keys, and find the best.

    A key is varied by log:1e-4:1e-2, 0.1:0.4 or a,b,c; KEY=VALUE is a plain change. Each trial is a
    run. The same command, or --resume, goes on with a sweep that was stopped or killed; started
    again beside it, it helps.

    Examples:
      regard sweep mine.toml train.optimizer.learning_rate=log:1e-4:1e-2
      regard sweep mine.toml model.dim=64:256 model.encoder.kind=rnn,transformer --trials 40
      regard sweep mine.toml model.encoder.dropout=0:0.5 train.updates=500 --processes 2
      regard sweep --resume runs/mine-sweep --trials 60 --minutes 30

    Args:
        recipe: A recipe's file, or the name of a shipped one.
        overrides: Ranges and choices of keys, and plain changes to the recipe.
        to: The folder of the sweep; otherwise runs/NAME-sweep.
        resume: A sweep to go on with.
        trials: How many there are to be in all; 20 unless you say otherwise.
        minutes: Stop and save after so many.
        processes: That train trials at once, each on its share of the cores.
        seed: By which values are drawn; the seed of the trainings is the recipe's.
        sampler: tpe learns from the trials before, random does not.
        pruning: median stops a trial that is worse than half of the others were at its time.
        json: All trials as JSON on stdout.
    """
    from regard.recipe.parts import with_parts
    from regard.sweep import begin, work
    from regard.verbs import display

    add_parts(parts)
    own_process()
    found = begin(
        recipe, overrides, to=to, resume=resume, trials=trials, seed=seed, sampler=sampler,
        pruning=pruning,
    )  # fmt: skip
    with _watch(found) as watch:
        result, done = work(found, watch, minutes=minutes, processes=processes)
    say(result.as_dict() if json else str(result))
    if not done:
        over = sum(each.state != "running" for each in result.trials)
        goes_on = with_parts("sweep", "--resume", found.path)
        display.errors.print(
            f"stopped and saved after {over} of {found.settings.trials} trials; to go on: {goes_on}"
        )
        sys.exit(INTERRUPTED)


@contextmanager
def _watch(sweep: "Folder") -> Iterator["Watch"]:
    """A line for each trial, and a bar for its updates on a terminal."""
    from regard.sweep.running import Watch
    from regard.verbs import display

    total = sweep.settings.trials
    with display.updates() as bar:
        task = bar.add_task("preparing", total=1)

        @contextmanager
        def begin(trial: "Trial", run: "Run") -> Iterator[None]:
            values = ", ".join(sweep.space.overrides(trial.values))
            display.errors.print(f"trial {trial.number:03d} of {total}: {values}")
            bar.reset(task, total=run.recipe.train.updates, description=f"trial {trial.number:03d}")
            yield

        said = set[str]()

        def record(entry: dict[str, Any]) -> None:
            """What is warned of, once: trials share their data."""
            if entry["kind"] in ("warning", "back", "memory") and entry["text"] not in said:
                said.add(entry["text"])
                display.errors.print(display.line(entry))

        def end(trial: "Trial", result: "Result") -> None:
            score = "" if trial.score is None else f"{sweep.metric} {trial.score:.4g}"
            what = ", ".join(filter(None, (score, trial.note or trial.state)))
            best = result.best
            so_far = f" (best: {best.score:.4g}, {best.number:03d})" if best else ""
            display.errors.print(f"trial {trial.number:03d}: {what}{so_far}")

        yield Watch(
            begin=begin,
            record=record,
            tick=lambda progress: bar.update(task, completed=progress.update),
            end=end,
        )
