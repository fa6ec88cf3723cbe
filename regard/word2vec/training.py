"""Epoch after epoch over the text; after each, all that is needed to go on is on the disk.

Every draw is a function of (seed, epoch, piece), and the learning rate one of the words before it:
there is nothing else to be kept than the vectors, and on one thread a run that was stopped ends
with the same bits as one that was not.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.vector_files import TABLES
from regard.errors import UserError
from regard.train import checkpoint, lock, manifest, signals
from regard.train.checkpoint import Checkpoint
from regard.train.log import RECORDS, append
from regard.train.progress import Progress
from regard.word2vec import draws, folder as folders, huffman, kernel
from regard.word2vec.corpus import Corpus, Piece
from regard.word2vec.folder import Folder
from regard.word2vec.settings import Settings

Record = dict[str, Any]
Tick = Callable[[int, float], None]
"""Called with the words so far, of all epochs, and the words per second of this epoch."""
NOTHING = Piece(np.zeros(0, np.int32), np.zeros(0, np.int64), 0)


class Tables(NamedTuple):
    """The vectors: v (V, D) of words as inputs, u of targets as outputs."""

    inputs: NDArray[np.float32]
    outputs: NDArray[np.float32]

    @classmethod
    def drawn(cls, size: int, settings: Settings) -> "Tables":
        """v from [−1/2D, 1/2D), u = 0, as word2vec begins."""
        draw = np.random.Generator(np.random.Philox(settings.seed))
        inputs = (draw.random((size, settings.dim), np.float32) - np.float32(0.5)) / settings.dim
        return cls(inputs.astype(np.float32), np.zeros((size, settings.dim), np.float32))

    def save(self, place: Path, progress: Progress, run: manifest.Files, *names: str) -> None:
        found = {name: torch.from_numpy(getattr(self, name)) for name in names}
        checkpoint.save(place, found, progress.as_dict(), run=run)


class Trainer:
    """What an epoch needs: the text, its words, and how they are drawn."""

    def __init__(self, run: Folder) -> None:
        self.settings, self.corpus = run.settings, Corpus(run.path)
        counts = run.counts()
        self.size = len(counts)
        self.keep = draws.parts(draws.keep(counts, self.settings.subsample))
        self.targets, self.longest = targets(counts, self.settings)
        self.engine = kernel.piece(self.settings.dim)
        self._run(NOTHING, Tables(*np.zeros((2, self.size, self.settings.dim), np.float32)), 0, 0)

    def epoch(
        self,
        number: int,
        tables: Tables,
        tick: Callable[[int], None],
        stop: Callable[[], bool],
        most: int | None = None,
    ) -> bool:
        """Learn from all pieces, or the first `most`, once, on as many threads as the settings say;
        False if stopped."""
        last = len(self.corpus) if most is None else most
        pieces, threads = count(), min(self.settings.threads, last)

        def work() -> None:
            for piece in pieces:
                if piece >= last or stop():
                    return
                tick(self._learn(number, piece, tables))

        if threads == 1:
            work()
        else:
            with ThreadPoolExecutor(threads) as pool:
                for done in [pool.submit(work) for _ in range(threads)]:
                    done.result()
        return not stop()

    def _learn(self, epoch: int, number: int, tables: Tables) -> int:
        """One piece; how many words it has."""
        return self._run(self.corpus.piece(number), tables, epoch, number)

    def _run(self, piece: Piece, tables: Tables, epoch: int, number: int) -> int:
        """What is compiled; that it is takes some seconds once, which no epoch should count."""
        own = self.settings
        starts = np.concatenate([[0], piece.ends[:-1]])[: len(piece.ends)]
        before = starts + piece.first + epoch * self.corpus.words
        done = before / (own.epochs * self.corpus.words)
        rates = own.learning_rate - (own.learning_rate - own.min_learning_rate) * done
        self.engine(
            piece.tokens, piece.ends, rates.astype(np.float32), tables.inputs, tables.outputs,
            self.keep, self.targets, self.longest, own.window, own.negatives, own.model == "cbow",
            draws.state(own.seed, epoch, number),
        )  # fmt: skip
        return len(piece.tokens)


def targets(counts: NDArray[np.int64], settings: Settings) -> tuple[kernel.Targets, int]:
    """How targets are found, and the most of a word."""
    if settings.loss == "hierarchical":
        paths = huffman.paths(counts)
        none, other = np.zeros(0, np.uint32), np.zeros(0, np.int32)
        found = kernel.Targets(none, other, paths.starts, paths.nodes, paths.labels)
        return found, paths.longest
    threshold, other = draws.alias(counts.astype(np.float64) ** draws.POWER)
    starts, nodes = np.zeros(0, np.int64), np.zeros(0, np.int32)
    found = kernel.Targets(threshold, other, starts, nodes, np.zeros(0, np.float32))
    return found, settings.negatives + 1


def train(path: Path, show: Callable[[Record], None], tick: Tick) -> Progress:
    """Train a run to its end, from the last epoch that was finished; stopped, it says so."""
    with lock.held(path):
        run = folders.opened(path)
        if run.finished:
            return Checkpoint(path / "model").standing()
        run = folders.opened(path, whole=True)
        files = manifest.made_with(path)
        trainer = Trainer(run)
        progress, tables = _restored(run, trainer, show)
        with signals.interruptible() as stop:
            while progress.update < run.settings.epochs:
                if not _one(run, trainer, tables, progress, show, tick, stop):
                    return progress
                _keep(path, tables, progress, files)
        progress.finished = True
        tables.save(path / "model", progress, files, run.settings.keep)
        folders.clear(path)
    return progress


def _one(
    run: Folder, trainer: Trainer, tables: Tables, progress: Progress,
    show: Callable[[Record], None], tick: Tick, stop: Callable[[], bool],
) -> bool:  # fmt: skip
    """One epoch, and the record of it."""
    wall, cpu, seen, one = time.perf_counter(), time.process_time(), 0, Lock()

    def tell(words: int) -> None:
        nonlocal seen
        with one:
            seen += words
            tick(progress.tokens + seen, seen / (time.perf_counter() - wall))

    if not trainer.epoch(progress.update, tables, tell, stop):
        return False
    for name, table in zip(TABLES, tables, strict=True):
        if not np.isfinite(table).all():
            raise UserError(
                f"{run.path}: epoch {progress.update + 1}: the {name} are not finite: "
                f"learning_rate = {run.settings.learning_rate:g} is too high"
            )
    seconds = time.perf_counter() - wall
    progress.update += 1
    progress.recorded = progress.validated = progress.update
    progress.tokens += trainer.corpus.words
    progress.seconds += seconds
    progress.cpu_seconds += time.process_time() - cpu
    record = {
        "kind": "train", "update": progress.update, "tokens": progress.tokens,
        "tokens_per_second": trainer.corpus.words / seconds, "seconds": progress.seconds,
        "cpu_seconds": progress.cpu_seconds,
    }  # fmt: skip
    append(run.path / RECORDS, [record])
    show(record)
    return True


def _keep(path: Path, tables: Tables, progress: Progress, files: manifest.Files) -> None:
    """The newest checkpoint; the one before it goes when this one is whole."""
    place = path / "checkpoints"
    tables.save(place / f"{progress.update:08}", progress, files, *TABLES)
    for old in checkpoint.checkpoints(place)[:-1]:
        checkpoint.remove(old.folder)


def _restored(
    run: Folder, trainer: Trainer, show: Callable[[Record], None]
) -> tuple[Progress, Tables]:
    """Where the last whole checkpoint stands, or the beginning."""
    size, dim = trainer.size, run.settings.dim
    for found in reversed(checkpoint.checkpoints(run.path / "checkpoints")):
        fault = found.fault()
        if not fault and {*found.shapes().items()} != {(name, (size, dim)) for name in TABLES}:
            fault = "its vectors are not those of this run"
        if not fault:
            weights = found.weights()
            # Copies: what is read from a file can be that file, in memory.
            return found.standing(), Tables(*(weights[name].numpy().copy() for name in TABLES))
        show({"kind": "warning", "text": f"{found.folder}: {fault}: it is left out"})
    return Progress(), Tables.drawn(size, run.settings)
