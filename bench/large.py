"""Ten million pairs: what no memory should hold, prepared, interrupted, and learnt from.

Synthetic pairs are written by another process and not kept. `regard prepare` on them, and the
tokenizer that it has trained by itself on blocks of lines, `encode_batch` on all cores: what any
preparation must do. One more preparation is killed at half of its pieces, and taken up. Then 200
updates of a small model. Each is a process of its own, whose memory is looked at again and again.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from regard.errors import UserError
from regard.recipe import checked

PAIRS, QUICK = 10_000_000, 500_000
BLOCK = 10_000
"""Lines that `encode_batch` is given at once."""
UPDATES = 200
WORDS, LENGTH = 50_000, 12
"""How many there are of a language, and how many a sentence has on average."""
SYLLABLES = ("ka", "to", "mi", "sen", "ru", "la", "vo", "pe", "nix", "dor", "ul", "ta")
MEMORY, START, RATE, RESUMED = 1.5e9, 10.0, 0.8, 0.65
"""The bounds: bytes, seconds, of the speed of encode_batch, of the time of a whole preparation."""
RECIPE = """task = "translate"
[data]
train = ["train.tsv"]
validation = ["validation.tsv"]
[batch]
tokens = 2048
[model]
dim = 64
[model.encoder]
layers = 2
heads = 4
feedforward = 128
[model.decoder]
layers = 2
heads = 4
feedforward = 128
[train]
updates = {updates}
log_every = 1
"""


def large(options: argparse.Namespace) -> dict[str, Any]:
    """Memory and time of preparing and of learning from many pairs."""
    if not Path("/proc/self/smaps_rollup").is_file():
        raise UserError(
            "bench large: the memory of several processes is looked up in /proc (Linux)"
        )
    pairs = QUICK if options.quick else PAIRS
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder, run = Path(name), Path(name) / "run"
        _module("write", folder, pairs)
        (folder / "large.toml").write_text(RECIPE.format(updates=UPDATES), encoding="utf-8")
        prepared = _prepare(folder, run, options.threads)
        print(f"prepared in {prepared}", flush=True)
        lines = min(2 * pairs, 2_000_000)
        encoded = _module("encode", folder, lines, RAYON_NUM_THREADS=str(options.threads))
        rate = 2 * pairs / prepared.seconds / encoded["lines_per_second"]
        print(f"encode_batch: {encoded['lines_per_second']:,.0f} lines/s", flush=True)
        resumed = _resume(folder, options.threads)
        same = _hash(run) == _hash(folder / "again")
        first: list[float] = []
        train = ["train", "--resume", str(run), "--json"]
        trained = _watched(train, folder, partial(_first_update, first))
        print(f"{UPDATES} updates in {trained}", flush=True)
    verdicts = {
        f"preparing: {prepared.memory / 1e9:.2f} GB": prepared.memory < MEMORY,
        f"of encode_batch: {rate:.2f}": rate >= RATE,
        f"after a kill: {resumed['seconds'] / prepared.seconds:.2f} of the time": same
        and resumed["seconds"] < RESUMED * prepared.seconds,
        f"first update after {first[0]:.1f} s": first[0] < START,
        f"training: {trained.memory / 1e9:.2f} GB": trained.memory < MEMORY,
    }
    for text, kept in verdicts.items():
        print(f"{'yes' if kept else 'NO':>4}  {text}")
    figures = {
        "pairs": pairs, "prepare": vars(prepared), "encode_batch": encoded, "train": vars(trained),
        "resumed": resumed, "same_store": same, "first_update": first[0],
    }  # fmt: skip
    ratio = {"encode_batch": rate}
    complete = all(verdicts.values())
    return {"unit": "pairs", "ratio": ratio, "figures": figures, "complete": complete}


# What is measured


@dataclass
class Cost:
    """What a process and its helpers have taken."""

    seconds: float
    cpu_seconds: float
    memory: float
    """Bytes of all of them together, pages that they share counted once, at the worst moment."""

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, {self.cpu_seconds:.1f} CPU s, {self.memory / 1e9:.2f} GB"


def _prepare(folder: Path, run: Path, threads: int, watch: Any = None) -> Cost:
    command = ["prepare", "large.toml", "--to", str(run), "--processes", str(threads)]
    return _watched(command, folder, watch)


def _resume(folder: Path, threads: int) -> dict[str, Any]:
    """Prepare again, to be killed at half of the pieces; and once more."""
    run = folder / "again"
    made: list[int] = []

    def kill(process: "subprocess.Popen[str]") -> None:
        place = run / "store" / ".train"
        while process.poll() is None:
            with suppress(OSError, ValueError, KeyError):
                count = checked.read(place / "plan.json")["count"]
                notes = [*place.glob("*/note.json")]
                if 2 * len(notes) >= count:
                    process.kill()
                    made.extend((len(notes), count))
                    return
            time.sleep(0.05)

    killed = _prepare(folder, run, threads, kill)
    if not made:
        raise UserError("bench large: the preparation ended before it was killed")
    cost = _prepare(folder, run, threads)
    print(
        f"killed after {killed.seconds:.1f} s, with {made[0]} of {made[1]} pieces made; "
        f"taken up, it took {cost}",
        flush=True,
    )
    return {"killed_after": killed.seconds, "pieces": made, **vars(cost)}


def _first_update(found: list[float], process: "subprocess.Popen[str]") -> None:
    """How long after its start a training has made its first update."""
    began = time.perf_counter()
    assert process.stdout is not None
    for line in process.stdout:
        if not found and json.loads(line).get("kind") == "train":
            found.append(time.perf_counter() - began)


def _watched(command: list[str], folder: Path, watch: Any = None) -> Cost:
    """What `regard COMMAND` takes; `watch` is called beside it, with its process."""
    before, began = os.times(), time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "regard", *command],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(Path(__file__).absolute().parents[1])},
        stdout=subprocess.PIPE if watch else subprocess.DEVNULL,
        stderr=subprocess.PIPE if not watch else subprocess.DEVNULL, text=True,
    )  # fmt: skip
    peak = [0.0]
    beside = [threading.Thread(target=_look, args=(process.pid, peak), daemon=True)]
    if watch:
        beside.append(threading.Thread(target=watch, args=(process,), daemon=True))
    for thread in beside:
        thread.start()
    said = process.stderr.read() if process.stderr else ""
    code = process.wait()
    for thread in beside:
        thread.join()
    after = os.times()
    if code not in (0, -signal.SIGKILL):
        raise UserError(f"bench large: regard {command[0]} failed: {said.strip()[-500:]}")
    cpu = sum(after[2:4]) - sum(before[2:4])
    return Cost(time.perf_counter() - began, cpu, peak[0])


def _look(process: int, peak: list[float]) -> None:
    """The most memory that a process and its children have at once."""
    while (now := sum(map(_size, _family(process)))) > 0:
        peak[0] = max(peak[0], now)
        time.sleep(0.2)


def _family(process: int) -> Iterator[int]:
    yield process
    with suppress(OSError):
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            for child in children.read_text().split():
                yield from _family(int(child))


def _size(process: int) -> float:
    """Bytes in memory of its own, and its part of those that it shares; 0 of one that is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024 * float(line.split()[1])
    return 0


def _hash(run: Path) -> str:
    """Of all that a run has stored."""
    digest = hashlib.sha256()
    for path in sorted((run / "store").iterdir()):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


# By processes of their own


def _module(what: str, folder: Path, count: int, **environment: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.large", what, str(folder), str(count)]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UserError(f"bench large: {what} failed: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def write(folder: Path, pairs: int) -> dict[str, Any]:
    """Sentences of words as frequent as Zipf says, and the same ones in another language."""
    random = np.random.default_rng(1)
    source, target = (np.array(_words(random), object) for _ in range(2))
    chances = np.cumsum(1 / np.arange(1, WORDS + 1))
    for name, count in (("train", pairs), ("validation", 500)):
        with (folder / f"{name}.tsv").open("w", encoding="utf-8") as file:
            for first in range(0, count, BLOCK):
                lengths = 3 + random.poisson(LENGTH - 3, min(BLOCK, count - first))
                drawn = random.random(int(lengths.sum())) * chances[-1]
                ends = np.cumsum(lengths)[:-1]
                for ids in np.split(np.searchsorted(chances, drawn), ends):
                    file.write(f"{' '.join(source[ids])}\t{' '.join(target[ids])}\n")
    return {"bytes": (folder / "train.tsv").stat().st_size}


def _words(random: np.random.Generator) -> list[str]:
    """The words of a language, each another one."""
    found: dict[str, None] = {}
    while len(found) < WORDS:
        drawn = random.integers(0, len(SYLLABLES), (WORDS, 5))
        sizes = random.integers(1, 6, WORDS)
        for row, size in zip(drawn.tolist(), sizes.tolist(), strict=True):
            found["".join(SYLLABLES[n] for n in row[:size])] = None
    return [*found][:WORDS]


def encode(folder: Path, lines: int) -> dict[str, Any]:
    """The library by itself, with the tokenizer of the run, on so many lines."""
    library = Tokenizer.from_file(str(folder / "run" / "source.tokenizer.json"))
    began, tokens, count = time.perf_counter(), 0, 0
    with (folder / "train.tsv").open(encoding="utf-8") as file:
        texts = (f" {text}" for line in file for text in line.rstrip("\n").split("\t"))
        while block := list(islice(texts, min(BLOCK, lines - count))):
            encoded = library.encode_batch(block, add_special_tokens=False)
            tokens, count = tokens + sum(len(each.ids) for each in encoded), count + len(block)
    seconds = time.perf_counter() - began
    return {"lines": count, "tokens": tokens, "lines_per_second": count / seconds}


if __name__ == "__main__":
    doing: dict[str, Callable[[Path, int], dict[str, Any]]] = {"write": write, "encode": encode}
    print(json.dumps(doing[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))))
