"""Find a part by the name of its file: `kind = "rnn"` in `[model.encoder]` is encoders/rnn.py.

Somebody else's parts come from a folder that the user names (`--parts DIR`), laid out like the
package: DIR/encoders/mine.py is `kind = "mine"`. They never come from inside a run.
"""

import dataclasses
import difflib
import importlib
import importlib.util
import sys
import traceback
import typing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

from regard.console.shell import command
from regard.errors import RecipeError
from regard.recipe.values import Factor, Items, Positive, Range, Share

NAMES = {
    "inputs": ("Input",),
    "encoders": ("Encoder",),
    "decoders": ("Decoder",),
    "heads": ("Head",),
    "search": ("search",),
    "fields": ("Field",),
    "tasks": ("Task", "PARTS", "metrics", "check", "plan"),
}
"""The rooms that a part may be for, and what it must have beside a Config."""
_folders: list[Path] = []


ROOMS = {"input": "inputs", "encoder": "encoders", "decoder": "decoders", "head": "heads"}
"""The parts of a model, and where each comes from."""


@dataclass(frozen=True, kw_only=True)
class Lora:
    """Low-rank adapters (Hu et al. 2022): W stays as it began, and W + (α/r) B A is computed with
    A ∈ ℝʳˣᴵ and B ∈ ℝᴼˣʳ, which alone are trained."""

    rank: Annotated[int, Range(1, 1024)] = 8
    """r: columns of B, rows of A."""
    alpha: Positive = 16.0
    """α: what the adapters add is multiplied by α/r."""
    dropout: Share = 0.0
    """On what A reads."""
    targets: Annotated[tuple[str, ...], Items(64)] = ()
    """Which linear layers get adapters, by how their names end: ["query_key_value", "output"];
    none named: all of the part."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a part of a model begins with, and how fast it is trained: keys that every kind has."""

    weights: str = ""
    """A run whose final model gives this part the weights that it begins with: its folder, or
    "folder:part" where the part has another name there, such as "runs/x:decoder". "none": the part
    is new, although model.weights names a run that has it."""
    frozen: bool = False
    """Never trained: the part keeps the weights that it begins with, and computes as in prediction,
    without dropout."""
    rate: Factor = 1.0
    """A factor on the learning rate of this part."""
    layer_decay: Annotated[float, Range(0, 1, open_low=True)] = 1.0
    """A factor on the learning rate for each layer that stands above: of L layers, layer l learns
    at layer_decay^(L − l) of the rate, and what is read before the first at layer_decay^L."""
    lora: Lora | None = None
    """Train adapters of low rank instead of the weights."""


@dataclass(frozen=True)
class Part:
    """A chosen part: its kind and the settings of that kind."""

    kind: str
    config: Any
    training: Training | None = None
    """Of a part of a model alone; None is as good as all defaults."""


NEW = "none"
"""In place of a run: the part begins with weights that are drawn for it."""


def room_of_part(key: str) -> str:
    """Where a part of a model comes from: that of "towers.image.input" is inputs."""
    return "heads" if key.startswith("heads.") else ROOMS[key.rpartition(".")[2]]


def add_folder(folder: Path) -> None:
    """Look for parts in `folder`, too."""
    if not folder.is_dir():
        raise RecipeError(f"--parts {folder}: there is no such folder")
    if not any((folder / room).is_dir() for room in NAMES):
        raise RecipeError(f"--parts {folder}: it has none of the folders {', '.join(NAMES)}")
    _folders.append(folder.resolve())


def no_run(folder: Path) -> str:
    """What a place is that has no recipe.toml."""
    if not folder.is_dir():
        return "does not exist"
    if (folder / "config.json").is_file():
        return f"is a folder of Hugging Face; to make a run of it: regard import {folder} runs/NAME"
    return "is not a run: it has no recipe.toml"


def resume(run: Path) -> str:
    """The command that goes on with a run, with the parts that it may have."""
    return with_parts("train", "--resume", run)


def with_parts(*words: str | Path) -> str:
    """A command that finds the parts that are found now."""
    return command(*words, *(w for f in _folders for w in ("--parts", f)))


def folders() -> list[Path]:
    """Where parts of somebody else are looked for."""
    return [*_folders]


def kinds(room: str) -> list[str]:
    """The names that `kind` may take in a room, without importing anything."""
    return sorted(_own(room).union(*(_files(folder / room) for folder in _folders)))


@cache
def _own(room: str) -> frozenset[str]:
    """A search for each sentence asks for its parts: the package's own are looked up once."""
    return _files(Path(__file__).parents[1] / room)


def _files(place: Path) -> frozenset[str]:
    return frozenset(file.stem for file in place.glob("[a-z]*.py"))


def module(room: str, kind: str) -> ModuleType:
    """The module of a part: it has a `Config` and its class."""
    known = kinds(room)
    if kind not in known:
        raise _none_of(kind, known)
    path = foreign(room, kind)
    return (
        _from_file(room, kind, path) if path else importlib.import_module(f"regard.{room}.{kind}")
    )


def choice(room: str, kind: str) -> ModuleType:
    """The module of a part that a recipe chooses: of fields, one that a task can read."""

    def allowed(name: str) -> bool:
        return room != "fields" or module(room, name).Field.readable

    known = kinds(room)
    if kind not in known or not allowed(kind):
        raise _none_of(kind, [name for name in known if allowed(name)])
    return module(room, kind)


def _none_of(kind: str, known: list[str]) -> RecipeError:
    near = difflib.get_close_matches(kind, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    own = "" if _folders else " (a part of your own needs --parts DIR)"
    return RecipeError(f"{kind[:80]!r} is not one of {', '.join(known)}{hint}{own}")


def foreign(room: str, kind: str) -> Path | None:
    """The file of a part that somebody else wrote."""
    files = (folder / room / f"{kind}.py" for folder in _folders)
    return next((file for file in files if file.is_file()), None)


def _from_file(room: str, kind: str, path: Path) -> ModuleType:
    name = f"regard_parts.{room}.{kind}"
    there = sys.modules.get(name)
    if there is not None and there.__file__ == str(path):
        return there
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RecipeError(f"{path}: cannot be imported")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    try:
        spec.loader.exec_module(loaded)
        _check(loaded, room, path)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        if isinstance(error, RecipeError):
            raise
        raise RecipeError(reason(error, path)) from error
    return loaded


def _check(loaded: ModuleType, room: str, path: Path) -> None:
    """Refuse a file that lacks what a part of its room must have."""
    for name in ("Config", *NAMES.get(room, ())):
        if not hasattr(loaded, name):
            raise RecipeError(f"{path}: has no {name}, which a part of {room}/ must have")
    config = loaded.Config
    if not (isinstance(config, type) and dataclasses.is_dataclass(config)):
        raise RecipeError(f"{path}: Config is no dataclass")
    typing.get_type_hints(config)


def reason(error: BaseException, path: Path) -> str:
    """What is wrong with a file, and in which line of it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f":{frame.lineno}" for frame in frames if frame.filename == str(path)]
    return f"{path}{lines[-1] if lines else ''}: {type(error).__name__}: {error}"


@runtime_checkable
class Holding(Protocol):
    """The Config of an input that reads by the input and the encoder of another run. They are made
    where the model is, and handed over by these names."""

    dim: int
    scale: bool
    framed: bool
    """Whether that run has read its texts between START and END."""
    input: Any
    encoder: Any


@runtime_checkable
class Holds(Protocol):
    """A part that holds parts of another run beside weights of its own: what a recipe says of its
    weights and of their training is said of these."""

    held: ClassVar[tuple[str, ...]]
    """Their names in it."""
