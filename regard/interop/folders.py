"""A folder of Hugging Face, read as if somebody had forged it: settings, tokenizer and tensors.

Nothing is unpickled and no code of a folder is run. What files say of themselves is checked before
any of it is believed: where they are, how large they are, which tensors of which shape they have.
"""

import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.errors import UserError
from regard.recipe import checked
from regard.recipe.checked import LARGEST, Table
from regard.train.manifest import is_hollow

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}\.safetensors")
FILES = 1000
VALUES = 1 << 18
"""In a JSON file that is no tokenizer."""
TYPES = {"F64", "F32", "F16", "BF16"}
LONG = re.compile(r"(?<=[:\s])[0-9]{21,}(?=[,\s}])")
"""A number that stands for none: the longest text is often said to have 10³⁰ tokens."""
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")


def pickled_alone(where: str, names: Iterable[str]) -> str:
    """What to do about a model that has pickled weights and no others; nothing if it has others."""
    there = sorted(names)
    pickled = [name for name in there if any(fnmatch(name, each) for each in PICKLED)]
    if not pickled or any(fnmatch(name, "*.safetensors") for name in there):
        return ""
    return (
        f"{where} has pickled weights alone ({pickled[0]}), which are never opened: have the "
        "transformers library write it anew, with save_pretrained"
    )


class Folder:
    """Where a model is, and what is asked of it."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise UserError(f"{path}: there is no such folder")
        self.path = path

    def table(self, name: str, *, needed: bool = True) -> Table:
        """A JSON file; one that need not be there has nothing in it."""
        path = self.path / name
        if not path.exists():
            if needed:
                raise UserError(f"{path}: there is no such file")
            return {}
        text = LONG.sub("0", self.text(name, LARGEST))
        try:
            return checked.parse(text, VALUES)
        except ValueError as error:
            raise UserError(f"{path}: {error}") from None

    def text(self, name: str, largest: int) -> str:
        try:
            return self.data(name, largest).decode()
        except UnicodeDecodeError as error:
            raise UserError(f"{self.path / name}: {error}") from None

    def data(self, name: str, largest: int) -> bytes:
        """All of a file that has at most so many bytes."""
        path = self.path / name
        check_regular(path)
        try:
            with path.open("rb") as file:
                found = file.read(largest + 1)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror or error}") from None
        if len(found) > largest:
            raise UserError(f"{path} is larger than {largest:,} bytes")
        return found

    def tensors(self) -> "Tensors":
        """All weights, without reading them."""
        if (self.path / INDEX).exists():
            return Tensors(self._indexed())
        if not (self.path / WEIGHTS).exists():
            raise UserError(self._without_weights())
        path = self.path / WEIGHTS
        return Tensors({name: (path, shape) for name, shape in shapes(path).items()})

    def _without_weights(self) -> str:
        names = [path.name for path in self.path.iterdir()]
        return (
            pickled_alone(str(self.path), names) or f"{self.path / WEIGHTS}: there is no such file"
        )

    def _indexed(self) -> "dict[str, tuple[Path, tuple[int, ...]]]":
        """Where each tensor is, by an index of several files."""
        path = self.path / INDEX
        listed = self.table(INDEX).get("weight_map")
        if not isinstance(listed, dict) or not all(isinstance(v, str) for v in listed.values()):
            raise UserError(f"{path}: weight_map does not name a file for each tensor")
        files = sorted(set(listed.values()))
        if len(files) > FILES:
            raise UserError(f"{path}: {len(files):,} files, more than {FILES:,}")
        found: dict[str, tuple[Path, tuple[int, ...]]] = {}
        for name in files:
            if not FILE.fullmatch(name):
                raise UserError(f"{path}: {name[:60]!a} is not the name of a file in the folder")
            there = shapes(self.path / name)
            found |= {each: (self.path / name, shape) for each, shape in there.items()}
        for name, file in listed.items():
            if name not in found or found[name][0].name != file:
                raise UserError(f"{path}: {file} has no tensor {name[:100]!a}")
        return found


@dataclass(frozen=True)
class Tensors:
    """Weights by name, with where they are and their shapes."""

    places: Mapping[str, tuple[Path, tuple[int, ...]]]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.places[name][1]

    def renamed(self, names: Mapping[str, str]) -> "Renamed":
        return Renamed({new: self.places[old] for old, new in names.items()}, names)

    def read(self, name: str) -> Tensor:
        """In float32."""
        return _read(self.places[name][0], name)


@dataclass(frozen=True)
class Renamed(Tensors):
    """The same by other names."""

    names: Mapping[str, str]

    def read(self, name: str) -> Tensor:
        old = next(old for old, new in self.names.items() if new == name)
        return _read(self.places[name][0], old)


def _read(path: Path, name: str) -> Tensor:
    try:
        with safe_open(path, "pt") as file:
            tensor: Tensor = file.get_tensor(name)
    except (SafetensorError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"{path}: {error}") from None
    return tensor.float()


def check_regular(path: Path) -> None:
    """Refuse what is no plain file: to open a pipe can wait for ever, a device may have no end."""
    try:
        plain = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    if not plain:
        raise UserError(f"{path} is not a regular file")


def shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Of the tensors in a file, whose header is checked against its size."""
    check_regular(path)
    try:
        with path.open("rb") as file:
            if int.from_bytes(file.read(8), "little") > LARGEST:
                raise UserError(f"{path}: its header is too large")
        if is_hollow(path.stat()):
            raise UserError(f"{path} is nearly all holes")
        with safe_open(path, "pt") as opened:
            names: list[str] = opened.keys()
            pieces = {name: opened.get_slice(name) for name in names}
            found = {name: (tuple(p.get_shape()), p.get_dtype()) for name, p in pieces.items()}
    except (SafetensorError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path}: {reason}") from None
    return {name: shape for name, (shape, kind) in found.items() if _usable(path, name, kind)}


def _usable(path: Path, name: str, kind: Any) -> bool:
    """Whether it may be a weight; what stands beside weights (positions, masks) is no number."""
    if kind in TYPES:
        return True
    if kind in ("I64", "I32", "BOOL", "U8", "I8", "I16"):
        return False
    raise UserError(f"{path}: {name[:100]!a} is of type {kind}, which is not read")
