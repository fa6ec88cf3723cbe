"""Token sequences on disk: one flat array, read piece by piece, and where each one begins.

NAME.tokens    little-endian unsigned integers, 2 or 4 bytes each
NAME.offsets   int64, one more than there are sequences
NAME.sha256    of both files, in the form that `sha256sum --check` reads

A text that is wanted as it was is stored in the same way: its tokens are its bytes in UTF-8.
"""

import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError

Array = NDArray[np.integer]
BLOCK = 1 << 20
"""Tokens that are looked at together."""


class Tokens:
    """A file of tokens, as a sequence that is read where it is sliced.

    It is not mapped into memory: where a mapped file is cut off, the process ends without a word.
    """

    def __init__(self, path: Path, width: int, count: int) -> None:
        self._path, self._kind, self._count = path, np.dtype(f"<u{width}"), count
        self._file, self._lock = path.open("rb", buffering=0), Lock()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, piece: slice) -> Array:
        first, end, _ = piece.indices(self._count)
        width = self._kind.itemsize
        wanted = max(0, end - first) * width
        with self._lock:  # batches are made by several threads
            self._file.seek(first * width)
            data = self._file.read(wanted)
        if len(data) < wanted:
            raise UserError(
                f"{self._path} has been cut off while it was in use. Bring the file back and go on "
                "with --resume, or start a new run from the recipe"
            )
        return np.frombuffer(data, self._kind)

    def are(self, symbols: range) -> bool:
        """Whether there are no others in it than these."""
        low, high = symbols.start, symbols.stop
        return all(low <= piece.min() and piece.max() < high for piece in self.pieces())

    def where(self, symbol: int) -> NDArray[np.int64]:
        """The places at which it stands."""
        found = [np.flatnonzero(piece == symbol) for piece in self.pieces()]
        return np.concatenate(
            [np.empty(0, np.int64), *(n * BLOCK + places for n, places in enumerate(found))]
        )

    def pieces(self) -> Iterator[Array]:
        """All of it, a large piece at a time."""
        return (self[n : n + BLOCK] for n in range(0, self._count, BLOCK))


class Store:
    """Sequences of tokens, by number."""

    def __init__(
        self,
        folder: Path,
        name: str,
        symbols: range = range(1 << 32),
        longest: int = sys.maxsize,
        end: int | None = None,
    ) -> None:
        """Refused is what holds any but these `symbols`, or a sequence of more than `longest`; with
        an `end`, also what does not have it at the end of each sequence and nowhere else."""
        tokens, offsets = folder / f"{name}.tokens", folder / f"{name}.offsets"
        try:
            sums = folder / f"{name}.sha256"  # stores that are older have none
            if sums.is_file() and sums.read_bytes() != _sums(tokens, offsets):
                raise ValueError(f"{tokens} or {offsets} is damaged")
            self.offsets = _offsets(offsets)
            count = int(self.offsets[-1])
            width = tokens.stat().st_size // max(count, 1)
            if tokens.stat().st_size != count * width or (count and width not in (2, 4)):
                raise ValueError(f"{tokens} has not the {count} tokens that {offsets} speaks of")
            if self.lengths.max(initial=0) > longest:
                raise ValueError(f"{offsets}: a sequence has more than {longest} tokens")
            self.tokens = Tokens(tokens, width or 2, count)
            if not self.tokens.are(symbols):
                raise ValueError(f"{tokens}: not all are from {symbols.start} to {symbols[-1]}")
            if end is not None and not np.array_equal(self.tokens.where(end), self.offsets[1:] - 1):
                raise ValueError(f"{offsets}: its lines do not end where those of {tokens} do")
        except (OSError, ValueError, MemoryError) as error:
            raise UserError(
                f"the stored data cannot be read: {error}. Start a new run from the recipe"
            ) from None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> Array:
        return self.tokens[self.offsets[number] : self.offsets[number + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def sums(self) -> NDArray[np.int64]:
        """Of the numbers of each sequence."""
        found = np.zeros(len(self), np.int64)
        for first in range(0, len(self), BLOCK):
            ends = self.offsets[first : first + BLOCK + 1]
            piece = self.tokens[int(ends[0]) : int(ends[-1])]
            totals = np.concatenate([[0], np.cumsum(piece, dtype=np.int64)])
            found[first : first + BLOCK] = np.diff(totals[ends - ends[0]])
        return found

    @staticmethod
    def write(
        folder: Path,
        names: Sequence[str],
        size: int,
        rows: Iterable[Sequence[Sequence[int] | Array]],
    ) -> None:
        """Write parallel stores, one for each name, from rows of one sequence per name.

        `size` is the number of tokens; it decides how wide an integer is.
        """
        kind = "<u2" if size <= 1 << 16 else "<u4"
        folder.mkdir(parents=True, exist_ok=True)
        files = [(folder / f"{name}.tokens").open("wb") for name in names]
        ends: list[list[int]] = [[0] for _ in names]
        try:
            for row in rows:
                for file, end, symbols in zip(files, ends, row, strict=True):
                    file.write(np.asarray(symbols, kind).tobytes())
                    end.append(end[-1] + len(symbols))
        finally:
            for file in files:
                file.close()
        for name, end in zip(names, ends, strict=True):
            tokens, offsets = folder / f"{name}.tokens", folder / f"{name}.offsets"
            np.asarray(end, "<i8").tofile(offsets)
            (folder / f"{name}.sha256").write_bytes(_sums(tokens, offsets))


def _offsets(path: Path) -> NDArray[np.int64]:
    """Where each sequence begins, and where the last one ends: numbers that never fall, from 0."""
    if path.stat().st_size < 8 or path.stat().st_size % 8:
        raise ValueError(f"{path} has {path.stat().st_size} bytes")
    found: NDArray[np.int64] = np.fromfile(path, "<i8")
    # Not their differences: those of forged ones could overflow.
    if found[0] != 0 or (found[1:] < found[:-1]).any():
        raise ValueError(f"{path}: it does not count from 0 on")
    return found


def write_texts(folder: Path, names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write parallel stores of texts, one for each name, from rows of one text per name."""
    symbols = ([np.frombuffer(text.encode(), np.uint8) for text in row] for row in rows)
    Store.write(folder, names, 1 << 8, symbols)


def read_texts(folder: Path, names: Sequence[str]) -> list[tuple[str, ...]] | None:
    """The rows of such stores; None where there is none of them: older runs have no texts."""
    if not any(any(folder.glob(f"{name}.*")) for name in names):
        return None
    stores = [Store(folder, name, range(1 << 8)) for name in names]
    try:
        return list(zip(*map(_texts, stores), strict=True))
    except ValueError as error:  # no UTF-8, or not as many on each side
        raise UserError(f"{folder}: the texts of {', '.join(names)}: {error}") from None


def _texts(store: Store) -> Iterator[str]:
    return (store[n].astype(np.uint8).tobytes().decode() for n in range(len(store)))


def _sums(*paths: Path) -> bytes:
    lines = []
    for path in paths:
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines).encode()


def pad(
    rows: Sequence[Array], value: int, *, start: Sequence[int] = (), end: Sequence[int] = ()
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Rows of one length, filled up on the right with `value`, and the mask of what is real."""
    lengths = np.array([len(row) for row in rows], np.int64) + len(start) + len(end)
    longest = int(lengths.max(initial=0))
    mask = np.arange(longest) < lengths[:, None]
    table = np.full(mask.shape, value, np.int64)
    table[:, : len(start)] = start
    for line, row in zip(table, rows, strict=True):
        line[len(start) : len(start) + len(row)] = row
    for n, symbol in enumerate(end):
        table[np.arange(len(rows)), lengths - len(end) + n] = symbol
    return table, mask
