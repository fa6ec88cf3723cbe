"""The data sets that recipes name, on this machine.

    get     bring a set to this machine, from the network or from a local copy
    find    its folder, once it is there
    names, describe, sample: what `regard data` shows

A file becomes visible under its name only when it is whole and its checksum is right.
"""

import difflib
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from itertools import islice
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from regard.data import readers
from regard.data.archives import BLOCK, digest, unpack, visible
from regard.data.sets import Dataset, Fetch, File, known
from regard.errors import UserError

TIMEOUT = 60

Progress = Callable[[str, int, int], None]
"""Called with the name of a download, its bytes so far, and their final number (0 if unknown)."""


def home() -> Path:
    """Where the sets are kept: $REGARD_DATA, or the platform's folder for caches."""
    try:
        if chosen := os.environ.get("REGARD_DATA"):
            return Path(chosen).expanduser()
        if sys.platform == "darwin":
            cache = Path.home() / "Library" / "Caches"
        elif sys.platform == "win32":
            cache = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        else:
            cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:
        raise UserError(f"set $REGARD_DATA to the folder of the data sets: {error}") from None
    return cache / "regard" / "data"


def names() -> list[str]:
    return list(known())


def find(name: str) -> Path:
    """The folder of a set that is on this machine."""
    dataset = _look_up(name)
    if _whole(folder := home() / name, dataset):
        return folder
    state = "incomplete" if folder.exists() else "not there"
    raise UserError(
        f"the data set {name} is {state} in {home()}: run `regard data get {name}`, "
        f"or with a local copy `regard data get {name} --from DIR`"
    )


def describe(name: str) -> dict[str, Any]:
    """A set as plain values."""
    dataset = _look_up(name)
    folder = home() / name
    return {
        "name": name,
        **{key: getattr(dataset, key) for key in ("what", "licence", "source", "note")},
        "folder": str(folder),
        "present": _whole(folder, dataset),
        "files": [
            {"name": f.name, "size": f.size, "url": f.url, "present": _present(folder / f.name, f)}
            for f in dataset.files
        ],
    }


def sample(name: str, n: int = 3) -> dict[str, list[str]]:
    """The first lines of each text file of a set that is on this machine."""
    folder = find(name)
    shown = {}
    for file in _look_up(name).files:
        broken: readers.Broken = {}
        if not file.name.endswith("/"):
            lines = list(islice(readers.lines(folder / file.name, broken), n))
            if not any(number <= n for number in broken):
                shown[file.name] = lines
    return shown


def get(
    name: str,
    source: Path | None = None,
    *,
    to: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """The folder of a set, brought here if need be: `to`/name, where `to` is `home()` if absent.

    With `source`, a folder with the files (or archives) or one that holds it under the set's
    name, they are copied from there; else they are downloaded, or made. The sets that another is
    made from are brought here first, in the same way.
    """
    dataset = _look_up(name)
    folder = (to or home()) / name
    if _whole(folder, dataset):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{name}-", dir=folder.parent) as temporary:
            stage, downloads = Path(temporary, "files"), Path(temporary, "downloads")
            stage.mkdir()
            downloads.mkdir()
            if dataset.origins:
                bases = [get(each, source, to=to, progress=progress) for each in dataset.origins]
                found = {path.name: path for base in reversed(bases) for path in base.iterdir()}
                _assemble(name, dataset, [], found.__getitem__, stage)
            elif source:
                local = [each for each in (source / name, source) if each.is_dir()]
                if not local:
                    raise UserError(f"{source}: there is no such folder to take {name} from")
                _assemble(name, dataset, local, partial(_nearby, name, local), stage)
            else:
                fetch = partial(_download, name, downloads, progress or (lambda *_: None))
                _assemble(name, dataset, [], fetch, stage)
            _publish(dataset, stage, folder)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: {error.strerror or error}") from None
    return folder


def _look_up(name: str) -> Dataset:
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"there is no data set {name}; {hint}there are: {', '.join(names())}")
    return known()[name]


def _whole(folder: Path, dataset: Dataset) -> bool:
    return all(_present(folder / file.name, file) for file in dataset.files)


def _present(path: Path, file: File) -> bool:
    """Whether a file is there with its size. That of .gz depends on the compressor."""
    if path.is_dir():
        size = sum(each.stat().st_size for each in visible(path))
    else:
        size = path.stat().st_size if path.is_file() else 0
    free = not file.size or file.name.endswith(".gz")
    return size > 0 if free else size == file.size


def _assemble(name: str, dataset: Dataset, local: list[Path], fetch: Fetch, stage: Path) -> None:
    """Put every file into `stage`: a local copy, what the address has, or one made here."""
    copies = [
        next((path for each in local if file.sha256 and (path := each / file.name).exists()), None)
        for file in dataset.files
    ]
    if dataset.make and not all(copies):
        return dataset.make(stage, fetch)
    for file, copy in zip(dataset.files, copies, strict=True):
        target = stage / file.name
        if copy:
            _verify(copy, file, str(copy))
            _copy(copy, target)
        elif file.url:
            unpack(fetch(file.url), file.url, file.name, file.size, target)
            _verify(target, file, file.url)
        else:
            wanted = ", ".join(each.name for each in dataset.files)
            raise UserError(
                f"{name}: {file.name} has no public copy in this form. {dataset.note} Its home is "
                f"{dataset.source}; with `regard data get {name} --from DIR` a folder that holds "
                f"{wanted} is taken"
            )


def _verify(path: Path, file: File, origin: str) -> None:
    if (found := digest(path)) != file.sha256:
        raise UserError(
            f"{origin}: the sha256 of {file.name} is {found}, expected {file.sha256}; "
            "nothing was kept"
        )


def _copy(path: Path, target: Path) -> None:
    """The content alone: what is read-only over there must not be so here."""
    if path.is_dir():
        target.mkdir()
        for each in visible(path):
            shutil.copyfile(each, target / each.name)
    else:
        shutil.copyfile(path, target)


def _publish(dataset: Dataset, stage: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for file in dataset.files:
        target = folder / file.name
        if target.is_dir():
            if _present(target, file):
                continue
            shutil.rmtree(target)
        (stage / file.name).replace(target)


def _nearby(name: str, local: list[Path], url: str) -> Path:
    """The download that somebody has put into a local folder."""
    file = PurePosixPath(url).name
    for folder in local:
        if (folder / file).is_file():
            return folder / file
    wanted = ", ".join(each.name for each in _look_up(name).files)
    raise UserError(f"{local[-1]} has not all files of {name}: {wanted}; nor has it {file}")


def _download(name: str, folder: Path, progress: Progress, url: str) -> Path:
    target = folder / PurePosixPath(url).name
    if target.exists():
        return target
    done = total = 0
    try:
        request = Request(url, headers={"User-Agent": "regard"})
        with urlopen(request, timeout=TIMEOUT) as answer, target.open("wb") as out:
            total = int(answer.headers.get("Content-Length") or 0)
            while block := answer.read(BLOCK):
                out.write(block)
                done += len(block)
                progress(target.name, done, total)
        if done < total:
            raise HTTPException(f"it stopped after {done:,} of {total:,} bytes")
    except (OSError, HTTPException) as error:
        why = error if isinstance(error, HTTPError) else getattr(error, "reason", error)
        raise UserError(
            f"{name}: could not download {url}: {why}. "
            f"`regard data get {name} --from DIR` takes a local copy"
        ) from None
    return target
