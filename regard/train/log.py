"""What is reported while a run trains: to its folder, to TensorBoard, to callbacks."""

import json
import math
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.recipe import checked
from regard.train import lock, manifest
from regard.train.events import Events
from regard.train.progress import Progress

RECORDS = "metrics.jsonl"
LONGEST = 1 << 20
"""Bytes of one record at most."""
FIGURES = 100
"""Numbers of one record at most."""
COUNTS = ("update", "tokens", "lowered")

Record = dict[str, Any]
Callback = Callable[[Record], None]


class Log:
    """metrics.jsonl, TensorBoard events and callbacks.

    A full disk does not stop training here: what could not be written waits for the next time.
    """

    def __init__(self, folder: Path, progress: Progress, callbacks: Iterable[Callback]) -> None:
        self._folder, self._path, self._callbacks = folder, folder / RECORDS, list(callbacks)
        self._waiting: list[Record] = []
        self._warned = False
        try:
            self.rewind(progress)
            self._events = Events(folder / "events", progress.update or None)
        except OSError as error:
            raise UserError(
                f"{error.filename or folder} cannot be written: {error.strerror}. Nothing is lost: "
                "make room, or make it writable, then resume"
            ) from None

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, UserError):
            lock.check(self._folder)
            append(self._path, self._waiting)
        with suppress(OSError):
            self._events.close()

    def rewind(self, progress: Progress) -> None:
        """Forget what will be recorded again: what came after this, and later setbacks."""
        last = {"train": progress.recorded, "validation": progress.validated}
        last |= dict.fromkeys(("samples", "warning"), progress.validated)  # made by validations
        kept = [
            record
            for record in [*read(self._path), *self._waiting]
            if record.get("update", 0) <= last.get(record.get("kind", ""), progress.update)
            and record.get("lowered", 0) <= progress.lowered
        ]
        lock.check(self._folder)
        writing = self._path.with_name(f".{RECORDS}")
        writing.write_text(_lines(kept), encoding="utf-8", newline="\n")
        manifest.sync(writing)
        writing.replace(self._path)
        self._waiting = []

    def record(self, record: Record) -> None:
        lock.check(self._folder)
        self._waiting.append(record)
        try:
            append(self._path, self._waiting)
            self._waiting = []
            for name, value in record.items():
                if isinstance(value, float) and name not in ("seconds", "cpu_seconds"):
                    self._events.scalar(f"{record['kind']}/{name}", value, record["update"])
        except OSError as error:
            self._warn(error)
        tell(self._callbacks, record)

    def _warn(self, error: OSError) -> None:
        """Once: a message for each record would hide everything else."""
        if not self._warned:
            self._warned = True
            what = f"{error.filename or self._path} cannot be written: {error.strerror}"
            text = f"{what}. Training goes on, and the records wait: make room"
            tell(self._callbacks, {"kind": "warning", "text": text})


class Unlogged:
    """What ranks record that do not write."""

    def record(self, record: Record) -> None:
        pass

    def rewind(self, progress: Progress) -> None:
        pass


def tell(callbacks: Iterable[Callback], record: Record) -> None:
    for callback in callbacks:
        callback(record)


def read(path: Path) -> list[Record]:
    """All that was recorded, but lines that are damaged, or not finished by a killed run.

    A figure that is null was no finite number: NaN.
    """
    found = []
    if path.exists():
        with path.open("rb") as file:
            for line in iter(lambda: file.readline(LONGEST), b""):
                with suppress(ValueError, RecursionError):
                    found.append(json.loads(line) if line.endswith(b"\n") else None)
    records = [
        {name: math.nan if value is None else value for name, value in record.items()}
        for record in found
        if isinstance(record, dict)
    ]
    return [record for record in records if _is_record(record)]


def _is_record(record: Record) -> bool:
    """Whether a line has the form of those that are written: a kind, counts, and figures."""
    figures = {key: value for key, value in record.items() if key not in ("kind", "text", "ids")}
    curves = record.get("kind") in ("train", "validation")
    ids = record.get("ids", [])
    return (
        isinstance(record.get("kind"), str)
        and isinstance(record.get("text", ""), str)
        and isinstance(ids, list)
        and all(type(each) is int for each in ids)
        and all(type(record.get(name, 0)) is int and record.get(name, 0) >= 0 for name in COUNTS)
        and len(figures) <= FIGURES
        and all(re.fullmatch(r"[\w.:@-]{1,60}", name) for name in figures)
        and all(
            _is_number(value) or (type(value) is str and not curves) for value in figures.values()
        )
        and (not curves or {"update", "tokens"} <= figures.keys())
    )


def _is_number(value: Any) -> bool:
    """One that a float can be; of a training that has diverged, it need not be finite."""
    return type(value) is float or (type(value) is int and abs(value) <= checked.WHOLE)


def append(path: Path, records: Iterable[Record]) -> None:
    """All of them, or none."""
    size = path.stat().st_size if path.exists() else 0
    try:
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(_lines(records))
    except OSError:
        with suppress(OSError):
            os.truncate(path, size)
        raise


def _lines(records: Iterable[Record]) -> str:
    return "".join(checked.written(record, ensure_ascii=True) + "\n" for record in records)
