"""A new run: all that training needs, put into its folder; or nothing, unless that took long."""

import os
import platform
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from regard import __version__
from regard.data import vectors, whole_file
from regard.data.batching import first_epoch
from regard.data.tokenizers import Tokenizer
from regard.errors import UserError
from regard.examples.piecework import Work
from regard.examples.preparation import Plan
from regard.examples.raw import Raw
from regard.fields import text, words
from regard.layers.embedding import Embedding
from regard.model import Model, build
from regard.recipe import checked, config
from regard.recipe.checked import Table
from regard.recipe.config import Recipe
from regard.recipe.parts import module, resume
from regard.runs import encoding, linear_probe, naive_bayes, preparing, transfer
from regard.tasks import Task, alone
from regard.train import checkpoint, device, lock, manifest

if TYPE_CHECKING:
    from regard.runs.run import Run

Check = Callable[[Any, Mapping[str, Raw]], Iterable[Mapping[str, Any]]]
"""A task's plan and what it has read of each part ↦ what is to be said of it; it may refuse."""
VECTORS = "store/vectors.txt"
"""Those of the pretrained vectors that training reads."""


def create(
    folder: Path,
    recipe: Recipe,
    check: Check | None,
    tell: Callable[[str], None] = lambda text: None,
    helpers: encoding.Helpers | None = None,
) -> None:
    """See `Run.create`."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: name a folder for the run")
    _must_be_free(folder)
    with recipe.place.located():
        base = transfer.base_of(recipe)
        if base is not None:
            fields = module("tasks", recipe.kind).plan(recipe.task).fields
            transfer.check_whole(recipe, base, fields)
        transfer.check(recipe)
        naive_bayes.check(recipe.model)
        linear_probe.check(recipe.model)
        device.check(recipe.train)
    made = [new for new in (folder, *folder.parents) if not new.exists()]
    made = made or [folder] * (folder / preparing.NAME).exists()
    folder.mkdir(parents=True, exist_ok=True)
    kept = False
    try:
        with lock.held(folder):
            _must_be_free(folder)  # still, now that nobody else can fill it
            _take_up(folder, about := preparing.note(recipe, base), tell)
            try:
                preparing.begin(folder, about, recipe)
                by = Work(help=partial(helpers or encoding.by_processes(), folder), tell=tell)
                _fill(folder, recipe, base, check, by)
                preparing.end(folder)
            except BaseException as error:
                with suppress(UserError):
                    lock.check(folder)  # what has taken its name meanwhile is not ours
                    kept = preparing.is_worth_keeping(folder)
                    if not kept:
                        _empty(folder, made)
                if kept:
                    raise _advised(error, folder) from None
                raise
    except BaseException:
        if not kept and lock.forget(folder):  # Windows removes no file that is open
            _empty(None, made)
        raise


def _advised(error: BaseException, folder: Path) -> BaseException:
    """The same error, which also says how to go on with what was prepared."""
    advice = f"What was prepared so far is kept; to go on: {resume(folder)}"
    match error:
        case UserError():
            return type(error)(f"{str(error).rstrip('.')}. {advice}")
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return UserError(f"{where}{error.strerror or error}. {advice}")
        case KeyboardInterrupt():
            return KeyboardInterrupt(f"interrupted. {advice}")
    error.add_note(advice)
    return error


def _take_up(folder: Path, now: Table, tell: Callable[[str], None]) -> None:
    """Leave what an interrupted try has prepared, if it is of the same; or clear it away."""
    if not (folder / preparing.NAME).exists():
        return
    manifest.check_kinds(folder)
    if (changed := preparing.difference(folder, now)) is None:
        tell(f"{folder}: its preparation was interrupted; what is whole is taken over")
        return
    tell(f"{folder}: {changed} since its preparation was interrupted: it begins anew")
    _empty(folder, (), (lock.NAME,))


def _must_be_free(folder: Path) -> None:
    """A new run wants a folder of its own, or one that an interrupted try has left; that it was
    locked before is no matter."""
    if (folder / preparing.NAME).is_file() and not (folder / manifest.RECIPE).exists():
        return
    found = folder.iterdir() if folder.exists() else ()
    if any(each.name not in preparing.BEFORE and not manifest.is_clutter(each) for each in found):
        hint = f"; to go on with it: {resume(folder)}" if (folder / "recipe.toml").exists() else ""
        raise UserError(f"{folder} exists and is not empty{hint}")


def _empty(folder: Path | None, made: Iterable[Path], kept: Collection[str] = ()) -> None:
    """Remove what is in a folder, but what is kept, and those folders that were made for it and are
    empty now.

    What cannot be removed stays: the error that led here is the one to report.
    """
    for left in folder.glob("*") if folder else ():
        if left.name in kept:
            continue
        with suppress(OSError):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    for new in made:
        with suppress(OSError):
            new.rmdir()


def _fill(
    folder: Path, recipe: Recipe, base: "Run | None", check: Check | None, work: Work
) -> None:
    """Put all that a new run needs into its folder."""
    with recipe.place.located():
        found = list[Mapping[str, Any]]()
        task_of = module("tasks", recipe.kind)
        plan = task_of.plan(recipe.task)
        if isinstance(plan, Plan):
            plan = replace(plan, work=work, alone=partial(alone, task_of.plan, recipe.task))

        def examine(raw: Mapping[str, Raw]) -> None:
            found.extend(check(plan, raw) if check else ())

        report = plan.prepare(folder, transfer.learnt(recipe, base, plan.fields), examine)
        task = task_of.Task(recipe.task, folder)
        with torch.device("meta"):
            model = build(recipe.model, task.sizes)  # refused now, not when training begins
        naive_bayes.check_size(recipe.model, task.sizes)
        if begins := pretrained(recipe, task, model):
            path, embedding, by = begins
            vectors.keep(Path(path), by, embedding.weight.shape[1], folder / VECTORS)
        if weights := transfer.gather(recipe, model, task.sizes):
            checkpoint.save(folder / "start", weights, {})
        whole_file.write(folder / manifest.HIDDEN_RECIPE, config.dump(planned(recipe, task)))
    seen = {"used": report.used, "skipped": dict(report.counts), "report": report.summary()}
    for name, value in {"data": seen | {"findings": found}, "environment": environment()}.items():
        written = checked.written(value, indent=1)
        (folder / f"{name}.json").write_text(written, encoding="utf-8", newline="\n")
    manifest.seal(folder)


def planned(recipe: Recipe, task: Task) -> Recipe:
    """The recipe as a run of it has it: with all limits and intervals in updates."""
    epoch = sum(1 for _ in first_epoch(task.batches(recipe.seed))) if recipe.train.epochs else 0
    return replace(recipe, train=recipe.train.planned(epoch))


def pretrained(recipe: Recipe, task: Task, model: Model) -> tuple[str, Embedding, Tokenizer] | None:
    """The file of pretrained vectors, where the recipe names one, the embedding that begins with
    them, and its words."""
    reads, reader = recipe.model.input, cast(Any, model.input)
    read = next((f for f in task.fields.values() if f.name == task.sizes.reads), None)
    path = transfer.vectors_of(reads) if reads else ""
    if not path or not isinstance(read, text.Field | words.Field) or reader.embedding is None:
        return None
    return path, reader.embedding, read.tokenizer


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
