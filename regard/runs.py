"""A run's folder: the only thing that is saved and loaded.

    recipe.toml                 every default written out
    *.tokenizer.json            trained once, on the training part
    labels.json                 what may be said of a text or a word, where the task says labels
    series.json                 variables, their means and deviations, where the task forecasts
    choices.txt                 what may be written, where the recipe names a file of it
    store/                      the training and validation parts as symbols, the texts that are
                                validated by, pretrained vectors: all that training reads
    manifest.json               size and hash of all that the run was made with
    data.json                   what the readers met: lines used, lines skipped and why
    environment.json            versions, processor, cores
    start/                      the weights that it began with, where they are another run's
    checkpoints/00001000/ …     see train/checkpoint.py
    metrics.jsonl, events/      every record, also as TensorBoard events; what each start decided
    curves.png, curves.svg      the same as a picture
    model/                      the final model: an average, or the best checkpoint
    engines/                    the same converted for other engines, made when first used

To predict, model/ and what stands above the store are enough.
"""

import json
import math
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from regard import __version__, plots
from regard.data import vectors
from regard.data.readers import Report
from regard.errors import RecipeError, UserError
from regard.layers.allocator import bound_caches, keep_pages
from regard.model import Model, build
from regard.recipe import checked, config
from regard.recipe.config import Recipe
from regard.recipe.parts import module, resume
from regard.tasks import Task, metrics
from regard.train import budget, checkpoint, device, lock, manifest, optimizer
from regard.train.ahead import ahead
from regard.train.checkpoint import Checkpoint
from regard.train.log import RECORDS, Callback, Log, read, tell
from regard.train.loop import Job, Progress, fit
from regard.train.objective import Objective
from regard.types import Carry

VECTORS = "store/vectors.txt"
TRIES = 100
"""How often a checkpoint is looked for again that was removed while it was read."""
REMOVE = "Put it back from a copy, or remove that folder and resume: the others are used"
"""What to do about a checkpoint that training cannot go on with."""
Read = TypeVar("Read")


class Loaded(NamedTuple):
    """A model, and what is known of the checkpoint that it was loaded from."""

    model: Model
    progress: Progress
    sha256: str
    """Of its weights."""
    notes: list[str]
    """What is wrong with newer checkpoints, which could not be taken."""


class Run:
    """One training, from its recipe to its model."""

    def __init__(self, folder: Path) -> None:
        """Open a run that is there."""
        if not (folder / "recipe.toml").is_file():
            what = "is not a run: it has no recipe.toml" if folder.is_dir() else "does not exist"
            raise UserError(f"{folder} {what}")
        self.folder = folder
        self.files = manifest.sealed(folder)
        self.recipe: Recipe = config.load(folder / "recipe.toml", of_run=True)

    @classmethod
    def create(
        cls,
        folder: Path,
        recipe: Recipe,
        given: "Run | None" = None,
        findings: Sequence[Mapping[str, Any]] = (),
    ) -> "Run":
        """Prepare everything that training needs; nothing is left behind if that fails.

        `findings` are what `regard doctor` said of the data; the run keeps them.
        """
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is a file: name a folder for the run")
        _must_be_empty(folder)
        if given is not None:
            recipe = _continued(recipe, given)
        with recipe.place.located():
            device.check(recipe.train)
        made = [new for new in (folder, *folder.parents) if not new.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with lock.held(folder):
                _must_be_empty(folder)  # still, now that nobody else can fill it
                try:
                    _fill(folder, recipe, given, findings)
                except BaseException:
                    with suppress(UserError):
                        lock.check(folder)  # what has taken its name meanwhile is not ours
                        _empty(folder, made)
                    raise
        except BaseException:
            if lock.forget(folder):  # Windows removes no file that is open
                _empty(None, made)
            raise
        return cls(folder)

    @property
    def task(self) -> Task:
        with _advised(manifest.MADE):
            made: Task = module("tasks", self.recipe.kind).Task(self.recipe.task, self.folder)
        return made

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def settings(self) -> Any:
        """The recipe's section `train` as it is on this machine; see train/device.py."""
        newest, _ = checkpoint.newest(self.checkpoints, resumable=True)
        return device.settle(self.recipe.train, _before(self, newest))

    @property
    def start(self) -> Checkpoint:
        """The weights that it began with, where they are another run's."""
        return Checkpoint(self.folder / "start")

    def model(self, which: str = "final", on: str = "cpu") -> Model:
        """The model: `final` (or the newest, if training is not over), `best`, `last`, a number."""
        return self.loaded(which, on).model

    def loaded(self, which: str = "final", on: str = "cpu") -> "Loaded":
        """The model, and of which checkpoint it is: when this is asked again, another may be it."""
        sizes = self.task.sizes
        # First without memory: the recipe may ask for more than there is.
        with torch.device("meta"), self.recipe.place.located():
            empty = build(self.recipe.model, sizes)

        def take(found: Checkpoint) -> tuple[Checkpoint, dict[str, torch.Tensor], Progress, str]:
            checkpoint.check_shapes(empty, found.shapes(), str(found.folder))
            files = found.manifest()["files"]
            return found, found.weights(), found.standing(), files["model.safetensors"]["sha256"]

        (found, weights, progress, sha256), faults = self._read(which, take)
        model = build(self.recipe.model, sizes)
        with _advised(self._instead_of(found)):
            checkpoint.put_weights(model, weights, str(found.folder))
        notes = [f"{fault}: {found.folder.name} is used instead" for fault in faults]
        return Loaded(model.to(on).eval(), progress, sha256, notes)

    def whole(self, which: str) -> Checkpoint:
        """The checkpoint that goes by this name, if nothing is wrong with it."""
        return self.read(which, lambda found: found)

    def read(self, which: str, take: Callable[[Checkpoint], Read]) -> Read:
        """What `take` reads of the whole checkpoint that goes by this name.

        A run that trains removes old checkpoints: if one vanishes on the way, the name is looked
        up again.
        """
        return self._read(which, take)[0]

    def _read(self, which: str, take: Callable[[Checkpoint], Read]) -> tuple[Read, list[str]]:
        """The same, and what is wrong with newer checkpoints, if the newest was asked for."""
        for last in (*[False] * TRIES, True):
            before = self._standing()
            try:
                found, faults = self._find(which)
                with _advised(self._instead_of(found)):
                    if fault := found.fault():
                        raise UserError(f"{found.folder}: {fault}")
                    return take(found), faults
            except (UserError, OSError) as error:
                if last or self._standing() == before:
                    raise error if isinstance(error, UserError) else UserError(str(error)) from None
        raise AssertionError  # the last try returns or raises

    def _instead_of(self, damaged: Checkpoint) -> str:
        """What to do about a checkpoint that cannot be used."""
        if damaged.folder.name == "model":
            return f"Take --checkpoint last, or have it written again: {resume(self.folder)}"
        return "Put it back from a copy, or remove it and take another one"

    def _standing(self) -> dict[Path, tuple[int, int]]:
        """The folders of all checkpoints, and which ones they are, whatever their names."""
        found = {}
        for place in (self.folder / "model", *self.checkpoints.glob("[0-9]*")):
            with suppress(OSError):
                status = place.stat()
                found[place] = (status.st_dev, status.st_ino)
        return found

    def find(self, which: str) -> Checkpoint:
        """The checkpoint that goes by this name."""
        return self._find(which)[0]

    def _find(self, which: str) -> tuple[Checkpoint, list[str]]:
        if which == "final" and (self.folder / "model").is_dir():
            return Checkpoint(self.folder / "model"), []
        newest, faults = checkpoint.newest(self.checkpoints)
        if newest is None:
            what = "; ".join([f"{self.folder} has no whole checkpoint", *faults])
            raise UserError(f"{what}. To train it: {resume(self.folder)}")
        if which in ("final", "last"):
            return newest, faults
        number = str(newest.standing().best_update) if which == "best" else which
        named = re.fullmatch("[0-9]{1,18}", number) is not None
        folder = self.checkpoints / f"{int(number):08d}" if named else None
        if folder is None or not folder.is_dir():
            there = ", ".join(str(c.update) for c in checkpoint.checkpoints(self.checkpoints))
            raise UserError(f"{self.folder} has no checkpoint {which!r}; there are {there}")
        return Checkpoint(folder), []

    def notes(self) -> list[str]:
        """What was left out of the data or cut, or should not be in it, if there was any."""
        path = self.folder / "data.json"
        counts = json.loads(path.read_text(encoding="utf-8"))["skipped"]
        told = ", ".join(f"{count:,} × {what}" for what, count in counts.items())
        return [f"found in the data: {told}; {path} says where"] if told else []

    def records(self) -> list[dict[str, Any]]:
        """All that was recorded, but lines that are damaged, or not finished by a killed run."""
        return read(self.folder / RECORDS)


@contextmanager
def _advised(advice: str) -> Iterator[None]:
    """An error that names a file of a run also says what to do about it."""
    try:
        yield
    except UserError as error:
        raise type(error)(f"{str(error).rstrip('.')}. {advice}") from None


def _must_be_empty(folder: Path) -> None:
    """A new run wants a folder of its own; that it was locked before is no matter."""
    found = folder.iterdir() if folder.exists() else ()
    if any(each.name != lock.NAME and not manifest.is_clutter(each) for each in found):
        hint = f"; to go on with it: {resume(folder)}" if (folder / "recipe.toml").exists() else ""
        raise UserError(f"{folder} exists and is not empty{hint}")


def _empty(folder: Path | None, made: Iterable[Path]) -> None:
    """Remove what is in a folder, and those folders that were made for it and are empty now.

    What cannot be removed stays: the error that led here is the one to tell.
    """
    for left in folder.glob("*") if folder else ():
        with suppress(OSError):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    for new in made:
        with suppress(OSError):
            new.rmdir()


def _fill(
    folder: Path, recipe: Recipe, given: Run | None, findings: Sequence[Mapping[str, Any]]
) -> None:
    """Put all that a new run needs into its folder."""
    with recipe.place.located():
        before = given.folder if given else None
        report = module("tasks", recipe.kind).prepare(recipe.task, folder, before)
        if given is None and recipe.model.input is not None:
            _keep_vectors(folder, recipe)
    if given is not None:
        checkpoint.save(folder / "start", given.read("final", Checkpoint.weights), {})
    _write(folder / "data.json", _findings(report) | {"findings": list(findings)})
    _write(folder / "environment.json", environment())
    hidden = folder / manifest.HIDDEN_RECIPE
    hidden.write_text(config.dump(recipe), encoding="utf-8", newline="\n")
    manifest.seal(folder)


def train(
    run: Run,
    callbacks: Iterable[Callback] = (),
    tick: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Train a run, from its newest whole checkpoint if there is one, to its end."""
    manifest.sealed(run.folder, whole=True)
    with lock.held(run.folder):
        return _train(run, list(callbacks), tick)


def _train(run: Run, callbacks: list[Callback], tick: Callable[[Progress], None]) -> Progress:
    bound_caches()
    keep_pages()
    newest, faults = checkpoint.newest(run.checkpoints, resumable=True)
    before, task = _before(run, newest), run.task
    settings = device.settle(run.recipe.train, before)
    torch.set_num_threads(settings.threads)
    torch.manual_seed(run.recipe.seed)
    with run.recipe.place.located():
        model = build(run.recipe.model, task.sizes).to(settings.device)
    device.set_precision(model, settings)
    steps = optimizer.make(settings.optimizer, model.parameters())
    for fault in faults:
        tell(callbacks, {"kind": "warning", "text": f"{fault}: skipped, and set aside"})
    checkpoint.set_aside(run.checkpoints, newest)
    if newest is None:
        _begin(run, task, model, callbacks)
    progress, carry = _put(newest, task, model, steps)
    _prune(run, progress)  # a kill may have come between the last save and this
    _check_records(run, newest, callbacks)
    batches = ahead(task.batches(run.recipe.seed), settings.workers)
    with Log(run.folder, progress, callbacks) as log, batches as stream:
        _start(log, progress, before, device.describe(settings))
        job = Job(
            objective=Objective(model, task.loss),
            batches=stream,
            optimizer=steps,
            config=settings,
            seed=run.recipe.seed,
            dim=run.recipe.model.dim,
            device=model.device,
            validate=lambda: task.validate(model),
            lower_is_better=_lower_is_better(run.recipe),
            record=log.record,
            save=lambda progress, carry: _save(run, model, steps, progress, carry),
            back=lambda lowered: _back(run, task, model, steps, log, lowered),
            tick=tick,
            limit=budget.for_batches(settings.memory, model),
        )
        progress = fit(job, progress, carry)
        if progress.finished:
            _finish(run, progress, callbacks, model.device)
    return progress


def _before(run: Run, newest: Checkpoint | None) -> dict[str, Any]:
    """What the start before this one decided; before the first, what the recipe names."""
    kept = None
    with suppress(OSError):  # a run that trains may have removed it
        kept = newest.progress().get("machine") if newest else None
    if isinstance(kept, dict) and kept:
        return kept
    starts = [record for record in run.records() if record.get("kind") == "start"]
    return starts[-1] if starts else device.named(run.recipe.train)


def _start(log: Log, progress: Progress, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Record what this start decided, where it is new, and say what is no longer as it was."""
    if any(before.get(key) != value for key, value in now.items()):
        text = "; ".join(device.changes(before, now))
        record = {"kind": "start", "update": progress.update, **now}
        log.record(record | ({"text": text} if text else {}))
    progress.machine = now


def _begin(run: Run, task: Task, model: Model, callbacks: Iterable[Callback]) -> None:
    """Another run's weights, or pretrained vectors, for a new model where the run has them."""
    if not run.start.folder.is_dir():
        _give_vectors(run, task, model, callbacks)
    elif fault := run.start.fault():
        raise UserError(f"{run.start.folder}: {fault}. {manifest.MADE}")
    else:
        checkpoint.put_weights(model, run.start.weights(), str(run.start.folder))


def _put(
    found: Checkpoint | None, task: Task, model: Model, steps: torch.optim.Optimizer
) -> tuple[Progress, Carry]:
    """Make model and optimizer as they were at a checkpoint; where that was."""
    if found is None:
        return Progress(), None
    with _advised(REMOVE):
        source, progress, handed = str(found.folder), found.standing(), found.carry() or {}
        checkpoint.put_weights(model, found.weights(), source)
        checkpoint.put_optimizer(steps, model, found.optimizer(), source)
        # After an update that was refused, nothing is handed on.
        if handed or not progress.refused:
            shapes: dict[str, tuple[int, ...]] = getattr(task, "carried", lambda _: {})(model)
            if {name: tuple(tensor.shape) for name, tensor in handed.items()} != shapes:
                raise UserError(f"{source}: carry.safetensors is not what this model hands on")
            checkpoint.check_finite(handed, source)
    # A copy: what is read from a file can be that file, in memory, as long as it is held.
    return progress, {name: t.clone().to(model.device) for name, t in handed.items()}


def _back(
    run: Run, task: Task, model: Model, steps: torch.optim.Optimizer, log: Log, lowered: int
) -> tuple[Progress, Carry]:
    """Make all as it was at the last checkpoint that the recipe planned and that was made before
    the trouble, or at the beginning: the same whether or not the run was interrupted since."""
    found = None
    for later in reversed(checkpoint.checkpoints(run.checkpoints)):
        if later.fault(resumable=True):
            checkpoint.keep_damaged(later)
            continue
        stood = later.standing()
        planned = later.update % run.recipe.train.save_every == 0
        if not stood.refused and (planned or stood.best_update == later.update):
            found = later
            break
        checkpoint.remove(later.folder)
    steps.state.clear()
    if found is None:
        torch.manual_seed(run.recipe.seed)
        new = build(run.recipe.model, task.sizes)
        _begin(run, task, new, ())
        checkpoint.put_weights(model, checkpoint.weights_of(new), "the beginning")
    progress, carry = _put(found, task, model, steps)
    progress.lowered = lowered
    log.rewind(progress)
    return progress, carry


def _check_records(run: Run, newest: Checkpoint | None, callbacks: Iterable[Callback]) -> None:
    """Tell of what was damaged and decides nothing; records that can still be read are kept."""
    unneeded = {name: told for name, told in run.files.items() if name in manifest.ASIDE}
    if fault := manifest.fault(run.folder, unneeded):
        tell(callbacks, {"kind": "warning", "text": f"{run.folder}: {fault}: nothing needs it"})
    if text := manifest.restore(run.folder, run.files):
        tell(callbacks, {"kind": "warning", "text": text})
    path = run.folder / RECORDS
    for told in newest.manifest()["records"].values() if newest else ():
        if not manifest.begins(path, told):
            aside = path.with_name(f"{RECORDS}.damaged")
            if path.is_file():
                shutil.copy(path, aside)
            text = f"{path} is damaged: kept as {aside.name}; what can be read of it goes on"
            tell(callbacks, {"kind": "warning", "text": text})


def _give_vectors(run: Run, task: Task, model: Model, callbacks: Iterable[Callback]) -> None:
    """Pretrained vectors for the words that have one, where the recipe names a file."""
    part, words = run.recipe.model.input, getattr(task, "source", None)
    path = getattr(part.config, "vectors", "") if part else ""
    embedding = getattr(model.input, "embedding", None)
    if path and words is not None and embedding is not None:
        kept = run.folder / VECTORS
        found = kept if kept.is_file() else Path(path)  # older runs did not keep them
        text = vectors.put(embedding.weight, embedding.factor, found, words, name=path)
        tell(callbacks, {"kind": "warning", "text": text})


def _keep_vectors(folder: Path, recipe: Recipe) -> None:
    """Those of the pretrained vectors, where the recipe names a file, that training will read."""
    if not (path := getattr(recipe.model.input.config, "vectors", "")):
        return
    task: Any = module("tasks", recipe.kind).Task(recipe.task, folder)
    with torch.device("meta"):
        embedding = getattr(build(recipe.model, task.sizes).input, "embedding", None)
    if embedding is not None and hasattr(task, "source"):
        vectors.keep(Path(path), task.source, embedding.weight.shape[1], folder / VECTORS)


def _calibrated(
    run: Run, weights: dict[str, torch.Tensor], on: torch.device
) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """The final weights with what validation decides last, such as a temperature; its figures."""
    task = run.task
    if not hasattr(task, "calibrate"):
        return weights, {}
    model = build(run.recipe.model, task.sizes).to(on)
    checkpoint.put_weights(model, weights, "the final model")
    figures: dict[str, float] = task.calibrate(model.eval())
    return checkpoint.weights_of(model), figures


def _save(
    run: Run, model: Model, steps: torch.optim.Optimizer, progress: Progress, carry: Carry
) -> None:
    checkpoint.save(
        run.checkpoints / f"{progress.update:08d}",
        checkpoint.weights_of(model),
        progress.as_dict(),
        checkpoint.optimizer_of(steps, model),
        carry,
        run=run.files,
        records={f.name: manifest.entry(f) for f in [run.folder / RECORDS] if f.is_file()},
    )
    _prune(run, progress)


def _prune(run: Run, progress: Progress) -> None:
    """Remove the checkpoints that the recipe does not keep."""
    settings = run.recipe.train
    found = checkpoint.checkpoints(run.checkpoints)
    there = {c.update for c in found}
    kept = {progress.update, progress.best_update, *_last(run, progress, there, settings.keep)}
    if settings.average_of == "best":
        kept |= set(_best(run, progress, there, settings.average))
    for old in found:
        if old.update not in kept:
            with suppress(PermissionError):  # somebody reads it (Windows): it goes the next time
                checkpoint.remove(old.folder)


def _last(run: Run, progress: Progress, there: set[int], count: int) -> list[int]:
    """The last updates that the recipe saves. An interruption saves another, which does not count:
    the final model is the same with and without it."""
    planned = [u for u in sorted(there) if u % run.recipe.train.save_every == 0]
    if progress.finished and progress.update in there.difference(planned):
        planned.append(progress.update)
    return planned[-count:]


def _lower_is_better(recipe: Recipe) -> bool:
    return metrics(recipe)[recipe.train.metric] == "lower"


def _best(run: Run, progress: Progress, there: set[int], count: int) -> list[int]:
    """The updates with the best validation, best first, among those that the recipe saves."""
    sign = 1 if _lower_is_better(run.recipe) else -1
    best, scored = math.inf, {}
    for update, value in ((int(u), sign * v) for u, v in progress.scores.items()):
        planned = update % run.recipe.train.save_every == 0 or value < best
        if update in there and planned and math.isfinite(value):
            scored[update] = value
        best = min(best, value)
    return sorted(scored, key=lambda u: (scored[u], u))[:count]


def _finish(run: Run, progress: Progress, callbacks: Iterable[Callback], on: torch.device) -> None:
    """Write the final model and the curves."""
    settings = run.recipe.train
    there = {c.update: c for c in checkpoint.checkpoints(run.checkpoints)}
    damaged = {update: fault for update, c in there.items() if (fault := c.fault())}
    kept = bool(damaged) and _is_final(run, progress)
    what = "the final model stays as it is" if kept else "left out of the final model"
    for update, fault in damaged.items():
        text = f"{there.pop(update).folder}: {fault}: {what}"
        tell(callbacks, {"kind": "warning", "text": text})
    if kept:
        return
    best = _best(run, progress, set(there), settings.average or 1)
    last = _last(run, progress, set(there), settings.average or 1)
    chosen = last if settings.average and settings.average_of == "last" else best or last
    with _advised(REMOVE):
        mean = checkpoint.average([there[update] for update in chosen])
    weights, figures = _calibrated(run, mean, on)
    told = {"mean_of": chosen} | ({"calibration": figures} if figures else {})
    checkpoint.save(run.folder / "model", weights, progress.as_dict() | told, run=run.files)
    records = [r for r in run.records() if r.get("kind") in ("train", "validation")]
    try:
        for suffix in ("png", "svg"):
            plots.curves(records, run.folder / f"curves.{suffix}")
    except (OSError, UserError) as error:  # the model is what matters, and it is there
        tell(callbacks, {"kind": "warning", "text": f"no picture of the curves: {error}"})


def _is_final(run: Run, progress: Progress) -> bool:
    """Whether a whole final model of this update is there."""
    final = Checkpoint(run.folder / "model")
    return final.fault() is None and final.standing().update == progress.update


def _continued(recipe: Recipe, given: Run) -> Recipe:
    """The recipe of a run that goes on with the whole model of another, if its model is the same.

    The tokenizers are the other run's, and so is what the recipe says of them.
    """
    weights = given.read("final", Checkpoint.weights)
    with recipe.place.located(), torch.device("meta"):
        model = build(recipe.model, given.task.sizes)
        try:
            checkpoint.put_weights(model, weights, str(given.folder))
        except UserError as error:
            raise RecipeError(f"model: {_difference(recipe, given) or error}") from None
    if hasattr(recipe.task, "tokenizer"):
        task = replace(recipe.task, tokenizer=given.recipe.task.tokenizer)
        recipe = replace(recipe, task=task)
    return recipe


def _difference(recipe: Recipe, given: Run) -> str:
    """The keys of the model's section that decide its shape and differ."""
    here, there = (config.flat(r.model) for r in (recipe, given.recipe))
    return ", ".join(
        f"{key} is {here.get(key)} here and {there.get(key)} in {given.folder}"
        for key in here | there
        if here.get(key) != there.get(key) and not isinstance(here.get(key), float)
    )


def environment() -> dict[str, Any]:
    """What the figures of a run depend on beside its recipe."""
    import numpy
    import tokenizers

    return {
        "regard": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "tokenizers": tokenizers.__version__,
        "platform": platform.platform(),
        "processor": device.processor(),
        "cores": os.cpu_count(),
    }


def _findings(report: Report) -> dict[str, Any]:
    return {"used": report.used, "skipped": dict(report.counts), "report": report.summary()}


def _write(path: Path, value: Any) -> None:
    text = checked.written(value, indent=1)
    path.write_text(text, encoding="utf-8", newline="\n")
