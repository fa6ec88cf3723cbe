"""The recipe imdb-best beside fastText, on one thread, in turns: accuracy and processor time.

fastText reads words and marks apart, one review a line, all 25,000 of the training part; the recipe
learns from nine tenths and chooses by the rest. Two times of each are reported:

    learning    regard: counting for the first weights, updates, validations and checkpoints, from
                the store; fastText: reading its file, counting words and learning, in one call
    whole       regard: the whole command, from the start of Python, with reading, checks of all
                parts, the tokenizer, the store and the curves; fastText: with that its file is cut
                into words and written, by regard's tokenizer, which fastText itself does not do
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

from bench.batches import folder_of
from bench.peers import HERE, HOME, Unavailable, python
from regard.data.readers import Policy, Report
from regard.data.tables import parallel
from regard.data.tokenizers import Config, Tokenizer
from regard.errors import UserError

RECIPE = "imdb-best"
COMMON = {"dim": 10, "lr": 0.5, "minCount": 2, "bucket": 1 << 20, "thread": 1, "verbose": 0}
PEERS = {
    "fastText, pairs": COMMON | {"wordNgrams": 2, "epoch": 5},
    "fastText, triples": COMMON | {"wordNgrams": 3, "epoch": 10},
}
PLACE = HOME / "bag"
SHOWN = ("accuracy", "cpu_seconds", "cpu_seconds_whole")


def bag(options: argparse.Namespace) -> dict[str, Any]:
    """Rounds in turns, each with a seed of its own."""
    folder = folder_of(options, "imdb")
    (train, cut), (test, _) = (_file(folder, part) for part in ("train", "test"))
    found: dict[str, list[dict[str, Any]]] = {}
    absent: dict[str, str] = {}
    for seed in range(1, 2 if options.quick else 4):
        done = _recipe(seed)
        found.setdefault("regard", []).append(done)
        _tell("regard", done)
        for name, settings in PEERS.items():
            given = {"train": str(train), "test": str(test), "settings": settings | {"seed": seed}}
            try:
                done = _peer(given)
            except Unavailable as reason:
                absent[name] = str(reason)
                continue
            done["cpu_seconds_whole"] = done["cpu_seconds"] + cut
            found.setdefault(name, []).append(done)
            _tell(name, done)
    _show(found)
    for name, why in absent.items():
        print(f"{name} did not take part: {why}")
    return {"figures": found, "absent": absent, "complete": not absent}


def _file(folder: Path, part: str) -> tuple[Path, float]:
    """A part in fastText's form, __label__1 and the words; the processor time of making it.

    fastText learns in the order of its file, and the set's is by label: lines are shuffled.
    """
    PLACE.mkdir(parents=True, exist_ok=True)
    path, start = PLACE / f"{part}.txt", time.process_time()
    words = Tokenizer.train(Config(kind="word", split="punctuation", lowercase=True), ["a"])
    rows = parallel([folder / f"{part}.tsv.gz"], (1, 2), Policy(broken="skip"), Report())
    lines = [f"__label__{label} {' '.join(words.words(text))}\n" for _, (label, text) in rows]
    random.Random(1).shuffle(lines)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
    return path, time.process_time() - start


def _peer(options: dict[str, Any]) -> dict[str, Any]:
    script = str(HERE / "contestants" / "bag_fasttext.py")
    command = [python("fasttext"), script, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent)
    if done.returncode:
        raise Unavailable(done.stderr.strip().rpartition("\n")[2])
    found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return found


def _recipe(seed: int) -> dict[str, Any]:
    """Train and evaluate as a user would, in processes of their own."""
    run = PLACE / f"run-{seed}"
    shutil.rmtree(run, ignore_errors=True)
    regard = [sys.executable, "-m", "regard"]
    whole = _timed([*regard, "train", RECIPE, f"seed={seed}", "train.threads=1", "--to", str(run)])
    command = [*regard, "evaluate", str(run), "--json"]
    said = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent)
    if said.returncode:
        raise UserError(f"{RECIPE}: {said.stderr.strip().rpartition(chr(10))[2]}")
    scores = json.loads(said.stdout)["scores"]
    progress = json.loads((run / "model" / "progress.json").read_text(encoding="utf-8"))
    return {
        "seconds": progress["seconds"],
        "cpu_seconds": progress["cpu_seconds"],
        "cpu_seconds_whole": whole,
        "updates": progress["update"],
        "accuracy": scores["accuracy"]["score"],
    }


def _timed(command: list[str]) -> float:
    """Processor time of a whole process, on one thread."""
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    before = os.times()
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent, env=env)
    after = os.times()
    if done.returncode:
        raise UserError(f"{RECIPE}: {done.stderr.strip().rpartition(chr(10))[2]}")
    names = ("children_user", "children_system")
    return float(sum(getattr(after, name) - getattr(before, name) for name in names))


def _tell(name: str, done: dict[str, Any]) -> None:
    cpu, whole = done["cpu_seconds"], done["cpu_seconds_whole"]
    print(f"{name:>18}  {done['accuracy']:8.2f}  {cpu:8.1f}  {whole:7.1f}", flush=True)


def _show(found: dict[str, list[dict[str, Any]]]) -> None:
    print(f"\n{'':>18}  {'accuracy':>8}  {'learning':>8}  {'whole':>7}   (means; CPU s, 1 thread)")
    for name, rounds in found.items():
        _tell(name, {key: mean(each[key] for each in rounds) for key in SHOWN})
