"""The paths that a recipe names: relative to its own folder, or on the command line to the working
folder. Behind that of a run, the name of a part of its model may stand: "runs/x:decoder".
"""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.errors import RecipeError
from regard.recipe.parts import NEW
from regard.recipe.values import shown

Table = dict[str, Any]
FILES = ("data.train", "data.validation", "data.test", "data.file", "output.choices")
"""The keys that name files; on the command line they may be here, and not in the data's folder."""
PART = r"(?:towers\.\w+\.)?(?:input|encoder)|decoder|head|heads\.\w+"
"""The key of a part of a model."""
OUTSIDE = re.compile(rf"tokenizer\.words_of|model\.(?:(?:{PART})\.(?:vectors|weights)|weights)")
"""The keys of paths that stand outside of the section of the data."""

DEPTH = 3
"""Dots of "model.towers.image.input", the longest key of a part."""


def from_here(key: str, value: Any) -> Any:
    """A value of the command line."""
    if (key == "data.folder" or OUTSIDE.fullmatch(key)) and isinstance(value, str) and value:
        return _resolved(key, value, Path())
    if key in FILES and isinstance(value, list):
        return [from_here(key, each) if isinstance(each, str) else each for each in value]
    with suppress(OSError, ValueError):  # no path at all
        if key in FILES and isinstance(value, str) and value and Path(value).exists():
            return _resolved(key, value, Path())
    return value


def from_recipe(table: Table, folder: Path) -> None:
    """All values of a recipe that is in `folder`."""
    data = table.get("data")
    if isinstance(data, dict) and not data.get("set"):
        named = data.get("folder", "")
        if isinstance(named, str):
            data["folder"] = _resolved("data.folder", named, folder)
    for name in ("model", "tokenizer"):
        if isinstance(table.get(name), dict):
            _outside(table[name], name, folder)


def _outside(table: dict[Any, Any], key: str, folder: Path) -> None:
    for name, value in table.items():
        full = f"{key}.{name}"
        if isinstance(value, dict) and full.count(".") <= DEPTH:
            _outside(value, full, folder)
        elif isinstance(value, str) and value and OUTSIDE.fullmatch(full):
            table[name] = _resolved(full, value, folder)


def _resolved(key: str, text: str, folder: Path) -> str:
    """A path from its root on; `~` is a home."""
    if text == NEW and key.endswith(".weights"):
        return text
    path, part = split(text) if key.endswith(".weights") else (text, "")
    try:
        whole = str((folder / Path(path).expanduser()).resolve())
    except (RuntimeError, ValueError, OSError) as error:
        raise RecipeError(f"{key}: {shown(path)} is no path: {error}") from None
    return whole + (f":{part}" if part else "")


def split(text: str) -> tuple[str, str]:
    """The folder of a run and the part that is named behind it, if one is."""
    run, _, part = text.rpartition(":")
    return (run, part) if run and re.fullmatch(PART, part) else (text, "")
