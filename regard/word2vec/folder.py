"""The folder of a run of word2vec, whole or not at all.

word2vec.json               settings, and what the text was
words.tokenizer.json        the words, as a recipe's tokenizer has them
counts.json                 how often each was seen
manifest.json               size and hash of all that the run was made with
store/                      the text as numbers, until training is over
checkpoints/00000003/       the vectors after the last finished epoch, until training is over
metrics.jsonl               a record of each epoch
model/                      the vectors (V, D), inputs or outputs: float32, safetensors
"""

import dataclasses
import platform
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import __version__
from regard.data import vector_files, whole_file
from regard.data.readers import Report
from regard.errors import UserError
from regard.recipe import checked
from regard.train import checkpoint, manifest
from regard.train.device import processor
from regard.word2vec import corpus
from regard.word2vec.corpus import Source
from regard.word2vec.settings import Settings

FORMAT = 1
COUNTS = "counts.json"
MOST = 1 << 26
"""Bytes of counts.json."""


class Folder(NamedTuple):
    """A run that is there."""

    path: Path
    settings: Settings
    text: dict[str, Any]
    """Files, words and sentences of the text that it learns from."""

    @property
    def finished(self) -> bool:
        return (self.path / vector_files.WEIGHTS).is_file()

    def counts(self) -> NDArray[np.int64]:
        """(V,) How often each word was seen."""
        try:
            table = checked.keys(checked.read(self.path / COUNTS, MOST), COUNTS, {"counts"})
            found = [checked.whole(n, "a count", 1) for n in checked.items(table["counts"], COUNTS)]
        except (OSError, ValueError) as error:
            raise UserError(f"{self.path / COUNTS}: {error}. {manifest.MADE}") from None
        return np.array(found, np.int64)


def create(path: Path, source: Source, settings: Settings) -> tuple[Folder, Report]:
    """A new run, made under a hidden name; the report says which lines could not be read."""
    if path.exists():
        raise UserError(f"{path} is there already: name another folder, or remove it")
    hidden = path.with_name(f".{path.name}-new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(hidden, ignore_errors=True)
        hidden.mkdir()
        report = _fill(hidden, source, settings)
        hidden.rename(path)
        manifest.sync(path.parent)
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise
    return opened(path), report


def _fill(hidden: Path, source: Source, settings: Settings) -> Report:
    made = corpus.prepare(source, settings, hidden)
    made.tokenizer.save(hidden / vector_files.WORDS)
    whole_file.write(hidden / COUNTS, checked.written({"counts": made.counts.tolist()}))
    table = {
        "format": FORMAT,
        "settings": settings.as_dict(),
        "text": {
            "files": [str(each.absolute()) for each in source.paths],
            "words": made.read,
            "known": int(made.counts.sum()),
            "vocabulary": len(made.counts),
            "skipped": dict(made.report.counts),
        },
        "environment": {
            "regard": __version__,
            "python": platform.python_version(),
            "processor": processor(),
        },
    }
    whole_file.write(hidden / vector_files.SETTINGS, checked.written(table, indent=1))
    names = {p.relative_to(hidden).as_posix(): p for p in hidden.rglob("*") if p.is_file()}
    manifest.write(hidden, names, {}, {})
    return made.report


def opened(path: Path, *, whole: bool = False) -> Folder:
    """A run; what it was made with is checked, with `whole` the text, too."""
    if not vector_files.is_run(path):
        what = "is not a run of word2vec" if path.exists() else "does not exist"
        raise UserError(f"{path} {what}")
    manifest.sealed(path, whole=whole)
    where = path / vector_files.SETTINGS
    try:
        table = checked.keys(
            checked.read(where), where.name, {"format", "settings", "text"}, {"environment"}
        )
        if table["format"] != FORMAT:
            raise ValueError(f"format {table['format']}, but this version of regard reads {FORMAT}")
        names = {field.name for field in dataclasses.fields(Settings)} - {"keep"}
        given = checked.keys(table["settings"], "settings", names, {"keep"})  # older runs have none
        text = checked.table(table["text"], "text")
        for key in ("words", "known", "vocabulary"):
            checked.whole(text.get(key), f"text.{key}")
        return Folder(path, Settings(**given), text)
    except (OSError, ValueError, UserError) as error:
        raise UserError(f"{where}: {error}. {manifest.MADE}") from None


def clear(path: Path) -> None:
    """Remove what only training needs, once it is over."""
    for found in checkpoint.checkpoints(path / "checkpoints"):
        checkpoint.remove(found.folder)
    for name in ("checkpoints", "store"):
        shutil.rmtree(path / name, ignore_errors=True)
