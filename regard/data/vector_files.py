"""Vectors of words on the disk: a run of word2vec, or a file in one of three forms.

    text of word2vec    400000 100                  how many words, and the dimension
                        the 0.0231 -0.2419 …        a word and its vector
    text of GloVe       the same without the first line
    binary of word2vec  400000 100                  the same line, then for each word its text, a
                        the ▒▒▒▒▒▒▒▒…               blank, and its numbers: float32, little-endian

After a vector, the program word2vec writes a newline into its binary files and gensim none: both
are read. What a first line promises is never allocated, only compared with what comes.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from regard.data.readers import Readable, excerpt, opened, sound
from regard.data.tokenizers import Tokenizer
from regard.data.whole_file import writing
from regard.errors import UserError

SETTINGS, WORDS, WEIGHTS = "word2vec.json", "words.tokenizer.json", "model/model.safetensors"
"""Of a run: what marks it, its words, and its vectors."""
TABLES = ("inputs", "outputs")
"""What they are called, whichever was kept."""
Vector = NDArray[np.float32]
Entry = tuple[str, Vector]
LINE = 1 << 22
"""Bytes of the longest line that is looked at to tell the forms apart."""
WORD = 1 << 14
"""Bytes of the longest word."""
WIDEST = 1 << 17
BLOCK = 1 << 20


class Header(NamedTuple):
    """The first line of word2vec's files."""

    words: int
    dim: int


def is_run(path: Path) -> bool:
    """Whether a folder is a run of word2vec."""
    return (path / SETTINGS).is_file()


def entries(path: Path, wanted: Collection[str] | None = None, dim: int = 0) -> Iterator[Entry]:
    """The words and their vectors, all or those that are wanted, in order; of another dimension
    than `dim`, if that is given, they are refused. A word that comes again is given again."""
    if path.is_dir():
        return _of_run(path, wanted, dim)
    form = _binary if is_binary(path) else _text
    return form(path, wanted, dim)


def is_binary(path: Path) -> bool:
    """Whether a file is in the binary form: its first line is a header, and what follows is not a
    line of a word and its numbers."""
    with opened(path) as stream:
        start = stream.read(LINE)
    first, _, rest = start.partition(b"\n")
    header = _header(first)
    if header is None:
        return False
    second = rest.partition(b"\n")[0]
    try:
        cells = second.decode().split()
        [*map(float, cells[-header.dim :])]
    except ValueError:
        return True
    return len(cells) <= header.dim


def _header(line: bytes | str) -> Header | None:
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    found = re.fullmatch(r"([0-9]{1,18}) ([0-9]{1,18})\s*", text)
    return Header(*map(int, found.groups())) if found else None


def fitting(path: Path, there: int, dim: int) -> None:
    """Refuse vectors that no model has, and those of another dimension than the model's."""
    if not 1 <= there <= WIDEST:
        raise UserError(f"{path}: vectors of dimension {there:,}: 1 to {WIDEST:,} can be read")
    if dim and there != dim:
        raise UserError(
            f"{path}: its vectors have dimension {there}, those of model.input {dim}: "
            f"set model.dim = {there}, or take kind = 'words' with model.input.size = {there}"
        )


# Runs


def _of_run(folder: Path, wanted: Collection[str] | None, dim: int) -> Iterator[Entry]:
    words, table = run(folder)
    fitting(folder, table.shape[1], dim)
    for word, vector in zip(words, table, strict=True):
        if wanted is None or word in wanted:
            yield word, vector


def run(folder: Path) -> tuple[list[str], Vector]:
    """The words and vectors (V, D) of a run of word2vec."""
    if not is_run(folder):
        raise UserError(f"{folder} is a folder, but no run of `regard word2vec`: name a file in it")
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder} is not finished; to go on: regard word2vec --resume {folder}")
    tokenizer = Tokenizer.load(folder / WORDS)
    words = tokenizer.pieces(range(len(tokenizer.special), len(tokenizer)))
    try:
        with safe_open(folder / WEIGHTS, "np") as file:
            kept = {*file.keys()}.intersection(TABLES)
            table = file.get_tensor(kept.pop() if kept else TABLES[0])
    except (SafetensorError, OSError) as error:
        raise UserError(f"{folder / WEIGHTS}: {error}") from None
    if table.dtype != np.float32 or table.ndim != 2 or len(table) != len(words):
        raise UserError(f"{folder / WEIGHTS}: not a vector for each of the {len(words):,} words")
    if not np.isfinite(table).all():
        raise UserError(f"{folder / WEIGHTS}: a number that is not finite")
    return words, table


# Text


def _text(path: Path, wanted: Collection[str] | None, dim: int) -> Iterator[Entry]:
    """Each line is checked; a broken one is refused."""
    header, count = None, 0
    for number, line in sound(path):
        if number == 1 and (header := _header(line)):
            fitting(path, header.dim, dim)
            dim = header.dim
            continue
        if not line.strip():
            continue
        if not dim or number == 1:
            fitting(path, len(line.split()) - 1, dim)
            dim = len(line.split()) - 1
        count += 1
        # A word may hold blanks: the vector is what stands last.
        word, *cells = line.rstrip().rsplit(" ", dim)
        if len(cells) != dim:
            raise _no_vector(path, number, dim, line)
        if wanted is None or word in wanted:
            yield word, _numbers(path, number, cells, line)
    if header and count != header.words:
        raise UserError(f"{path}: its first line says {header.words:,} words, but it has {count:,}")


def _numbers(path: Path, number: int, cells: Sequence[str], line: str) -> Vector:
    try:
        vector = np.array(cells, np.float32)
    except ValueError:
        raise _no_vector(path, number, len(cells), line) from None
    if not np.isfinite(vector).all():
        raise UserError(f"{path}:{number}: a number that is not finite: “{excerpt(line)}”")
    return vector


def _no_vector(path: Path, number: int, dim: int, line: str) -> UserError:
    return UserError(f"{path}:{number}: not a word and {dim} numbers: “{excerpt(line)}”")


# Binary


def _binary(path: Path, wanted: Collection[str] | None, dim: int) -> Iterator[Entry]:
    """A word that is not UTF-8 is left out: nobody can want it."""
    with opened(path) as stream:
        source = _Source(stream)
        header = _header(source.until(b"\n", WORD) or b"")
        assert header is not None  # or it would not be taken for binary
        fitting(path, header.dim, dim)
        for number in range(1, header.words + 1):
            where = f"{path}: word {number:,} of the {header.words:,} that its first line says"
            raw = source.until(b" ", WORD)
            data = source.take(4 * header.dim) if raw is not None else b""
            if raw is None and len(source.take(WORD)) == WORD:
                raise UserError(
                    f"{where}: no blank after {WORD:,} bytes: not word2vec's binary form"
                )
            if len(data) < 4 * header.dim:
                raise UserError(
                    f"{where} is cut off: the file is not whole, or its first line wrong"
                )
            try:
                word = raw.lstrip(b"\n").decode() if raw is not None else ""
            except UnicodeDecodeError:
                continue
            if wanted is None or word in wanted:
                vector = np.frombuffer(data, "<f4").astype(np.float32)
                if not np.isfinite(vector).all():
                    raise UserError(f"{where}: a number that is not finite: “{excerpt(word)}”")
                yield word, vector
        if source.take(WORD).strip(b"\n"):
            raise UserError(f"{path} goes on after the {header.words:,} words of its first line")


class _Source:
    """Bytes that are read in blocks."""

    def __init__(self, stream: Readable) -> None:
        self._stream, self._held, self._place = stream, b"", 0

    def _more(self) -> bool:
        block = self._stream.read(BLOCK)
        self._held, self._place = self._held[self._place :] + block, 0
        return bool(block)

    def until(self, end: bytes, most: int) -> bytes | None:
        """What stands before `end`, which is taken, too; None if that is not in `most` bytes."""
        while (found := self._held.find(end, self._place, self._place + most)) < 0:
            if len(self._held) - self._place >= most or not self._more():
                return None
        taken, self._place = self._held[self._place : found], found + len(end)
        return taken

    def take(self, size: int) -> bytes:
        """So many bytes, or fewer where the file ends."""
        while len(self._held) - self._place < size and self._more():
            pass
        taken = self._held[self._place : self._place + size]
        self._place += len(taken)
        return taken


# Writing


def write(path: Path, words: Sequence[str], vectors: Vector, *, binary: bool) -> None:
    """A file of word2vec's text or binary form, whole or not at all."""
    line: Callable[[str, Vector], bytes] = _binary_entry if binary else _text_entry
    with writing(path) as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, vector in zip(words, vectors, strict=True):
            file.write(line(word, vector))


def _text_entry(word: str, vector: Vector) -> bytes:
    """The shortest decimal fractions that lead back to the same float32."""
    return f"{word} {' '.join(map(str, vector))}\n".encode()


def _binary_entry(word: str, vector: Vector) -> bytes:
    return word.encode() + b" " + vector.astype("<f4").tobytes() + b"\n"
