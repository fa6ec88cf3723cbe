"""Six lines are a recipe: how near the defaults come to recipes that were tuned by hand.

Each data set has a recipe of six lines in bench/defaults. It is trained and evaluated here; what
the tuned recipe of the same data reaches, and in what time, its own header says.
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import regard
from regard.errors import UserError
from regard.recipe.parts import resume
from regard.runs import Run

FOLDER = Path(__file__).parent / "defaults"


class Tuned(NamedTuple):
    """What a recipe that was tuned by hand reaches, as its header says."""

    recipe: str
    metric: str
    score: float
    seconds: float
    """Of processor time."""
    share: float = 0.97
    """Of the score that six lines are to reach."""
    time: float = 1.0
    """Of the time that they may take."""


TUNED = {
    "etth1": Tuned("etth1-linear", "mse", 0.371, 13),
    "imdb": Tuned("imdb-best", "accuracy", 90.82, 18.5),
    "ud-ewt": Tuned("ud-ewt-upos", "accuracy", 95.61, 492),
    "timemachine": Tuned("timemachine-lstm", "bits_per_character", 2.069, 883),
    "spelling": Tuned("spelling", "exact", 46.33, 3993),
    "multi30k": Tuned("multi30k-en-de", "bleu", 41.07, 5768, share=0.95, time=0.5),
}


def defaults(options: argparse.Namespace) -> dict[str, Any]:
    """Train each recipe of six lines, unless its run is there; one row for each."""
    names = options.only.split(",") if options.only else list(TUNED)[: 1 if options.quick else None]
    for name in names:
        if name not in TUNED:
            raise UserError(f"--only {name}: there are {', '.join(TUNED)}")
    rows = {name: _row(name, Path(options.runs) / name, options.threads) for name in names}
    print(f"\n{'':>12}  {'six lines':>10} {'tuned':>8} {'share':>7}   {'CPU s':>7} {'tuned':>7}")
    for name, row in rows.items():
        print(
            f"{name:>12}  {row['score']:10.3f} {row['tuned']:8.3f} {row['share']:7.1%}   "
            f"{row['cpu_seconds']:7,.0f} {row['tuned_seconds']:7,.0f}"
            f"   {row['metric']}{'' if row['reached'] else ': falls short'}"
        )
    return {"rows": rows}


def _row(name: str, folder: Path, threads: int) -> dict[str, Any]:
    tuned = TUNED[name]
    if folder.exists():
        run = Run(folder)
        if not (folder / "model").is_dir():
            raise UserError(f"{folder} is unfinished; to go on: {resume(folder)}")
    else:
        recipe = FOLDER / f"{name}.toml"
        regard.train(str(recipe), f"train.threads={threads}", to=folder)
        run = Run(folder)
    scores, _ = regard.load(folder).evaluate()
    found = scores[tuned.metric]
    seconds = [r["cpu_seconds"] for r in run.records() if "cpu_seconds" in r][-1]
    share = found.value / tuned.score if found.higher_is_better else tuned.score / found.value
    reached = share >= tuned.share and seconds <= tuned.time * tuned.seconds
    return {
        "metric": tuned.metric,
        "signature": found.signature,
        "score": found.value,
        "tuned": tuned.score,
        "share": share,
        "cpu_seconds": seconds,
        "tuned_seconds": tuned.seconds,
        "updates": run.recipe.train.updates,
        "reached": reached,
    }
