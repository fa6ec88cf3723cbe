"""Predicting for a folder of files: here, or on a cluster.

Each file is predicted for by itself, as if it were given alone, so that what comes of it does not
depend on who does it. Where outputs have a folder, too, it holds:

FOLDER/NAME                what comes of the file of that name; there once it is whole
FOLDER/.predicted.json     what files are made from: the model, the options, the inputs' sizes
"""

import gzip
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from regard import __version__, front
from regard.console import streams
from regard.data import media, readers, whole_file
from regard.errors import UserError
from regard.recipe import checked
from regard.runs import cluster
from regard.train import lock
from regard.verbs import display, outputs
from regard.verbs.outputs import How
from regard.verbs.sources import Format, Source, put, sources

NOTE = ".predicted.json"


def are(source: Source, predictor: front.Predictor) -> bool:
    """Whether it is a folder of files that hold inputs; where inputs are files, as pictures are, it
    is one of inputs."""
    return source.is_folder and not next(iter(predictor.task.fields.values())).on_disk


@dataclass(frozen=True)
class Shards:
    """What is made of a folder's files."""

    predictor: front.Predictor
    folder: Path
    format: Format
    how: How
    to: Path | None

    def lines(self, name: str) -> Iterator[bytes]:
        """What comes of a file."""
        path = str(self.folder / name)
        [source] = sources([path], self.format, self.predictor.run.folder, "predict")
        return outputs.lines(self.predictor, source, self.how)

    def make(self, name: str) -> bytes:
        """Write what comes of a file; without a folder for it, this is all that is given."""
        if self.to is None:
            return b"".join(self.lines(name))
        path = self.to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file.writing(path, alone=False) as file:
            if path.suffix.lower() == ".gz":  # without a time: always the same bytes
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                    packed.writelines(self.lines(name))
            else:
                file.writelines(self.lines(name))
        return b""


def predict(
    shards: Shards, opened: Mapping[str, Any], ray: str | None = None, hint: str = ""
) -> None:
    """Predict for all files of a folder, here or on a cluster; `opened` are the options by which
    the model was opened, `hint` is what to do if no folder was meant."""
    options = {k: value for k, value in shards.how.options.items() if k != "prefix"}
    shards.predictor.predictions([], **options)  # those that do not fit are refused before all
    names = _files(shards.folder, hint)
    with cluster.connected(ray) if ray else nullcontext():
        if shards.to is None:
            for out in _outputs(shards, names, opened, ray):
                put(out)
            return
        with _taken(shards, shards.to, names, opened) as missing:
            for _ in _outputs(shards, missing, opened, ray):
                pass
        kept = len(names) - len(missing)
        before = f", {kept:,} of them before" if kept else ""
        display.errors.print(f"{shards.to}: {len(names):,} files written{before}")


def _files(folder: Path, hint: str) -> list[str]:
    """The files inside, at any depth, by the alphabet; one that cannot be read as lines is refused
    before anything is done."""
    found = list(media.files(folder))
    if not found:
        raise UserError(f"{folder} is a folder without files{hint}")
    for path in found:
        with readers.opened(path) as stream:
            readers.check_text(path, stream.read(readers.LONGEST_MAGIC))
    return [path.relative_to(folder).as_posix() for path in found]


def _outputs(
    shards: Shards, names: Sequence[str], opened: Mapping[str, Any], ray: str | None
) -> Iterator[bytes]:
    """What is made of files, in their order, where it is not written to files."""
    if ray is None:
        for name in names:
            yield from shards.lines(name) if shards.to is None else [shards.make(name)]
        return
    order = {
        "run": str(shards.predictor.run.folder), "opened": opened, "folder": str(shards.folder),
        "format": shards.format, "how": asdict(shards.how), "to": shards.to and str(shards.to),
    }  # fmt: skip
    on_gpu = str(opened["device"]).startswith("cuda")
    for done in cluster.each("verbs.shards:predicting", order, names, gpu=on_gpu):
        if sys.stderr is not None:
            sys.stderr.write(done.said)
        if done.error:
            raise UserError(done.error)
        yield done.out


def predicting(order: Mapping[str, Any]) -> Callable[[str], bytes]:
    """What predicts for a file, by its name, in a worker of a cluster."""
    predictor = front.load(order["run"], **order["opened"])
    to = None if order["to"] is None else Path(order["to"])
    how = How(**order["how"])
    return Shards(predictor, Path(order["folder"]), order["format"], how, to).make


@contextmanager
def _taken(
    shards: Shards, to: Path, names: Sequence[str], opened: Mapping[str, Any]
) -> Iterator[list[str]]:
    """The folder of outputs is ours as long as this is open; the files that it lacks."""
    if to.resolve().is_relative_to(shards.folder.resolve()):
        raise UserError(f"--to {to}: it is inside {shards.folder}, whose files are read")
    if to.exists() and not to.is_dir():
        raise UserError(f"--to {to}: it is a file: name a folder")
    to.mkdir(parents=True, exist_ok=True)
    with lock.held(to):
        sizes = {name: _stamp(shards.folder / name) for name in names}
        _take_up(to, {"key": _key(shards, opened), "files": sizes})
        for left in to.rglob(".*-new"):
            left.unlink()
        yield [name for name in names if not (to / name).is_file()]


def _take_up(to: Path, now: Mapping[str, Any]) -> None:
    """Leave what an earlier try has made of the same files; refuse a folder of anything else."""
    before: dict[str, Any] = {"files": {}}
    if (to / NOTE).exists():
        try:
            before = checked.table(checked.read(to / NOTE), NOTE)
        except (OSError, ValueError) as error:
            raise UserError(f"{to / NOTE}: {error}. Name another folder") from None
        if before.get("key") != now["key"]:
            raise UserError(
                f"--to {to}: its files are of another model or of other options: name another"
            )
    elif any(not each.name.startswith(".") for each in to.iterdir()):
        raise UserError(f"--to {to}: it is not empty, and has no outputs of ours: name another")
    for name, stamp in now["files"].items():
        if (to / name).is_file() and before["files"].get(name) != stamp:
            streams.warn(f"{name} has changed since it was predicted for: that is done again")
            (to / name).unlink()
    whole_file.write(to / NOTE, checked.written(now))


def _stamp(path: Path) -> list[int]:
    about = path.stat()
    return [about.st_size, about.st_mtime_ns]


def _key(shards: Shards, opened: Mapping[str, Any]) -> str:
    """A hash of all that outputs depend on, beside the inputs."""
    how = asdict(replace(shards.how, options={**shards.how.options, "batch": 0}))
    model = [shards.predictor.run.files, shards.predictor.progress.update]
    about = [__version__, model, how, shards.format, {**opened, "device": ""}]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
