"""A converted model that is kept in a run's folder `engines`: used only if it is what the run's
weights give.

    model.bin                   compared with the weights, tensor by tensor: hashes can be forged
    config.json                 compared with what CTranslate2 writes for these weights
    *_vocabulary.json           the same
    vmap.txt                    the shortlist, if it has one
    nearness.json               see nearness.py; it decides nothing
    manifest.json               size and hash of these, but for nearness.json, and of the stored
                                text that the shortlist was learnt from

CTranslate2 trusts what it reads, so nothing is opened before it is known to be what was written.
"""

import json
import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from regard.data.tokenizers import Tokenizer
from regard.errors import UserError
from regard.interop import nearness, shortlist
from regard.interop.conversion import library, names
from regard.train import manifest
from regard.train.manifest import Files, sync

MODEL = "model.bin"
TYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
"""By the number that CTranslate2 writes for each."""
POSITIONS = "position_encodings/encodings"
NEAR = 1e-6
"""How far a position's sines may be from those of another processor."""
DIGITS = 10
"""Of a token, at most."""


def seal(folder: Path, learnt_from: Files) -> None:
    """List the files of a new engine, and the stored text that its shortlist was learnt from."""
    manifest.write(folder, {path.name: path for path in folder.iterdir()}, learnt_from, {})


def fault(folder: Path, made: Any, learnt_from: Files, *, short: bool) -> str | None:
    """Why this engine is not the one that `made`, a specification with all weights, and a shortlist
    learnt from these files would be; None if it is."""
    texts = {"config.json": made.config.to_dict()} | _vocabularies(made)
    wanted = {MODEL, *texts} | ({shortlist.NAME} if short else set())
    if not (folder / manifest.NAME).is_file():
        return f"{manifest.NAME} is missing"
    try:
        listed = manifest.read(folder)
        seen = (f for f in folder.iterdir() if f.name[0] != "." and not manifest.is_clutter(f))
        there = {file.name for file in seen} - {manifest.NAME, nearness.NAME}
        for name in sorted((wanted ^ there) | (wanted ^ listed["files"].keys())):
            return f"{name} is missing" if name in wanted else f"{name[:60]!a} is not its own"
        if listed["run"] != learnt_from:
            return f"{shortlist.NAME} was learnt from other data"
        rest = {name: entry for name, entry in listed["files"].items() if name != MODEL}
        if found := manifest.fault(folder, rest):
            return found
        damaged = [name for name, value in texts.items() if not _is_json(folder / name, value)]
        if short and not _is_shortlist(folder / shortlist.NAME, *_sizes(made)):
            damaged.append(shortlist.NAME)
        for name in damaged:
            return f"{name} is damaged"
        with (folder / MODEL).open("rb") as file:
            return None if _same(file, made) else f"{MODEL} does not hold the weights of this run"
    except (OSError, ValueError) as error:
        return str(error)


def _vocabularies(made: Any) -> dict[str, list[str]]:
    source, target = _sizes(made)
    if source == target:
        return {"shared_vocabulary.json": names(range(source))}
    sizes = {"source": source, "target": target}
    return {f"{side}_vocabulary.json": names(range(size)) for side, size in sizes.items()}


def _sizes(made: Any) -> tuple[int, int]:
    """Of both vocabularies. A weight that is the same as another one is that one's name."""
    found = made.variables()
    sides = (found[f"{name}/weight"] for name in ("encoder/embeddings_0", "decoder/embeddings"))
    source, target = (found[side] if isinstance(side, str) else side for side in sides)
    return source.shape[0], target.shape[0]


def _is_json(path: Path, value: Any) -> bool:
    """Whether a file is what CTranslate2 writes for a value; lines end as the system's do."""
    text = json.dumps(value, indent=2, sort_keys=True).encode()
    with path.open("rb") as file:
        return file.read(2 * len(text) + 2).replace(b"\r\n", b"\n").rstrip(b"\n") == text


def _same(file: BinaryIO, made: Any) -> bool:
    """Whether a file is what CTranslate2 writes for these weights. Positions are sines, in which
    processors differ by a rounding."""
    for expected, near in _written(made):
        found = file.read(len(expected))
        if found != expected and not (near and _near(found, expected)):
            return False
    return not file.read(1)


def _near(found: bytes, expected: bytes) -> bool:
    if len(found) != len(expected):
        return False
    here, there = (np.frombuffer(each, "<f4") for each in (found, expected))
    with np.errstate(invalid="ignore"):  # forged ones are any
        return bool(np.allclose(here, there, rtol=0, atol=NEAR))


def _written(made: Any) -> Iterator[tuple[bytes, bool]]:
    """The parts of a model's file, and whether each is a table of positions in float32."""
    variables = made.variables(ordered=True)
    own = [(name, value) for name, value in variables if not isinstance(value, str)]
    same = [(name, other) for name, other in variables if isinstance(other, str)]
    version = library().specs.model_spec.CURRENT_BINARY_VERSION
    yield struct.pack("<I", version) + _text(made.name), False
    yield struct.pack("<II", made.revision, len(own)), False
    for name, value in own:
        shape, kind = value.shape, TYPES.index(value.dtype)
        form = f"<B{len(shape)}IBI"
        yield _text(name) + struct.pack(form, len(shape), *shape, kind, value.num_bytes()), False
        yield value.to_bytes(), name.endswith(POSITIONS) and kind == 0
    yield struct.pack("<I", len(same)), False
    for name, other in same:
        yield _text(name) + _text(other), False


def _text(name: str) -> bytes:
    return struct.pack("<H", len(name) + 1) + name.encode() + b"\0"


def _is_shortlist(path: Path, source: int, target: int) -> bool:
    """Whether a list says, first for all tokens and then for some of the source, which tokens of
    the target are allowed, and the end always."""
    if path.stat().st_size > (DIGITS + 1) * (target + 1 + (shortlist.EACH + 1) * source):
        return False
    keys, allowed = (set(names(range(size))) for size in (source, target))
    with path.open(encoding="ascii", newline="\n") as lines:
        for number, line in enumerate(lines):
            key, _, symbols = line.removesuffix("\n").partition("\t")
            found = set(symbols.split(" "))
            first = key == "" and str(Tokenizer.end) in found
            if not (found <= allowed and (key in keys if number else first)):
                return False
    return path.stat().st_size > 0


# Written and removed as a whole


def check_free(folder: Path) -> None:
    """Refuse a place where something is already."""
    if folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} exists and is not empty")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} exists and is no folder")


@contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """A folder to write into, which gets its name once all of it is there."""
    writing = folder.with_name(f".writing-{folder.name}-{os.getpid()}")
    shutil.rmtree(writing, ignore_errors=True)
    absent = [parent for parent in folder.parents if not parent.exists()]
    writing.mkdir(parents=True)
    try:
        yield writing
        for path in (*writing.iterdir(), writing):
            sync(path)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        try:
            writing.rename(folder)
        except OSError:
            if not folder.is_dir():  # else somebody else was quicker
                raise
    finally:
        shutil.rmtree(writing, ignore_errors=True)
        if not folder.is_dir():
            for parent in absent:
                with suppress(OSError):  # somebody else uses it by now
                    parent.rmdir()


def remove(folder: Path) -> None:
    """Remove a folder so that nobody sees a part of it under its name."""
    hidden = folder.with_name(f".removing-{folder.name}-{os.getpid()}")
    shutil.rmtree(hidden, ignore_errors=True)
    folder.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)
