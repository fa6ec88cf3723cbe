"""How far a run is, and which folder the next one gets.

A run without model/ is unfinished: it was stopped, or it trains now. What uses it says at which
update its model is, and a new run of the same recipe does not quietly begin beside it.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.recipe import config
from regard.recipe.parts import resume, with_parts
from regard.runs import Run, preparing
from regard.runs.creation import planned
from regard.train import checkpoint, lock, manifest
from regard.train.job import Config

RUNS = Path("runs")
"""The folder of runs that are given no other."""


@dataclass(frozen=True)
class Unfinished:
    """Where a run stands that is not at its end."""

    folder: Path
    update: int
    """Of the model that is used."""
    updates: int | None = None
    """That the recipe asks for; None if that is not known, or minutes decide."""
    training: bool = False
    """Whether somebody trains it now."""

    def __str__(self) -> str:
        if self.training:
            return f"{self.folder} trains now and is unfinished: {self.reached}"
        return f"{self.folder} is unfinished: {self.reached}; to go on: {resume(self.folder)}"

    @property
    def reached(self) -> str:
        """update 400 of 2,000"""
        whole = f" of {self.updates:,}" if self.updates else ""
        return f"update {self.update:,}{whole}"

    def as_dict(self) -> dict[str, Any]:
        return {"update": self.update, "updates": self.updates}


def unfinished(folder: Path, update: int | None = None) -> Unfinished | None:
    """Where a run stands that has no final model, with the checkpoint of an update or else the
    newest; None of one that is finished, or no run."""
    if (folder / "model").is_dir() or not (folder / manifest.RECIPE).is_file():
        return None
    if update is None:
        found = checkpoint.checkpoints(folder / "checkpoints")
        update = found[-1].update if found else 0
    planned: int | None = None
    with suppress(UserError, OSError):  # parts of its own may not be at hand
        train: Config = config.load(folder / manifest.RECIPE, of_run=True).train
        planned = None if train.minutes or train.tokens else train.updates
    return Unfinished(folder, update, planned, lock.is_held(folder))


def unfinished_at(run: Run, which: str) -> Unfinished | None:
    """The same of the checkpoint that goes by a name."""
    found = unfinished(run.folder)
    return found and replace(found, update=run.find(which).update)


# The next run


def name_of(recipe: str | Path | Mapping[str, Any]) -> str:
    """What a new run of a recipe is called, if it is given no folder."""
    return Path(recipe).stem if isinstance(recipe, str | Path) else str(recipe.get("task", "run"))


def free_folder(name: str) -> Path:
    """runs/NAME, or runs/NAME-2, … if that is taken; what an interrupted try has left is free."""
    return _taken(name)[1]


def last_folder(recipe: str | Path) -> Path | None:
    """The folder of the newest run that was begun of a recipe that was given no other."""
    there, folder = _taken(name_of(recipe))
    return folder if preparing.is_interrupted(folder) else there[-1] if there else None


def check_rerun(
    recipe: str | Path | Mapping[str, Any], overrides: Sequence[str] = (), verb: str = "train"
) -> list[dict[str, Any]]:
    """Refuse to begin a run beside an unfinished one of the same name; a record that says so where
    the name is taken otherwise."""
    name = name_of(recipe)
    there, folder = _taken(name)
    for each in there:
        if found := unfinished(each):
            words = [Path(recipe)] if isinstance(recipe, str | Path) and verb == "train" else []
            again = with_parts(verb, *words, *overrides, "--to", folder)
            raise UserError(f"{found}; to begin a new run: {again}")
    if not there:
        return []
    what = "is a finished run" if (there[0] / "model").is_dir() else "is there already"
    text = f"{there[0]} {what} and stays as it is: the new run is {folder}"
    return [{"kind": "warning", "text": text}]


def is_of(folder: Path, recipe: config.Recipe) -> bool:
    """Whether the run in a folder was made from a recipe."""
    if not (folder / manifest.RECIPE).is_file():
        return False
    run = Run(folder)
    return config.dump(run.recipe) == config.dump(planned(recipe, run.task))


def _taken(name: str) -> tuple[list[Path], Path]:
    """The folders of this name that are there, and the next, which is free."""
    there: list[Path] = []
    folder = RUNS / name
    while folder.exists() and not preparing.is_interrupted(folder):
        there.append(folder)
        folder = RUNS / f"{name}-{len(there) + 1}"
    return there, folder
