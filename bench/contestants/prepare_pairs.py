"""prepare_pairs.py FOLDER: one preparation of the pairs in FOLDER by whichever version of regard is
found: seconds, processor time, peak memory and a hash of the stored tokens, as JSON."""

import hashlib
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

try:
    from regard.recipe import config
    from regard.recipe.parts import module
except ImportError:  # before these had a room of their own
    from regard import config
    from regard.parts import module

TOKENIZERS = (
    {"vocabulary": 10_000, "split": "whitespace"},
    {"size": 10_000, "split": "blanks"},
)
"""The same, as later and earlier versions call it."""


def read(folder):
    data = {"folder": folder, "train": ["train.en", "train.de"]}
    for tokenizer in TOKENIZERS:
        try:
            return config.recipe({"task": "translate", "data": data, "tokenizer": tokenizer})
        except Exception as error:
            last = error
    raise last


def main(folder):
    recipe = read(folder)
    task = module("tasks", "translate")
    with tempfile.TemporaryDirectory() as name:
        cpu, began = time.process_time(), time.perf_counter()
        if hasattr(task, "plan"):
            task.plan(recipe.task).prepare(Path(name), None)
        else:  # before tasks were made of fields
            task.prepare(recipe.task, Path(name))
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        digest = hashlib.sha256()
        # Of both forms of a store these are the tokens alone, one after the other.
        for side in ("source", "target"):
            for ending in ("tokens", "*.values"):
                for path in sorted(Path(name, "store").glob(f"train.{side}.{ending}")):
                    digest.update(path.read_bytes())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak /= 1e6 if sys.platform == "darwin" else 1e3
    result = {"seconds": seconds, "cpu_seconds": cpu, "peak_megabytes": peak}
    print(json.dumps(result | {"tokens": digest.hexdigest()}))


if __name__ == "__main__":
    main(sys.argv[1])
