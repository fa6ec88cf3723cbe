"""A new run: all that training needs, put into its folder; or nothing, unless that took long."""

import os
import platform
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from regard import __version__
from regard.data import vectors, whole_file
from regard.data.batching import first_epoch
from regard.data.readers import Report
from regard.data.tokenizers import Tokenizer
from regard.errors import RecipeError, UserError
from regard.examples.raw import Raw
from regard.fields import text, words
from regard.model import Model, build
from regard.recipe import checked, config
from regard.recipe.checked import Table
from regard.recipe.config import Recipe
from regard.recipe.parts import module, resume
from regard.runs import preparing, transfer
from regard.tasks import Task
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
    base_run: "Run | None",
    check: Check | None,
    tell: Callable[[str], None] = lambda text: None,
) -> None:
    """See `Run.create`."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: name a folder for the run")
    _must_be_free(folder)
    with recipe.place.located():
        transfer.check(recipe)
        if base_run is not None:
            recipe = _continued(recipe, base_run)
        device.check(recipe.train)
    made = [new for new in (folder, *folder.parents) if not new.exists()]
    made = made or [folder] * (folder / preparing.NAME).exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with lock.held(folder):
            _must_be_free(folder)  # still, now that nobody else can fill it
            _take_up(folder, about := preparing.note(recipe, base_run), tell)
            try:
                preparing.begin(folder, about, recipe)
                _fill(folder, recipe, base_run, check)
                preparing.end(folder)
            except BaseException as error:
                with suppress(UserError):
                    lock.check(folder)  # what has taken its name meanwhile is not ours
                    if preparing.is_worth_keeping(folder):
                        _advise(error, preparing.kept(folder))
                    _empty(folder, made)
                raise
    except _Kept as kept:
        raise kept.error from None
    except BaseException:
        if lock.forget(folder):  # Windows removes no file that is open
            _empty(None, made)
        raise


class _Kept(Exception):
    """An error after which what was prepared stays where it is."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def _advise(error: BaseException, advice: str) -> None:
    """The same error, which also says how to go on."""
    match error:
        case UserError():
            raise _Kept(type(error)(f"{str(error).rstrip('.')}. {advice}"))
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            raise _Kept(UserError(f"{where}{error.strerror or error}. {advice}"))
        case KeyboardInterrupt():
            raise _Kept(KeyboardInterrupt(f"interrupted. {advice}"))
    error.add_note(advice)
    raise _Kept(error)


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


def _fill(folder: Path, recipe: Recipe, base_run: "Run | None", check: Check | None) -> None:
    """Put all that a new run needs into its folder."""
    with recipe.place.located():
        base = base_run.folder if base_run else None
        found = list[Mapping[str, Any]]()
        plan = module("tasks", recipe.kind).plan(recipe.task)

        def checked(raw: Mapping[str, Raw]) -> None:
            found.extend(check(plan, raw) if check else ())

        report = plan.prepare(folder, base, checked)
        task = module("tasks", recipe.kind).Task(recipe.task, folder)
        with torch.device("meta"):
            model = build(recipe.model, task.sizes)  # refused now, not when training begins
        if recipe.model.input is not None:
            _keep_vectors(folder, recipe, task, model)
        if weights := transfer.gather(recipe, model, task.sizes):
            checkpoint.save(folder / "start", weights, {})
        _plan(folder, recipe, task)
    _write(folder / "data.json", _findings(report) | {"findings": found})
    _write(folder / "environment.json", environment())
    manifest.seal(folder)


def _plan(folder: Path, recipe: Recipe, task: Task) -> None:
    """Say in the run's recipe how many updates its limits and intervals are."""
    epoch = sum(1 for _ in first_epoch(task.batches(recipe.seed)))
    planned = replace(recipe, train=recipe.train.planned(epoch))
    whole_file.write(folder / manifest.HIDDEN_RECIPE, config.dump(planned))


def _keep_vectors(folder: Path, recipe: Recipe, task: Any, model: Model) -> None:
    """Those of the pretrained vectors, where the recipe names a file, that training will read."""
    if not (path := getattr(recipe.model.input.config, "vectors", "")):
        return
    embedding, by = getattr(model.input, "embedding", None), vocabulary(task)
    if embedding is not None and by is not None:
        vectors.keep(Path(path), by, embedding.weight.shape[1], folder / VECTORS)


def vocabulary(task: Task) -> Tokenizer | None:
    """The words of what the model reads, if it reads text."""
    read = next((f for f in task.fields.values() if f.name == task.sizes.reads), None)
    return read.tokenizer if isinstance(read, text.Field | words.Field) else None


def _continued(recipe: Recipe, base_run: "Run") -> Recipe:
    """The recipe of a run that goes on with the whole model of another, if its model is the same.

    The tokenizers are the other run's, and so is what the recipe says of them.
    """
    with torch.device("meta"):
        model = build(recipe.model, base_run.task.sizes)
    recipe = transfer.of_all_parts(recipe, base_run)
    try:
        transfer.gather(recipe, model, base_run.task.sizes)
    except RecipeError as error:
        differs = _difference(recipe, base_run)
        raise RecipeError(f"model: {differs}" if differs else str(error)) from None
    if hasattr(recipe.task, "tokenizer"):
        task = replace(recipe.task, tokenizer=base_run.recipe.task.tokenizer)
        recipe = replace(recipe, task=task)
    return recipe


def _difference(recipe: Recipe, base_run: "Run") -> str:
    """The keys of the model's section that decide its shape and differ."""
    here, there = (config.flat(r.model) for r in (recipe, base_run.recipe))
    return ", ".join(
        f"{key} is {here.get(key)} here and {there.get(key)} in {base_run.folder}"
        for key in here | there
        if here.get(key) != there.get(key) and not isinstance(here.get(key), float)
        if key.rpartition(".")[2] not in ("weights", "frozen", "vectors")
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
