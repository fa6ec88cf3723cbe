"""A run that is being made, and from what, so that a kill costs no more than the work in hand.

`.preparing.json` is there from the beginning until the run is whole: a hash of what the recipe says
of the task, the run whose model it begins with, and size and time of every file that the recipe
names. The next try after a kill takes up what is there if all of these are still the same.
"""

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tokenizers

from regard import __version__
from regard.data import catalogue, media, whole_file
from regard.errors import UserError
from regard.recipe import checked, config, paths
from regard.recipe.checked import Table
from regard.recipe.config import Recipe
from regard.train import lock, manifest

if TYPE_CHECKING:
    from regard.runs.run import Run

NAME = ".preparing.json"
UNFINISHED = f".{NAME}-new"
BEFORE = (lock.NAME, manifest.HIDDEN_RECIPE, f".{manifest.HIDDEN_RECIPE}-new", UNFINISHED)
"""What a kill may leave before anything is noted."""
KEYS = {"regard", "tokenizers", "task", "base", "base_files", "files"}
WORTH = 30.0
"""Seconds of work that are not thrown away."""


def note(recipe: Recipe, base_run: "Run | None") -> Table:
    """What the data of a run is made from."""
    return {
        "regard": __version__,
        "tokenizers": tokenizers.__version__,
        "task": _hash([recipe.kind, config.flat(recipe.task)]),
        "base": str(base_run.folder.absolute()) if base_run else "",
        "base_files": _hash(base_run.files) if base_run else "",
        "files": {
            str(path.absolute()): [path.stat().st_size, path.stat().st_mtime_ns]
            if path.is_file()
            else [*media.stamp(path)]
            for path in sources(recipe)
        },
    }


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def sources(recipe: Recipe) -> list[Path]:
    """The files that a recipe names, whatever the keys: of its data, of pretrained vectors; also
    folders of data, such as those of classes."""
    parts = config.flat(recipe.task) | config.flat(recipe.model)
    base = Path(parts.get("data.folder", ""))
    with suppress(UserError):  # the task says so, when it reads the data
        base = catalogue.find(parts["data.set"]) if parts.get("data.set") else base
    found: dict[Path, None] = {}
    for key, value in parts.items():
        for name in value if isinstance(value, list) else [value]:
            with suppress(OSError, ValueError, RuntimeError, TypeError):  # no path at all
                path = base / Path(name).expanduser()
                if name and (path.is_file() or (key in paths.FILES and path.is_dir())):
                    found[path] = None
    return list(found)


def begin(folder: Path, now: Table, recipe: Recipe) -> None:
    """Keep the recipe, still hidden, then note what is being made, unless an earlier try has."""
    (folder / manifest.NAME).unlink(missing_ok=True)  # it would be listed in its successor
    whole_file.write(folder / manifest.HIDDEN_RECIPE, config.dump(recipe))
    if not (folder / NAME).exists():
        whole_file.write(folder / NAME, checked.written(checked.signed(now), indent=1))
        manifest.sync(folder)


def end(folder: Path) -> None:
    """The run is whole."""
    for name in (NAME, UNFINISHED):
        (folder / name).unlink(missing_ok=True)


def is_interrupted(folder: Path) -> bool:
    """Whether it is of a run that was never finished being made, and that nobody is making now."""
    unfinished = (folder / NAME).is_file() and not (folder / manifest.RECIPE).exists()
    return unfinished and not lock.is_held(folder)


def difference(folder: Path, now: Table) -> str | None:
    """What is not as it was when the run in `folder` was begun; None if all is."""
    try:
        before = _noted(folder)
        files = checked.table(before["files"], "files")
    except (OSError, ValueError) as error:
        return str(error)
    for path in sorted(files.keys() | now["files"].keys()):
        if files.get(path) != now["files"].get(path):
            return f"{path} has changed"
    names = {"task": "the recipe", "base": "the run to start from", "base_files": "that run"}
    for key in ("task", "base", "base_files", "regard", "tokenizers"):
        if before[key] != now[key]:
            return f"{names.get(key, f'the version of {key}')} is another"
    return None


def _noted(folder: Path) -> Table:
    """What an earlier try noted."""
    before = checked.read(folder / NAME)
    checked.keys(before, NAME, KEYS | {"sha256"})
    if before != checked.signed(before):
        raise ValueError(f"{NAME} is damaged")
    return before


def is_worth_keeping(folder: Path) -> bool:
    """Whether what is there took longer to make than anybody would throw away."""
    with suppress(OSError):
        began = (folder / NAME).stat().st_mtime
        times = (path.stat().st_mtime for path in folder.rglob("*") if path.name != lock.NAME)
        return max(times) - began > WORTH
    return False


def recipe_of(folder: Path) -> Recipe:
    """That of a run that was never finished being made."""
    manifest.check_kinds(folder)
    try:
        _noted(folder)
        hidden = folder / manifest.HIDDEN_RECIPE
        if not hidden.is_file():
            raise ValueError(f"{hidden.name} is missing")
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder} is a run that was never finished being made, and cannot be taken up: {error}"
            ". Give the recipe again"
        ) from None
    return config.load(hidden, of_run=True)
