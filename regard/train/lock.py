"""One process at a time in a run's folder, and in the same folder to the end.

The lock is the operating system's, on a file that stays: it ends with the process that holds it,
however that ends, so that no lock is ever left behind. While it is held, the folder may be renamed
or deleted, and another one may take its name: before anything is written or removed, `check` asks
whether the name still leads to the folder that was locked.
"""

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from regard.errors import UserError

NAME = ".lock"
_held: dict[Path, "Hold"] = {}
"""By folder. A lock belongs to a process, so there is one table for all of it."""


class InUse(UserError):
    """Another process has the folder."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Be the only one in `folder` who writes a run, or say who is."""
    hold = _held[folder.absolute()] = Hold(folder)
    try:
        yield
    finally:
        del _held[folder.absolute()]
        hold.close()


def is_held(folder: Path) -> bool:
    """Whether a process writes a run in `folder` now."""
    if not (folder / NAME).exists():
        return False
    with suppress(OSError), (folder / NAME).open("ab+") as file:
        return not _taken(file)
    return False  # nobody could write there


def check(folder: Path) -> None:
    """Raise if a folder that this process has locked is not what its name leads to any more."""
    if hold := _held.get(folder.absolute()):
        hold.check()


class Hold:
    """A folder that is locked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = _locked(folder)
        self._handle: int | None = None
        if os.name != "nt":  # where no folder can be opened, nor renamed while a file in it is open
            with suppress(OSError):
                self._handle = os.open(folder, os.O_RDONLY)

    def close(self) -> None:
        self._file.close()
        if self._handle is not None:
            os.close(self._handle)

    def check(self) -> None:
        """Raise if the folder has gone, or another has its name; a lock that was removed is taken
        again, if nobody else has."""
        there = self._folder.is_dir() if self._handle is None else _same(self._folder, self._handle)
        if not there:
            raise UserError(f"{self._folder} {self._fate()}")
        if not _same(self._folder / NAME, self._file.fileno()):
            before, self._file = self._file, _locked(self._folder)
            before.close()

    def _fate(self) -> str:
        """What has become of the folder, and what to do."""
        lost = "What was learnt since the last checkpoint is lost, and nothing was written here"
        if now := _place(self._handle):
            return (
                f"was renamed while the run trained: it is {now} now. {lost}. To go on: "
                f"regard train --resume {now}"
            )
        return (
            f"was renamed or deleted while the run trained. {lost}. Find it under its new name, "
            "and go on with --resume; or start a new run from the recipe"
        )


def _same(path: Path, handle: int) -> bool:
    """Whether a name leads to what is open; where that cannot be known, writing shows it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _place(handle: int | None) -> Path | None:
    """The path of an open folder, where the system tells and it is still there."""
    if handle is None:
        return None
    with suppress(OSError, ValueError):
        if sys.platform == "darwin":
            path = Path(
                os.fsdecode(fcntl.fcntl(handle, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
            )
        else:
            path = Path(f"/proc/self/fd/{handle}").readlink()
        return path if os.path.samestat(path.stat(), os.fstat(handle)) else None
    return None


def _locked(folder: Path) -> BinaryIO:
    """The open file that is the lock, once this process has it."""
    try:
        file = (folder / NAME).open("ab+")
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written: {error.strerror}. Nothing is lost: make it writable, or "
            "copy it to where there is room, then resume"
        ) from None
    if not _taken(file):
        file.seek(1)
        who = file.read().decode("utf-8", "replace").strip() or "another process"
        file.close()
        raise InUse(f"{folder} is in use by {who}: wait for it, or stop it first")
    with suppress(OSError):  # a full disk: the lock holds all the same, without a name
        file.truncate(0)
        file.write(f" process {os.getpid()} on {platform.node()}\n".encode())
        file.flush()
    return file


def forget(folder: Path) -> bool:
    """Remove the file of a lock that is no longer held, where it could not be removed before: on
    Windows, which keeps it if somebody else holds it now. Says whether it is gone."""
    if os.name != "nt":
        return False
    with suppress(OSError):
        (folder / NAME).unlink()
        return True
    return False


if sys.platform == "win32":
    import msvcrt

    def _taken(file: BinaryIO) -> bool:
        """The first byte is locked, and nobody else could read it: the name comes after it."""
        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _taken(file: BinaryIO) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks: nobody can be kept out
            pass
        return True
