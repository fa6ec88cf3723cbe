"""Run: opening one, finding its checkpoints, and reading them while they come and go."""

import copy
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from regard.data import files
from regard.errors import RecipeError, UserError, advised
from regard.layers import int8
from regard.model import Model, build
from regard.recipe import config
from regard.recipe.config import Recipe
from regard.recipe.parts import module, no_run, resume
from regard.runs import creation, encoding, preparing
from regard.tasks import Task
from regard.train import checkpoint, device, manifest
from regard.train.checkpoint import Checkpoint
from regard.train.job import Config
from regard.train.log import RECORDS, read
from regard.train.progress import Progress
from regard.tuning import lora

TRIES = 100
"""How often a checkpoint is looked for again that was removed while it was read."""
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
            what = no_run(folder)
            if (folder / preparing.NAME).is_file():
                what = f"is a run that is not finished being made; to go on: {resume(folder)}"
            raise UserError(f"{folder} {what}")
        self.folder = folder
        self.files = manifest.sealed(folder)
        self.recipe: Recipe = config.load(folder / "recipe.toml", of_run=True)

    @classmethod
    def create(
        cls,
        folder: Path,
        recipe: Recipe,
        check: creation.Check | None = None,
        tell: Callable[[str], None] = lambda text: None,
        helpers: encoding.Helpers | None = None,
    ) -> "Run":
        """Prepare everything that training needs; if that fails, nothing is left behind but what
        took long to make. What a killed try has prepared is taken over.

        `check` is given what was read of the data
        before anything is learnt from it; the run keeps what it finds. `tell` gets a line about an
        earlier try. `helpers` encode it beside this process: by default, one for each core.
        """
        creation.create(folder, recipe, check, tell, helpers)
        return cls(folder)

    def tested_on(self, data: Sequence[str | Path]) -> "Run":
        """The same run with these files as its test part, read as the recipe reads its own; with
        none, as it is."""
        if not data:
            return self
        own = getattr(self.recipe.task, "data", None)
        if not isinstance(own, files.Config):
            raise RecipeError(
                f"data: the task {self.recipe.kind} is scored on its own series alone"
            )
        named = tuple(str(Path(each).absolute()) for each in data)
        made = copy.copy(self)
        made.recipe = replace(
            self.recipe,
            task=replace(self.recipe.task, data=replace(own, set="", folder="", test=named)),
        )
        return made

    @property
    def task(self) -> Task:
        with advised(manifest.MADE):
            made: Task = module("tasks", self.recipe.kind).Task(self.recipe.task, self.folder)
        return made

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def settings(self) -> Config:
        """The recipe's section `train` as it is on this machine; see train/device.py."""
        newest, _ = checkpoint.newest(self.checkpoints, resumable=True)
        settled: Config = device.settle(self.recipe.train, self.last_start(newest))
        return settled

    def last_start(self, newest: Checkpoint | None) -> dict[str, Any]:
        """What the start before this one decided; before the first, what the recipe names."""
        kept = None
        with suppress(OSError):  # a run that trains may have removed it
            kept = newest.progress().get("machine") if newest else None
        if isinstance(kept, dict) and kept:
            return kept
        starts = [record for record in self.records() if record.get("kind") == "start"]
        return starts[-1] if starts else device.named(self.recipe.train)

    def model(self, which: str = "final", on: str = "cpu") -> Model:
        """The model: `final` (or the newest, if training is not over), `best`, `last`, a number."""
        return self.loaded(which, on).model

    def loaded(self, which: str = "final", on: str = "cpu", *, rounded: bool = False) -> "Loaded":
        """The model, in int8 if it is rounded, and of which checkpoint it is: when this is asked
        again, another may be it."""
        sizes = self.task.sizes
        # First without memory: the recipe may ask for more than there is.
        with torch.device("meta"), self.recipe.place.located():
            empty = build(self.recipe.model, sizes)

        def take(found: Checkpoint) -> tuple[Checkpoint, dict[str, torch.Tensor], Progress, str]:
            checkpoint.check_shapes(empty, found.shapes(), str(found.folder))
            return found, found.weights(), found.standing(), found.sha256()

        (found, weights, progress, sha256), faults = self._read(which, take)
        model = build(self.recipe.model, sizes)
        with advised(self._instead_of(found)):
            checkpoint.put_weights(model, weights, str(found.folder))
        notes = [f"{fault}: {found.folder.name} is used instead" for fault in faults]
        model = lora.merge(model).to(on).eval()
        if rounded:
            int8.quantize(model)
        return Loaded(model, progress, sha256, notes)

    def find(self, which: str) -> Checkpoint:
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
                with advised(self._instead_of(found)):
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
        what = ", ".join(f"{count:,} × {each}" for each, count in counts.items())
        return [f"found in the data: {what}; {path} says where"] if what else []

    def records(self) -> list[dict[str, Any]]:
        """All that was recorded, but lines that are damaged, or not finished by a killed run."""
        return read(self.folder / RECORDS)
