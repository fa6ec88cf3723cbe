"""`regard runs`: what runs there are, how far they are and how good. No weights are read, so that
hundreds of runs take a moment."""

import json
import math
import os
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.recipe import checked
from regard.train import lock, manifest

BEGUN = ".preparing.json"
"""A run that is being made has it (runs/preparing.py, which is not imported: it needs PyTorch)."""
DEPTH = 3
"""Folders in folders that are looked through."""
SMALL = 1 << 20
"""Bytes of a file that is read to see whether it was changed; of larger ones the size must do."""
TAIL = 1 << 14
"""Bytes at the end of the records that have the last update."""
ENDLESS = 10**9
"""Updates, where something else ends a training."""
DATA = ("set", "file", "train", "folder")
"""What names the data, in a recipe's section of that name."""


HEADER = ("run", "task", "data", "state", "best validation", "changed")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run."""

    run: str
    task: str = ""
    data: str = ""
    state: str
    """finished, training, unfinished, preparing or damaged."""
    update: int | None = None
    updates: int | None = None
    """That the recipe asks for; None where minutes or tokens decide."""
    metric: str = ""
    best: float | None = None
    """The best validation."""
    changed: float = 0.0
    """Seconds since 1970."""
    why: str = ""
    """What is wrong with it."""

    def as_dict(self) -> dict[str, Any]:
        when = datetime.fromtimestamp(self.changed).astimezone().isoformat(timespec="seconds")
        return asdict(self) | {"changed": when}

    def cells(self) -> tuple[str, ...]:
        """What stands under HEADER."""
        best = "" if self.best is None else f"{self.metric} {self.best:.4g}"
        when = datetime.fromtimestamp(self.changed).strftime("%Y-%m-%d %H:%M")
        return (self.run, self.task, self.data, self._state(), best, when)

    def _state(self) -> str:
        at = "" if self.update is None else f"update {self.update:,}"
        whole = f"{at} of {self.updates:,}" if at and self.updates else at
        match self.state:
            case "finished":
                return "finished" + (f", {at}" if at else "")
            case "training":
                return f"trains now, {whole}" if whole else "trains now"
            case "unfinished":
                return f"unfinished, {whole}"
            case "preparing":
                return self.why
        return f"damaged: {self.why}"


def rows(folder: Path) -> list[Row]:
    """All runs in a folder, or that folder itself, the newest first."""
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "does not exist"
        raise UserError(f"{folder} {what}: name the folder that your runs are in")
    found = [_row(place) for place in _runs(folder, DEPTH)]
    return sorted(found, key=lambda row: (-row.changed, row.run))


def _runs(folder: Path, depth: int) -> Iterator[Path]:
    """Folders of runs; what is inside of a run is none."""
    begun = any((folder / name).is_file() for name in (manifest.RECIPE, BEGUN))
    if begun or _is_damaged(folder):
        yield folder
    elif depth:
        with suppress(OSError):  # somebody else's
            for each in sorted(os.scandir(folder), key=lambda each: each.name):
                if each.is_dir(follow_symlinks=False) and not each.name.startswith("."):
                    yield from _runs(folder / each.name, depth - 1)


def _is_damaged(folder: Path) -> bool:
    """Whether a folder was a run, whose recipe has gone."""
    return (folder / manifest.NAME).is_file() and (folder / "checkpoints").is_dir()


def _row(folder: Path) -> Row:
    name, changed = _printable(str(folder)), _changed(folder)
    if not (folder / manifest.RECIPE).is_file() and (folder / BEGUN).is_file():
        now = lock.is_held(folder)
        why = "is being prepared now" if now else "stopped while its data was prepared"
        return Row(run=name, state="preparing", why=why, changed=changed)
    known: dict[str, Any] = {"run": name, "changed": changed}
    try:
        recipe = _recipe(folder)
        known |= _of_recipe(recipe)
        _check(folder, manifest.made_with(folder))
        return Row(**known | _standing(folder))
    except (OSError, ValueError, UserError) as error:
        return Row(**known | {"state": "damaged", "why": _printable(str(error))})


def _recipe(folder: Path) -> dict[str, Any]:
    path = folder / manifest.RECIPE
    if not path.is_file():
        raise ValueError(f"{manifest.RECIPE} is missing")
    if path.stat().st_size > manifest.LIMITS[".toml"]:
        raise ValueError(f"{path.name} is larger than that of any run")
    try:
        return tomllib.loads(path.read_bytes().decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is no recipe: {error}") from None


def _of_recipe(recipe: dict[str, Any]) -> dict[str, Any]:
    """Task, data, metric and planned updates, as far as the recipe says."""
    data, train = (_table(recipe.get(name)) for name in ("data", "train"))
    named = next((data[key] for key in DATA if data.get(key)), "")
    files = named if isinstance(named, list) else [named]
    names = [Path(str(each)).name or str(each) for each in files]
    updates = train.get("updates")
    counted = type(updates) is int and 0 < updates < ENDLESS
    ends = any(train.get(key) for key in ("minutes", "tokens"))  # epochs are updates by now
    return {
        "task": _printable(str(recipe.get("task", ""))),
        "data": _printable(", ".join(names[:2]) + (", …" if len(names) > 2 else "")),
        "metric": _printable(str(train.get("metric", ""))),
        "updates": updates if counted and not ends else None,
    }


def _check(folder: Path, files: manifest.Files) -> None:
    """Refuse a run whose files are not what it was made with, as far as that is quickly seen."""
    for name, listed in files.items():
        path = folder / name
        decides = "/" not in name and name not in manifest.ASIDE
        if not path.is_file():
            if decides:
                raise ValueError(f"{name} is missing")
            continue  # a run without its store can still be used
        size = path.stat().st_size
        if size != listed["size"] or (
            decides and size <= SMALL and manifest.entry(path) != dict(listed)
        ):
            raise ValueError(f"{name} is damaged")


def _standing(folder: Path) -> dict[str, Any]:
    """State, update and best validation."""
    final, trains = folder / "model", lock.is_held(folder)
    if final.is_dir() and not trains:
        return {"state": "finished", **_progress(final)}
    numbered = [each for each in (folder / "checkpoints").glob("[0-9]*") if each.name.isdigit()]
    faults: list[str] = []
    found: dict[str, Any] = {"update": 0}
    for each in sorted(numbered, key=lambda each: int(each.name), reverse=True):
        try:
            found = _progress(each)
            break
        except (OSError, ValueError) as error:
            if each.is_dir():  # else the run has removed it meanwhile
                faults.append(f"checkpoint {int(each.name)}: {error}")
    if faults and found == {"update": 0} and not trains:
        raise ValueError(faults[0])
    if trains:
        return {"state": "training", **found, "update": _last_update(folder, found["update"])}
    return {"state": "unfinished", **found}


def _progress(place: Path) -> dict[str, Any]:
    """Where a checkpoint stands, if its files are whole."""
    _check(place, manifest.read(place)["files"])
    table = checked.read(place / "progress.json")
    update, best = table.get("update"), table.get("best")
    if type(update) is not int or not 0 <= update <= checked.WHOLE:
        raise ValueError("progress.json does not say at which update it is")
    known = isinstance(best, int | float) and math.isfinite(best)
    return {"update": update, "best": float(best) if known and best is not None else None}


def _last_update(folder: Path, saved: int) -> int:
    """The update of the last record, which is later than the last checkpoint."""
    with suppress(OSError), (folder / "metrics.jsonl").open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
        for line in reversed(file.read().splitlines()):
            with suppress(ValueError, RecursionError):
                record = json.loads(line)
                if isinstance(record, dict) and type(record.get("update")) is int:
                    return max(saved, int(record["update"]))
    return saved


def _changed(folder: Path) -> float:
    """When the run was last written to."""
    last = 0.0
    for name in ("model", "checkpoints", "metrics.jsonl", manifest.RECIPE, BEGUN, manifest.NAME):
        with suppress(OSError):
            last = max(last, (folder / name).stat().st_mtime)
    return last


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _printable(text: str) -> str:
    """A line that changes no terminal, whatever the file has."""
    return "".join(each if each.isprintable() else "�" for each in text)
