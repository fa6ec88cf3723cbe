"""Training a run, from its newest whole checkpoint to its end."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from regard.data import vectors
from regard.decoding.shared_work import shared_among
from regard.errors import UserError, advised
from regard.inputs import tokens
from regard.layers.allocator import bound_caches, keep_pages
from regard.model import Model, build
from regard.recipe.parts import Part
from regard.runs import linear_probe, naive_bayes, preparing, transfer
from regard.runs.creation import VECTORS, pretrained
from regard.runs.finishing import REMOVE, finish, lower_is_better, prune
from regard.runs.run import Run
from regard.runs.samples import sampler
from regard.tasks import Carries, Task
from regard.train import checkpoint, device, lock, manifest
from regard.train.checkpoint import Checkpoint
from regard.train.group import Group
from regard.train.job import Config, Job, Objective, make
from regard.train.log import RECORDS, Callback, Log, Unlogged, tell
from regard.train.loop import fit
from regard.train.prefetch import prefetch
from regard.train.progress import Clock, Progress
from regard.types import Carry

ALONE = Group()


def new_job(run: Run, task: Task, settings: Config, group: Group = ALONE) -> tuple[Job, Model]:
    """What the loop needs to train a run's model from its beginning, and this model. Nothing is
    validated, recorded or saved, unless the job is changed."""
    recipe = run.recipe
    torch.set_num_threads(settings.threads)
    torch.manual_seed(recipe.seed)
    with recipe.place.located():
        model = build(recipe.model, task.sizes).to(settings.device)
    batches = task.batches(recipe.seed)
    job = make(
        model, task.loss, batches, settings, seed=recipe.seed, dim=recipe.model.dim, group=group
    )
    carried = isinstance(task, Carries) and bool(task.carried(model))
    return replace(job, carried=carried), model


def train(
    run: Run,
    callbacks: Iterable[Callback] = (),
    tick: Callable[[Progress], None] = lambda progress: None,
    group: Group = ALONE,
) -> Progress:
    """Train a run, from its newest whole checkpoint if there is one, to its end. Of a group of
    processes, rank 0 alone writes, and calls back."""
    manifest.sealed(run.folder, whole=True)
    if group.rank:
        return _train(run, [], lambda progress: None, group)
    with lock.held(run.folder):
        preparing.end(run.folder)  # a kill may have come before that
        return _train(run, list(callbacks), tick, group)


def _train(
    run: Run, callbacks: list[Callback], tick: Callable[[Progress], None], group: Group
) -> Progress:
    bound_caches()
    keep_pages()
    newest, faults = _newest(run, group)
    before, task = run.last_start(newest), run.task
    settings = _settled(run, before, group)
    job, model = new_job(run, task, settings, group)
    held = Held(run, task, model, job, group)
    for fault in faults:
        tell(callbacks, {"kind": "warning", "text": f"{fault}: skipped, and set aside"})
    begun = Progress()
    if newest is None:
        clock = Clock(begun)  # what is counted for the first weights is learning, too
        _begin(held, callbacks)
        clock.stamp()
    progress, carry = _restore(held, newest, begun)
    batches, sample = prefetch(job.batches, settings.workers), sampler(run.recipe, task, run.folder)
    with _log(run, newest, progress, callbacks, group) as log, batches as prefetched:
        _start(log, progress, before, device.describe(settings, group.size))
        job = replace(
            job,
            batches=prefetched,
            validate=lambda: _validate(held),
            sample=lambda: sample(held.whole),
            lower_is_better=lower_is_better(run.recipe),
            record=log.record,
            save=lambda progress, carry: _save(held, progress, carry),
            rollback=lambda lowered: _roll_back(held, log, lowered),
            tick=tick,
        )
        progress = fit(job, progress, carry)
        if progress.finished and group.rank == 0:
            finish(run, progress, callbacks, model.device)
    return progress


def _newest(run: Run, group: Group) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint, on all ranks that which rank 0 finds, and what is wrong with
    newer ones, which are set aside."""
    found, faults = None, list[str]()
    if group.rank == 0:
        found, faults = checkpoint.newest(run.checkpoints, resumable=True)
        checkpoint.set_aside(run.checkpoints, found)
    return _of_all(run, found, group), faults


def _of_all(run: Run, found: Checkpoint | None, group: Group) -> Checkpoint | None:
    """The checkpoint that rank 0 has found, on all ranks."""
    update = group.first(found and found.update)
    return None if update is None else Checkpoint(run.checkpoints / f"{update:08d}")


def _settled(run: Run, before: dict[str, Any], group: Group) -> Config:
    """The section `train` as it is on this machine; of several, in the precision that all have."""
    settings: Config = device.settle(run.recipe.train, before, group.near, group.size)
    precisions = set(group.gather(settings.precision))
    return settings if len(precisions) == 1 else replace(settings, precision="float32")


@dataclass(frozen=True)
class Held:
    """What is trained, and by whom."""

    run: Run
    task: Task
    model: Model
    job: Job
    group: Group

    @property
    def whole(self) -> Model:
        """The model, or one like it where it is divided among ranks."""
        plain = self.job.plain
        return self.model if plain is None else cast(Model, cast(Objective, plain).model)


def _begin(held: Held, callbacks: Iterable[Callback]) -> None:
    """The first weights: rank 0 makes them for all."""
    if held.group.rank == 0:
        _initialise(held.run, held.task, held.whole, callbacks)
    held.group.same_weights(held.whole)
    if held.job.sharded:
        from regard.train import sharding

        sharding.give(held.model, held.whole)


def _validate(held: Held) -> dict[str, float]:
    """All ranks share it, once all have the weights that each has a part of."""
    if held.job.sharded:
        from regard.train import sharding

        sharding.fill(held.whole, held.model)
    with shared_among(held.group):
        return held.task.validate(held.whole.eval())


@contextmanager
def _log(
    run: Run,
    newest: Checkpoint | None,
    progress: Progress,
    callbacks: list[Callback],
    group: Group,
) -> Iterator[Log | Unlogged]:
    """Where rank 0 records, once what a kill may have left is put in order; the others do not."""
    if group.rank:
        yield Unlogged()
        return
    prune(run, progress)  # a kill may have come between the last save and this
    _check_records(run, newest, callbacks)
    with Log(run.folder, progress, callbacks) as log:
        yield log


def _start(
    log: Log | Unlogged, progress: Progress, before: dict[str, Any], now: dict[str, Any]
) -> None:
    """Record what this start decided, where it is new, and say what is no longer as it was."""
    if any(before.get(key) != now.get(key) for key in (*now, "processes")):
        text = "; ".join(device.changes(before, now))
        record = {"kind": "start", "update": progress.update, **now}
        log.record(record | ({"text": text} if text else {}))
    progress.machine = now


def _initialise(run: Run, task: Task, model: Model, callbacks: Iterable[Callback]) -> None:
    """Pretrained vectors, counts, another run's weights and a probe of them for a new model, where
    the recipe or the run has them."""
    config, start = run.recipe.model, Checkpoint(run.folder / "start")
    given = start.folder.is_dir()
    if not given and (named := transfer.begins_with(config)):
        lost = ", ".join(f"model.{key}" for key in named)
        raise UserError(f"{start.folder} is missing: the weights of {lost}. {manifest.MADE}")
    names = transfer.given_names(config, model) if given else set()
    reads = transfer.names_of(model, "input").values() if config.input is not None else ()
    if not names.issuperset(reads):
        _give_vectors(run, task, model, callbacks)
    if alpha := naive_bayes.smoothing(config.input):
        naive_bayes.begin(model, task.batches(run.recipe.seed), alpha)
    if given:
        if fault := start.fault():
            raise UserError(f"{start.folder}: {fault}. {manifest.MADE}")
        checkpoint.put_weights(model, start.weights(), str(start.folder), names)
    if weight := linear_probe.penalty(config):
        linear_probe.begin(model, task.batches(run.recipe.seed), weight)


def _give_vectors(run: Run, task: Task, model: Model, callbacks: Iterable[Callback]) -> None:
    """Pretrained vectors for the words that have one, where the recipe names a file."""
    if begins := pretrained(run.recipe, task, model):
        path, embedding, words = begins
        kept = run.folder / VECTORS
        found = kept if kept.is_file() else Path(path)  # older runs did not keep them
        reads = cast(Part, run.recipe.model.input).config
        scaled = isinstance(reads, tokens.Config) and reads.scaled_vectors
        text = vectors.put(
            embedding.weight, embedding.factor, found, words, scaled=scaled, name=path
        )
        tell(callbacks, {"kind": "warning", "text": text})


def _restore(held: Held, found: Checkpoint | None, begun: Progress) -> tuple[Progress, Carry]:
    """Make model and optimizer as they were at a checkpoint; where that was, or what has begun."""
    if found is None:
        return begun, None
    task, model, steps = held.task, held.model, held.job.optimizer
    with advised(REMOVE):
        source, progress, handed = str(found.folder), found.standing(), found.carry()
        if held.job.sharded:
            from regard.train import sharding

            checkpoint.check_shapes(model, found.shapes(), source)
            sharding.restore(found.folder, model, steps)
        else:
            checkpoint.put_weights(model, found.weights(), source)
            checkpoint.put_optimizer(steps, model, found.optimizer(), source)
        # After an update that was refused, nothing is handed on.
        if handed or not progress.refused:
            shapes = task.carried(held.whole) if isinstance(task, Carries) else {}
            if {name: tuple(tensor.shape) for name, tensor in handed.items()} != shapes:
                raise UserError(f"{source}: carry.safetensors is not what this model hands on")
            checkpoint.check_finite(handed, source)
    # A copy: what is read from a file can be that file, in memory, as long as it is held.
    return progress, {name: t.clone().to(model.device) for name, t in handed.items()}


def _roll_back(held: Held, log: Log | Unlogged, lowered: int) -> tuple[Progress, Carry]:
    """Make all as it was at the last checkpoint that the recipe planned and that was made before
    the trouble, or at the beginning: the same whether or not the run was interrupted since."""
    run, group = held.run, held.group
    found = _of_all(run, None if group.rank else _sound_checkpoint(run), group)
    held.job.optimizer.state.clear()
    if found is None:
        torch.manual_seed(run.recipe.seed)
        new = build(run.recipe.model, held.task.sizes)
        checkpoint.put_weights(held.whole, checkpoint.weights_of(new), "the beginning")
        _begin(held, ())
    progress, carry = _restore(held, found, Progress())
    progress.lowered = lowered
    log.rewind(progress)
    return progress, carry


def _sound_checkpoint(run: Run) -> Checkpoint | None:
    """The last that the recipe planned and that was made before the trouble; later ones go."""
    for later in reversed(checkpoint.checkpoints(run.checkpoints)):
        if later.fault(resumable=True):
            checkpoint.keep_damaged(later)
            continue
        stood = later.standing()
        planned = later.update % run.recipe.train.save_every == 0
        if not stood.refused and (planned or stood.best_update == later.update):
            return later
        checkpoint.remove(later.folder)
    return None


def _check_records(run: Run, newest: Checkpoint | None, callbacks: Iterable[Callback]) -> None:
    """Report what was damaged and decides nothing; records that can still be read are kept."""
    unneeded = {name: entry for name, entry in run.files.items() if name in manifest.ASIDE}
    if fault := manifest.fault(run.folder, unneeded):
        tell(callbacks, {"kind": "warning", "text": f"{run.folder}: {fault}: nothing needs it"})
    if text := manifest.restore(run.folder, run.files):
        tell(callbacks, {"kind": "warning", "text": text})
    path = run.folder / RECORDS
    for entry in newest.manifest()["records"].values() if newest else ():
        there = path.is_file()
        if not there or manifest.entry(path, entry["size"]) != entry:
            aside = path.with_name(f"{RECORDS}.damaged")
            if there:
                shutil.copy(path, aside)
            text = f"{path} is damaged: kept as {aside.name}; what can be read of it goes on"
            tell(callbacks, {"kind": "warning", "text": text})


def _save(held: Held, progress: Progress, carry: Carry) -> None:
    """Rank 0 writes; where the model is divided, each writes its shards into the same folder."""
    run, group, model = held.run, held.group, held.model
    folder = run.checkpoints / f"{progress.update:08d}"
    weights = checkpoint.weights_of(model)
    optimizer = checkpoint.optimizer_of(held.job.optimizer, model)

    def shards(writing: Path) -> None:
        from regard.train import sharding

        fault = ""
        group.gather(None)  # the folder is there
        try:
            sharding.save(writing, weights, optimizer, group.rank)
        except (UserError, OSError) as error:
            fault = str(error)
        if faults := [said for said in group.gather(fault) if said]:
            raise UserError(f"{faults[0]}. Earlier checkpoints are whole: make room, then resume")

    if group.rank == 0:
        whole = not held.job.sharded
        checkpoint.save(
            folder,
            weights if whole else None,
            progress.as_dict(),
            optimizer if whole else None,
            carry,
            run=run.files,
            records={f.name: manifest.entry(f) for f in [run.folder / RECORDS] if f.is_file()},
            shards=None if whole else shards,
        )
        prune(run, progress)
    elif held.job.sharded:
        shards(checkpoint.unfinished(folder))
