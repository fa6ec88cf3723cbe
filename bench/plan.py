"""What `regard plan` predicts for this machine, beside what training takes: time and memory.

Each recipe is prepared once. One process predicts from measured rates of products and memory,
another one trains some updates; both begin anew, so that neither sees what the other has left.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.recipe import config
from regard.runs import Run

RECIPES = ("multi30k-en-de", "timemachine-lstm", "imdb-bilstm", "mnist-vit", "mnist-cnn")
BOUNDS = {
    "parameters_ratio": ("parameters", 0.01),
    "time_ratio": ("step time", 0.25),
    "memory_ratio": ("peak memory", 0.25),
}
"""How far a prediction may be from what is measured, as a fraction of it."""
UPDATES, QUICK = 30, 4


def plan(options: argparse.Namespace) -> dict[str, Any]:
    """Step time and peak memory of five recipes, predicted and measured."""
    names = options.only.split(",") if options.only else RECIPES
    updates = QUICK if options.quick else UPDATES
    rows = {}
    names_of_columns = ("step", "measured", "ratio", "peak", "measured", "ratio")
    print(" " * 20, *(f"{each:>{9 - 3 * (each == 'ratio')}}" for each in names_of_columns))
    for name in names:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
            folder = Path(place) / "run"
            recipe = config.load(Path(name), [f"train.threads={options.threads}"])
            Run.create(folder, recipe)
            said = _alone("predict", folder, updates)
            seen = _alone("measure", folder, updates)
        row = {
            "predicted_seconds": said["seconds"],
            "measured_seconds": seen["seconds"],
            "time_ratio": said["seconds"] / seen["seconds"],
            "predicted_bytes": said["bytes"],
            "measured_bytes": seen["bytes"],
            "memory_ratio": said["bytes"] / seen["bytes"],
            "parameters_predicted": said["parameters"],
            "parameters": seen["parameters"],
            "parameters_ratio": said["parameters"] / seen["parameters"],
        }
        rows[name] = row
        times = (1e3 * row[f"{each}_seconds"] for each in ("predicted", "measured"))
        sizes = (row[f"{each}_bytes"] / 1e6 for each in ("predicted", "measured"))
        time_cells = " ".join(f"{each:6.0f} ms" for each in times)
        size_cells = " ".join(f"{each:6.0f} MB" for each in sizes)
        by_time, by_size = row["time_ratio"], row["memory_ratio"]
        print(f"{name:20} {time_cells} {by_time:6.2f} {size_cells} {by_size:6.2f}")
    complete = judged(rows)
    return {"recipes": rows, "bounds": BOUNDS, "complete": complete}


def judged(rows: dict[str, dict[str, float]]) -> bool:
    """Print of each recipe whether its ratios are near 1; whether all are."""
    all_kept = True
    for name, row in rows.items():
        for key, (what, bound) in BOUNDS.items():
            kept = abs(row[key] - 1) <= bound
            all_kept = all_kept and kept
            print(
                f"{'yes' if kept else 'NO':>4}  {name}: {what} within {bound:.0%}: {row[key]:.3f}"
            )
    return all_kept


def _alone(what: str, folder: Path, updates: int) -> dict[str, Any]:
    """What another process says."""
    command = [sys.executable, "-m", "bench.plan", what, str(folder), str(updates)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"bench plan: {what} failed: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def predict(folder: Path) -> dict[str, Any]:
    """By rates; no step is run."""
    from regard.plan import machine, subject

    found = machine.estimate(subject.of_run("run", Run(folder)), None)
    return {
        "seconds": found.step_seconds,
        "bytes": found.peak_bytes,
        "parameters": found.counts.parameters.total,
    }


def measure(folder: Path, updates: int) -> dict[str, Any]:
    """Updates as training runs them, after two that prepare what later ones find."""
    from dataclasses import replace

    from regard.doctor.cost import Peak
    from regard.doctor.profile import Stepper
    from regard.layers.allocator import bound_caches, keep_pages
    from regard.runs.training import new_job

    bound_caches()
    keep_pages()
    run = Run(folder)
    job, model = new_job(run, run.task, run.settings)
    taken = []
    with Peak() as peak:
        stepper = Stepper(replace(job, limit=float("inf")))
        for _ in range(updates + 2):
            start = time.perf_counter()
            stepper.learn(stepper.take(), stepper.state.team)
            taken.append(time.perf_counter() - start)
    seconds = statistics.median(taken[2:])
    return {"seconds": seconds, "bytes": peak.bytes, "parameters": model.size()}


if __name__ == "__main__":
    doing, where, count = sys.argv[1:]
    found = predict(Path(where)) if doing == "predict" else measure(Path(where), int(count))
    print(json.dumps(found))
