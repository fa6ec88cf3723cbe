"""Find a part by the name of its file: `kind = "rnn"` in `[model.encoder]` is encoders/rnn.py.

Somebody else's parts come from a folder that the user names (`--parts DIR`), laid out like the
package: DIR/encoders/mine.py is `kind = "mine"`. They never come from inside a run.
"""

import difflib
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.errors import RecipeError

_folders: list[Path] = []


@dataclass(frozen=True)
class Part:
    """A chosen part: its kind and the settings of that kind."""

    kind: str
    config: Any


def add_folder(folder: Path) -> None:
    """Look for parts in `folder`, too."""
    if not folder.is_dir():
        raise RecipeError(f"--parts {folder}: there is no such folder")
    _folders.append(folder.resolve())


def kinds(room: str) -> list[str]:
    """The names that `kind` may take in a room, without importing anything."""
    return sorted(_own(room).union(*(_files(folder / room) for folder in _folders)))


@cache
def _own(room: str) -> frozenset[str]:
    """A search for each sentence asks for its parts: the package's own are looked up once."""
    return _files(Path(__file__).parent / room)


def _files(place: Path) -> frozenset[str]:
    return frozenset(file.stem for file in place.glob("[a-z]*.py"))


def module(room: str, kind: str) -> ModuleType:
    """The module of a part: it has a `Config` and its class."""
    known = kinds(room)
    if kind not in known:
        near = difflib.get_close_matches(kind, known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise RecipeError(f"{kind!r} is not one of {', '.join(known)}{hint}")
    for folder in _folders:
        if (folder / room / f"{kind}.py").is_file():
            return _from_file(room, kind, folder / room / f"{kind}.py")
    return importlib.import_module(f"regard.{room}.{kind}")


def _from_file(room: str, kind: str, path: Path) -> ModuleType:
    name = f"regard_parts.{room}.{kind}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RecipeError(f"{path}: cannot be imported")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded
