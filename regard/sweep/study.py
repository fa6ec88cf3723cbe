"""Which values a trial has, and what became of it.

The values of trial n are a function of the sweep's seed, of n, and of what the trials before it
came to: those of trial 0 are the recipe's own, if they lie in the space; the next ones are drawn at
random; then comes TPE (Bergstra et al. 2011). A trial is written down with all of its values before
it begins, and stays `running` until it is over: one whose process was killed is taken up again.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import optuna
from optuna import distributions
from optuna.storages import JournalStorage
from optuna.study import StudyDirection
from optuna.trial import TrialState

from regard.sweep.journal import Journal
from regard.sweep.space import Choice, Dimension, Space, Values
from regard.train import lock

RANDOM = 6
"""Trials before TPE looks at results."""
COMPLETE = 4
"""Finished trials before one is pruned."""
WARMUP = 2
"""The first validation at which one is pruned."""
REDRAWN = 20
"""How often values that were tried are drawn again, where there are few."""
LOCKS = ".trials"
State = Literal["running", "finished", "pruned", "failed"]
STATES: dict[TrialState, State] = {
    TrialState.RUNNING: "running",
    TrialState.WAITING: "running",
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One of a sweep."""

    number: int
    values: Values
    state: State
    score: float | None
    """The best validation of a finished one, the last of a pruned one."""
    validations: Mapping[int, float]
    """By their number, the first is 1."""
    note: str = ""
    """Why it failed or was pruned."""


class Study:
    """All trials of a sweep; several processes may work on it."""

    def __init__(
        self, folder: Path, space: Space, own: Values | None, *, seed: int, lower: bool,
        sampler: str, pruning: str,
    ) -> None:  # fmt: skip
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._folder, self._space, self._own = folder, space, own
        self._seed, self._sampler = seed, sampler
        self._direction = (StudyDirection.MAXIMIZE, StudyDirection.MINIMIZE)[lower]
        self._pruner = (
            optuna.pruners.MedianPruner(COMPLETE, WARMUP)
            if pruning == "median"
            else optuna.pruners.NopPruner()
        )
        self._journal = Journal(folder)
        with self._journal.turn():
            self._storage = JournalStorage(self._journal)
            self._study = optuna.create_study(
                storage=self._storage, study_name="sweep", direction=self._direction,
                load_if_exists=True,
            )  # fmt: skip

    def trials(self) -> list[Trial]:
        """As they stand now."""
        return [
            Trial(
                number=each.number, values=each.params, state=STATES[each.state],
                score=each.value if each.values else None, validations=each.intermediate_values,
                note=each.user_attrs.get("note", ""),
            )
            for each in self._study.get_trials(deepcopy=False)
        ]  # fmt: skip

    @contextmanager
    def claim(self, limit: int) -> Iterator[Trial | None]:
        """A trial for this process alone: one that somebody has left, or a new one, of `limit` at
        most; None if there is none."""
        with ExitStack() as stack:
            with self._journal.turn():
                trial = self._claimed(limit, stack)
            yield trial

    def _claimed(self, limit: int, stack: ExitStack) -> Trial | None:
        trials = self.trials()
        for trial in trials:
            if trial.state == "running" and self._take(trial.number, stack):
                return trial
        if len(trials) >= limit or (values := self._values(trials)) is None:
            return None
        if not self._take(len(trials), stack):
            return None
        space = {each.key: _distribution(each) for each in self._space}
        begun = optuna.trial.create_trial(
            state=TrialState.RUNNING, params=values, distributions=space
        )
        self._study.add_trial(begun)
        return self.trials()[-1]

    def _take(self, number: int, stack: ExitStack) -> bool:
        """Whether this process has a trial now, until the stack is left."""
        place = self._folder / LOCKS / f"{number:03d}"
        place.mkdir(parents=True, exist_ok=True)
        try:
            stack.callback(lock.Hold(place).close)
        except lock.InUse:
            return False
        return True

    # What is tried next

    def _values(self, trials: list[Trial]) -> Values | None:
        """Those of the next trial; None where all has been tried."""
        if not trials and self._own is not None:
            return self._own
        tried = [trial.values for trial in trials]
        points = self._space.points
        if points is None:
            return self._drawn(len(trials), 0)
        left = [point for point in points if point not in tried]
        drawn = (self._drawn(len(trials), turn) for turn in range(REDRAWN))
        return next((values for values in drawn if values in left), left[0] if left else None)

    def _drawn(self, number: int, turn: int) -> Values:
        seed = int(np.random.SeedSequence([self._seed, number, turn]).generate_state(1)[0])
        sampler: optuna.samplers.BaseSampler = (
            optuna.samplers.RandomSampler(seed=seed)
            if self._sampler == "random"
            else optuna.samplers.TPESampler(seed=seed, n_startup_trials=RANDOM)
        )
        # On a copy in memory: in the storage, a trial is there with all of its values or not.
        copy = optuna.create_study(sampler=sampler, direction=self._direction)
        copy.add_trials(self._study.get_trials())
        asked = copy.ask({each.key: _distribution(each) for each in self._space})
        return {each.key: each.rounded(asked.params[each.key]) for each in self._space}

    # What becomes of it

    def report(self, number: int, step: int, value: float) -> None:
        """A validation."""
        self._storage.set_trial_intermediate_value(self._id(number), step, value)

    def is_bad(self, number: int) -> bool:
        """Whether a trial is to be pruned: its best validation so far is worse than the median of
        finished trials was at the same time."""
        trial = self._study.get_trials(deepcopy=False)[number]
        return bool(trial.intermediate_values and self._pruner.prune(self._study, trial))

    def finish(self, number: int, score: float) -> None:
        self._study.tell(number, score)

    def prune(self, number: int, note: str) -> None:
        self._storage.set_trial_user_attr(self._id(number), "note", note)
        self._study.tell(number, state=TrialState.PRUNED)

    def fail(self, number: int, note: str) -> None:
        self._storage.set_trial_user_attr(self._id(number), "note", note)
        self._study.tell(number, state=TrialState.FAIL)

    def _id(self, number: int) -> int:
        study = self._storage.get_study_id_from_name("sweep")
        return self._storage.get_trial_id_from_study_id_trial_number(study, number)


def _distribution(dimension: Dimension) -> Any:
    if isinstance(dimension, Choice):
        return distributions.CategoricalDistribution(dimension.texts)
    low, high, log = dimension.low, dimension.high, dimension.log
    if dimension.integer:
        return distributions.IntDistribution(int(low), int(high), log=log)
    return distributions.FloatDistribution(low, high, log=log)
