"""Text as numbers of words, on the disk: what an epoch reads, piece by piece.

    store/tokens.bin     the words of all sentences, one after the other: int32, little-endian
    store/ends.bin       where each sentence ends: int64

A sentence is a line, or 10,000 words of a longer one. Words without a vector are not there, so that
windows reach over them, as word2vec's do.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data import readers, tables
from regard.data.labelled import plain_sentences
from regard.data.readers import Policy, Report
from regard.data.tokenizer_training import SPECIAL
from regard.data.tokenizers import Config, Tokenizer
from regard.errors import UserError
from regard.word2vec.settings import Settings

TOKENS, ENDS = "store/tokens.bin", "store/ends.bin"
LONGEST = 10_000
"""Words of a sentence."""
PIECE = 16_384
"""Words of a piece of text, about: what a thread takes at a time."""
LINES = 4096
Column = str | int


class Source(NamedTuple):
    """Files of text, plain, tables or CoNLL-U, each gzip or not."""

    paths: Sequence[Path]
    column: Column | None = None
    """Of tables: its number, from 1 (-1: the last), or its key in JSONL."""
    header: bool = False
    """Whether tables begin with the names of their columns."""
    on_bad_line: str = "skip"

    def lines(self, report: Report) -> Iterator[str]:
        """The texts; what cannot be read is noted in the report, or refused."""
        policy = Policy(broken="refuse" if self.on_bad_line == "refuse" else "skip")
        for path in self.paths:
            if readers.suffix(path) == ".conllu":
                yield from (line for _, line in plain_sentences(path, policy, report))
            elif self.column is None and readers.suffix(path) not in tables.TABLES:
                yield from (line for _, line in readers.text(path, policy, report))
            else:
                yield from self._cells(path, policy, report)

    def _cells(self, path: Path, policy: Policy, report: Report) -> Iterator[str]:
        by_key = readers.suffix(path) in (".jsonl", ".ndjson")
        column = self.column if self.column is not None else "text" if by_key else -1
        rows = tables.parallel([path], (column,), policy, report, header=self.header)
        return (text for _, (text,) in rows)


class Piece(NamedTuple):
    """A few sentences that are learnt from by one thread."""

    tokens: NDArray[np.int32]
    ends: NDArray[np.int64]
    """From the beginning of the piece."""
    first: int
    """Words before it."""


class Corpus:
    """What has been written, to be read again and again."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / TOKENS
        try:
            self._ends = np.fromfile(folder / ENDS, "<i8")
            size = self._path.stat().st_size
        except OSError as error:
            raise UserError(f"{folder}: its text cannot be read: {error.strerror}") from None
        if not len(self._ends) or 4 * self._ends[-1] != size or (np.diff(self._ends) < 1).any():
            raise UserError(f"{self._path} and {ENDS} do not belong together")
        # A piece ends with the sentence that fills it.
        full = np.searchsorted(self._ends, np.arange(PIECE, int(self._ends[-1]) + PIECE, PIECE))
        last = np.minimum(full, len(self._ends) - 1)
        self._last = np.unique(last) + 1

    def __len__(self) -> int:
        """How many pieces there are."""
        return len(self._last)

    @property
    def words(self) -> int:
        return int(self._ends[-1])

    @property
    def sentences(self) -> int:
        return len(self._ends)

    def piece(self, number: int) -> Piece:
        low = int(self._last[number - 1]) if number else 0
        ends = self._ends[low : self._last[number]]
        first = int(self._ends[low - 1]) if low else 0
        count = int(ends[-1]) - first
        tokens = np.fromfile(self._path, "<i4", count, offset=4 * first)
        if len(tokens) < count:
            raise UserError(f"{self._path} was cut off while it was read")
        return Piece(tokens.astype(np.int32, copy=False), ends - first, first)


class Prepared(NamedTuple):
    """What reading has found."""

    tokenizer: Tokenizer
    counts: NDArray[np.int64]
    """(V,) of each word."""
    read: int
    """Words of the text, those without a vector, too."""
    report: Report


def prepare(source: Source, settings: Settings, folder: Path) -> Prepared:
    """Read the text twice: which words there are, then which stands where."""
    report = Report()
    words = Config(
        kind="word", split=settings.split, lowercase=settings.lowercase,
        min_frequency=settings.min_frequency, vocabulary=settings.max_vocabulary + len(SPECIAL),
    )  # fmt: skip
    tokenizer = Tokenizer.train(words, source.lines(report))
    if len(tokenizer) - len(tokenizer.special) < 2:
        raise UserError(
            f"{source.paths[0]}: fewer than two words are seen {settings.min_frequency:,} times: "
            "set a lower --min-frequency, or give more text"
        )
    counts, read = _write(source, tokenizer, folder)
    return Prepared(tokenizer, counts, read, report)


def _write(source: Source, tokenizer: Tokenizer, folder: Path) -> tuple[NDArray[np.int64], int]:
    """The text as numbers, from 0 for the most frequent word on; counts, and words read."""
    (folder / TOKENS).parent.mkdir()
    special = len(tokenizer.special)
    counts, read, before = np.zeros(len(tokenizer) - special, np.int64), 0, 0
    lines = source.lines(Report())
    with (folder / TOKENS).open("wb") as tokens, (folder / ENDS).open("wb") as ends:
        while block := list(islice(lines, LINES)):
            flat, lengths = tokenizer.encode_flat(block)
            known = flat != tokenizer.unknown
            kept = flat[known].astype("<i4") - special
            read += len(flat)
            counts += np.bincount(kept, minlength=len(counts))
            # Known words up to the end of each line.
            upto = np.concatenate([[0], np.cumsum(known)])[np.cumsum(lengths)]
            found = _cut(upto)
            tokens.write(kept.astype("<i4").tobytes())
            ends.write((found + before).astype("<i8").tobytes())
            before += len(kept)
    return counts, read


def _cut(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The ends of sentences that are not empty, with more inside those that are too long."""
    ends = np.unique(ends[ends > 0])
    lengths = np.diff(ends, prepend=0)
    if not len(ends) or lengths.max() <= LONGEST:
        return ends
    inner = [
        np.arange(end - length + LONGEST, end, LONGEST)
        for end, length in zip(ends, lengths, strict=True)
        if length > LONGEST
    ]
    return np.unique(np.concatenate([ends, *inner]))
