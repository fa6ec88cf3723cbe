"""manifest.json: the files of a folder, with size and SHA-256 of each; checked before any is used.

    {"format": 2, "files": {"model.safetensors": {"size": 5120, "sha256": "…"}, …}, …}

A run's folder has one of what it was made with, and each checkpoint has one of its own.

    format 1   a checkpoint's files
    format 2   also, as `run`, what the run was made with, as `records`, what metrics.jsonl began
               with when it was saved, and a hash of itself
"""

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from safetensors import SafetensorError, safe_open

from regard.errors import UserError
from regard.recipe import checked
from regard.recipe.checked import LARGEST, Table

try:
    import fcntl
except ImportError:  # Windows
    FULL_SYNC = None
else:
    FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)
    """macOS alone has it."""

FORMAT = 2
NAME = "manifest.json"
RECIPE = "recipe.toml"
HIDDEN_RECIPE = f".{RECIPE}"
ASIDE = ("data.json", "environment.json")
"""Files of a run that tell something and decide nothing."""
MADE = (
    "It was made when the run was, and nothing changes it since: put it back from a copy, or start "
    "a new run"
)
"""What to do about a file of a run that cannot be what it was."""
LIMITS = {".toml": 1 << 20, ".json": 1 << 26, ".txt": 1 << 26}
"""Bytes of what stands in a run's folder itself: recipe, tokenizers, labels, choices."""
LONGEST = 255
"""Characters of a file's name."""
HOLLOW = 1 << 28
"""Bytes from which on a file is asked whether it is there at all."""
AXES = 8
"""Of a tensor, at most."""
TYPES = ("F32",)
"""Of the numbers of a checkpoint."""
CLUTTER = (".DS_Store", "Thumbs.db", "desktop.ini")
"""What Finder and Explorer leave in a folder that somebody looks at; nobody here reads it."""
JUNCTION = 0xA0000003
"""IO_REPARSE_TAG_MOUNT_POINT, which `stat` has on Windows alone."""

Files = Mapping[str, Mapping[str, Any]]
signed = checked.signed


def write(folder: Path, paths: Mapping[str, Path], run: Files, records: Files) -> None:
    """List these files of `folder`; all of them, the list and the folder are put on the disk."""
    for path in paths.values():
        sync(path)
    _put(folder, {name: entry(path) for name, path in sorted(paths.items())}, run, records)


def _put(folder: Path, files: Files, run: Files, records: Files) -> None:
    table = signed({"format": FORMAT, "files": files, "run": run, "records": records})
    writing = folder / f".{NAME}"
    writing.write_text(json.dumps(table, indent=1), encoding="utf-8", newline="\n")
    sync(writing)
    writing.replace(folder / NAME)
    sync(folder)


def read(folder: Path) -> Table:
    """A folder's manifest in the present format; ValueError if it is none."""
    table = checked.read(folder / NAME)
    number = table.get("format")
    if type(number) is not int or not 1 <= number <= FORMAT:
        raise ValueError(f"{NAME}: format {number}, but this version of regard reads 1 to {FORMAT}")
    checked.keys(table, NAME, {"format", "files"}, {"run", "records", "sha256"})
    # Format 1 did not say which run a checkpoint is of, nor what was recorded before it.
    found = table if number > 1 else table | {"format": FORMAT, "run": {}, "records": {}}
    for section in ("files", "run", "records"):
        listed = found.get(section)
        if not isinstance(listed, dict) or not all(map(_is_entry, listed.values())):
            raise ValueError(f"{NAME}: {section!r} does not give a size and a hash for each file")
    if number > 1 and table != signed(table):
        raise ValueError(f"{NAME} is damaged")
    return found


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.keys() == {"size", "sha256"}
        and type(entry["size"]) is int
        and 0 <= entry["size"] <= checked.WHOLE
        and isinstance(entry["sha256"], str)
        and re.fullmatch("[0-9a-f]{64}", entry["sha256"]) is not None
    )


def fault(folder: Path, files: Files) -> str | None:
    """What is wrong with these files of `folder`, or None. What takes longest comes last."""
    for name, listed in files.items():
        if not _inside(name):
            return f"{name[:LONGEST]!r} is not the name of a file in it"
        path = folder / name
        if path.is_symlink() or not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != listed["size"]:
            return f"{name} is damaged"
        if is_hollow(path.stat()):
            return f"{name} is nearly all holes, which nothing that a run has written is"
        if path.suffix == ".safetensors" and (reason := _unreadable(path)):
            return f"{name} is damaged: {reason}"
    for name, listed in files.items():
        if entry(folder / name) != listed:
            return f"{name} is damaged"
    return None


def is_clutter(path: Path) -> bool:
    """Whether a file is the system's own and says nothing; macOS has one for any on some disks."""
    return path.name in CLUTTER or path.name.startswith("._")


def is_hollow(status: os.stat_result) -> bool:
    """Whether a large file takes up next to nothing: to read it would take long, and be in vain."""
    blocks = getattr(status, "st_blocks", 0) * 512  # 0 where the system does not say
    return status.st_size > HOLLOW and 0 < blocks < status.st_size // 64


def _inside(name: str) -> bool:
    """Whether a name is that of a file in a folder, on any system."""
    parts = PurePosixPath(name).parts
    plain = name.isprintable() and len(name) <= LONGEST and not {"\\", ":"} & set(name)
    return plain and bool(parts) and ".." not in parts and name[0] != "/"


def entry(path: Path, size: int | None = None) -> Table:
    """Size and hash of a file, or of its first `size` bytes."""
    wanted = path.stat().st_size if size is None else size
    digest, rest = hashlib.sha256(), wanted
    with path.open("rb") as file:
        while rest and (block := file.read(min(rest, 1 << 20))):
            digest.update(block)
            rest -= len(block)
    return {"size": wanted - rest, "sha256": digest.hexdigest()}


def _unreadable(path: Path) -> str | None:
    """Why a file of tensors cannot be used, whatever its hash says."""
    with path.open("rb") as file:
        if int.from_bytes(file.read(8), "little") > LARGEST:
            return "its header is too large"
    try:
        with safe_open(path, "pt") as file:
            names: list[str] = file.keys()
            for name in names:
                piece = file.get_slice(name)
                if piece.get_dtype() not in TYPES:
                    return f"{name[:LONGEST]!r} is of type {piece.get_dtype()}, not float32"
                if 0 in piece.get_shape() or len(piece.get_shape()) > AXES:
                    return f"{name[:LONGEST]!r} has the shape of no weight"
    except (SafetensorError, OSError) as error:
        return str(error)
    return None


def seal(folder: Path) -> None:
    """List all that a new run was made with. Its recipe, still hidden, gets its name last: a folder
    without a recipe is not a run."""
    hidden = folder / HIDDEN_RECIPE
    made = [p for p in folder.rglob("*") if p.name[0] != "." and not is_clutter(p)]
    for path in made:
        sync(path)
    names = {path.relative_to(folder).as_posix(): path for path in made if path.is_file()}
    write(folder, names | {RECIPE: hidden}, {}, {})
    hidden.rename(folder / RECIPE)
    sync(folder)
    sync(folder.parent)


def sealed(folder: Path, *, whole: bool = False) -> Files:
    """What a run was made with; a file that was changed since is refused. To predict, not all are
    needed; to train, `whole` asks for all that decide anything. Runs of format 1 have no list."""
    check_kinds(folder)
    files = made_with(folder)
    deciding = {name: listed for name, listed in files.items() if name not in ASIDE}
    try:
        found = fault(folder, deciding if whole else needed(files))
    except (OSError, ValueError) as error:
        found = str(error)
    if found:
        raise UserError(f"{folder}: {found}. {MADE}")
    return files


def made_with(folder: Path) -> Files:
    """What the run's manifest lists, or if that is missing or damaged, what a checkpoint says."""
    numbered = sorted(folder.glob("checkpoints/[0-9]*"), reverse=True)
    for source in (folder, *numbered, folder / "model"):
        with suppress(OSError, ValueError):
            table = read(source)
            if files := table["files" if source == folder else "run"]:
                return dict(files)
    if (folder / NAME).exists():
        raise UserError(f"{folder / NAME} is damaged, and no checkpoint repeats what it said")
    return {}


def restore(folder: Path, files: Files) -> str | None:
    """Write a run's manifest again if it is missing or damaged; tells what was wrong with it."""
    with suppress(OSError, ValueError):
        read(folder)
        return None
    if not files:
        return None
    _put(folder, files, {}, {})
    return f"{folder / NAME} was missing or damaged: written again, as the checkpoints have it"


def needed(files: Files) -> Files:
    """Of a run's files those that weights mean nothing without: recipe, tokenizers, labels, …"""
    return {name: listed for name, listed in files.items() if "/" not in name and name not in ASIDE}


def check_kinds(folder: Path) -> None:
    """Refuse whatever is neither a file nor a folder (a link could lead out of a run), and recipes
    and tokenizers of a size that none has. A run that trains removes old checkpoints meanwhile."""
    for place, folders, names in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *names)):
            with suppress(FileNotFoundError):
                _check_kind(path, path.lstat(), top=path.parent == folder)


def _check_kind(path: Path, status: Any, *, top: bool) -> None:
    # A junction is Windows' older kind of link, which is a folder to all appearance.
    junction = getattr(status, "st_reparse_tag", 0) == JUNCTION
    link = stat.S_ISLNK(status.st_mode) or junction
    if link or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        what = "a link" if link else "neither a file nor a folder"
        raise UserError(f"{path} is {what}: a run holds its own files. Remove it, or copy it in")
    if top and status.st_size > LIMITS.get(path.suffix, status.st_size):
        raise UserError(f"{path} is larger than {LIMITS[path.suffix]:,} bytes: not a run's own")


def sync(path: Path) -> None:
    """Have the kernel put it on the disk. (Folders cannot be synced on Windows, nor on some disks
    of the network.)"""
    folder = path.is_dir()
    if folder and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        _flush(handle)
    except OSError as error:
        if not folder or error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def _flush(handle: int) -> None:
    """fsync; on macOS, where that leaves the data in the disk's own memory, what empties it."""
    if FULL_SYNC is not None:
        with suppress(OSError):  # a file system without it
            fcntl.fcntl(handle, FULL_SYNC)
            return
    os.fsync(handle)
