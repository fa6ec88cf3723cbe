"""Files as they are fetched: their checksums, and what is taken out of archives."""

import gzip
import hashlib
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from regard.data import readers
from regard.errors import UserError

BLOCK = 1 << 20
BAD_ARCHIVE = zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError


def visible(folder: Path) -> list[Path]:
    files = (file for file in folder.iterdir() if not file.name.startswith("."))
    return sorted(files, key=lambda file: file.name)


def digest(path: Path, *, unpack: bool = True) -> str:
    """The sha256 of a file's bytes, those inside for .gz; of a folder, that of its lines "name
    sha256"."""
    if path.is_dir():
        lines = "".join(f"{each.name} {digest(each)}\n" for each in visible(path))
        return hashlib.sha256(lines.encode()).hexdigest()
    found = hashlib.sha256()
    with readers.opened(path) if unpack else path.open("rb") as stream:
        while block := stream.read(BLOCK):
            found.update(block)
    return found.hexdigest()


def unpack(fetched: Path, url: str, name: str, size: int, target: Path) -> None:
    """Take one file, or a folder of files with a slash at the end of its name, of at most `size`
    bytes out of what was fetched from an address.

    Names inside an archive only choose; where things go is said here, so nothing can get out.
    """
    if not url.endswith((".zip", ".tar.gz")):
        if url.endswith(".gz") and not name.endswith(".gz"):
            with readers.opened(fetched) as stream:
                _write(stream, target, size)
        else:
            shutil.copyfile(fetched, target)
    elif name.endswith("/"):
        target.mkdir()
        room = size
        with members(fetched) as packed:
            for member, stream in packed:
                if member.parent.name == target.name and re.fullmatch(r"\w[\w.-]*", member.name):
                    room = _write(stream, target / member.name, room)
    else:
        with members(fetched) as packed:
            found = next((each for member, each in packed if member.name == target.name), None)
            if found is None:
                raise UserError(f"{url} has no file {name}")
            _write(found, target, size)


@contextmanager
def members(archive: Path) -> Iterator[Iterator[tuple[PurePosixPath, readers.Readable]]]:
    """The regular files of a zip or tar archive, to be read one after the other."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                infos = (info for info in packed.infolist() if not info.is_dir())
                yield ((PurePosixPath(info.filename), packed.open(info)) for info in infos)
        else:
            with tarfile.open(archive) as tape:
                regular = (member for member in tape if member.isreg())
                files = ((member.name, tape.extractfile(member)) for member in regular)
                yield ((PurePosixPath(name), stream) for name, stream in files if stream)
    except BAD_ARCHIVE as error:
        raise UserError(f"{archive.name} is not a whole archive: {error}") from None


def _write(stream: readers.Readable, target: Path, room: int) -> int:
    """Copy at most `room` bytes, so that a small archive cannot fill the disk; what is left."""
    with target.open("xb") as out:
        while block := stream.read(BLOCK):
            room -= len(block)
            if room < 0:
                raise UserError(f"{target.name} is larger than it should be; nothing was kept")
            out.write(block)
    return room
