"""One of two processes that train the tiny recipes together, and each by itself, for test_ranks.

    RANK=0 WORLD_SIZE=2 … python -m tests.fault.ranks FOLDER sample|whole

Everything is done by one pair of processes: to import torch takes longer than all of it.
"""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch.distributed.distributed_c10d import _set_pg_timeout

from regard.errors import UserError
from regard.examples import streamed
from regard.recipe import config
from regard.runs import Run, finishing, gathering, train
from regard.runs.training import ALONE
from regard.train import gradient, loop, manifest, processes, sharding
from regard.train.group import Group
from regard.train.job import Objective
from regard.train.progress import Progress
from tests.fault import tiny

POISONED = 7
"""An example whose loss is infinite, where that is tried."""
ROOM = {"transformer": 8e-5, "lstm": 4e-5}
"""GB with which some batches are split, not all into as many parts."""
SHARDINGS = {"transformer": ["full"], "lstm": ["none"]}
"""What is tried of each kind; in the whole, both."""


class Trial:
    """A pair of ranks, and what came of each training."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.group = folder, processes.join(2.0)
        self.found: dict[str, Any] = {}
        self.gradient: list[float] = []
        self.poisoned = False
        self._watch_gradients()

    def run(self, kind: str, name: str, *overrides: str, **changes: Any) -> Run:
        """A run of its own, by rank 0; the other waits."""
        base = self.folder / kind / "-".join(["base", *overrides])
        copy = self.folder / kind / name
        if self.group.rank == 0:
            if not base.exists():
                recipe = tiny.write(kind, self.folder / kind / "data")
                Run.create(base, config.load(recipe, overrides))
            if not copy.exists():
                shutil.copytree(base, copy)
        self.group.gather(None)
        run = Run(copy)
        settings = {"log_every": 1, "trace": True, "samples": 0, "pieces": 2, "validate_every": 0}
        changed = replace(run.recipe.train, **settings | {"save_every": 10} | changes)
        run.recipe = replace(run.recipe, train=changed)
        return run

    def train(self, run: Run, group: Group, stop: int = 0) -> None:
        """Ctrl-C after some update: rank 0 alone hears it."""

        def tick(progress: Progress) -> None:
            if progress.update == stop:
                os.kill(os.getpid(), signal.SIGINT)

        train(run, [], tick, group)

    def together(self, name: str, run: Run, *stops: int) -> None:
        """By both, and between two stops by rank 0 alone."""
        self.gradient.clear()
        for number, stop in enumerate((*stops, 0)):
            group = self.group if number % 2 == 0 else ALONE
            if group.size > 1 or self.group.rank == 0:
                self.train(run, group, stop)
            self.group.gather(None)
        self.note(name, run)

    def alone(self, name: str, run: Run) -> None:
        self.gradient.clear()
        if self.group.rank == 0:
            self.train(run, ALONE)
        self.group.gather(None)
        self.note(name, run)

    def note(self, name: str, run: Run) -> None:
        records = run.records() if self.group.rank == 0 else []
        kinds = ("train", "examples", "refused", "start", "validation")
        kept = {kind: [r for r in records if r["kind"] == kind] for kind in kinds}
        there = sorted(run.checkpoints.iterdir()) if self.group.rank == 0 else []
        self.found[name] = kept | {
            "gradient": [*self.gradient],
            "checkpoints": [folder.name for folder in there],
            "shards": sum(len([*folder.glob("shard-*")]) for folder in there),
        }

    def _watch_gradients(self) -> None:
        """Keep the gradient of each first update, and spoil the loss of an example."""
        descend, forward = gradient.descend, Objective.forward

        def watched(job: Any, rate: float, norm: Any) -> None:
            if not self.gradient:
                found = [sharding.whole(p.grad) for p in job.objective.parameters()]
                self.gradient.extend(torch.cat([g.flatten() for g in found]).tolist())
            descend(job, rate, norm)

        def spoilt(objective: Objective, batch: Any, carry: Any = None) -> Any:
            terms, after = forward(objective, batch, carry)
            if self.poisoned and POISONED in batch.ids:
                terms = {n: replace(t, sum=t.sum * torch.inf) for n, t in terms.items()}
            return terms, after

        for place, name, changed in (
            (loop, "descend", watched),
            (manifest, "TYPES", ("F32", "F64")),
            (finishing, "draw", lambda folder, records: None),
            (Objective, "forward", spoilt),
        ):
            setattr(place, name, changed)


def equal_in_double_precision(trial: Trial) -> None:
    """Ctrl-C after updates 20 and 30: both, one, and both again."""
    torch.set_default_dtype(torch.float64)
    for kind in tiny.KINDS:
        trial.alone(f"{kind} alone", trial.run(kind, "alone", updates=50))
        for sharding_ in SHARDINGS[kind]:
            name = f"{kind} {sharding_}"
            run = trial.run(kind, name, updates=50, sharding=sharding_)
            trial.together(name, run, 20, 30)


def gathered(trial: Trial) -> None:
    """Both stop after update 20; rank 0 looks at a copy with a shard cut off, makes an ordinary run
    of what they have left, and trains it to its end."""
    torch.set_default_dtype(torch.float64)
    run = trial.run("transformer", "gathered", sharding="full", updates=50, average=0)
    trial.train(run, trial.group, 20)
    trial.group.gather(None)
    if trial.group.rank == 0:
        damaged = Run(Path(shutil.copytree(run.folder, run.folder.with_name("damaged"))))
        damaged.recipe = run.recipe
        shard = sorted((damaged.checkpoints / "00000020").glob("shard-*"))[0]
        os.truncate(shard, shard.stat().st_size - 8)
        said = [_refused(lambda: damaged.model("20")), _refused(lambda: gathering.gather(damaged))]
        before = run.model("last").state_dict()
        updates, again = gathering.gather(run), gathering.gather(run)
        after = run.model("last").state_dict()
        trial.train(run, ALONE)
        trial.train(damaged, ALONE)
        trial.found["gathering"] = {
            "shard": shard.name,
            "said": said,
            "updates": [updates, again],
            "same": all(torch.equal(before[name], after[name]) for name in before | after),
            "aside": [*map(str, damaged.checkpoints.glob("*.damaged"))],
        }
        trial.note("transformer damaged", damaged)
    trial.group.gather(None)
    trial.note("transformer gathered", run)


def _refused(ask: Callable[[], Any]) -> str:
    try:
        ask()
    except UserError as error:
        return str(error)
    return ""


def streamed_by_both(trial: Trial) -> None:
    """Ctrl-C after update 10: each reads the files for itself."""
    keys = ["data.streaming=true", "data.shuffle=10"]
    changes: dict[str, Any] = {"updates": 20}
    trial.alone("streamed alone", trial.run("transformer", "streamed alone", *keys, **changes))
    trial.together("streamed", trial.run("transformer", "streamed", *keys, **changes), 10, 14)
    trial.alone("text streamed alone", trial.run("lstm", "streamed alone", *keys, **changes))
    trial.together("text streamed", trial.run("lstm", "streamed", *keys, **changes), 5, 9)


def equal_where_batches_are_split_or_refused(trial: Trial) -> None:
    for kind in tiny.KINDS:
        for what, memory in (("split", ROOM[kind]), ("refused", 1.0)):
            trial.poisoned = what == "refused"
            changes: dict[str, Any] = {"memory": memory, "updates": 9, "validate_every": 9}
            trial.alone(f"{kind} {what} alone", trial.run(kind, f"{what} alone", **changes))
            for sharding_ in SHARDINGS[kind]:
                name = f"{kind} {what} {sharding_}"
                run = trial.run(kind, name, sharding=sharding_, **changes)
                trial.together(name, run)
    trial.poisoned = False


def near_in_single_precision(trial: Trial) -> None:
    torch.set_default_dtype(torch.float32)
    for kind in tiny.KINDS:
        trial.alone(f"{kind} single alone", trial.run(kind, "single alone", updates=5))
        for sharding_ in SHARDINGS[kind]:
            name = f"{kind} single {sharding_}"
            trial.together(name, trial.run(kind, name, updates=5, sharding=sharding_))
    changes: dict[str, Any] = {"sharding": "full", "activation_checkpointing": True}
    run = trial.run("transformer", "recomputed", updates=5, **changes)
    trial.together("transformer recomputed", run)


def named_where_one_hangs(trial: Trial) -> None:
    """Rank 1 sleeps until rank 0 has said who does not answer."""
    group, said = trial.group, trial.folder / "hanging"
    group.gather(None)
    if group.rank == 1:
        group.doing = "a nap"
        while not said.exists():
            time.sleep(0.05)
        os._exit(0)
    _set_pg_timeout(timedelta(seconds=2))
    try:
        group.gather("are you there?")
    except processes.Lost as error:
        trial.found["hanging"] = str(error)
    said.touch()


STEPS: list[Callable[[Trial], None]] = [
    equal_in_double_precision,
    gathered,
    streamed_by_both,
    equal_where_batches_are_split_or_refused,
    near_in_single_precision,
    named_where_one_hangs,
]


def main(folder: Path, amount: str) -> None:
    torch.set_num_threads(1)
    processes.BEAT = 0.2
    setattr(streamed, "BLOCK", 5)  # noqa: B010 - it is of another module
    if amount == "whole":
        SHARDINGS.update({kind: ["none", "full"] for kind in tiny.KINDS})
    trial = Trial(folder)
    for step in STEPS:
        began = time.perf_counter()
        step(trial)
        trial.found.setdefault("seconds", {})[step.__name__] = time.perf_counter() - began
    (folder / "found.json").write_text(json.dumps(trial.found), encoding="utf-8")
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
