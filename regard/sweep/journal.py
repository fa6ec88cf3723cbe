"""The storage of a sweep: a line of JSON for each change, appended by one process at a time.

optuna's own backend of this kind leaves its lock behind where a process is killed, and cannot read
on behind a line that was never finished. The lock here is the operating system's (`train/lock.py`),
and the beginning of a line is cut off before the next one is written.
"""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optuna.storages.journal import BaseJournalBackend

from regard.errors import UserError
from regard.train import lock

NAME = "journal.jsonl"
SECONDS = 0.02
"""Between two tries to get the lock."""


class Journal(BaseJournalBackend):
    """What optuna asks of a backend: lines from a number on, and more of them."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / NAME
        self._held = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Be the only process that changes the sweep; whoever has the turn may take it again."""
        hold = None if self._held else _wait(self._folder)
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if hold is not None:
                hold.close()

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        for number, line in enumerate(self._lines()[log_number_from:], log_number_from + 1):
            try:
                yield json.loads(line)
            except ValueError:
                raise UserError(f"{self._path}:{number}: damaged: this is no JSON") from None

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(log) + "\n" for log in logs)
        with self.turn(), self._path.open("ab") as file:
            file.truncate(sum(map(len, self._lines())))
            file.write(text.encode())

    def _lines(self) -> list[bytes]:
        """All that are whole."""
        raw = self._path.read_bytes() if self._path.exists() else b""
        return raw[: raw.rfind(b"\n") + 1].splitlines(keepends=True)


def _wait(folder: Path) -> lock.Hold:
    while True:
        try:
            return lock.Hold(folder)
        except lock.InUse:
            time.sleep(SECONDS)
