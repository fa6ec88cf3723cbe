"""One process at a time in a run's folder.

The lock is the operating system's, on a file that stays: it ends with the process that holds it,
however that ends, so that no lock is ever left behind.
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


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Be the only one in `folder` who writes a run, or tell who is."""
    path = folder / NAME
    try:
        file = path.open("ab+")
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written: {error.strerror}. Nothing is lost: make it writable, or "
            "copy it to where there is room, then resume"
        ) from None
    with file:
        if not _taken(file):
            file.seek(1)
            who = file.read().decode("utf-8", "replace").strip() or "another process"
            raise UserError(f"{folder} is in use by {who}: wait for it, or stop it first")
        with suppress(OSError):  # a full disk: the lock holds all the same, without a name
            file.truncate(0)
            file.write(f" process {os.getpid()} on {platform.node()}\n".encode())
            file.flush()
        yield


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
