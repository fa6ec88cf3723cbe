"""The trials of a sweep, one after the other; any number of processes may do so at once."""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from regard import front, runs
from regard.errors import RecipeError, TrainingError, UserError
from regard.runs import Run
from regard.sweep import processes
from regard.sweep.folder import Folder
from regard.sweep.result import Result
from regard.sweep.study import Study, Trial
from regard.train import log
from regard.train.manifest import RECIPE
from regard.train.progress import Progress

Record = dict[str, Any]


class Pruned(Exception):
    """A trial is not worth its time."""


class Over(Exception):
    """The sweep's own time is over: the trial goes on another time."""


@dataclass(frozen=True)
class Watch:
    """Who is told how a sweep goes on."""

    begin: Callable[[Trial, Run], AbstractContextManager[Any]] = lambda trial, run: nullcontext()
    record: Callable[[Record], None] = lambda record: None
    tick: Callable[[Progress], None] = lambda progress: None
    end: Callable[[Trial, Result], None] = lambda trial, result: None


def study_of(sweep: Folder) -> Study:
    return Study(
        sweep.path, sweep.space, sweep.space.own(sweep.recipe), seed=sweep.settings.seed,
        lower=sweep.lower, sampler=sweep.settings.sampler, pruning=sweep.settings.pruning,
    )  # fmt: skip


def work(sweep: Folder, watch: Watch = Watch(), minutes: float | None = None) -> bool:  # noqa: B008 (frozen)
    """Train what is left of a sweep; whether there is nothing more for this process to do."""
    processes.settle()
    study = study_of(sweep)
    end = time.monotonic() + 60 * minutes if minutes else math.inf
    while time.monotonic() < end and not processes.is_orphan():
        with study.claim(sweep.settings.trials) as trial:
            if trial is None:
                return True
            if not _trained(sweep, study, trial, watch, end):
                return False
            result = Result(sweep, study.trials())
            result.write_best()
            watch.end(study.trials()[trial.number], result)
    return False


def _trained(sweep: Folder, study: Study, trial: Trial, watch: Watch, end: float) -> bool:
    """Train one trial and write down what came of it; False if it was interrupted.

    Settings that cannot be trained with make a trial fail, and the next one has others. Any other
    error ends the sweep, and leaves the trial to be taken up again.
    """
    number, folder = trial.number, sweep.trial(trial.number)
    try:
        run, warnings = _run(sweep, trial)
        _judge(study, number, run)  # a kill may have come between a validation and this
        with watch.begin(trial, run):
            for warning in warnings:
                watch.record(warning)

            def record(entry: Record) -> None:
                watch.record(entry)
                if entry["kind"] == "validation":
                    _judge(study, number, run)

            progress = runs.train(run, [record], _until(end, watch))
        if not progress.finished:
            return False
        if not progress.scores:
            raise UserError("data.validation: there is none, so that trials cannot be compared")
        if progress.best is None:
            raise TrainingError("no validation gave a finite number")
        study.finish(number, progress.best)
    except Pruned:
        last = _validations(run)[-1]
        said = f"pruned at update {last['update']:,}: worse than the median of finished trials"
        entry = {"kind": "warning", "update": last["update"], "text": said}
        log.append(folder / log.RECORDS, [entry])
        study.prune(number, said)
    except Over:
        return False
    except (RecipeError, TrainingError) as error:
        if not any(sweep.path.glob(f"*/{RECIPE}")):
            raise  # nothing was ever trained: it is not the values that are wrong
        study.fail(number, str(error))
    return True


def _run(sweep: Folder, trial: Trial) -> tuple[Run, list[Record]]:
    """The run of a trial, which is made if it is not there; what is to be said of it."""
    folder = sweep.trial(trial.number)
    if (folder / RECIPE).is_file():
        return Run(folder), []
    return front.create(folder, sweep.loaded(trial.values))


def _validations(run: Run) -> list[Record]:
    return [each for each in run.records() if each["kind"] == "validation"]


def _judge(study: Study, number: int, run: Run) -> None:
    """Report what the study does not know yet, and end a trial that is worse than others were; not
    at its end, when all is spent."""
    done, known = _validations(run), study.trials()[number].validations
    for step, entry in enumerate(done, 1):
        if step not in known:
            study.report(number, step, entry[run.recipe.train.metric])
    if done and done[-1]["update"] < run.recipe.train.updates and study.is_bad(number):
        raise Pruned


def _until(end: float, watch: Watch) -> Callable[[Progress], None]:
    def tick(progress: Progress) -> None:
        watch.tick(progress)
        if time.monotonic() >= end or processes.is_orphan():
            raise Over

    return tick
